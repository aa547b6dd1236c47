"""Stage 2: a selector keeps a budget of items in each category's pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.columns import Models, read_columns
from optotype.pipelines.compression.embeddings import aligned
from optotype.pipelines.compression.item_statistics import ItemStatistics, item_statistics
from optotype.pipelines.compression.leaderboard import slice_scores
from optotype.pipelines.compression.slices import Slices
from optotype.pipelines.kernels.item_moments import DECIMALS
from optotype.pipelines.kernels.shares import budget
from optotype.pipelines.selectors.pool import ALPHA, Pool
from optotype.pipelines.selectors.selector import Selection, get_selector

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from optotype.pipelines.scheduler import Scheduler

__all__ = ["FLOOR", "RETENTION", "Pruning", "prune", "pruned_scores"]

RETENTION = 0.05
FLOOR = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pruning:
    """What stage 2 keeps, and what it knows of every item of the pools.

    Attributes
    ----------
    selected : ndarray (n,) bool
    vaw : ndarray (n,) float64
        v̂_i + α/√M_i · δ_i, by which Vision-Aware Variance ranks items, whatever the selector; NaN outside the pools and
        without a valid score. Rounded to 12 decimals, as ``variance`` and ``delta`` are.
    variance, delta : ndarray (n,) float64
        v̂_i and δ_i; NaN outside the pools.
    cell : ndarray (n,) int32
        Coverage cell of a selected item within its benchmark and category; -1 for none.
    weight : ndarray (n,) float64
        Of a selected item in its category's score: the selector's, 1 where it gives none; NaN if not selected.
    report : DataFrame
        A row for each category with a pool, in catalogue order: ``category, n, K, filled_by, in_cells, benchmarks,
        notes``. ``filled_by`` says what filled the budget: ``cells on vision_text``, ``cells on text``, or
        ``score alone``, several of them for several benchmarks; ``benchmarks`` is a list of what the selector tells of
        its shares; ``notes`` a list of str.
    selections : dict
        Category number to the positions of its pool and the selector's choice among them.
    """

    selected: NDArray[np.bool_]
    vaw: Floats
    variance: Floats
    delta: Floats
    cell: NDArray[np.int32]
    weight: Floats
    report: pd.DataFrame
    selections: Mapping[int, tuple[NDArray[np.int64], Selection]]


@dataclass(frozen=True)
class _Work:
    """What is the same for all categories."""

    panel: xr.Dataset
    selector: str
    retention: float
    floor: int
    seed: int
    alpha: float
    text: Any
    vision_text: Any
    models: NDArray[np.int64] | None
    valid: NDArray[np.int64]
    variance: Floats


def prune(
    panel: xr.Dataset,
    slices: Slices,
    pool: NDArray[np.bool_],
    *,
    selector: str = "vaw",
    retention: float = RETENTION,
    alpha: float = ALPHA,
    floor: int = FLOOR,
    seed: int = 0,
    embeddings: xr.Dataset | None = None,
    models: Models = None,
    statistics: ItemStatistics | None = None,
    place: Scheduler | None = None,
) -> Pruning:
    """Keep K = max(⌊r n⌋, min(n, floor)) items of every category's pool of n (Section 4.3).

    Parameters
    ----------
    panel : Dataset
    slices : Slices
    pool : ndarray (n,) bool
        Items in the pools of stage 1, or any others.
    selector : str
        Name of one of `optotype.pipelines.selectors.selector.SELECTORS`.
    retention : float
        r, above 0 and at most 1.
    alpha : float
        α of Vision-Aware Variance.
    floor : int
        Items that a pool keeps whatever r says; the paper's 100.
    seed : int
    embeddings : Dataset, optional
        Of `optotype.store.embeddings.open_embeddings`; items are joined by benchmark and id.
    models : sequence of int, optional
        Positions of the build models, whose columns alone are seen; all by default.
    statistics : ItemStatistics, optional
        Of the same models, if known already.
    place : Scheduler, optional
        Where categories are worked on at a time; one after the other without. Same items.

    Raises
    ------
    NotFoundError
        No such selector.
    UsageError
        Another argument out of range.
    """
    import pandas as pd

    get_selector(selector)
    budget(1, retention, floor)  # refuses both before anything is computed
    found = item_statistics(panel, models) if statistics is None else statistics
    text, vision_text = (None, None) if embeddings is None else aligned(embeddings, panel)
    rows = None if models is None else np.asarray(models, dtype=np.int64)
    work = _Work(
        panel, selector, retention, floor, seed, alpha, text, vision_text, rows,
        found.valid.astype(np.int64), found.variance,
    )  # fmt: skip
    of_item = np.where(pool, slices.category_of_item, -1)
    tasks = [(c, np.flatnonzero(of_item == c)) for c in range(len(slices.categories))]
    tasks = [(category, index) for category, index in tasks if len(index)]
    results: Iterator[tuple[Selection, Floats, Floats]] = (
        map(_select, [work] * len(tasks), tasks) if place is None else place.map(_select, work, tasks)
    )
    n = len(pool)
    selected = np.zeros(n, dtype=bool)
    vaw, variance, delta, weight = (np.full(n, np.nan) for _ in range(4))
    cell = np.full(n, -1, np.int32)
    selections, report = {}, []
    for (category, index), (selection, scored, dependence) in zip(tasks, results, strict=True):
        kept = index[selection.index]
        selected[kept] = True
        variance[index], delta[index], vaw[index] = found.variance[index], dependence, scored
        weight[kept] = 1.0 if selection.weight is None else selection.weight
        if selection.cell is not None:
            cell[kept] = selection.cell
        selections[category] = (index, selection)
        in_cells = int((cell[kept] >= 0).sum())
        told = list(selection.details.get("benchmarks", []))
        report.append(
            {
                "category": slices.categories[category],
                "n": len(index),
                "K": len(kept),
                "filled_by": _filled_by(told, in_cells),
                "in_cells": in_cells,
                "benchmarks": told,
                "notes": list(selection.notes),
            }
        )
    columns = ["category", "n", "K", "filled_by", "in_cells", "benchmarks", "notes"]
    table = pd.DataFrame(report, columns=columns)
    return Pruning(selected, vaw, variance, delta, cell, weight, table, selections)


def _select(work: _Work, task: tuple[int, NDArray[np.int64]]) -> tuple[Selection, Floats, Floats]:
    """The choice in one category, and v̂ + α/√M δ and δ of its whole pool."""
    _, index = task
    pool = Pool.of_panel(
        work.panel,
        index,
        models=work.models,
        text=work.text,
        vision_text=work.vision_text,
        alpha=work.alpha,
        valid=work.valid,
        variance=work.variance,
    )
    selection = get_selector(work.selector).select(pool, budget(len(index), work.retention, work.floor), seed=work.seed)
    return selection, pool.vaw.round(DECIMALS), pool.delta.round(DECIMALS)


def _filled_by(told: Sequence[Mapping[str, Any]], in_cells: int) -> str:
    """What filled a budget, by what the selector tells of each benchmark, or by whether anything is in a cell."""
    spaces = list(dict.fromkeys(str(row["space"]) for row in told if "space" in row))
    if not spaces:
        return "cells" if in_cells else "score alone"
    return "; ".join("score alone" if space == "none" else f"cells on {space}" for space in spaces)


def pruned_scores(panel: xr.Dataset, slices: Slices, pruning: Pruning, models: Models = None) -> Floats:
    """Score of every model in every pruned category, (M, C) float64: the selector's estimate from the kept items.

    NaN for a category without a pool, and for a model without a valid score in one. ``models`` may be any models, those
    that chose the items or others.
    """
    plain = all(
        selection.weight is None and type(selection).estimate is Selection.estimate
        for _, selection in pruning.selections.values()
    )
    if plain:  # one pass over the scores, whatever the number of categories
        return slice_scores(panel, slices.category_of_item, len(slices.categories), pruning.selected, models)
    height = panel.sizes["model"] if models is None else len(models)
    scores = np.full((height, len(slices.categories)), np.nan)
    for category, (index, selection) in pruning.selections.items():
        kept = read_columns(panel, index[selection.index], models=models)
        if type(selection) is Selection:
            scores[:, category] = replace(selection, index=np.arange(kept.shape[1])).estimate(kept)
        else:
            whole = np.full((height, len(index)), np.nan)
            whole[:, selection.index] = kept
            scores[:, category] = selection.estimate(whole)
    return scores
