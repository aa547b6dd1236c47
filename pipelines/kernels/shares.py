"""How many items a pool keeps, and how many of them each of its benchmarks gives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optotype.schemas.errors import UsageError

__all__ = ["budget", "shares"]

_DECIMALS = 9  # of r·n: 0.29 · 100 is 28.999999999999996 in binary, and is meant as 29


def budget(n: int, retention: float, floor: int) -> int:
    """Items that a pool keeps: K = max(⌊r n⌋, min(n, floor)) (Section 4.3, where the floor is 100).

    Parameters
    ----------
    n : int
        Items of the pool.
    retention : float
        r, above 0 and at most 1. r·n is rounded to 9 decimals before it is cut, so that 0.05 · 2000 is 100.
    floor : int
        Items that a pool keeps whatever its size; a smaller pool is kept whole. With 0 a small pool may keep none.

    Raises
    ------
    UsageError
        A retention outside (0, 1] or a negative floor.
    """
    if not 0 < retention <= 1:
        raise UsageError(f"a retention is above 0 and at most 1, got {retention!r}", hint="5 % is 0.05.")
    if floor < 0:
        raise UsageError(f"a floor is a number of items, 0 or more; got {floor}")
    return max(math.floor(round(retention * n, _DECIMALS)), min(n, floor))


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """``total`` places divided in proportion to ``sizes``, by largest remainder; ties go to the one that comes first.

    Whole numbers throughout, so that no remainder hangs on a rounding. A total above the sum of the sizes is cut to
    it. No part gets more than its size, and no excess is left to hand on: where total <= Σ sizes a quota
    total · size / Σ is at most size, and so is its round-up.
    """
    whole = sum(sizes)
    total = min(total, whole)
    if whole == 0:
        return [0] * len(sizes)
    parts = [total * size // whole for size in sizes]
    remainders = [total * size % whole for size in sizes]
    first = sorted(range(len(sizes)), key=lambda place: (-remainders[place], place))
    for place in first[: total - sum(parts)]:
        parts[place] += 1
    return parts
