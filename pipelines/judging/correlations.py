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

__all__ = ["EXACT", "SHUFFLES", "STATISTICS", "critical", "pearson_rows", "permutation_p"]

EXACT = 9
"""Encoders up to which every order is tried: 9! = 362,880."""

SHUFFLES = 9_999
_BLOCK = 1 << 15
_SLACK = 1e-9  # of 1: what rounding may take from a correlation that is the same

Floats = NDArray[np.float64]


def pearson_rows(rows: Floats, others: Floats) -> Floats:
    """r of each row with a row of ``others``, or with its only row.

    Values are rounded to 12 decimals, as for ρ; a side whose values are all equal then has no r.

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
    x, y = (_unit(side) for side in (rows, others))
    return np.asarray(np.clip(np.einsum("mn,mn->m", x, np.broadcast_to(y, x.shape)), -1, 1), dtype=np.float64)


def _unit(rows: Floats) -> Floats:
    """Rows centred and of length 1; NaN for constant ones."""
    rounded = np.asarray(np.round(rows, DECIMALS), dtype=np.float64)
    flat = np.ptp(rounded, axis=1) == 0
    unit: Floats = rounded - rounded.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        unit = unit / np.abs(unit).max(axis=1, keepdims=True)  # squares of what is left can neither over- nor underflow
        unit = unit / np.sqrt(np.einsum("mn,mn->m", unit, unit))[:, None]
    unit[flat] = np.nan
    return unit


STATISTICS: dict[str, Callable[[Floats, Floats], Floats]] = {"rho": spearman_rows, "r": pearson_rows}


def permutation_p(statistic: str, first: Floats, second: Floats, seed: int) -> tuple[float | None, str]:
    """Share of the pairings of two vectors whose correlation is at least as far from 0 as the given one's.

    Two-sided. Up to `EXACT` entries over all N! pairings, the given one among them; above over `SHUFFLES` random ones,
    as (1 + hits) / (1 + shuffles). A correlation within 1e-9 of the given one counts as equal.

    Parameters
    ----------
    statistic : {"rho", "r"}
    first, second : ndarray (N,) float64
        Finite.
    seed : int
        Of the shuffles.

    Returns
    -------
    (float or None, str)
        p, None where there is no correlation; ``exact`` or ``shuffled``.
    """
    kind = "exact" if len(first) <= EXACT else "shuffled"
    x, y = _scaled(statistic, first), _scaled(statistic, second)
    given = abs(float(x @ y))
    if math.isnan(given):
        return None, kind
    hits = total = 0
    for orders in _orders(len(first), seed):
        hits += int(np.count_nonzero(np.abs(y[orders] @ x) >= given - _SLACK))
        total += len(orders)
    return (hits / total if kind == "exact" else (1 + hits) / (1 + total)), kind


def critical(encoders: int, seed: int, level: float = 0.05) -> float | None:
    """The least ρ above 0 whose two-sided p is ``level`` or less, for encoders that do not tie; None if there is none.

    Exact up to `EXACT` encoders, else out of `SHUFFLES` random orders.
    """
    x = _scaled("rho", np.arange(encoders, dtype=np.float64))
    found = np.concatenate([np.abs(x[orders] @ x) for orders in _orders(encoders, seed)])
    values, counts = np.unique(np.round(found, 9), return_counts=True)
    share = np.cumsum(counts[::-1])[::-1] / len(found)
    low = np.flatnonzero(share <= level)
    return float(values[low[0]]) if len(low) else None


def _scaled(statistic: str, values: Floats) -> Floats:
    """A vector whose product with another is their correlation: of ranks for ρ."""
    if statistic == "rho":
        import bottleneck

        values = bottleneck.rankdata(np.round(np.asarray(values, dtype=np.float64), DECIMALS))
    scaled: Floats = _unit(np.asarray(values, dtype=np.float64)[None])[0]
    return scaled


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
