"""Image files to RGB pictures, and one error that lists every file that cannot be read."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optotype.pipelines.progress import SILENT, Progress
from optotype.schemas.errors import IntegrityError, InvalidDataError, Problem

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["open_image", "scan_images", "to_rgb"]

# What Pillow's decoders raise on damaged input, beside UnidentifiedImageError, which is an OSError.
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError)
_BROKEN_STREAM = (struct.error, zlib.error)
_NOT_AN_IMAGE = "not an image, or damaged beyond recognition"
_SIXTEEN_BITS = 65535


def to_rgb(image: Image) -> Image:
    """``image`` as 8-bit RGB, upright, what is transparent on white.

    The EXIF orientation is applied first. Palettes and alpha channels are resolved over white, the colour of the page
    that most such pictures are made for; black would draw outlines that are not there. 16-bit grey is scaled to 8.

    Raises
    ------
    ValueError
        Floating-point pixels, or 32-bit ones beyond 16 bits: they have no known white.
    """
    import PIL.Image
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    mode = upright.mode
    if mode == "F":
        raise ValueError("floating-point pixels, which have no known range; 8 or 16 bits are read")
    if mode.startswith("I"):
        values = np.asarray(upright).astype(np.int64)
        if values.min() < 0 or values.max() > _SIXTEEN_BITS:
            raise ValueError(f"32-bit pixels from {values.min()} to {values.max()}; 8 or 16 bits are read")
        # 257 = 65535 / 255, so that white stays white
        upright = PIL.Image.fromarray(((values + 128) // 257).astype(np.uint8))
    elif mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in upright.info:
        if mode == "La":
            upright = upright.convert("LA")
        transparent = upright.convert("RGBA")
        page = PIL.Image.new("RGBA", transparent.size, (255, 255, 255, 255))
        return PIL.Image.alpha_composite(page, transparent).convert("RGB")
    return upright.convert("RGB")


def open_image(path: Path, digest: str | None = None) -> Image:
    """Read and decode one image file as RGB.

    Parameters
    ----------
    path : Path
        Any format that Pillow reads; of an animation, the first frame.
    digest : str, optional
        SHA-256 (hex) that the file had when the table was read.

    Raises
    ------
    IntegrityError
        The file has changed since.
    OSError, ValueError, SyntaxError, ...
        It cannot be decoded: what Pillow raises.
    """
    import PIL.Image

    data = path.read_bytes()
    if digest is not None and hashlib.sha256(data).hexdigest() != digest.removeprefix("sha256:"):
        raise IntegrityError(f"{path}: the file changed while it was being encoded", hint="Run the same command again.")
    with PIL.Image.open(io.BytesIO(data)) as image:
        image.load()
        return to_rgb(image)


def _problem(identity: str, path: Path) -> Problem | None:
    import PIL
    from PIL.Image import DecompressionBombError

    where = f"{identity} ({path})"
    try:
        image = open_image(path)
    except FileNotFoundError:
        return Problem(where, "image-missing", "no such file")
    except DecompressionBombError as error:
        return Problem(where, "image-too-large", str(error))
    except PIL.UnidentifiedImageError:  # its own words hold the address of a buffer
        return Problem(where, "image-unreadable", "the file is empty" if not path.stat().st_size else _NOT_AN_IMAGE)
    except (*_BROKEN, *_BROKEN_STREAM) as error:
        return Problem(where, "image-unreadable", str(error) or type(error).__name__)
    if 0 in image.size:
        return Problem(where, "image-empty", f"an image of {image.width} x {image.height} pixels")
    return None


def scan_images(ids: Sequence[str], paths: Sequence[Path], *, threads: int = 1, progress: Progress = SILENT) -> None:
    """Decode every image once, so that hours of encoding do not end at a broken file.

    Raises
    ------
    InvalidDataError
        Lists all images that are missing or cannot be decoded, in the order of ``ids``.
    """
    problems: list[Problem] = []
    with progress("checking images", total=len(ids), unit="images") as task, ThreadPoolExecutor(threads) as pool:
        for problem in pool.map(_problem, ids, paths):
            if problem is not None:
                problems.append(problem)
            task.advance()
    if problems:
        raise InvalidDataError(
            f"{len(problems)} of {len(ids)} images cannot be read; nothing was encoded",
            problems,
            hint="Repair these files, or remove their rows from the table (or the files from the folder).",
        )
