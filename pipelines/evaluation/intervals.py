"""Bootstrap intervals of what other units have found: a second round of units."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.pipelines.evaluation.plan import BASELINE, Options
from optotype.pipelines.evaluation.results import place
from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.evaluation.splits import Split
from optotype.pipelines.evaluation.tasks import ALL_ITEMS, scores_of
from optotype.pipelines.evaluation.units import Result, Unit
from optotype.pipelines.evaluation.workspace import Workspace
from optotype.schemas.documents import canonical_json

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["bootstrap_plan", "bootstrap_table", "bootstrap_units"]

Row = dict[str, Any]
Point = tuple[float | None, int]
"""ρ, and the number of items kept."""


def bootstrap_plan(splits: Sequence[Split], panel: xr.Dataset, options: Options) -> dict[str, Row]:
    """Models and families that are resampled on each split, the seed of the draws, and what is compared with."""
    names, families = ([str(value) for value in panel[coord].to_numpy()] for coord in ("model", "family"))
    return {
        split.name: {
            "names": [names[m] for m in split.held_out],
            "families": [families[m] for m in split.held_out],
            "resamples": options.resamples,
            "seed": derived_seed(options.seed, "bootstrap", split.name),
            "baseline": BASELINE if BASELINE in options.selectors else None,
        }
        for split in splits
    }


def bootstrap_units(
    found: Iterable[tuple[Unit, Result]], workspace: Workspace, plan: Mapping[str, Row]
) -> tuple[list[Unit], dict[Unit, Point]]:
    """Units that resample the models of what was found; the scores go through the workspace, as all else does."""
    points: dict[Unit, Point] = {}
    counted: dict[str, dict[str, int]] = {}
    for unit, result in found:
        if unit.selector == ALL_ITEMS:
            continue
        name = scores_of(unit.split, unit.retention, unit.selector)
        order = list(result["scores"])
        scores = np.full((len(order), 2, len(plan[unit.split]["names"])), np.nan)
        for number, category in enumerate(order):
            for side, values in enumerate(result["scores"][category]):
                scores[number, side] = [np.nan if value is None else value for value in values]
        workspace.put(name, scores)
        rows = {row["category"]: row for row in result["rows"]}
        counted[name] = {category: number for number, category in enumerate(order) if rows[category]["counted"]}
        rhos = [rows[category]["rho"] for category in counted[name]]
        members = hashlib.sha256(canonical_json([unit.members, plan[unit.split]])).hexdigest()
        points[Unit("intervals", unit.split, members, unit.retention, unit.selector)] = (
            float(np.mean(rhos)) if rhos else None,
            sum(rows[category]["K"] for category in counted[name]),
        )
    workspace.put_note("counted", counted)
    return list(points), points


def bootstrap_table(found: Iterable[tuple[Unit, Result]], points: Mapping[Unit, Point]) -> list[Row]:
    """One row for each selector and retention on each split, with the point estimate beside its interval."""
    rows = []
    for unit, result in found:
        rho, kept = points[unit]
        models = "held-out" if unit.split == "chronological" else "same as selection"
        head = {"protocol": "intervals", **place(unit), "models": models, "K": kept, "rho": rho}
        rows += [{**head, **row} for row in result["rows"]]
    return rows
