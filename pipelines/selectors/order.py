"""Items from the best to the worst, with ties in a seeded random order."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["DECIMALS", "best_first", "seeded_keys", "top"]

DECIMALS = 12
"""Scores are compared at so many decimals: no choice hangs on the order of a summation."""


def seeded_keys(pool: Pool, seed: int, purpose: str = "ties") -> NDArray[np.uint64]:
    """A random number for each item, (n,): 64 bits of a digest of seed, purpose, benchmark and item id.

    An item's number never depends on which other items are there, nor on their order.
    """
    start = f"{seed}\0{purpose}\0"
    keys = [
        int.from_bytes(blake2b(f"{start}{benchmark}\0{item}".encode(), digest_size=8).digest(), "little")
        for benchmark, item in zip(pool.benchmark, pool.item, strict=True)
    ]
    return np.array(keys, dtype=np.uint64)


def best_first(score: NDArray[np.float64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Positions by descending score at 12 decimals, then by ascending key; NaN comes last."""
    value = np.where(np.isnan(score), -np.inf, np.round(score, DECIMALS))
    order: NDArray[np.int64] = np.lexsort((keys, -value)).astype(np.int64)
    return order


def top(score: NDArray[np.float64], keys: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Positions of the best ``count`` items, ascending."""
    return np.sort(best_first(score, keys)[:count])
