"""Small pictures, each stored once in the page and shown as often as wanted."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["Thumbnails", "as_png_uri", "make_thumbnails", "read_rgb"]

_COLOURS = 64


def read_rgb(path: Path) -> Image.Image:
    """The image at ``path`` as RGB, transparency on white.

    Raises
    ------
    OSError
        Not there, or not an image (``PIL.UnidentifiedImageError`` is one).
    """
    with Image.open(path) as image:
        image.load()
        if image.has_transparency_data:
            rgba = image.convert("RGBA")
            white = Image.new("RGBA", rgba.size, "white")
            return Image.alpha_composite(white, rgba).convert("RGB")
        return image.convert("RGB")


def as_png_uri(image: Image.Image) -> str:
    """``image`` as a ``data:`` URI; the bytes depend on the pixels alone."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


@dataclass(frozen=True)
class Thumbnails:
    """Pictures of items.

    Attributes
    ----------
    number : mapping of str to int
        Which of ``uris`` shows an item.
    uris : tuple of str
        ``data:`` URIs, each once.
    """

    number: Mapping[str, int]
    uris: tuple[str, ...]


def make_thumbnails(paths: Mapping[str, Path], items: Iterable[str], *, side: int = 64) -> Thumbnails:
    """Thumbnails of ``items``, numbered in the order in which they come; repeated items and equal pictures count once.

    Parameters
    ----------
    paths : mapping of str to Path
        Image file per item.
    side : int
        Side of the square in pixels; an image keeps its shape, on white ground.

    Raises
    ------
    InvalidDataError
        Lists every image that cannot be read.
    """
    number: dict[str, int] = {}
    uris: dict[str, int] = {}
    problems = []
    for item in dict.fromkeys(items):
        try:
            image = read_rgb(paths[item])
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            problems.append(Problem(item, "image-unreadable", f"cannot read {paths[item].name}: {_reason(error)}"))
            continue
        uri = as_png_uri(_small(image, side))
        number[item] = uris.setdefault(uri, len(uris))
    if problems:
        raise InvalidDataError(f"{len(problems)} images of the report cannot be read", problems)
    return Thumbnails(number, tuple(uris))


def _reason(error: Exception) -> str:
    return "not an image" if isinstance(error, UnidentifiedImageError) else str(error)


def _small(image: Image.Image, side: int) -> Image.Image:
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    if image.size != (side, side):
        ground = Image.new("RGB", (side, side), "white")
        ground.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
        image = ground
    # Hundreds of thumbnails stand in a page: a palette takes a third of the bytes.
    if len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > _COLOURS:
        image = image.quantize(_COLOURS, dither=Image.Dither.NONE)
    return image
