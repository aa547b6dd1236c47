"""The k most similar items of each row, on plain arrays: ties go to the lower index.

Two ways: :func:`top_k` of a matrix that is there, and :class:`Candidates`, which is fed blocks of the matrix and
keeps a few values more than k per row, so that near-ties at the k-th place can be scored again before they are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

__all__ = ["DECIMALS", "WINDOW", "Candidates", "top_k"]

DECIMALS = 12
"""Similarities are rounded to so many decimals before they are ordered: equal means equal to 1e-12."""

WINDOW = 1e-5
"""Float32 similarities this near the k-th place are scored again in float64; their error is some 1e-6."""

_SLACK = 64


def top_k(similarity: NDArray[np.floating], k: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The ``k`` largest values of each row: indices (rows, k) int32 and values (rows, k), rounded to 12 decimals.

    Falling by value, equal values by rising index. NaN means "not a candidate" (the item itself); a row needs at least
    ``k`` other values.
    """
    rounded = np.asarray(similarity).astype(np.float64).round(DECIMALS)
    rounded[np.isnan(rounded)] = -np.inf
    order = np.argsort(-rounded, axis=1, kind="stable")[:, :k]
    return order.astype(np.int32), np.take_along_axis(rounded, order, axis=1)


class Candidates:
    """The best values of each of ``n`` rows seen so far, out of blocks fed in any order.

    Memory is n x (k + 64) whatever the data. With ``window`` = 0 values are final. With a window they are float32
    accurate: everything within the window of the k-th place is kept until :meth:`finish` has it scored exactly. Where
    more than 64 such near-ties pile up (copies of one image), the row is scored exactly on the spot and cut to k.

    Parameters
    ----------
    n, k : int
        Rows, and 1 <= k < items.
    items : int, optional
        Items the rows choose from; default ``n``: the rows are the items.
    window : float
    exact : callable, optional
        ``exact(row, columns) -> values`` for such a row; needed with a window.
    """

    def __init__(
        self,
        n: int,
        k: int,
        *,
        items: int | None = None,
        window: float = 0.0,
        exact: Callable[[int, NDArray[np.int64]], NDArray[np.float64]] | None = None,
    ) -> None:
        self.k = k
        self.window = window
        self._exact = exact
        self._items = n if items is None else items
        self._width = min(k + (_SLACK if window else 0), self._items - 1)
        self.value = np.full((n, self._width), -np.inf)
        self.index = np.full((n, self._width), self._items, dtype=np.int64)
        self.settled = np.zeros((n, self._width), dtype=bool)

    def add(self, rows: NDArray[np.int64], columns: NDArray[np.int64], block: NDArray[np.float64]) -> None:
        """Feed ``block`` (rows, columns): similarity of each item of ``rows`` with each of ``columns``.

        NaN entries are no candidates. Each pair is fed once.
        """
        fresh = np.round(block, DECIMALS)
        fresh[np.isnan(fresh)] = -np.inf
        value = np.concatenate([self.value[rows], fresh], axis=1)
        index = np.concatenate([self.index[rows], np.broadcast_to(columns, fresh.shape)], axis=1)
        settled = np.concatenate([self.settled[rows], np.zeros(fresh.shape, dtype=bool)], axis=1)
        order = np.lexsort((index, -value), axis=1)[:, : self._width + 1]
        value, index, settled = (np.take_along_axis(array, order, axis=1) for array in (value, index, settled))
        if self.window and value.shape[1] > self._width:
            kth = value[:, self.k - 1]
            spill = np.isfinite(value[:, -1]) & (value[:, -1] >= kth - self.window)
            for position in np.flatnonzero(spill):
                # What lexsort cut off beyond one value is needed here too: take the row anew.
                self._settle_row(int(rows[position]), columns, fresh[position])
            keep = ~spill
            rows, value, index, settled = rows[keep], value[keep], index[keep], settled[keep]
        self.value[rows] = value[:, : self._width]
        self.index[rows] = index[:, : self._width]
        self.settled[rows] = settled[:, : self._width]

    def _settle_row(self, row: int, columns: NDArray[np.int64], fresh: NDArray[np.float64]) -> None:
        """Score the near-ties of one row exactly and keep its k best."""
        if self._exact is None:
            raise RuntimeError("candidates with a window need an exact routine")
        value = np.concatenate([self.value[row], fresh])
        index = np.concatenate([self.index[row], columns])
        settled = np.concatenate([self.settled[row], np.zeros(len(fresh), dtype=bool)])
        kth = np.partition(value, len(value) - self.k)[len(value) - self.k]
        near = (value >= kth - self.window) & (value <= kth + self.window)
        ask = near & ~settled
        value[ask] = np.round(self._exact(row, index[ask]), DECIMALS)
        settled |= ask
        tier = np.where(value > kth + self.window, 0, np.where(near, 1, 2))
        order = np.lexsort((index, -value, tier))[: self.k]
        self.value[row] = -np.inf
        self.index[row] = self._items
        self.settled[row] = False
        for target, source in ((self.value, value), (self.index, index), (self.settled, settled)):
            target[row, : self.k] = source[order]

    def undecided(self) -> list[tuple[int, NDArray[np.int64]]]:
        """Rows whose k-th place is not certain, with the columns to score exactly; rising by row."""
        if not self.window:
            return []
        kth = self.value[:, self.k - 1]
        reach = self.value >= (kth - self.window)[:, None]
        result = []
        for row in np.flatnonzero(reach.sum(axis=1) > self.k):
            ask = reach[row] & (self.value[row] <= kth[row] + self.window) & ~self.settled[row]
            if ask.any():
                result.append((int(row), np.sort(self.index[row, ask])))
        return result

    def finish(
        self, scored: Iterable[tuple[int, NDArray[np.int64], NDArray[np.float64]]] = ()
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """The neighbours (n, k) int32 and their similarities (n, k) float64, rounded to 12 decimals.

        Parameters
        ----------
        scored : iterable of (row, columns, values)
            Exact values of what :meth:`undecided` asked for.
        """
        kth = self.value[:, self.k - 1].copy()
        # 0: certainly in, 1: near the k-th place, 2: certainly out.
        tier = np.where(
            self.value > (kth + self.window)[:, None], 0, np.where(self.value >= (kth - self.window)[:, None], 1, 2)
        )
        for row, columns, values in scored:
            place = {int(column): position for position, column in enumerate(self.index[row])}
            for column, value in zip(columns, values, strict=True):
                self.value[row, place[int(column)]] = round(float(value), DECIMALS)
        chosen = np.lexsort((self.index, -self.value, tier), axis=1)[:, : self.k]
        value, index = (np.take_along_axis(array, chosen, axis=1) for array in (self.value, self.index))
        order = np.lexsort((index, -value), axis=1)
        neighbours = np.take_along_axis(index, order, axis=1).astype(np.int32)
        return neighbours, np.take_along_axis(value, order, axis=1)
