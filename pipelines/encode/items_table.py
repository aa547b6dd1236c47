"""Which items there are to embed: their texts and images, from an items table or a panel, sorted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from optotype.schemas.documents import canonical_json
from optotype.schemas.errors import InvalidDataError, NotFoundError, Problem, did_you_mean
from optotype.store.checks import limited
from optotype.store.embeddings import item_problems

__all__ = ["ItemRows", "items_of_panel", "items_of_table"]

_HASHERS = 4


@dataclass(frozen=True)
class ItemRows:
    """Items with a text, sorted by (benchmark, item).

    Attributes
    ----------
    benchmark, item, texts : tuple of str
    images : tuple of (Path or None)
        Absolute; None where an item has no image.
    digests : tuple of (str or None)
        SHA-256 of the images' bytes, 64 hex digits.
    blank : int
        Items without a text, which are left out.
    """

    benchmark: tuple[str, ...]
    item: tuple[str, ...]
    texts: tuple[str, ...]
    images: tuple[Path | None, ...]
    digests: tuple[str | None, ...]
    blank: int

    @property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 over ids, digests of texts and digests of images; no path is in it."""
        texts = (hashlib.sha256(text.encode()).hexdigest() for text in self.texts)
        rows = [list(row) for row in zip(self.benchmark, self.item, texts, self.digests, strict=True)]
        return "sha256:" + hashlib.sha256(canonical_json(rows)).hexdigest()

    @property
    def labels(self) -> tuple[str, ...]:
        """What messages call the items."""
        return tuple(f"{name}/{item}" for name, item in zip(self.benchmark, self.item, strict=True))

    def without_images(self) -> ItemRows:
        """The same for a model that reads text alone: what the images are is no input of its numbers."""
        nothing = (None,) * len(self.item)
        return ItemRows(self.benchmark, self.item, self.texts, nothing, nothing, self.blank)


def items_of_table(path: str | Path, *, text_column: str = "question", images_root: Path | None = None) -> ItemRows:
    """The items of a table with the columns ``benchmark``, ``item_id`` and ``text_column``, and perhaps ``image``.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet``.
    text_column : str
        The column that holds the texts. Items whose text is blank are left out and counted.
    images_root : Path, optional
        Folder that the paths in ``image`` start from; by default the table's.

    Raises
    ------
    NotFoundError, FormatError
        No such table, or not readable.
    InvalidDataError
        Every problem: missing columns, ids, images that are not there or leave the folder, no item with a text.
    """
    from optotype.store.importers.scores.tables import read_text

    path = Path(path)
    if not path.is_file():
        raise NotFoundError(f"no items table at {path}")
    table = read_text(path)
    names = [str(name) for name in table.columns]
    columns = {name: table[name].tolist() for name in ("benchmark", "item_id", text_column, "image") if name in names}
    missing = [name for name in ("benchmark", "item_id", text_column) if name not in columns]
    if missing:
        problems = [Problem(name, "missing-column", f"the table has no column {name!r}") for name in missing]
        raise InvalidDataError(f"{path} refused:", problems, hint=did_you_mean(missing[-1], names) or None)
    images = columns.get("image", [""] * len(table))
    root = path.absolute().parent if images_root is None else images_root
    return _rows(str(path), columns["benchmark"], columns["item_id"], columns[text_column], images, root)


def items_of_panel(source: str | Path, *, text_column: str = "question", images_root: Path) -> ItemRows:
    """The items of a panel; else as `items_of_table`.

    Parameters
    ----------
    source : str or Path
        Folder or URL of the panel.
    text_column : str
        A coordinate of its items, or an extra column of its items table.
    images_root : Path
        Folder that the paths in ``image`` start from.
    """
    from optotype.store.panels import open_panel

    panel = open_panel(source)
    columns = {
        str(name): [str(value) for value in array.values]
        for name, array in panel.coords.items()
        if array.dims == ("item",) and array.dtype == object
    }
    name = next((n for n in (text_column, f"item_{text_column}") if n in columns), None)
    if name is None:
        known = [column.removeprefix("item_") for column in columns if column not in ("item", "benchmark")]
        problem = Problem(text_column, "missing-column", f"the items of the panel have no {text_column!r}")
        hint = did_you_mean(text_column, known) or "Give a table of the items' texts: --items TABLE."
        raise InvalidDataError(f"{source} refused:", [problem], hint=hint)
    images = columns.get("image", [""] * len(columns["item"]))
    return _rows(str(source), columns["benchmark"], columns["item"], columns[name], images, images_root)


def _rows(
    where: str, benchmark: Sequence[str], item: Sequence[str], texts: Sequence[str], images: Sequence[str], root: Path
) -> ItemRows:
    problems = item_problems(benchmark, item)
    base = Path(os.path.normpath(Path(root).absolute()))
    files: list[Path | None] = []
    for name, identity, text, image in zip(benchmark, item, texts, images, strict=True):
        label = f"{name}/{identity}"
        if any("\ud800" <= c <= "\udfff" for c in text):
            problems.append(Problem(label, "bad-text", "holds half a character (a lone surrogate)"))
        file = Path(os.path.normpath(base / image)) if image.strip() else None
        if file is not None and not file.is_relative_to(base):
            problems.append(Problem(label, "outside", f"the image {image!r} leaves {root}"))
        elif file is not None and text.strip() and not file.is_file():
            problems.append(Problem(label, "missing-file", f"the image {image!r} is not in {root}"))
        files.append(file)
    kept = [i for i, text in enumerate(texts) if text.strip()]
    if not kept:
        problems.append(Problem("text", "empty", "no item has a text"))
    if problems:
        hint = None
        if any(problem.kind == "missing-file" for problem in problems):
            hint = "Say where the images are: --images-root DIR. An item without an image has none in its column."
        raise InvalidDataError(f"{where} refused:", limited(problems), hint=hint)
    kept.sort(key=lambda i: (benchmark[i], item[i]))
    paths = tuple(files[i] for i in kept)
    with ThreadPoolExecutor(_HASHERS) as pool:
        digests = tuple(pool.map(_digest, paths))
    chosen = ([column[i] for i in kept] for column in (benchmark, item, texts))
    names, ids, words = (tuple(column) for column in chosen)
    return ItemRows(names, ids, words, paths, digests, len(texts) - len(kept))


def _digest(path: Path | None) -> str | None:
    if path is None:
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
