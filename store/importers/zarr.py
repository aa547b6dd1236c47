"""Zarr groups, of format 2 or 3, local or behind an fsspec URL; read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
            found.ids = _strings(array)
        else:
            found.arrays[name] = _member(array)
    yield found


def _member(array: Any) -> Member:
    dtype = BFLOAT16 if array.attrs.get(DTYPE_ATTRIBUTE) == BFLOAT16 else array.dtype.name
    return Member(tuple(array.shape), dtype, lambda start, stop: np.asarray(array[start:stop]), random_access=False)


def _strings(array: Any) -> list[Any]:
    values = np.asarray(array[...])
    if values.dtype.kind in "TU":
        return [str(value) for value in values.ravel()]
    return list(values.ravel().tolist())
