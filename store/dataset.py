"""Input tables: which image and which text belongs to which id. Rows come out sorted by id."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optotype.schemas.documents import canonical_json
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem, UsageError, did_you_mean
from optotype.schemas.names import id_problems
from optotype.store.checks import limited

__all__ = ["ImageTable", "TextTable", "read_images", "read_table", "read_texts"]

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
_HASHERS = 4
_NAMED = 10


@dataclass(frozen=True)
class ImageTable:
    """Images by id.

    Attributes
    ----------
    ids : tuple of str
        Sorted.
    paths : tuple of Path
        The image files, absolute.
    digests : tuple of str
        SHA-256 of each file's bytes, 64 hex digits.
    """

    ids: tuple[str, ...]
    paths: tuple[Path, ...]
    digests: tuple[str, ...]

    @property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 over the sorted pairs of id and file digest; no path is in it."""
        return _pairs_digest(zip(self.ids, self.digests, strict=True))


@dataclass(frozen=True)
class TextTable:
    """Texts by id.

    Attributes
    ----------
    ids : tuple of str
        Sorted.
    texts : tuple of str
    labels : mapping of str to tuple of str
        Other columns that were asked for and are there, ``""`` where a cell is empty.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def digest(self) -> str:
        """``sha256:`` and the SHA-256 over the sorted pairs of id and digest of the text's UTF-8 bytes; no label."""
        digests = (hashlib.sha256(text.encode()).hexdigest() for text in self.texts)
        return _pairs_digest(zip(self.ids, digests, strict=True))


