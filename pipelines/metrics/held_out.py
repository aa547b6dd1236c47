"""Which items a fitted metric is judged on: drawn by id, so that no other item moves the draw of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["drawn_order", "held_out", "held_out_count", "stratified_folds", "stratified_held_out"]

Positions = NDArray[np.int64]


def drawn_order(items: Sequence[str] | NDArray[np.object_], seed: int, purpose: str) -> Positions:
    """Positions of ``items`` in a random order.

    By SHA-256 of seed, purpose and id: the order of two items hangs on nothing but their ids, so the first m of a
    permutation of more items are a sample of those, and joint reordering of all rows changes nothing.

    Returns
    -------
    ndarray (n,) int64
    """
    keys = [hashlib.sha256(f"{seed}/{purpose}/{item}".encode()).digest() for item in items]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def held_out(items: NDArray[np.object_], share: float, seed: int, purpose: str) -> tuple[Positions, Positions]:
    """Training and held-out positions, both in the drawn order.

    Held out are the first ⌊share · n + ½⌋ drawn, at least 1 and at most n - 1; n is 2 or more.
    """
    order = drawn_order(items, seed, purpose)
    count = held_out_count(len(order), share)
    return order[count:], order[:count]


def stratified_held_out(
    items: NDArray[np.object_], codes: Positions, share: float, seed: int, purpose: str
) -> tuple[Positions, Positions]:
    """Training and held-out positions, both ascending: as `held_out` within each class.

    Parameters
    ----------
    codes : ndarray (n,) int64
        Class of each item; every class has 2 items or more, so that each is on both sides.
    """
    order = drawn_order(items, seed, purpose)
    test = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        members = order[codes[order] == code]
        test[members[: held_out_count(len(members), share)]] = True
    return np.flatnonzero(~test), np.flatnonzero(test)


def stratified_folds(
    items: NDArray[np.object_], codes: Positions, count: int, seed: int, purpose: str
) -> NDArray[np.int64]:
    """Fold 0 … ``count`` - 1 of each item: the items of each class in turn, in the drawn order, dealt round.

    The dealing goes on from class to class, so that folds differ by one item at most.

    Returns
    -------
    ndarray (n,) int64
    """
    order = drawn_order(items, seed, purpose)
    dealt = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(codes), dtype=np.int64)
    fold[dealt] = np.arange(len(codes)) % count
    return fold


def held_out_count(n: int, share: float) -> int:
    """How many of ``n`` items, 2 or more, are held out: ⌊share · n + ½⌋, at least 1 and at most n - 1."""
    return min(max(1, int(np.floor(share * n + 0.5))), n - 1)
