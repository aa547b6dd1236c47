"""What the units of work compute: each function takes the folder of the workspace and a unit, and runs anywhere."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.category_count import search
from optotype.pipelines.compression.leaderboard import leaderboard, nan_mean
from optotype.pipelines.compression.representatives import representatives
from optotype.pipelines.evaluation.bootstrap import (
    Interval,
    interval,
    macro,
    resampled_models,
    resampled_rho,
    strata,
)
from optotype.pipelines.evaluation.category import Outcome, choose, estimated, judged
from optotype.pipelines.evaluation.correlations import finite_correlation
from optotype.pipelines.evaluation.families import agreement, rank_shift
from optotype.pipelines.evaluation.splits import Split
from optotype.pipelines.evaluation.units import Unit
from optotype.pipelines.evaluation.workspace import Workspace
from optotype.pipelines.kernels.shares import budget
from optotype.schemas.errors import InvalidDataError

__all__ = ["ALL_ITEMS", "POOL", "compute", "pool_of", "scores_of"]

POOL = "pool"
ALL_ITEMS = "all-items"
"""Selector of rows that keep every item of the pools; end to end they are the paper's "Stage 3 only"."""

Result = dict[str, Any]


def pool_of(split: str) -> str:
    """Name of the array with the pools that were refitted on a split."""
    return f"pool-{split}"


def compute(folder: str, unit: Unit) -> Result:
    """The result of a unit, JSON-ready."""
    workspace = Workspace.of(folder)
    if unit.kind == "intervals":
        return intervals(workspace, unit)
    return _KINDS[unit.kind](workspace, unit, workspace.split(unit.kind, unit.split))


