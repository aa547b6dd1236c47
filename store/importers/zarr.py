"""Zarr groups, of format 2 or 3, local or behind an fsspec URL; read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import FormatError, Problem
from optotype.store.importers.source import Member, Members
from optotype.store.reading import BFLOAT16, DTYPE_ATTRIBUTE

__all__ = ["members"]

_NAMES = ("ids", "patches", "tokens", "row_size", "states", "image", "text")


@contextmanager
def members(path: str) -> Iterator[Members]:
    """The arrays of the group. What optotype wrote is read too: its ids are called ``image`` or ``text``."""
    import zarr

    try:
        group = zarr.open_group(path, mode="r")
        # By name: a store over HTTP cannot be listed.
        arrays: dict[str, Any] = {name: group[name] for name in _NAMES if name in group}
    except (FileNotFoundError, ValueError, KeyError, OSError) as error:
        raise FormatError(f"{path}: not a readable Zarr group ({error})") from error
    if "ids" not in arrays:
        named = arrays.pop("image", None) or arrays.pop("text", None)
        if named is not None:
            arrays["ids"] = named
    if "row_size" in arrays and "patches" in arrays and len(arrays["patches"].shape) == 2:
        arrays["tokens"] = arrays.pop("patches")
    found = Members(path, {})
    for name, array in arrays.items():
        if not hasattr(array, "shape"):
            found.problems.append(Problem(name, "not-an-array", "is a group, an array is wanted"))
        elif name == "ids":
            found.ids = _strings(path, array)
        else:
            found.arrays[name] = _member(path, array)
            problem = _missing_chunks(path, array)
            if problem is not None and name != "row_size":
                found.problems.append(Problem(name, "missing-chunks", problem))
    yield found


def _missing_chunks(path: str, array: Any) -> str | None:
    """What to say of chunks that have no file; None if all have one, or if that cannot be seen (remote groups)."""
    if not Path(path).is_dir() or not array.shape:
        return None
    cut = array.shards or array.chunks
    grid = [-(-size // step) for size, step in zip(array.shape, cut, strict=True)]
    folder = Path(path) / array.path
    chunks = np.ndindex(*grid)
    missing = sum(not (folder / array.metadata.encode_chunk_key(place)).is_file() for place in chunks)
    if not missing:
        return None
    return (
        f"{missing} of {int(np.prod(grid))} chunks are missing; zarr reads them as {array.fill_value}. "
        "If they are really empty, write the array with write_empty_chunks=True"
    )


def _read(path: str, array: Any, selection: Any) -> Any:
    try:
        return np.asarray(array[selection])
    except (RuntimeError, ValueError, OSError, EOFError, KeyError, TypeError) as error:  # what codecs raise
        raise FormatError(
            f"{path}: {array.name.strip('/')} has a chunk that cannot be read ({type(error).__name__}: {error})",
            hint="The chunk is damaged: copy or write the group again.",
        ) from error


def _member(path: str, array: Any) -> Member:
    dtype = BFLOAT16 if array.attrs.get(DTYPE_ATTRIBUTE) == BFLOAT16 else array.dtype.name
    return Member(
        tuple(array.shape), dtype, lambda start, stop: _read(path, array, slice(start, stop)), random_access=False
    )


def _strings(path: str, array: Any) -> list[Any]:
    values = _read(path, array, ...)
    if values.dtype.kind in "TU":
        return [str(value) for value in values.ravel()]
    return list(values.ravel().tolist())
