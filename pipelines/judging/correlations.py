"""Spearman's ρ and Pearson's r of many pairs of rows, and how often shuffled pairs correlate as strongly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.item_moments import DECIMALS
from optotype.pipelines.kernels.spearman import spearman_rows

__all__ = [
    "EXACT",
    "SHUFFLES",
    "STATISTICS",
    "critical",
    "difference_p",
    "levelled",
    "pearson_rows",
    "permutation_p",
    "rho_rows",
]

EXACT = 9
"""Encoders up to which every order is tried: 9! = 362,880."""

SHUFFLES = 9_999
_BLOCK = 1 << 15
_SLACK = 1e-9  # of 1: what rounding may take from a correlation that is the same

Floats = NDArray[np.float64]


def levelled(rows: Floats) -> Floats:
    """Each row over its largest magnitude, rounded to 12 decimals: in [-1, 1], and of the same order at any scale.

    So two values are equal if they differ by less than about 1e-12 of the largest one beside them, whether scores are
    of the order of 1e-300 or of 1e300. What is resampled is levelled as a whole first, so that what is equal in it is
    equal in each part.

    Parameters
    ----------
    rows : ndarray (..., N) float64
        Finite, or NaN, which stays.

    Returns
    -------
    ndarray (..., N) float64
        A row of zeros stays one.
    """
    largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(np.round(rows / np.where(largest > 0, largest, 1.0), DECIMALS), dtype=np.float64)


def rho_rows(rows: Floats, others: Floats) -> Floats:
    """ρ of each row with a row of ``others``, or with its only row; as `pearson_rows`, with average ranks for ties."""
    return spearman_rows(levelled(rows), levelled(others))


def pearson_rows(rows: Floats, others: Floats) -> Floats:
    """r of each row with a row of ``others``, or with its only row.

    Values are `levelled`, as for ρ, so that nothing over- or underflows; a side whose values are all equal then has
    no r.

    Parameters
    ----------
    rows : ndarray (m, N) float64
        Finite.
    others : ndarray (m, N) or (1, N) float64

    Returns
    -------
    ndarray (m,) float64
        In [-1, 1]; NaN where undefined.
    """
    x, y = (_unit(levelled(side)) for side in (rows, others))
    return np.asarray(np.clip(np.einsum("mn,mn->m", x, np.broadcast_to(y, x.shape)), -1, 1), dtype=np.float64)


def _unit(rows: Floats) -> Floats:
    """Rows centred and of length 1; NaN for constant ones."""
    flat = np.ptp(rows, axis=1) == 0
    unit: Floats = rows - rows.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = unit / np.abs(unit).max(axis=1, keepdims=True)  # squares of what is left can neither over- nor underflow
        unit = unit / np.sqrt(np.einsum("mn,mn->m", unit, unit))[:, None]
    unit[flat] = np.nan
    return unit


STATISTICS: dict[str, Callable[[Floats, Floats], Floats]] = {"rho": rho_rows, "r": pearson_rows}


def permutation_p(statistic: str, first: Floats, second: Floats, seed: int) -> tuple[float | None, str]:
    """Share of the pairings of two vectors whose correlation is at least as far from 0 as the given one's.

    Of several vectors on each side, one for each language model, the mean of their correlations counts, and a pairing
    gives the encoders the same other places in all of them. Two-sided. Up to `EXACT` entries over all N! pairings, the
    given one among them; above over `SHUFFLES` random ones, as (1 + hits) / (1 + shuffles). A correlation within 1e-9
    of the given one counts as equal.

    Parameters
    ----------
    statistic : {"rho", "r"}
    first, second : ndarray (N,) or (models, N) float64
        Finite.
    seed : int
        Of the shuffles.

    Returns
    -------
    (float or None, str)
        p, None where there is no correlation; ``exact`` or ``shuffled``.
    """
    return _shuffled_p(_scaled(statistic, np.atleast_2d(first)), _scaled(statistic, np.atleast_2d(second)), seed)


def difference_p(statistic: str, first: Floats, other: Floats, second: Floats, seed: int) -> float | None:
    """The same p of the difference of two correlations with one side: those of ``first`` and of ``other`` with it.

    Under outcomes that have nothing to do with either, both metrics keep their encoders and the outcomes are shuffled.

    Parameters
    ----------
    statistic : {"rho", "r"}
    first, other, second : ndarray (models, N) float64
    seed : int

    Returns
    -------
    float or None
        None where one of them has no correlation; 1 for a difference of 0.
    """
    gap = _scaled(statistic, first) - _scaled(statistic, other)
    return _shuffled_p(gap, _scaled(statistic, second), seed)[0]


def _shuffled_p(x: Floats, y: Floats, seed: int) -> tuple[float | None, str]:
    """Share of orders in which the mean product of the rows of ``x`` and ``y`` is as far from 0 as in the given one."""
    models, count = x.shape
    kind = "exact" if count <= EXACT else "shuffled"
    given = abs(float(np.einsum("mn,mn->", x, y)))
    if math.isnan(given):
        return None, kind
    hits = total = 0
    for orders in _orders(count, seed):
        found = y[0][orders] @ x[0]
        for m in range(1, models):
            found += y[m][orders] @ x[m]
        hits += int(np.count_nonzero(np.abs(found) >= given - models * _SLACK))
        total += len(orders)
    return (hits / total if kind == "exact" else (1 + hits) / (1 + total)), kind


def critical(encoders: int, seed: int, level: float = 0.05) -> float | None:
    """The least ρ above 0 whose two-sided p is ``level`` or less, for encoders that do not tie; None if there is none.

    Exact up to `EXACT` encoders, else out of `SHUFFLES` random orders.
    """
    x = _scaled("rho", np.arange(encoders, dtype=np.float64)[None])[0]
    found = np.concatenate([np.abs(x[orders] @ x) for orders in _orders(encoders, seed)])
    values, counts = np.unique(np.round(found, 9), return_counts=True)
    share = np.cumsum(counts[::-1])[::-1] / len(found)
    low = np.flatnonzero(share <= level)
    return float(values[low[0]]) if len(low) else None


def _scaled(statistic: str, rows: Floats) -> Floats:
    """Rows (m, N) whose products with others are their correlations: of ranks for ρ."""
    rows = levelled(np.asarray(rows, dtype=np.float64))
    if statistic == "rho":
        import bottleneck

        rows = np.asarray(bottleneck.rankdata(rows, axis=1), dtype=np.float64)
    return _unit(rows)


def _orders(count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Orders of ``count`` entries, in blocks (m, count)."""
    if count <= EXACT:
        every = _every_order(count)
        for start in range(0, len(every), _BLOCK):
            yield every[start : start + _BLOCK].astype(np.int64)
        return
    rng = np.random.default_rng(seed)
    step = max(1, _BLOCK * EXACT // count)
    for start in range(0, SHUFFLES, step):
        rows = min(step, SHUFFLES - start)
        yield np.asarray(rng.permuted(np.tile(np.arange(count, dtype=np.int64), (rows, 1)), axis=1), dtype=np.int64)


@lru_cache(maxsize=2)
def _every_order(count: int) -> NDArray[np.int8]:
    """All orders, (count!, count); 3.3 MB for nine."""
    return np.array(list(itertools.permutations(range(count))), dtype=np.int8)
