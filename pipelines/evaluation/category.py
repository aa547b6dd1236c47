"""One selector on one category: what is selected on the build models, and how the held-out models then rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.embeddings import EmbeddingRows
from optotype.pipelines.compression.leaderboard import nan_mean
from optotype.pipelines.evaluation.correlations import finite_correlation
from optotype.pipelines.evaluation.workspace import Workspace
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import Selection, get_selector

__all__ = ["Outcome", "choose", "estimated", "judged"]

LEAST_BUILD = 2  # one model has no variance

Models = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a selector did with a category.

    Attributes
    ----------
    index : ndarray (n,) int64
        Items of the category's pool, as positions in the panel.
    budget : int
        K.
    build : int
        Build models with a score in the pool.
    selection : Selection or None
        None where the pool is kept whole or nothing can be selected.
    reason : str or None
        Why nothing could be selected.
    """

    index: NDArray[np.int64]
    budget: int
    build: int
    selection: Selection | None = None
    reason: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the selector lacked, in words."""
        return () if self.selection is None else self.selection.notes

    @property
    def whole(self) -> bool:
        """Whether all items are kept, which makes the comparison empty."""
        return self.budget >= len(self.index)

    def kept(self) -> NDArray[np.int64]:
        """Positions of the kept items in the panel."""
        if self.selection is not None:
            return self.index[self.selection.index]
        return self.index if self.whole else self.index[:0]


def choose(
    workspace: Workspace, pool: str, category: int, build: Models, selector: str, budget: int, seed: int
) -> Outcome:
    """Select ``budget`` items of a category's pool with the scores of the build models, and of no others.

    Parameters
    ----------
    workspace : Workspace
    pool : str
        Name of the array (items,) bool that says which items are in the pool of their category.
    category : int
        Number of the category.
    build : tuple of int
        Positions of the build models; those without a score in the pool are left out.
    selector : str
    budget, seed : int
    """
    index = workspace.members(pool, category)
    seen = _pool(workspace, pool, category, build)
    models = len(seen.scores)
    if budget >= len(index):
        return Outcome(index, len(index), models)
    if budget < 1:
        return Outcome(index, budget, models, reason="no item at this retention")
    if models < LEAST_BUILD:
        return Outcome(index, budget, models, reason=f"{models} build model(s) with a score, {LEAST_BUILD} are needed")
    key = (category, selector, budget, seed)
    if key not in workspace.selections:  # a floor gives several retentions the same budget
        workspace.selections[key] = get_selector(selector).select(seen, budget, seed=seed)
    return Outcome(index, budget, models, workspace.selections[key])


def estimated(outcome: Outcome, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of models on the kept items, (m,) in [0, 1]; NaN where a model has none of them.

    A selector that estimates (p-IRT, weights) does so from the kept items alone: the others are missing to it.

    Parameters
    ----------
    outcome : Outcome
    scores : ndarray (m, n) float64
        Of any models on the whole pool.
    """
    if outcome.reason is not None:
        return np.full(len(scores), np.nan)
    if outcome.selection is None:
        return nan_mean(scores)
    seen = np.full_like(scores, np.nan)
    seen[:, outcome.selection.index] = scores[:, outcome.selection.index]
    return np.asarray(outcome.selection.estimate(seen), dtype=np.float64)


def judged(outcome: Outcome, full: NDArray[np.float64], compressed: NDArray[np.float64], least: int) -> dict[str, Any]:
    """What a table says of one category.

    Parameters
    ----------
    outcome : Outcome
    full, compressed : ndarray (m,) float64
        Scores of the held-out models on the whole pool and on the kept items.
    least : int
        Fewest held-out models with both scores for a ρ.

    Returns
    -------
    dict
        ``n, K, whole, build, held_out, rho, mae, counted, reason``. ``mae`` is the mean distance of the compressed
        from the full score, for selectors that mean to estimate it. A row is counted in means when its ρ is defined
        and the pool was not kept whole; ``reason`` says why it is not.
    """
    rho, count = finite_correlation(full, compressed, least)
    both = np.isfinite(full) & np.isfinite(compressed)
    reason = outcome.reason
    if reason is None and outcome.whole:
        reason = "kept whole"
    elif reason is None and count < least:
        reason = f"{count} held-out models, {least} are needed"
    elif reason is None and rho is None:
        reason = "all held-out models score the same"
    return {
        "n": len(outcome.index),
        "K": outcome.budget,
        "whole": outcome.whole,
        "build": outcome.build,
        "held_out": count,
        "rho": rho,
        "mae": float(np.mean(np.abs(full[both] - compressed[both]))) if both.any() else None,
        "counted": reason is None,
        "reason": reason,
    }


def _pool(workspace: Workspace, pool: str, category: int, build: Models) -> Pool:
    """The pool that selectors see, of the build models with a score in it.

    Kept while units of one split follow each other: selectors keep their fits with it.
    """
    if workspace.side != (pool, build):
        workspace.side, workspace.pools, workspace.selections = (pool, build), {}, {}
    if category not in workspace.pools:
        made = _made(workspace, workspace.members(pool, category), build)
        # Cells hang on the items alone: the same in every split, and drawn once.
        kept = workspace.kept.setdefault((pool, category), {})
        workspace.pools[category] = replace(made, cell_seed=workspace.plan["seed"], kept=kept)
    return workspace.pools[category]


def _made(workspace: Workspace, index: NDArray[np.int64], build: Models) -> Pool:
    models = np.array(build, dtype=np.int64)
    scores = workspace.scores(models, index)
    there = np.isfinite(scores).any(axis=1)
    models, scores = models[there], scores[there]

    def rows(name: str) -> EmbeddingRows | None:
        return EmbeddingRows(workspace.get(name), index) if workspace.has(name) else None

    return Pool.of(
        scores,
        benchmark=workspace.labels["benchmark"][index],
        item=workspace.labels["item"][index],
        scoring=workspace.labels["scoring"][index] if "scoring" in workspace.labels else None,
        response=workspace.responses(models, index),
        alpha=workspace.plan["alpha"],
        text=rows("text"),
        vision_text=rows("vision_text"),
    )
