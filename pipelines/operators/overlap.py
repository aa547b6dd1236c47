"""Labelled overlap of two neighbour graphs."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.overlap import matches
from optotype.schemas.errors import UsageError

__all__ = ["overlap"]


def overlap(first: xr.DataArray, second: xr.DataArray) -> xr.DataArray:
    """Share of common neighbours |N_1(i) ∩ N_2(i)| / k of every item, (item,) float64; lazy if either graph is.

    Parameters
    ----------
    first, second : DataArray (item, rank) int
        Indices into the same items in the same order, as :func:`optotype.pipelines.operators.neighbours.nearest` and
        its like give them.
    """
    if first.sizes != second.sizes:
        raise UsageError(f"the graphs differ in size: {dict(first.sizes)} and {dict(second.sizes)}")
    shares: xr.DataArray = xr.apply_ufunc(
        _shares,
        first.chunk(rank=-1) if first.chunks else first,
        second.chunk(rank=-1) if second.chunks else second,
        input_core_dims=[["rank"], ["rank"]],
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    return shares


def _shares(first: NDArray[np.integer], second: NDArray[np.integer]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = matches(first, second) / first.shape[1]
    return shares
