"""Scores of models on the items of a suite."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["suite_scores"]

Floats = NDArray[np.float64]


def suite_scores(scores: Floats, category: NDArray[np.integer], size: int, weight: Floats) -> Floats:
    """Weighted mean of the valid scores of every model in every category.

    Parameters
    ----------
    scores : ndarray (M, K) float64
        Scaled to [0, 1]; NaN where one is missing.
    category : ndarray (K,) int
        Number of every item's category, below ``size``; -1 for an item that does not count.
    size : int
        Number of categories, C.
    weight : ndarray (K,) float64
        Above 0.

    Returns
    -------
    ndarray (M, C) float64
        Σ w x / Σ w over the items of the category that the model has; NaN where it has none.
    """
    found = np.full((len(scores), size), np.nan)
    for number in range(size):
        here = category == number
        values, shares = scores[:, here], weight[here]
        there = np.isfinite(values)
        total = (there * shares).sum(axis=1)
        sums = (np.where(there, values, 0.0) * shares).sum(axis=1)
        found[:, number] = np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)
    return found
