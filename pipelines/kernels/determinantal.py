"""Greedy maximum a posteriori choice of a determinantal point process over points in a Euclidean space."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread

__all__ = ["greedy_map", "median_squared_distance"]

_DECIMALS = 10  # of a gain: copies of chosen rows gain nothing, whatever their rounding


def median_squared_distance(points: NDArray[np.float64], *, pairs: int, seed: int) -> float:
    """Median squared distance of ``pairs`` seeded pairs of different rows, drawn with replacement; 0 for one row."""
    n = len(points)
    if n < 2:
        return 0.0
    generator = np.random.default_rng(seed)
    first = generator.integers(0, n, size=pairs)
    second = (first + generator.integers(1, n, size=pairs)) % n
    difference = points[first] - points[second]
    return float(np.median(np.einsum("ij,ij->i", difference, difference)))


def greedy_map(
    points: NDArray[np.float64], quality: NDArray[np.float64], count: int, *, bandwidth: float
) -> NDArray[np.int64]:
    """Up to ``count`` rows that greedily maximise log det of L = diag(q) G diag(q), G = exp(-‖x - y‖² / bandwidth).

    Chen, Zhang and Zhou (2018), algorithm 1: an incremental Cholesky factor, O(n · count²) time and n · count numbers
    in memory; L itself is never formed.

    Parameters
    ----------
    points : ndarray (n, d) float64
    quality : ndarray (n,) float64
        q, 0 or more.
    count : int
    bandwidth : float
        0 makes only equal points alike.

    Returns
    -------
    ndarray (<= count,) int64
        In the order of choice; of equal gains (at 10 decimals) the first row. It ends early when no row gains anything
        any more: those left are copies of chosen ones, or have q = 0.
    """
    n = len(points)
    square = np.einsum("ij,ij->i", points, points)
    gain = quality * quality
    factor = np.zeros((min(count, n), n))
    chosen: list[int] = []
    open_ = np.ones(n, dtype=bool)
    with one_thread():
        while len(chosen) < min(count, n):
            best = int(np.argmax(np.where(open_, np.round(gain, _DECIMALS), -1.0)))
            if not open_[best] or round(float(gain[best]), _DECIMALS) <= 0:
                break
            distance = np.maximum(square + square[best] - 2.0 * (points @ points[best]), 0.0)
            distance[best] = 0.0
            alike = (
                np.exp(-distance / bandwidth) if bandwidth > 0 else (points == points[best]).all(axis=1).astype(float)
            )
            step = len(chosen)
            row = quality[best] * quality * alike - factor[:step, best] @ factor[:step]
            row /= np.sqrt(gain[best])
            factor[step] = row
            gain = gain - row * row
            open_[best] = False
            chosen.append(best)
    return np.array(chosen, dtype=np.int64)
