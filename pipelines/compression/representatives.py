"""Stage 1: one benchmark stands for its category, with items of the others where it must."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.columns import Models, read_columns
from optotype.pipelines.compression.item_statistics import ItemStatistics, item_statistics
from optotype.pipelines.compression.leaderboard import (
    LEAST_MODELS,
    group_totals,
    nan_mean,
    slice_scores,
    standardised,
)
from optotype.pipelines.compression.slices import Slices
from optotype.pipelines.kernels.spearman import SAME, spearman, spearman_rows
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["RHO_TARGET", "Representatives", "representatives"]

RHO_TARGET = 0.95

_READ = 16384  # candidate items read at a time: tens of megabytes for hundreds of models
_RANKED = 1024  # prefixes ranked at a time

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Representatives:
    """What stage 1 keeps.

    Attributes
    ----------
    pool : ndarray (n,) bool
        Items in the pool of their category: all cleaned items of its representative, and its supplements.
    report : DataFrame
        A row for each category with a cleaned item, in catalogue order: ``category, representative, rho, candidates,
        supplements, rho_pooled, items, warnings``. ``candidates`` is a dict from each benchmark to its ρ against the
        category mean (None where undefined), ``supplements`` a number of items, ``rho`` and ``rho_pooled`` are NaN
        where undefined, ``warnings`` is a list of str.
    """

    pool: NDArray[np.bool_]
    report: pd.DataFrame


def representatives(
    panel: xr.Dataset,
    slices: Slices,
    keep: NDArray[np.bool_],
    *,
    target: float = RHO_TARGET,
    models: Models = None,
    statistics: ItemStatistics | None = None,
) -> Representatives:
    """Choose a representative for each category, and supplement it while its ranking is off (Sections 4.2, C.2).

    The category mean is the mean over its benchmarks of their z-scored per-model scores (population sd); a constant
    benchmark is left out of it, with a warning. The representative has the highest Spearman ρ against it, ties (within
    1e-12) by catalogue order. Where ρ < ``target``, items of the category's other benchmarks are added in descending
    variance, ties by benchmark and item index; after each, the ρ between the item-pooled mean and the category mean
    is taken. The first prefix that reaches ``target`` is kept, else the shortest one with the highest ρ, the
    representative alone among them.

    Where the paper is silent: ρ is taken over the models with a score on both sides and needs 3 of them; without any
    defined ρ the first benchmark (in catalogue order) with a score stands for the category, ρ is NaN and nothing is
    added; items without a valid score are no candidates, as they change nothing.

    Parameters
    ----------
    panel : Dataset
    slices : Slices
    keep : ndarray (n,) bool
        Items that stage 0 kept.
    target : float
        At most 1.
    models : sequence of int, optional
        Positions of the models that choose; all by default.
    statistics : ItemStatistics, optional
        Of the same models, if known already.

    Raises
    ------
    UsageError
        ``target`` out of range.
    """
    import pandas as pd

    if not (math.isfinite(target) and -1 <= target <= 1):
        raise UsageError(f"rho target is between -1 and 1 (0.95 by default); got {target}")
    found = item_statistics(panel, models) if statistics is None else statistics
    scores = slice_scores(panel, slices.of_item, len(slices), keep, models)
    sizes = np.bincount(slices.of_item[keep], minlength=len(slices))
    pool = np.zeros(len(keep), dtype=bool)
    rows = []
    for number, category in enumerate(slices.categories):
        members = [member for member in slices.of_category(number) if sizes[member]]
        if not members:
            continue
        row, notes, chosen, mean = _choose(scores, slices, members)
        pool |= keep & (slices.of_item == chosen)
        others = keep & np.isin(slices.of_item, [member for member in members if member != chosen])
        added = np.empty(0, np.int64)
        alone = pooled = row["rho"]
        if alone < target and others.any():  # NaN compares as false
            order = _falling(np.flatnonzero(others & (found.valid > 0)), found.variance)
            own = np.flatnonzero(keep & (slices.of_item == chosen))
            added, pooled = _supplement(panel, own, order, mean, alone, target, models)
        pool[added] = True
        if pooled < target:
            notes.append(f"{category}: ρ stays at {pooled:.3f}, below {target:g}")
        rows.append(
            {
                "category": category,
                **row,
                "supplements": len(added),
                "rho_pooled": pooled,
                "items": int(sizes[chosen]) + len(added),
                "warnings": notes,
            }
        )
    columns = ["category", "representative", "rho", "candidates", "supplements", "rho_pooled", "items", "warnings"]
    return Representatives(pool, pd.DataFrame(rows, columns=columns))


def _choose(scores: Floats, slices: Slices, members: list[int]) -> tuple[dict[str, Any], list[str], int, Floats]:
    """The representative of a category: what to report of it, warnings, its slice, and the category mean."""
    own = scores[:, members]
    standard = standardised(own)
    mean = nan_mean(standard)
    where = slices.category[members[0]]
    notes = []
    rhos = np.full(len(members), np.nan)
    for place, member in enumerate(members):
        there = np.isfinite(own[:, place])
        name = slices.benchmark[member]
        if not there.any():
            notes.append(f"{where}: no model has a score on {name}")
        elif np.isnan(standard[:, place]).all():
            notes.append(f"{where}: every model scores the same on {name}; it is left out of the category mean")
        if (there & np.isfinite(mean)).sum() >= LEAST_MODELS:
            rhos[place] = spearman(own[:, place], mean)
    if np.isfinite(rhos).any():
        best = int(np.flatnonzero(rhos >= np.nanmax(rhos) - SAME)[0])
    else:
        best = int(np.argmax(np.isfinite(own).any(axis=0)))
        notes.append(f"{where}: no ρ against the category mean is defined; the first benchmark stands for it")
    names = [slices.benchmark[member] for member in members]
    row: dict[str, Any] = {
        "representative": names[best],
        "rho": float(rhos[best]),
        "candidates": {
            name: float(rho) if np.isfinite(rho) else None for name, rho in zip(names, rhos.tolist(), strict=True)
        },
    }
    return row, notes, members[best], mean


def _falling(items: NDArray[np.int64], variance: Floats) -> NDArray[np.int64]:
    """Items by falling variance, ties in catalogue order."""
    order: NDArray[np.int64] = items[np.argsort(-variance[items], kind="stable")]
    return order


def _supplement(
    panel: xr.Dataset,
    own: NDArray[np.int64],
    order: NDArray[np.int64],
    mean: Floats,
    alone: float,
    target: float,
    models: Models,
) -> tuple[NDArray[np.int64], float]:
    """The prefix of ``order`` that is added to the items ``own``, and the ρ that the pool has then."""
    group = np.full(panel.sizes["item"], -1)
    group[own] = 0
    sums, counts = (total[:, 0] for total in group_totals(panel, group, 1, models))
    best, length = alone, 0
    for first in range(0, len(order), _READ):
        scores = read_columns(panel, order[first : first + _READ], models=models)
        for start in range(0, scores.shape[1], _RANKED):
            block = scores[:, start : start + _RANKED].T
            there = np.isfinite(block)
            running = sums + np.cumsum(np.where(there, block, 0), axis=0)
            number = counts + np.cumsum(there, axis=0)
            pooled = np.where(number > 0, running / np.maximum(number, 1), np.nan)
            rhos = spearman_rows(pooled, mean[None])
            reached = np.flatnonzero(rhos >= target)
            if len(reached):
                end = first + start + int(reached[0]) + 1
                return order[:end], float(rhos[reached[0]])
            if np.isfinite(rhos).any() and np.nanmax(rhos) > best + SAME:
                place = int(np.flatnonzero(rhos >= np.nanmax(rhos) - SAME)[0])
                best, length = float(rhos[place]), first + start + place + 1
            sums, counts = running[-1], number[-1]
    return order[:length], best
