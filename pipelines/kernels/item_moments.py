"""Moments of the columns of a score matrix with missing values, and sums of groups of columns; plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["DECIMALS", "ROUNDING", "Moments", "group_sums", "item_moments", "row_group_means"]

DECIMALS = 12  # means and variances are rounded to so many before anything is ranked: no tie hangs on a summation order
ROUNDING = 1e-6  # scores are kept as float32, so that 0.7 on disk lies 1e-8 off 0.7; thresholds allow for it

_COLUMNS = 2048  # columns worked on at a time: a few megabytes for hundreds of rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Of each column, over its valid rows.

    Attributes
    ----------
    valid : ndarray (n,) int32
        Rows that are not NaN.
    mean, variance : ndarray (n,) float64
        Plug-in variance (divided by ``valid``); both rounded to 12 decimals, NaN without a valid row.
    least : ndarray (n,) float64
        Smallest valid value; NaN without one.
    """

    valid: NDArray[np.int32]
    mean: Floats
    variance: Floats
    least: Floats


def item_moments(scores: NDArray[np.floating]) -> Moments:
    """Count, mean, plug-in variance and minimum of every column, NaN left out.

    The variance takes a second pass over the deviations from the mean: no cancellation, and exactly 0 for a constant
    column of representable values.

    Parameters
    ----------
    scores : ndarray (M, n) float
        NaN where a score is missing.
    """
    n = scores.shape[1]
    valid, parts = np.empty(n, np.int32), np.empty((3, n))
    for start in range(0, n, _COLUMNS):
        stop = min(start + _COLUMNS, n)
        block = np.array(scores[:, start:stop], dtype=np.float64)
        missing = np.isnan(block)
        count = len(block) - missing.sum(axis=0)
        block[missing] = np.inf
        least = block.min(axis=0, initial=np.inf)
        block[missing] = 0
        some = np.maximum(count, 1)
        mean = block.sum(axis=0) / some
        block -= mean
        block[missing] = 0
        block *= block
        variance = block.sum(axis=0) / some
        valid[start:stop] = count
        parts[:, start:stop] = np.where(count > 0, (mean, variance, least), np.nan)
    mean, variance, least = parts
    return Moments(valid, mean.round(DECIMALS), variance.round(DECIMALS), least)


def group_sums(
    scores: NDArray[np.floating], group: NDArray[np.integer]
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Sum and count of the valid values of each row in each group of columns.

    Parameters
    ----------
    scores : ndarray (M, n) float
    group : ndarray (n,) int
        Group of each column; -1 for none.

    Returns
    -------
    present : ndarray (g,) int64
        The groups that occur, rising.
    sums : ndarray (M, g) float64
    counts : ndarray (M, g) int64
    """
    columns = np.flatnonzero(group >= 0)
    columns = columns[np.argsort(group[columns], kind="stable")]
    present, starts = np.unique(group[columns], return_index=True)
    rows = len(scores)
    if not len(columns):
        return present.astype(np.int64), np.zeros((rows, 0)), np.zeros((rows, 0), np.int64)
    block = scores[:, columns].astype(np.float64)
    missing = np.isnan(block)
    block[missing] = 0
    sums = np.add.reduceat(block, starts, axis=1)
    counts = np.add.reduceat(~missing, starts, axis=1, dtype=np.int64)
    return present.astype(np.int64), sums, counts


def row_group_means(scores: NDArray[np.floating], group: NDArray[np.integer]) -> Floats:
    """Mean of each column within each group of rows, rounded to 12 decimals; NaN where a group has no valid row.

    Parameters
    ----------
    scores : ndarray (M, n) float
    group : ndarray (M,) int
        Groups 0 to g - 1, each with a row.

    Returns
    -------
    ndarray (g, n) float64
    """
    _, sums, counts = group_sums(scores.T, group)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).T.round(DECIMALS)
