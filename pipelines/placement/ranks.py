"""A place among others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["place_among", "places_within"]

_DECIMALS = 12  # as everywhere before scores are ranked

Floats = NDArray[np.float64]


def place_among(value: float, others: Floats) -> float:
    """Rank of a value that joins others: 1 is the highest; ties share their mean rank."""
    mine, theirs = round(value, _DECIMALS), others.round(_DECIMALS)
    return 1.0 + float((theirs > mine).sum()) + float((theirs == mine).sum()) / 2


def places_within(low: float, high: float, others: Floats) -> tuple[int, int]:
    """The best and the worst rank of a value that lies anywhere from ``low`` to ``high``, ties against it."""
    theirs = others.round(_DECIMALS)
    best = 1 + int((theirs > round(high, _DECIMALS)).sum()) if np.isfinite(high) else 1
    worst = 1 + int((theirs >= round(low, _DECIMALS)).sum()) if np.isfinite(low) else 1 + len(others)
    return best, worst
