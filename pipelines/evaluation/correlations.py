"""Spearman correlations over the models, or the items, that both sides have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.spearman import spearman

__all__ = ["finite_correlation"]


def finite_correlation(
    first: NDArray[np.float64], second: NDArray[np.float64], least: int = 2
) -> tuple[float | None, int]:
    """Spearman ρ over the entries that both vectors have, and how many these are.

    Returns
    -------
    (float or None, int)
        None where fewer than ``least`` entries are left, or one side is constant.
    """
    count = int((np.isfinite(first) & np.isfinite(second)).sum())
    rho = spearman(first, second) if count >= max(least, 2) else float("nan")
    return (rho if np.isfinite(rho) else None), count
