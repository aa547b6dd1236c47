"""Similarities of all pairs of items in two spaces, out of one tile of each matrix at a time; plain arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairMoments", "pair_moments", "pairs_of_tiles"]

Floats = NDArray[np.float64]

_TILE = 1024  # items a side: 8 MiB a space


@dataclass(frozen=True)
class PairMoments:
    """Of the similarities x, y of all pairs i < j in two spaces.

    Attributes
    ----------
    count : int
    mean_x, mean_y : float
    xx, yy, xy : float
        Sums of squares and of products of the deviations from the means.
    """

    count: int
    mean_x: float
    mean_y: float
    xx: float
    yy: float
    xy: float


def pairs_of_tiles(first: Floats, second: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Inner products of the pairs i < j in both spaces, tile by tile.

    Parameters
    ----------
    first, second : ndarray (n, d), (n, t) float64

    Yields
    ------
    tuple of ndarray (pairs,) float64
        Of the same pairs; each pair comes once.
    """
    n = len(first)
    for top in range(0, n, _TILE):
        rows = slice(top, top + _TILE)
        for left in range(top, n, _TILE):
            columns = slice(left, left + _TILE)
            pair = first[rows] @ first[columns].T, second[rows] @ second[columns].T
            if left == top:
                above = np.triu_indices(len(pair[0]), 1)
                yield pair[0][above], pair[1][above]
            else:
                yield pair[0].ravel(), pair[1].ravel()


def pair_moments(first: Floats, second: Floats) -> PairMoments:
    """Moments of the similarities of all pairs; nothing of size n x n is kept.

    Tiles are centred on their own means and joined by the formulas of Chan, Golub & LeVeque (1979), so that cosines
    that are all near 1 lose no digits.
    """
    total = PairMoments(0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for x, y in pairs_of_tiles(first, second):
        if not len(x):
            continue
        mean_x, mean_y = float(x.mean()), float(y.mean())
        x, y = x - mean_x, y - mean_y
        total = _joined(total, PairMoments(len(x), mean_x, mean_y, float(x @ x), float(y @ y), float(x @ y)))
    return total


def _joined(a: PairMoments, b: PairMoments) -> PairMoments:
    count = a.count + b.count
    share, weight = b.count / count, a.count * (b.count / count)
    x, y = b.mean_x - a.mean_x, b.mean_y - a.mean_y
    return PairMoments(
        count,
        a.mean_x + x * share,
        a.mean_y + y * share,
        a.xx + b.xx + x * x * weight,
        a.yy + b.yy + y * y * weight,
        a.xy + b.xy + x * y * weight,
    )
