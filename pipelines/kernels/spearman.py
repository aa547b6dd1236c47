"""Spearman's ρ with average ranks for ties, over values rounded to 12 decimals; plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.item_moments import DECIMALS

__all__ = ["SAME", "spearman", "spearman_rows"]

SAME = 1e-12  # correlations this close are equal

Floats = NDArray[np.float64]


def spearman(first: Any, second: Any) -> float:
    """ρ of two score vectors over the places where both are finite.

    Parameters
    ----------
    first, second : array_like (M,) float
        NaN where there is no score. Rounded to 12 decimals before ranking.

    Returns
    -------
    float
        In [-1, 1]; NaN where it is undefined: fewer than two places, or one side all tied.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return float(spearman_rows(one[None], other[None])[0])


def spearman_rows(rows: Floats, others: Floats) -> Floats:
    """ρ of each row with a row of ``others``, or with its only row.

    Ranks are multiples of a half, so their sums of squares and products are exact in float64 (below 10^5 models):
    rows that order the models alike get the same ρ to the last bit.

    Parameters
    ----------
    rows : ndarray (r, M) float64
    others : ndarray (r, M) or (1, M) float64

    Returns
    -------
    ndarray (r,) float64
        NaN where undefined; see `spearman`.
    """
    import bottleneck  # its compiled modules are slow to load

    gaps = np.isnan(rows) | np.isnan(others)
    if not gaps.any():
        ranks, opposite = (bottleneck.rankdata(np.round(side, DECIMALS), axis=1) for side in (rows, others))
        count = np.full(len(rows), rows.shape[1], dtype=np.float64)
    else:
        sides = (np.where(gaps, np.nan, np.round(side, DECIMALS)) for side in (rows, others))
        ranks, opposite = (np.nan_to_num(bottleneck.nanrankdata(side, axis=1), copy=False) for side in sides)
        count = rows.shape[1] - gaps.sum(axis=1, dtype=np.float64)
    # The mean rank is (count + 1) / 2 whatever the ties; gaps have rank 0 and add nothing.
    shift = count * (count + 1) ** 2 / 4
    product = np.einsum("rm,rm->r", ranks, np.broadcast_to(opposite, ranks.shape)) - shift
    squares = (np.einsum("rm,rm->r", ranks, ranks) - shift) * (np.einsum("rm,rm->r", opposite, opposite) - shift)
    rho = np.full(len(rows), np.nan)
    there = squares > 0
    rho[there] = product[there] / np.sqrt(squares[there])
    bounded: Floats = np.clip(rho, -1, 1)
    return bounded