def held_out(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """Select on the build models, rank the held-out ones, category by category (section D.3)."""
    return _judged(workspace, split, _outcomes(workspace, unit, split, POOL))


def random_held_out(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """As `held_out`; the scores of the models are not kept, as there are too many splits of them."""
    return {**held_out(workspace, unit, split), "scores": {}}


def whole(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """Select on the whole panel and rank the same models: what is released, and how families agree on its items."""
    outcomes = _outcomes(workspace, unit, split, POOL)
    kept = [outcome.kept() for _, outcome in outcomes]
    index = np.sort(np.concatenate(kept)) if kept else np.empty(0, np.int64)
    families = [str(name) for name in workspace.panel["family"].values]
    scores = workspace.scores(np.arange(len(families)), index)
    return {**_judged(workspace, split, outcomes), "agreement": agreement(scores, families)}


def _judged(workspace: Workspace, split: Split, outcomes: list[tuple[str, Outcome]]) -> Result:
    rows: list[Result] = []
    notes: set[str] = set()
    scores: dict[str, list[list[float | None]]] = {}
    for category, outcome in outcomes:
        columns = workspace.scores(np.array(split.held_out, dtype=np.int64), outcome.index)
        full, compressed = nan_mean(columns), estimated(outcome, columns)
        rows.append({"category": category, **judged(outcome, full, compressed, workspace.plan["min_held_out"])})
        scores[category] = [_plain(full), _plain(compressed)]
        notes.update(outcome.notes)
    return {"rows": rows, "notes": sorted(notes), "scores": scores}


def left_out_family(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """Select on all families but one; see where its models land among all."""
    rows: list[Result] = []
    notes: set[str] = set()
    models = np.array(sorted((*split.build, *split.held_out)), dtype=np.int64)
    inside = np.isin(models, split.held_out)
    for category, outcome in _outcomes(workspace, unit, split, POOL):
        columns = workspace.scores(models, outcome.index)
        full, compressed = nan_mean(columns), estimated(outcome, columns)
        shift, ranked = rank_shift(full, compressed, inside)
        row = judged(outcome, full, compressed, workspace.plan["min_held_out"])
        # The ρ is over all models, most of which built the suite: it is no judgement of the family.
        row = {name: row[name] for name in ("n", "K", "whole", "build", "counted", "reason", "rho")}
        present = int((inside & np.isfinite(full) & np.isfinite(compressed)).sum())
        rows.append(
            {
                "category": category,
                "models": present,
                "ranked": ranked,
                **row,
                "rank_shift": shift if np.isfinite(shift) else None,
            }
        )
        notes.update(outcome.notes)
    return {"rows": rows, "notes": sorted(notes)}


def variants(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """Select on the panel without the variants, rank the variants of each set."""
    rows: list[Result] = []
    notes: set[str] = set()
    scores = workspace.get("variants")
    for category, outcome in _outcomes(workspace, unit, split, POOL):
        notes.update(outcome.notes)
        for entry in workspace.plan["variants"]:
            columns = np.asarray(scores[entry["rows"][0] : entry["rows"][1]][:, outcome.index])
            full, compressed = nan_mean(columns), estimated(outcome, columns)
            if np.isfinite(full).any():
                row = judged(outcome, full, compressed, least=3)
                rows.append({"set": entry["set"], "category": category, **row})
    return {"rows": rows, "notes": sorted(notes)}


def pools(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """Stage 1, refitted on the build models."""
    plan = workspace.plan
    found = representatives(
        workspace.panel,
        workspace.slices,
        np.asarray(workspace.get("keep")),
        target=plan["rho_target"],
        models=np.array(split.build, dtype=np.int64),
    )
    return {"pool": np.flatnonzero(found.pool).tolist()}


def end_to_end(workspace: Workspace, unit: Unit, split: Split) -> Result:
    """Stages 1 to 3 on the build models; the held-out ranking against that by all category means (section D.3)."""
    plan, names = workspace.plan, workspace.slices.categories
    kept = np.full((workspace.panel.sizes["model"], len(names)), np.nan)
    notes: set[str] = set()
    items = total = 0
    for category, outcome in _outcomes(workspace, unit, split, pool_of(split.name)):
        for models in (split.build, split.held_out):
            rows = np.array(models, dtype=np.int64)
            kept[rows, names.index(category)] = estimated(outcome, workspace.scores(rows, outcome.index))
        items, total = items + len(outcome.kept()), total + len(outcome.index)
        notes.update(outcome.notes)
    build, held = (np.array(models, dtype=np.int64) for models in (split.build, split.held_out))
    reference = np.asarray(workspace.get("reference"))[held]
    row: Result = {"n": total, "K": items, "categories": len(names), "k": plan["k"]}
    row |= _without_stage_3(reference, kept[held], plan)
    row |= _with_stage_3(reference, kept[build], kept[held], plan, names)
    return {"rows": [row], "notes": sorted(notes)}


def _without_stage_3(reference: NDArray[np.float64], held: NDArray[np.float64], plan: Result) -> Result:
    rho, count, reason = _ranked(reference, held, plan)
    return {"rho_without_stage_3": rho, "held_out_without_stage_3": count, "reason_without_stage_3": reason}


def _with_stage_3(
    reference: NDArray[np.float64],
    build: NDArray[np.float64],
    held: NDArray[np.float64],
    plan: Result,
    names: tuple[str, ...],
) -> Result:
    """Choose the subset on the build models, rank the held-out models that have all its categories."""
    nothing: Result = {"rho": None, "held_out": 0, "subset": None, "build_rho": None}
    try:
        found = search(build, plan["k"], plan["normalise"])
    except InvalidDataError as error:
        return {**nothing, "reason": f"build models: {error.summary}"}
    if found.subset is None:
        return {**nothing, "reason": found.reason}
    chosen = held[:, list(found.subset)]
    chosen[~np.isfinite(chosen).all(axis=1)] = np.nan
    rho, count, reason = _ranked(reference, chosen, plan)
    return {
        "rho": rho,
        "held_out": count,
        "subset": [names[number] for number in found.subset],
        "build_rho": found.rho,
        "reason": reason,
    }


def _ranked(
    reference: NDArray[np.float64], scores: NDArray[np.float64], plan: Result
) -> tuple[float | None, int, str | None]:
    """ρ between two leaderboards of the held-out models, each normalised over the models that enter it."""
    try:
        full = leaderboard(reference, plan["normalise"])
        compressed = leaderboard(scores, plan["normalise"])
    except InvalidDataError as error:
        return None, 0, f"held-out models: {error.summary}"
    least = plan["min_held_out"]
    rho, count = finite_correlation(full, compressed, least)
    if rho is not None:
        return rho, count, None
    few = f"{count} held-out models, {least} are needed"
    return None, count, few if count < least else "all held-out models score the same"


def intervals(workspace: Workspace, unit: Unit) -> Result:
    """Paired bootstrap over models, stratified by family, of what a unit of another protocol has found.

    The categories are those that count in the point estimate; a difference to the baseline is over the categories that
    count for both. Selection is not repeated: its uncertainty is not in the interval (as in Table 18).
    """
    plan = workspace.plan["intervals"][unit.split]
    families = strata(plan["families"], plan["names"])
    draws = _draws(tuple(families), plan["resamples"], plan["seed"])
    own = _resampled(workspace, unit.split, unit.retention, unit.selector, draws)
    found = _interval_row("", interval(macro(list(own.values()), len(draws))))
    baseline = plan["baseline"]
    if baseline is not None and baseline != unit.selector:
        other = _resampled(workspace, unit.split, unit.retention, baseline, draws)
        both = [category for category in own if category in other]
        gap = macro([own[c] for c in both], len(draws)) - macro([other[c] for c in both], len(draws))
        found |= _interval_row(f"minus_{baseline}_", interval(gap))
    return {"rows": [{"categories": len(own), **found}], "notes": []}


def scores_of(split: str, retention: float, selector: str) -> str:
    """Name of the array (categories, 2, models) with full and compressed scores of the models of a split."""
    return f"scores-{split}-{retention!r}-{selector}"


def _resampled(
    workspace: Workspace, split: str, retention: float, selector: str, draws: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """ρ of the resamples in each category that counts, by category."""
    name = scores_of(split, retention, selector)
    counted = workspace.note("counted")[name]
    scores = np.asarray(workspace.get(name))
    return {
        category: resampled_rho(scores[number, 0], scores[number, 1], draws) for category, number in counted.items()
    }


@lru_cache(maxsize=4)
def _draws(families: tuple[str, ...], resamples: int, seed: int) -> NDArray[np.int64]:
    return resampled_models(families, resamples, seed)


def _interval_row(prefix: str, found: Interval) -> Result:
    if not found.resamples:
        return {f"{prefix}low": None, f"{prefix}high": None, f"{prefix}above_zero": None, f"{prefix}resamples": 0}
    row = {"low": found.low, "high": found.high, "above_zero": found.above_zero, "resamples": found.resamples}
    return {f"{prefix}{name}": value for name, value in row.items()}


def _outcomes(workspace: Workspace, unit: Unit, split: Split, pool: str) -> list[tuple[str, Outcome]]:
    """What the unit's selector keeps of each category that has items in the pool."""
    found = []
    for number, category in enumerate(workspace.slices.categories):
        n = len(workspace.members(pool, number))
        if n:
            count = n if unit.selector == ALL_ITEMS else budget(n, unit.retention, workspace.plan["floor"])
            found.append((category, choose(workspace, pool, number, split.build, unit.selector, count, split.seed)))
    return found


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


_KINDS = {
    "held-out": random_held_out,
    "chronological": held_out,
    "whole": whole,
    "leave-one-family-out": left_out_family,
    "variants": variants,
    "pools": pools,
    "end-to-end": end_to_end,
}
