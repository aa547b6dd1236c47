"""Does a subset of categories that was chosen on old models still rank newer ones? (section I.1)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.category_count import Judged, judged, search
from optotype.pipelines.compression.leaderboard import LEAST_MODELS, Normalise
from optotype.pipelines.kernels.spearman import SAME
from optotype.pipelines.kernels.subsets import MOST_SUBSETS, subset_correlations, subset_rho
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = ["SHARES", "release_order", "shelf_life"]

SHARES = (0.65, 0.8, 0.9, 1.0)
"""Of the dated models, oldest first: the subset is frozen on the first share. The paper's panels are 65, 82, 99 and
100 % of its dated models."""


def release_order(dates: Sequence[str]) -> list[int]:
    """Positions of the dated models, oldest first; models of one date in the order of the panel."""
    return sorted((m for m, date in enumerate(dates) if date), key=lambda m: (dates[m], m))


def shelf_life(
    scores: NDArray[np.float64],
    categories: Sequence[str],
    dates: Sequence[str],
    k: int,
    normalise: Normalise = "none",
    *,
    shares: Sequence[float] = SHARES,
) -> list[dict[str, Any]]:
    """Freeze the best subset of k categories on the oldest models and follow it as the panel grows.

    On each panel the models that cover half of the categories enter first and are normalised afterwards, all over the
    panel at hand; ``newer alone`` are the models that came after the freeze, ranked with the normalisation of all
    dated models; ``with undated`` appends the undated ones, a stress test rather than a later panel.

    Parameters
    ----------
    scores : ndarray (M, C) float64
        Category scores after stage 0, NaN where a model has none.
    categories : sequence of str
    dates : sequence of str
        Release dates, "" for undated models.
    k : int
    normalise : {"none", "zscore"}
    shares : sequence of float
        Rising; of the dated models.

    Returns
    -------
    list of dict
        ``protocol, panel, models, scored, k, subset, rho, best_subset_rho, gap, percentile, mean_subset_rho, reason``.
        ``gap`` is best minus frozen; ``percentile`` is the share of all subsets with a ρ that are no better, in %;
        ``mean_subset_rho`` is what a random subset reaches on average.

    Raises
    ------
    InvalidDataError
        Fewer than 3 of the oldest models cover half of the categories, or no subset can be judged on them.
    UsageError
        More than 40 million subsets.
    """
    total = math.comb(scores.shape[1], k)
    if total > MOST_SUBSETS:
        raise UsageError(
            f"shelf life ranks all {total:,} subsets of {k} of {scores.shape[1]} categories; {MOST_SUBSETS:,} at most",
            hint="Choose a smaller -k",
        )
    order = release_order(dates)
    sizes = sorted({math.floor(share * len(order) + 0.5) for share in shares})
    if not order:
        raise InvalidDataError(
            "Shelf life needs release dates",
            [Problem("release_date", "no-date", "no model has one")],
            hint="Import the models with `--models FILE`, a table with a column release_date",
        )
    frozen = search(scores[order[: sizes[0]]], k, normalise)
    if frozen.subset is None:
        raise InvalidDataError(
            f"No subset of {k} categories can be frozen on the {sizes[0]} oldest models",
            [Problem("categories", "no-subset", str(frozen.reason))],
            hint=f"There are {scores.shape[1]} categories; choose a smaller -k",
        )
    names = [categories[number] for number in frozen.subset]
    panels = [("oldest" if size < len(order) else "all dated", order[:size]) for size in sizes]
    rows = [_row(name, members, judged(scores[members], normalise), k, frozen.subset) for name, members in panels]
    newer = _newer_alone(scores[order], sizes[0], normalise)
    if newer is not None:
        rows.append(_row("newer alone", order[sizes[0] :], newer, k, frozen.subset))
    undated = [m for m, date in enumerate(dates) if not date]
    if undated:
        rows.append(_row("with undated", order + undated, judged(scores[order + undated], normalise), k, frozen.subset))
    return [{"protocol": "shelf-life", **row, "subset": names} for row in rows]


def _newer_alone(scores: NDArray[np.float64], first: int, normalise: Normalise) -> Judged | None:
    """The newer of the dated models, with the normalisation and the reference of all of them."""
    bench = judged(scores, normalise)
    covered = np.isfinite(scores).sum(axis=1)
    enters = (2 * covered >= scores.shape[1]) & (covered > 0)  # as `entering`, whose minimum holds for all of them
    newer = np.flatnonzero(enters) >= first
    if newer.sum() < LEAST_MODELS:
        return None
    return Judged(bench.scores[newer], bench.reference[newer], max(LEAST_MODELS, newer.sum() / 2))


def _row(name: str, members: Sequence[int], bench: Judged, k: int, subset: tuple[int, ...]) -> dict[str, Any]:
    own, _ = subset_rho(bench.scores, np.array([subset]), bench.reference, bench.least)
    everything = subset_correlations(bench.scores, k, bench.reference, least=bench.least).rho
    finite = everything[np.isfinite(everything)]
    rho = float(own[0]) if np.isfinite(own[0]) else None
    best = float(finite.max()) if len(finite) else None
    return {
        "panel": name,
        "models": len(members),
        "scored": len(bench.scores),
        "k": k,
        "rho": rho,
        "best_subset_rho": best,
        "gap": best - rho if best is not None and rho is not None else None,
        "percentile": 100 * float(np.mean(finite <= rho + SAME)) if rho is not None else None,
        "mean_subset_rho": float(finite.mean()) if len(finite) else None,
        "subsets": len(everything),
        "reason": None if rho is not None else "too few models cover the subset, or all of them tie",
    }
