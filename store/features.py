"""Patch features: ragged arrays after the CF conventions (contiguous ragged array representation)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from optotype.schemas.errors import UsageError
from optotype.store.location import Location
from optotype.store.manifest import Manifest
from optotype.store.reading import StoredGroup
from optotype.store.rows import FEATURES, Inputs, write_rows

__all__ = ["as_padded", "open_features", "select_images", "write_features"]

_PADDED_BYTES = 64 << 20  # of one block of the padded form


def write_features(
    target: Path,
    *,
    ids: Sequence[str],
    row_size: Any,
    blocks: Iterable[Any],
    dtype: Any,
    inputs: Inputs,
    attrs: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write patch features as an array folder: all of it, or nothing.

    Parameters
    ----------
    target : Path
        Folder of the array. An array that stands there is replaced in one step; the same bytes made of the same
        inputs are left alone.
    ids : sequence of str, length n
        Sorted.
    row_size : ndarray of int, shape (n,)
        Tokens of each image, at least 1.
    blocks : iterable of ndarray, shape (t_b, d)
        Tokens of the images in order; how they are cut into blocks does not matter. Read once.
    dtype : dtype or str
        float16, float32, float64, or ``"bfloat16"``, whose blocks are the bits as uint16.
    inputs : mapping, or callable from digest to mapping
        Everything the array was made of; JSON values.
    attrs : mapping, optional
        Attributes of the dataset; JSON values, part of the digest.

    Returns
    -------
    Manifest

    Raises
    ------
    InvalidDataError
        Every problem found, among them NaN and infinities with the images that hold them.
    ConflictError
        Something that is not an array stands at the target.
    """
    return write_rows(
        FEATURES, target, ids=ids, row_size=row_size, blocks=blocks, dtype=dtype, inputs=inputs, attrs=attrs
    )


def open_features(source: str | Path | Location, *, storage_options: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Open patch features lazily.

    Parameters
    ----------
    source : str, Path or Location
        Folder or fsspec URL, or a location whose files are fetched when they are read.
    storage_options : mapping, optional
        For fsspec.

    Returns
    -------
    Dataset
        ``patches`` (token, channel), dask-backed, one chunk for each shard, in the stored dtype (bfloat16 as
        float32; attribute ``stored_dtype``); ``row_size`` (image) int64; coordinate ``image``, object array of
        str, sorted. Attributes of the array, and ``digest``, ``key``, ``name``.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        No array, not one of this kind or version, damaged, or not to be reached. Reading later raises
        `ConflictError` if the array was replaced meanwhile.
    """
    group = StoredGroup(source, FEATURES.kind, storage_options)
    patches = group.array("patches")
    return xr.Dataset(
        {
            "patches": (("token", "channel"), group.lazy("patches"), {"stored_dtype": patches.stored_dtype}),
            "row_size": ("image", group.array("row_size")[:], group.attributes("row_size")),
        },
        coords={"image": ("image", group.strings("image"))},
        attrs={**group.attrs, "digest": group.manifest.digest, "key": group.manifest.key, "name": group.name},
    )


def select_images(ds: xr.Dataset, positions: Any) -> xr.Dataset:
    """The images at ``positions``, in that order, lazily.

    Parameters
    ----------
    ds : Dataset
        As `open_features` gives it.
    positions : array of int, shape (m,)
        Indices into ``image``, 0 <= position < n; a boolean mask of length n is fine too.

    Raises
    ------
    UsageError
        A position is out of range.
    """
    positions = np.asarray(positions)
    images = ds.sizes["image"]
    if positions.dtype == bool and positions.shape == (images,):
        positions = np.flatnonzero(positions)
    positions = positions.astype(np.int64)
    if positions.ndim != 1 or (len(positions) and not 0 <= positions.min() <= positions.max() < images):
        raise UsageError(f"positions are indices from 0 to {images - 1}, shape (m,), got {positions!r}")
    sizes = ds["row_size"].values
    ends = np.cumsum(sizes)
    chosen = sizes[positions]
    before = np.cumsum(chosen) - chosen
    tokens = np.repeat(ends[positions] - chosen - before, chosen) + np.arange(chosen.sum())
    if len(positions) and np.array_equal(positions, np.arange(positions[0], positions[0] + len(positions))):
        return ds.isel(image=positions, token=slice(int(tokens[0]), int(tokens[-1]) + 1))
    return ds.isel(image=positions, token=tokens)


def as_padded(ds: xr.Dataset) -> xr.DataArray:
    """The features as a dense, lazy array, padded with NaN behind the tokens of each image.

    Returns
    -------
    DataArray, shape (n, max row_size, d)
        Dimensions image, patch, channel; dtype of ``patches``; blocks of whole images of about 64 MiB. A ragged
        set takes the memory of its longest image for each image.
    """
    import dask.array as da

    patches = ds["patches"]
    sizes = ds["row_size"].values
    longest, channels = int(sizes.max()), ds.sizes["channel"]
    step = max(1, _PADDED_BYTES // (longest * channels * patches.dtype.itemsize))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    tokens = patches.data if hasattr(patches.data, "dask") else da.from_array(patches.data)
    blocks = []
    for start in range(0, len(sizes), step):
        stop = min(start + step, len(sizes))
        rows = tokens[int(ends[start]) : int(ends[stop])]
        rows = rows.rechunk((-1, -1))  # one block in, one block out
        block = da.map_blocks(
            _pad,
            rows,
            sizes[start:stop],
            longest,
            dtype=patches.dtype,
            new_axis=1,
            chunks=((stop - start,), (longest,), (channels,)),
            meta=np.empty((0, 0, 0), dtype=patches.dtype),
        )
        blocks.append(block)
    coords = {"image": ds["image"]}
    return xr.DataArray(da.concatenate(blocks), dims=("image", "patch", "channel"), coords=coords, name="patches")


def _pad(rows: Any, sizes: Any, longest: int) -> Any:
    padded = np.full((len(sizes), longest, rows.shape[1]), np.nan, dtype=rows.dtype)
    padded[np.arange(longest) < sizes[:, None]] = rows
    return padded
