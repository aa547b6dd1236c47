"""Do families find the same items hard, and where does a family land that a selection has not seen?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.evaluation.correlations import finite_correlation
from optotype.pipelines.kernels.item_moments import DECIMALS

__all__ = ["LEAST_MODELS", "agreement", "rank_shift"]

LEAST_MODELS = 4


def agreement(
    scores: NDArray[np.float64], families: Sequence[str], *, least: int = LEAST_MODELS
) -> list[dict[str, Any]]:
    """Spearman ρ over items between the mean scores of two families, for families of at least four models.

    "Cross-family agreement" of the paper's appendix. An item counts where both families have a valid score; models
    without a family are in none.

    Parameters
    ----------
    scores : ndarray (models, items) float64
        In [0, 1], NaN where missing.
    families : sequence of str

    Returns
    -------
    list of dict
        ``family, other, models, other_models, items, rho``, pairs in the order of first appearance; rho is None where
        it is not defined.
    """
    labels = np.asarray(families, dtype=object)
    big = [family for family in dict.fromkeys(families) if family and int((labels == family).sum()) >= least]
    means = {family: _item_means(scores[labels == family]) for family in big}
    rows = []
    for one, other in combinations(big, 2):
        rho, items = finite_correlation(means[one], means[other])
        rows.append(
            {
                "family": one,
                "other": other,
                "models": int((labels == one).sum()),
                "other_models": int((labels == other).sum()),
                "items": items,
                "rho": rho,
            }
        )
    return rows


def _item_means(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    there = np.isfinite(scores)
    count = there.sum(axis=0)
    total = np.where(there, scores, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def rank_shift(
    full: NDArray[np.float64], compressed: NDArray[np.float64], left_out: NDArray[np.bool_]
) -> tuple[float, int]:
    """By how many places the models of a family move, on average, when all models are ranked on the compressed suite.

    The paper is silent on how a family of a few models is judged; ρ over two or three models would say nothing, so
    their places among all models are compared: mean |rank on the suite - rank on the pool|, average ranks for ties.

    Parameters
    ----------
    full, compressed : ndarray (M,) float64
        Scores of all models; NaN where a model has none, which leaves it out of both rankings.
    left_out : ndarray (M,) bool

    Returns
    -------
    (float, int)
        Mean shift in places, NaN where the family has no model left, and the number of models ranked.
    """
    import bottleneck

    both = np.isfinite(full) & np.isfinite(compressed)
    ranked, inside = int(both.sum()), left_out[both]
    if not inside.any():
        return float("nan"), ranked
    first, second = (bottleneck.rankdata(np.round(values[both], DECIMALS)) for values in (full, compressed))
    return float(np.mean(np.abs(first - second)[inside])), ranked
