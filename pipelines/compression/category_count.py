"""Stage 3: the k categories that rank models as all of them do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.leaderboard import (
    LEAST_MODELS,
    Normalise,
    check_normalise,
    entering,
    leaderboard,
    standardised,
)
from optotype.pipelines.kernels.spearman import SAME
from optotype.pipelines.kernels.subsets import MOST_SUBSETS, subset_correlations, subset_rho
from optotype.schemas.errors import UsageError

__all__ = ["CategoryCount", "Judged", "greedy", "judged", "nothing", "search"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CategoryCount:
    """The subset of stage 3.

    Attributes
    ----------
    subset : tuple of int or None
        Numbers of the chosen categories, rising; None where there is no eligible subset.
    rho : float or None
        Spearman's ρ of the mean over the subset against the mean over all categories.
    models : int
        How many it was judged on.
    subsets : int
        C(n, k).
    skipped : int
        Subsets that too few models cover.
    undefined : int
        Subsets that rank nobody: all models tie.
    greedy_subset : tuple of int or None
        What greedy forward selection finds.
    greedy_gap : float or None
        ρ of the best subset minus that of the greedy one; None where one of them is not known.
    method : str
        ``exhaustive`` or ``greedy``: which of the two ``subset`` is.
    reason : str or None
        Why there is no subset.
    """

    subset: tuple[int, ...] | None
    rho: float | None
    models: int
    subsets: int
    skipped: int
    undefined: int
    greedy_subset: tuple[int, ...] | None
    greedy_gap: float | None
    method: str
    reason: str | None


@dataclass(frozen=True)
class Judged:
    """What every subset is judged by.

    Attributes
    ----------
    scores : ndarray (E, C) float64
        Category scores of the entering models, normalised; a constant category scores 0 for all who have it, as it
        ranks nobody.
    reference : ndarray (E,) float64
        Their leaderboard over all categories.
    least : float
        Models that a subset needs: max(3, half of E).
    """

    scores: Floats
    reference: Floats
    least: float


def judged(category_scores: Floats, normalise: Normalise = "none") -> Judged:
    """Entering models alone, normalised over them, and their reference ranking.

    Raises
    ------
    InvalidDataError
        Fewer than 3 models enter.
    """
    enters = entering(category_scores)
    values = category_scores[enters]
    if normalise == "zscore":
        values = np.where(np.isfinite(values), np.nan_to_num(standardised(values)), np.nan)
    reference = leaderboard(category_scores, normalise)[enters]
    return Judged(values, reference, max(LEAST_MODELS, len(values) / 2))


def search(
    category_scores: Floats, k: int, normalise: Normalise = "none", *, greedy_only: bool = False
) -> CategoryCount:
    """The best of all C(n, k) subsets of the categories (Section 4.4).

    A subset is judged on the entering models (`entering`) that have all its categories, at least max(3, half of them);
    other subsets are skipped and counted. Correlations within 1e-12 are equal; the lexicographically first subset in
    catalogue order wins. Greedy forward selection is always run, too, for its gap.

    Parameters
    ----------
    category_scores : ndarray (M, n) float64
        NaN where a model has no score in a category.
    k : int
        At least 1. More than n, or no eligible subset: the result has no subset but the reason.
    normalise : {"none", "zscore"}
    greedy_only : bool
        Take the greedy subset. Its gap to the best one is still found where there are at most 40 million subsets.

    Raises
    ------
    UsageError
        ``k`` below 1; more than 40 million subsets and not ``greedy_only``.
    InvalidDataError
        Fewer than 3 models enter.
    """
    check_normalise(normalise)
    if k < 1:
        raise UsageError(f"k is 1 or more categories; got {k}")
    bench = judged(category_scores, normalise)
    total = category_scores.shape[1]
    count = math.comb(total, k)
    method = "greedy" if greedy_only else "exhaustive"
    if k > total:
        return nothing(f"there are {total} categories, so no subset of {k}", method)
    if count > MOST_SUBSETS and not greedy_only:
        raise UsageError(
            f"{k} of {total} categories are {count:,} subsets; at most {MOST_SUBSETS:,} are searched",
            hint="Search greedily with --greedy, or choose a smaller -k",
        )
    steps, steps_rho = greedy(bench, k)
    skipped = undefined = 0
    best: tuple[int, ...] | None = None
    best_rho = math.nan
    if count <= MOST_SUBSETS:
        found = subset_correlations(bench.scores, k, bench.reference, least=bench.least)
        skipped, undefined = found.not_eligible, found.undefined
        if np.isfinite(found.rho).any():
            first = int(np.argmax(found.rho >= np.nanmax(found.rho) - SAME))
            best, best_rho = _subset(total, k, first), float(found.rho[first])
    subset, rho = (steps, steps_rho) if greedy_only else (best, best_rho)
    if subset is None:
        reason = (
            f"no subset of {k} of {total} categories can be judged: {skipped} of {count} are covered by fewer than "
            f"{math.ceil(bench.least)} models, {undefined} tie all models"
        )
        if greedy_only:
            reason = f"greedy selection finds no subset of {k} of {total} categories that can be judged"
        return nothing(reason, method, subsets=count, skipped=skipped, undefined=undefined)
    gap = best_rho - steps_rho if best is not None and steps is not None else None
    return CategoryCount(
        subset=subset,
        rho=rho,
        models=int(np.isfinite(bench.scores[:, list(subset)]).all(axis=1).sum()),
        subsets=count,
        skipped=skipped,
        undefined=undefined,
        greedy_subset=steps,
        greedy_gap=gap,
        method=method,
        reason=None,
    )


def greedy(bench: Judged, k: int) -> tuple[tuple[int, ...] | None, float]:
    """Forward selection: each step adds the category that gives the highest ρ, ties (1e-12) by catalogue order.

    Returns
    -------
    subset : tuple of int or None
        Rising; None where at some step no category can be added.
    rho : float
    """
    chosen: list[int] = []
    rho = math.nan
    for _ in range(k):
        left = [number for number in range(bench.scores.shape[1]) if number not in chosen]
        trials = np.array([sorted([*chosen, number]) for number in left])
        rhos, _ = subset_rho(bench.scores, trials, bench.reference, bench.least)
        if not np.isfinite(rhos).any():
            return None, math.nan
        place = int(np.argmax(rhos >= np.nanmax(rhos) - SAME))
        chosen.append(left[place])
        rho = float(rhos[place])
    return tuple(sorted(chosen)), rho


def nothing(reason: str, method: str, *, subsets: int = 0, skipped: int = 0, undefined: int = 0) -> CategoryCount:
    """No subset, and why."""
    return CategoryCount(None, None, 0, subsets, skipped, undefined, None, None, method, reason)


def _subset(total: int, k: int, number: int) -> tuple[int, ...]:
    """The subset at a place of the lexicographic order."""
    subset: list[int] = []
    candidate = 0
    while len(subset) < k:
        behind = math.comb(total - candidate - 1, k - len(subset) - 1)
        if number < behind:
            subset.append(candidate)
        else:
            number -= behind
        candidate += 1
    return tuple(subset)
