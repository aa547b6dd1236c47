"""Labelled, lazy cosine similarity of all rows with all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

__all__ = ["cosine_similarity"]

_BLOCK = 1024


def cosine_similarity(rows: xr.DataArray) -> xr.DataArray:
    """Cosines of all pairs of rows; lazy for dask-backed rows.

    Parameters
    ----------
    rows : DataArray (text or other, direction or channel)
        Any float type; products are float64. Rows of length 0 give NaN.

    Returns
    -------
    DataArray (item, item_other) float64
        NaN on the diagonal, since no item is compared with itself.
    """
    item, channel = rows.dims
    values = rows.astype(np.float64)
    data: Any = (values / np.sqrt((values**2).sum([channel]))).data
    if hasattr(data, "dask"):
        import dask.array as da

        data = data.rechunk({0: _BLOCK, 1: -1})
        matrix = da.where(da.eye(len(rows), chunks=_BLOCK, dtype=bool), np.nan, data @ data.T)
    else:
        matrix = data @ data.T
        np.fill_diagonal(matrix, np.nan)
    coords = {"item": ("item", rows[item].values), "item_other": ("item_other", rows[item].values)}
    return xr.DataArray(matrix, dims=("item", "item_other"), coords=coords, name="similarity")
