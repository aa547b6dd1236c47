"""Spearman's ρ of every subset of k columns against a reference, by vectorised ranks; plain arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, combinations, islice

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.item_moments import DECIMALS
from optotype.pipelines.kernels.spearman import spearman_rows

__all__ = ["MOST_SUBSETS", "SubsetCorrelations", "subset_blocks", "subset_correlations", "subset_rho"]

MOST_SUBSETS = 40_000_000  # 320 MB of correlations, and minutes

_SCALE = 10.0**DECIMALS
_CELLS = 1 << 20  # values ranked at a time: 8 MB, in cache with what it takes to rank them
_THREADS = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SubsetCorrelations:
    """ρ of all subsets, in lexicographic order.

    Attributes
    ----------
    rho : ndarray (number of subsets,) float64
        NaN where a subset is not eligible, or its ρ is undefined.
    not_eligible, undefined : int
        How many are which.
    """

    rho: Floats
    not_eligible: int
    undefined: int


def subset_blocks(total: int, k: int, size: int) -> Iterator[NDArray[np.int16]]:
    """Subsets of k of the numbers below ``total``, lexicographically, in blocks (at most size, k)."""
    everything = combinations(range(total), k)
    while True:
        flat = np.fromiter(chain.from_iterable(islice(everything, size)), np.int16)
        if not len(flat):
            return
        yield flat.reshape(-1, k)


def subset_rho(
    scores: Floats, subsets: NDArray[np.integer], reference: Floats, least: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """ρ between the mean of the columns of each subset and a reference, over the rows that have all of them.

    Parameters
    ----------
    scores : ndarray (M, C) float64
        NaN where a row lacks a column.
    subsets : ndarray (s, k) int
    reference : ndarray (M,) float64
    least : float
        Rows that a subset needs to be judged.

    Returns
    -------
    rho : ndarray (s,) float64
        NaN where not eligible or undefined.
    eligible : ndarray (s,) bool
    """
    ascending = np.argsort(reference, kind="stable")  # rows in the order of the reference: its ranks are their places
    sorted_reference = reference[ascending]
    columns = np.ascontiguousarray(scores[ascending].T)
    means = columns[subsets[:, 0]]
    for place in range(1, subsets.shape[1]):
        means += columns[subsets[:, place]]
    means /= subsets.shape[1]
    there = np.isfinite(means)
    count = there.sum(axis=1)
    eligible = count >= least
    rho = np.full(len(means), np.nan)
    rounded = np.round(sorted_reference, DECIMALS)
    distinct = bool((rounded[1:] > rounded[:-1]).all())  # NaN compares as false
    bits = int(means.shape[1]).bit_length()
    if distinct and np.abs(means, where=there, out=np.zeros_like(means)).max(initial=0.0) < 2.0 ** (61 - bits) / _SCALE:
        rho, left = _rho_without_ties(means, there, count, bits)
    else:
        left = np.ones(len(means), dtype=bool)
    if left.any():
        rho[left] = spearman_rows(means[left], sorted_reference[None])
    rho[~eligible] = np.nan
    return rho, eligible


def _rho_without_ties(
    means: Floats, there: NDArray[np.bool_], count: NDArray[np.int64], bits: int
) -> tuple[Floats, NDArray[np.bool_]]:
    """ρ between each row and the places of its columns, and the rows for which ties leave it open.

    Sorting whole numbers that carry their column in the low bits is several times faster than ranking: NumPy sorts, but
    does not argsort, with vector instructions. The same ρ as `spearman_rows` gives, to the last bit.
    """
    width = means.shape[1]
    whole = bool(there.all())
    scaled = np.rint(means * _SCALE)
    if not whole:
        scaled[~there] = 2.0 ** (62 - bits)  # behind all others
    keys = scaled.astype(np.int64)
    keys <<= bits
    keys |= np.arange(width)
    keys.sort(axis=1)
    column = keys & ((1 << bits) - 1)
    keys >>= bits
    places = np.arange(1, width + 1)
    tied = keys[:, 1:] == keys[:, :-1]
    if whole:
        product = (column + 1) @ places
    else:
        tied &= places[1:] <= count[:, None]
        ranks = np.take_along_axis(np.cumsum(there, axis=1, dtype=np.int64), column, axis=1)
        product = (ranks * places).sum(axis=1, where=places <= count[:, None])
    squares = count * (count.astype(np.float64) ** 2 - 1) / 12
    rho = np.full(len(means), np.nan)
    usable = squares > 0
    rho[usable] = (product - count * (count + 1.0) ** 2 / 4)[usable] / squares[usable]
    return np.clip(rho, -1, 1), tied.any(axis=1)


def subset_correlations(scores: Floats, k: int, reference: Floats, *, least: float) -> SubsetCorrelations:
    """`subset_rho` of all C(C, k) subsets; the same for any number of threads, as the blocks are cut by size alone."""
    rows, total = scores.shape
    count = math.comb(total, k)
    rho, eligible = np.empty(count), np.empty(count, dtype=bool)
    size = max(1, _CELLS // max(rows, 1))
    with ThreadPoolExecutor(_THREADS) as pool:

        def work(start: int, subsets: NDArray[np.int16]) -> None:
            part = slice(start, start + len(subsets))
            rho[part], eligible[part] = subset_rho(scores, subsets, reference, least)

        jobs: list[Future[None]] = []
        start = 0
        for subsets in subset_blocks(total, k, size):
            if len(jobs) >= 2 * _THREADS:  # no more subsets in memory than are being worked on
                jobs.pop(0).result()
            jobs.append(pool.submit(work, start, subsets))
            start += len(subsets)
        for job in jobs:
            job.result()
    return SubsetCorrelations(rho, int((~eligible).sum()), int((eligible & np.isnan(rho)).sum()))