def read_images(path: str | Path, *, allow_outside: bool = False) -> ImageTable:
    """Read which images there are.

    Parameters
    ----------
    path : str or Path
        A folder of images, whose ids are the file names without suffix; or a table (``.csv``, ``.tsv``,
        ``.jsonl``, ``.parquet``) with the columns ``id`` and ``image``, paths relative to the table's folder.
    allow_outside : bool
        Whether paths may be absolute or leave the table's folder.

    Raises
    ------
    NotFoundError
        No such folder or table.
    FormatError
        The table cannot be read.
    InvalidDataError
        Every problem: missing columns, ids, files, paths that leave the folder.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in IMAGE_SUFFIXES and f.is_file())
        ids: list[Any] = [file.stem for file in files]
        problems = id_problems(ids)
    else:
        rows = read_table(path, ["id", "image"])
        ids, files, problems = [], [], []
        base = path.absolute().parent
        for number, row in enumerate(rows):
            name = row["image"]
            ids.append(row["id"])
            if not isinstance(name, str) or not name.strip():
                problems.append(Problem(f"image[{number}]", "no-path", f"a path is a text, got {name!r}"))
                continue
            file = Path(os.path.normpath(base / name))
            if not allow_outside and not file.is_relative_to(os.path.normpath(base)):
                problems.append(Problem(f"image[{number}]", "outside", f"{name!r} leaves the folder of the table"))
            elif not file.is_file():
                problems.append(Problem(f"image[{number}]", "missing-file", f"{name!r} is not there"))
            files.append(file)
        problems = id_problems(ids) + problems
    if not ids:
        suffixes = ", ".join(IMAGE_SUFFIXES)
        problems.append(Problem("image", "empty", f"no images: a folder holds files that end in {suffixes}"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    order = sorted(range(len(ids)), key=ids.__getitem__)
    paths = tuple(files[i].absolute() for i in order)
    with ThreadPoolExecutor(_HASHERS) as pool:
        digests = tuple(pool.map(_file_digest, paths))
    return ImageTable(tuple(ids[i] for i in order), paths, digests)


def read_texts(
    path: str | Path,
    column: str = "text",
    *,
    labels: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
) -> TextTable:
    """Read which texts there are.

    Parameters
    ----------
    path : str or Path
        A table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``) with the column ``id``.
    column : str
        The column that holds the texts.
    labels : sequence of str
        Other columns that are read where the table has them.
    where : mapping of str to str, optional
        Only rows whose cell in each of these columns is that text; what else the table holds is not looked at,
        and messages count the rows that fit.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `read_images` does; a blank text, and no row that fits ``where``, are problems too.
    """
    path = Path(path)
    where = where or {}
    rows = read_table(path, [*dict.fromkeys(["id", column, *where])], labels)
    if where and rows:
        rows = _fitting(rows, where, path)
    problems = id_problems([row["id"] for row in rows])
    for number, row in enumerate(rows):
        text = row[column]
        if not isinstance(text, str) or not text.strip():
            problems.append(Problem(f"{column}[{number}]", "no-text", f"a text is not blank, got {text!r}"))
        elif any("\ud800" <= c <= "\udfff" for c in text):
            problems.append(Problem(f"{column}[{number}]", "bad-text", "holds half a character (a lone surrogate)"))
    if not rows:
        problems.append(Problem(column, "empty", "the table has no rows"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    rows.sort(key=lambda row: row["id"])
    there = [label for label in labels if rows and label in rows[0]]
    return TextTable(
        tuple(row["id"] for row in rows),
        tuple(row[column] for row in rows),
        {label: tuple(_cell(row[label]) for row in rows) for label in there},
    )


def _fitting(rows: list[dict[str, Any]], where: Mapping[str, str], path: Path) -> list[dict[str, Any]]:
    """The rows whose cells are those of ``where``."""
    chosen = [row for row in rows if all(_cell(row[column]) == value for column, value in where.items())]
    if not chosen:
        problems = []
        for column, value in where.items():
            present = sorted({_cell(row[column]) for row in rows})
            named = ", ".join(map(repr, present[:_NAMED])) + (", ..." if len(present) > _NAMED else "")
            problems.append(Problem(column, "no-rows", f"{value!r} is wanted; there is {named}"))
        raise InvalidDataError(f"{path}: none of {len(rows)} rows fits:", problems)
    return chosen


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _pairs_digest(pairs: Iterable[tuple[str, str]]) -> str:
    return "sha256:" + hashlib.sha256(canonical_json([list(pair) for pair in pairs])).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_table(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a table, with ``columns`` and those of ``optional`` that it has; in the order of the file.

    Parameters
    ----------
    path : Path
        A table (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``).
    columns : sequence of str
        Columns that it must have.
    optional : sequence of str
        Others, which are read where the table has them.

    Returns
    -------
    list of dict
        Column -> cell; other columns are left out. A cell of ``.csv`` or ``.tsv`` is a str, ``""`` if empty (None where
        the row is shorter than the header); of ``.jsonl`` and ``.parquet`` it is what stands there, None where there is
        nothing. No cell is checked.

    Raises
    ------
    NotFoundError
        No such file.
    UsageError
        A suffix that is not that of a table.
    FormatError
        The table cannot be read.
    InvalidDataError
        Every one of ``columns`` that is missing.
    """
    if not path.is_file():
        raise NotFoundError(f"no table or folder at {path}")
    suffix = path.suffix.lower()
    if suffix not in _TABLE_SUFFIXES:
        raise UsageError(f"{path}: a table ends in {', '.join(_TABLE_SUFFIXES)}")
    try:
        rows, present = _READERS[suffix](path)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: not a readable {suffix[1:]} table ({error})") from error
    missing = [column for column in columns if column not in present]
    if missing:
        hints = " ".join(filter(None, (did_you_mean(column, present) for column in missing[:1])))
        problems = [Problem(column, "missing-column", f"the table has no column {column!r}") for column in missing]
        raise InvalidDataError(f"{path} refused:", problems, hint=hints or None)
    wanted = [*columns, *(column for column in optional if column in present and column not in columns)]
    return [{column: row.get(column) for column in wanted} for row in rows]


def _read_csv(path: Path, delimiter: str = ",") -> tuple[list[dict[str, Any]], list[str]]:
    import csv

    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
        try:
            rows = list(reader)
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error
        for row in rows:
            if None in row:
                raise ValueError(f"a row has more cells than the header: {row}")
        return rows, list(reader.fieldnames or [])


def _read_tsv(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    return _read_csv(path, "\t")


def _read_jsonl(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    rows: list[dict[str, Any]] = []
    present: dict[str, None] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number}: an object is wanted, got {type(row).__name__}")
        rows.append(row)
        present.update(dict.fromkeys(row))
    return rows, list(present)


def _read_parquet(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return table.to_pylist(), list(table.column_names)


_READERS = {".csv": _read_csv, ".tsv": _read_tsv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}
