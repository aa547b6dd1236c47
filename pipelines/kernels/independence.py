"""Hilbert-Schmidt independence criteria of inner-product kernels, without a kernel matrix; plain arrays.

With K = XXᵀ and L = YYᵀ every sum over pairs is one over channels: Σ_ij K_ij L_ij = ‖XᵀY‖²_F. Time is n·d·t, memory
a block of 1024 x t numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["biased_hsic", "sparse_hsic", "unbiased_hsic"]

Floats = NDArray[np.float64]

_BLOCK = 1024


def _inner(first: Floats, second: Floats) -> float:
    """‖XᵀY‖²_F."""
    total = 0.0
    for start in range(0, first.shape[1], _BLOCK):
        product = (first[:, start : start + _BLOCK].T @ second).ravel()
        total += float(product @ product)
    return total


def biased_hsic(first: Floats, second: Floats) -> float:
    """tr(KHLH) of rows (n, d) and (n, t) whose columns are centred (Gretton et al. 2005, without 1 / (n - 1)²)."""
    return _inner(first, second)


def unbiased_hsic(first: Floats, second: Floats) -> tuple[float, float]:
    """The unbiased criterion of Song et al. (2012), equation 5, and the size of the terms that it is made of.

    With zero diagonals, [tr(K̃L̃) + 1ᵀK̃1·1ᵀL̃1 / ((n-1)(n-2)) - 2/(n-2)·1ᵀK̃L̃1] / (n(n-3)).

    Parameters
    ----------
    first, second : ndarray (n, d), (n, t) float64
        n >= 4. Centring the columns changes nothing but the rounding: the criterion does not see what is added to a
        whole row and column of a kernel.

    Returns
    -------
    value, size : float
        A value of less than some 1e-13 of ``size`` is rounding.
    """
    n = len(first)
    k, m = np.einsum("ij,ij->i", first, first), np.einsum("ij,ij->i", second, second)
    k_rows, m_rows = first @ first.sum(axis=0) - k, second @ second.sum(axis=0) - m
    whole, diagonal = _inner(first, second), float(k @ m)
    crossed = float(k_rows.sum()) * float(m_rows.sum()) / ((n - 1) * (n - 2))
    rows = 2 * float(k_rows @ m_rows) / (n - 2)
    scale = n * (n - 3)
    return (whole - diagonal + crossed - rows) / scale, (whole + diagonal + abs(crossed) + abs(rows)) / scale


def sparse_hsic(first: Any, second: Any) -> tuple[float, float]:
    """The same criterion of two sparse kernels with empty diagonals, which need not be symmetric.

    Parameters
    ----------
    first, second : scipy.sparse array (n, n)

    Returns
    -------
    value : float
        [Σ_ij K_ij L_ji + 1ᵀK1·1ᵀL1 / ((n-1)(n-2)) - 2/(n-2)·1ᵀKL1] / (n(n-3)), n >= 4.
    size : float
        Of the terms, as for :func:`unbiased_hsic`.
    """
    n = first.shape[0]
    trace = float(first.multiply(second.T).sum())
    product = 2 * float(np.asarray(first.sum(axis=0)).ravel() @ np.asarray(second.sum(axis=1)).ravel()) / (n - 2)
    sums = float(first.sum()) * float(second.sum()) / ((n - 1) * (n - 2))
    scale = n * (n - 3)
    return (trace + sums - product) / scale, (abs(trace) + abs(sums) + abs(product)) / scale
