"""Labelled, lazy whitening of rows of a dask-backed array."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels import whitening as kernel
from optotype.pipelines.kernels.rows import spans_of_rows

__all__ = ["fit_whitening", "whiten"]


def fit_whitening(rows: xr.DataArray, *, eps: float = 1e-4, prenorm: str = "none") -> xr.Dataset:
    """Fit the stabilised whitening; nothing is computed for dask-backed rows.

    Parameters
    ----------
    rows : DataArray (token or text, channel)
        The last dimension is ``channel``.
    eps, prenorm
        See :mod:`optotype.pipelines.kernels.whitening`.

    Returns
    -------
    Dataset
        ``mean(channel)``, ``matrix(channel, direction)``, ``eigenvalues(direction)``, ``kept(direction)`` (bool); all
        d directions by falling eigenvalue, the dropped ones with a zero column in ``matrix``. Float64.
    """
    import dask
    import dask.array as da

    norm, eps = kernel.check_prenorm(prenorm), kernel.check_eps(eps)
    channels = rows.sizes["channel"]
    spans = spans_of_rows(len(rows), channels)
    if not rows.chunks:
        parts = [kernel.moments(rows.values[start:stop], norm) for start, stop in spans]
        members = _members(reduce(kernel.merge, parts), eps, norm)
    else:
        lazy = [dask.delayed(kernel.moments)(rows.data[start:stop], norm) for start, stop in spans]
        fitted = dask.delayed(_members)(reduce(dask.delayed(kernel.merge), lazy), eps, norm)
        members = tuple(
            da.from_delayed(fitted[place], shape, dtype)
            for place, (shape, dtype) in enumerate(
                [((channels,), float), ((channels, channels), float), ((channels,), float), ((channels,), bool)]
            )
        )
    mean, matrix, eigenvalues, kept = members
    return xr.Dataset(
        {
            "mean": ("channel", mean),
            "matrix": (("channel", "direction"), matrix),
            "eigenvalues": ("direction", eigenvalues),
            "kept": ("direction", kept),
        },
        attrs={"eps": eps, "prenorm": norm},
    )


def whiten(rows: xr.DataArray, fitted: xr.Dataset) -> xr.DataArray:
    """Rows whitened and scaled to unit length, (row, direction) float64; lazy if the rows are.

    A row without a direction after whitening comes out as NaN: a lazy operator cannot name it beforehand.
    """
    whitened: xr.DataArray = xr.apply_ufunc(
        _apply,
        rows.chunk(channel=-1) if rows.chunks else rows,
        fitted["mean"],
        fitted["matrix"],
        fitted["eigenvalues"],
        fitted["kept"],
        kwargs={"eps": fitted.attrs["eps"], "prenorm": fitted.attrs["prenorm"]},
        input_core_dims=[["channel"], ["channel"], ["channel", "direction"], ["direction"], ["direction"]],
        output_core_dims=[["direction"]],
        dask="parallelized",
        output_dtypes=[np.float64],
    )
    return whitened


def _members(total: kernel.Moments, eps: float, prenorm: kernel.Prenorm) -> tuple[Any, ...]:
    fitted = kernel.fit(total, eps, prenorm)
    matrix = np.zeros((len(fitted.mean), len(fitted.mean)))
    matrix[:, : fitted.components.shape[1]] = fitted.matrix
    return fitted.mean, matrix, fitted.eigenvalues, np.arange(len(fitted.mean)) < fitted.components.shape[1]


def _apply(
    rows: NDArray[np.floating],
    mean: NDArray[np.float64],
    matrix: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    kept: NDArray[np.bool_],
    *,
    eps: float,
    prenorm: kernel.Prenorm,
) -> NDArray[np.float64]:
    components = matrix[:, kept] * np.sqrt(eigenvalues[kept] + eps)
    white, zero = kernel.whiten(rows, kernel.Whitening(mean, components, eigenvalues, eps, prenorm, len(rows)))
    result = np.zeros((len(rows), len(mean)))
    result[:, kept] = white
    result[zero] = np.nan
    return result
