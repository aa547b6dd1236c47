"""Labelled, lazy Chamfer similarity of all images with all images."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import chamfer_block, groups, offsets_of
from optotype.pipelines.kernels.rows import blocks_of_images

__all__ = ["chamfer_similarity"]


def chamfer_similarity(patches: xr.DataArray, row_size: xr.DataArray) -> xr.DataArray:
    """The whole n x n matrix, lazy for dask-backed patches: for those who want the matrix itself.

    Neighbours do not need it; see :func:`optotype.pipelines.operators.neighbours.feature_neighbours`.

    Parameters
    ----------
    patches : DataArray (token, direction or channel)
        Unit vectors (whitened patches), float32 or float64; the products are of that type.
    row_size : DataArray (image,)
        Patches of each image, with coordinate ``image``.

    Returns
    -------
    DataArray (item, item_other) float64
        Symmetric, NaN on the diagonal. In blocks; only blocks on and above the diagonal are computed, the others are
        their transposes.
    """
    import dask
    import dask.array as da

    offsets = offsets_of(row_size.values)
    blocks = blocks_of_images(offsets, patches.shape[1])
    ids = row_size["image"].values
    coords = {"item": ("item", ids), "item_other": ("item_other", ids)}
    data = patches.data
    lazy = hasattr(data, "dask")
    parts = [data[offsets[first] : offsets[last]] for first, last in blocks]
    counts = [offsets[first : last + 1] - offsets[first] for first, last in blocks]
    block = dask.delayed(_block) if lazy else _block
    rows: list[list[Any]] = [[None] * len(blocks) for _ in blocks]
    for i in range(len(blocks)):
        for j in range(i, len(blocks)):
            made = block(parts[i], counts[i], None if i == j else parts[j], counts[j])
            if lazy:
                made = da.from_delayed(made, (len(counts[i]) - 1, len(counts[j]) - 1), np.float64)
            rows[i][j] = made
            if i != j:
                rows[j][i] = made.T
    matrix = da.block(rows) if lazy else np.block(rows)
    return xr.DataArray(matrix, dims=("item", "item_other"), coords=coords, name="similarity")


def _block(
    a: NDArray[np.floating],
    a_offsets: NDArray[np.int64],
    b: NDArray[np.floating] | None,
    b_offsets: NDArray[np.int64],
) -> NDArray[np.float64]:
    a = np.ascontiguousarray(a)
    if b is None:
        return chamfer_block(a, groups(a_offsets))
    return chamfer_block(a, groups(a_offsets), np.ascontiguousarray(b), groups(b_offsets))
