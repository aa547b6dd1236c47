"""The pairs that questions are made of: images, captions and groups by id."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optotype.schemas.errors import FormatError, InvalidDataError, Problem
from optotype.store.dataset import read_images, read_texts

__all__ = ["Pairs", "read_pairs"]


@dataclass(frozen=True)
class Pairs:
    """Image-caption pairs, sorted by id.

    Attributes
    ----------
    ids : tuple of str
    texts : tuple of str
        Captions.
    groups : tuple of str
        Empty where a pair has none.
    images : tuple of str
        Paths relative to the table, as it has them.
    pixels : tuple of str
        SHA-256 of each decoded image (size and RGB values): the same drawing in two files has one digest.
    digest : str
        Of captions and image files.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    groups: tuple[str, ...]
    images: tuple[str, ...]
    pixels: tuple[str, ...]
    digest: str

    def __len__(self) -> int:
        return len(self.ids)


def read_pairs(path: str | Path) -> Pairs:
    """Read the table that ``optotype emoji pairs`` writes.

    Parameters
    ----------
    path : str or Path
        CSV with the columns ``id``, ``image``, ``text`` and ``group``.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `optotype.store.dataset.read_images` does; an image that cannot be decoded is a problem, too.
    """
    path = Path(path)
    images, texts = read_images(path), read_texts(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        rows = {row["id"]: row for row in reader}
        columns = list(reader.fieldnames or [])
    if "group" not in columns:
        problem = Problem("group", "missing-column", f"the table has no column 'group', only {', '.join(columns)}")
        raise InvalidDataError(f"{path} refused:", [problem], hint="optotype emoji pairs --out DIR writes one with it.")
    document = hashlib.sha256(f"{images.digest} {texts.digest}".encode()).hexdigest()
    return Pairs(
        ids=texts.ids,
        texts=texts.texts,
        groups=tuple((rows[name]["group"] or "").strip() for name in texts.ids),
        images=tuple(rows[name]["image"] for name in texts.ids),
        pixels=_pixels(images.paths),
        digest=f"sha256:{document}",
    )


def _pixels(paths: Sequence[Path]) -> tuple[str, ...]:
    from PIL import Image

    digests = []
    for path in paths:
        try:
            with Image.open(path) as image:
                drawing = image.convert("RGB")
        except (OSError, SyntaxError, ValueError) as error:  # Pillow raises all three for broken files
            raise FormatError(f"{path}: not a readable image ({error})") from error
        digests.append(hashlib.sha256(f"{drawing.size} ".encode() + drawing.tobytes()).hexdigest())
    return tuple(digests)
