"""Overlap of two neighbour graphs, its chance level, a permutation null and a bootstrap interval; plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Null", "adjusted", "bootstrap_interval", "chance", "matches", "permutation_null"]

_DENSE_ITEMS = 8192  # up to here membership is a table of n x n bits-as-bytes (64 MiB), beyond it a sorted list


def chance(n: int, k: int) -> float:
    """Expected overlap of two independent graphs without self: k / (n - 1)."""
    return k / (n - 1)


def adjusted(score: float, level: float) -> float:
    """Chance-adjusted score (s - c) / (1 - c); 0 where c = 1 (k = n - 1: every graph is the same)."""
    return (score - level) / (1 - level) if level < 1 else 0.0


class _Members:
    """Whether j is a neighbour of i, asked for many pairs at once."""

    def __init__(self, neighbours: NDArray[np.integer]) -> None:
        self._n = len(neighbours)
        rows = np.arange(self._n)[:, None]
        self._table: NDArray[np.bool_] | None = None
        if self._n <= _DENSE_ITEMS:
            self._table = np.zeros((self._n, self._n), dtype=bool)
            self._table[rows, neighbours] = True
        else:
            self._pairs = np.sort((rows * np.int64(self._n) + neighbours).ravel())

    def __call__(self, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> NDArray[np.bool_]:
        if self._table is not None:
            listed: NDArray[np.bool_] = self._table.take(rows * self._n + columns)
            return listed
        wanted = rows * np.int64(self._n) + columns
        place = np.minimum(np.searchsorted(self._pairs, wanted), len(self._pairs) - 1)
        found: NDArray[np.bool_] = self._pairs[place] == wanted
        return found


def matches(first: NDArray[np.integer], second: NDArray[np.integer]) -> NDArray[np.int64]:
    """|N_1(i) ∩ N_2(i)| of every row, (rows,) int64; first and second are (rows, k), each row without repeats."""
    both = np.sort(np.concatenate([first, second], axis=1), axis=1)
    found: NDArray[np.int64] = (both[:, 1:] == both[:, :-1]).sum(axis=1, dtype=np.int64)
    return found


@dataclass(frozen=True)
class Null:
    """Scores under random pairings.

    Attributes
    ----------
    mean, sd : float
        Of the scores of the shuffled pairings (sd with R - 1; 0 for one repeat).
    p : float
        (1 + number of shuffled scores >= the score) / (1 + R): never 0.
    repeats, seed : int
    """

    mean: float
    sd: float
    p: float
    repeats: int
    seed: int


def permutation_null(
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    *,
    repeats: int,
    seed: int,
    advance: Callable[[], None] | None = None,
) -> Null:
    """Null of the overlap score: the items of ``second`` are paired at random with those of ``first``.

    A permutation π relabels the second graph: N'(π(i)) = π(N_2(i)). Scores are compared as whole numbers of matches, so
    equal scores count as equal. ``advance`` is called after each repeat.
    """
    n, k = first.shape
    members = _Members(first)
    observed = int(matches(first, second).sum())
    generator = np.random.default_rng(seed)
    totals = np.empty(repeats, dtype=np.int64)
    for repeat in range(repeats):
        relabel = generator.permutation(n)
        totals[repeat] = np.count_nonzero(members(relabel[:, None], relabel[second]))
        if advance is not None:
            advance()
    scores = totals / (n * k)
    sd = float(scores.std(ddof=1)) if repeats > 1 else 0.0
    p = (1 + int(np.count_nonzero(totals >= observed))) / (1 + repeats)
    return Null(float(scores.mean()), sd, p, repeats, seed)


def bootstrap_interval(
    found: NDArray[np.int64], k: int, *, repeats: int, seed: int, level: float = 0.95
) -> tuple[float, float]:
    """Percentile interval of the score over items drawn with replacement.

    The graphs stay as they are: this is the spread over items given their neighbours, not over data sets.

    Parameters
    ----------
    found : ndarray (n,) int64
        From :func:`matches`.
    """
    generator = np.random.default_rng(seed)
    n = len(found)
    scores = np.array([found[generator.integers(0, n, n)].sum() for _ in range(repeats)]) / (n * k)
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
