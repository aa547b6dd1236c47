"""Cosines of all rows with all rows, a block of rows at a time, and the neighbours they give; plain arrays.

Everything is float64 and rounded to 12 decimals before anything is ordered. Equal rows are scored once and share their
value, so exact ties stay exact wherever the rows stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.topk import DECIMALS, top_k

__all__ = ["Cosines", "cosine_neighbours", "memberships"]

Floats = NDArray[np.float64]

_BLOCK_BYTES = 32 * 2**20


class Cosines:
    """Cosines of rows of length 1, made a block of rows at a time.

    Parameters
    ----------
    unit : ndarray (n, d) float64
    """

    def __init__(self, unit: Floats) -> None:
        rows = np.ascontiguousarray(unit) + 0.0  # -0.0 and 0.0 are one value
        seen: dict[bytes, int] = {}
        self._stands_for = np.array(
            [seen.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), len(seen)) for row in rows],
            dtype=np.int64,
        )
        self._distinct = rows[np.unique(self._stands_for, return_index=True)[1]]
        self.n = len(rows)

    def block(self, start: int, stop: int) -> Floats:
        """Cosines (stop - start, n) of rows ``start:stop`` with all, rounded to 12 decimals; NaN for a row itself."""
        wanted, place = np.unique(self._stands_for[start:stop], return_inverse=True)
        values = np.round(self._distinct[wanted] @ self._distinct.T, DECIMALS)
        result: Floats = values[place][:, self._stands_for] if len(self._distinct) < self.n else values[place]
        result[np.arange(stop - start), np.arange(start, stop)] = np.nan
        return result

    def spans(self) -> Iterator[tuple[int, int]]:
        """Blocks of about 32 MiB, a whole number of rows each."""
        step = max(1, _BLOCK_BYTES // (8 * self.n))
        for start in range(0, self.n, step):
            yield start, min(start + step, self.n)


def cosine_neighbours(unit: Floats, k: int) -> tuple[NDArray[np.int32], Floats]:
    """The k most similar rows of each row, without itself.

    Memory is n x k and a block of 32 MiB.

    Parameters
    ----------
    unit : ndarray (n, d) float64
        Rows of length 1.
    k : int
        1 <= k < n.

    Returns
    -------
    neighbours : ndarray (n, k) int32
        Falling by cosine, ties by rising index.
    similarity : ndarray (n, k) float64
        Rounded to 12 decimals.
    """
    cosines = Cosines(unit)
    found = [top_k(cosines.block(start, stop), k) for start, stop in cosines.spans()]
    return np.concatenate([index for index, _ in found]), np.concatenate([value for _, value in found])


def memberships(similarity: Floats, k: int) -> Floats:
    """How far each item is among the k most similar, when ties at the k-th place are broken at random.

    Parameters
    ----------
    similarity : ndarray (rows, n) float64
        Rounded; NaN means "not a candidate" (the item itself).
    k : int
        At most the number of candidates of a row.

    Returns
    -------
    ndarray (rows, n) float64
        1 above the k-th value, 0 below it; (k - a) / g for each of the g items that have that value, a being above
        it. Every row adds up to k.
    """
    values = np.where(np.isnan(similarity), -np.inf, similarity)
    kth = np.partition(values, values.shape[1] - k, axis=1)[:, [values.shape[1] - k]]
    above, tied = values > kth, values == kth
    share = (k - above.sum(axis=1)) / tied.sum(axis=1)
    return np.where(tied, share[:, None], above.astype(np.float64))
