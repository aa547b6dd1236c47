"""Text states: one vector for each text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from optotype.store.location import Location
from optotype.store.manifest import Manifest
from optotype.store.reading import StoredGroup
from optotype.store.rows import STATES, Inputs, write_rows

__all__ = ["open_states", "write_states"]


def write_states(
    target: Path,
    *,
    ids: Sequence[str],
    blocks: Iterable[Any],
    dtype: Any = "float32",
    inputs: Inputs,
    attrs: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write text states as an array folder: all of it, or nothing.

    Parameters
    ----------
    target : Path
        Folder of the array; replaced in one step if there is one.
    ids : sequence of str, length n
        Sorted.
    blocks : iterable of ndarray, shape (t_b, d)
        One row for each text, in order.
    dtype : dtype or str
        float16, float32, float64, or ``"bfloat16"``, whose blocks are the bits as uint16.
    inputs, attrs
        As for `optotype.store.features.write_features`.

    Raises
    ------
    InvalidDataError, ConflictError
        As `optotype.store.features.write_features` does.
    """
    return write_rows(STATES, target, ids=ids, row_size=None, blocks=blocks, dtype=dtype, inputs=inputs, attrs=attrs)


def open_states(source: str | Path | Location, *, storage_options: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Open text states lazily.

    Returns
    -------
    Dataset
        ``states`` (text, channel), dask-backed, one chunk for each shard, in the stored dtype (bfloat16 as
        float32; attribute ``stored_dtype``); coordinate ``text``, object array of str, sorted. Attributes of the
        array, and ``digest``, ``key``, ``name``. Rows are finite, but where the attribute ``invalid_rows`` (int) says
        that so many were imported as NaN throughout.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `optotype.store.features.open_features` does.
    """
    group = StoredGroup(source, STATES.kind, storage_options)
    states = group.array("states")
    return xr.Dataset(
        {"states": (("text", "channel"), group.lazy("states"), {"stored_dtype": states.stored_dtype})},
        coords={"text": ("text", group.strings("text"))},
        attrs={**group.attrs, "digest": group.manifest.digest, "key": group.manifest.key, "name": group.name},
    )
