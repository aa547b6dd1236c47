"""The capability frontier: items that most models of every family fail, and that still tell models apart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.axes import AxisGain, axis_gains, largest_gain
from optotype.pipelines.compression.columns import map_blocks
from optotype.pipelines.compression.leaderboard import check_models, slice_scores
from optotype.pipelines.compression.slices import slices
from optotype.pipelines.kernels.item_moments import DECIMALS, ROUNDING, Moments, item_moments, row_group_means
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Frontier", "frontier"]

_HARD = 0.5
_BAND = (0.10, 0.50)
_LEAST_VALID = 2

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Frontier:
    """Items of the frontier, and how they were found.

    Attributes
    ----------
    items : DataFrame
        In catalogue order: ``benchmark, item_id, category, mean, variance, score, families_below, rank``.
        ``score`` is v̂_i (1 - x̄_i), ``families_below`` the number of families with a valid score, all of which have
        a mean of at most 0.5, ``rank`` is 1 for the largest score.
    candidates, in_band, kept : int
        Items with 2 valid models or more that every family fails on average; those of them with a panel mean in
        [0.10, 0.50]; those that are kept.
    gain : float
        Share of the items in band.
    axis : AxisGain or None
        Where the gain is from; None if it was given.
    axes : list of AxisGain
        All that are declared.
    families : int
    warnings : list of str
    """

    items: pd.DataFrame
    candidates: int
    in_band: int
    kept: int
    gain: float
    axis: AxisGain | None
    axes: list[AxisGain]
    families: int
    warnings: list[str] = field(default_factory=list)


def frontier(
    panel: xr.Dataset, *, gain: float | None = None, axis: str | None = None, category_by: str = "category"
) -> Frontier:
    """The capability frontier of a panel (Section I.2).

    Round-half-up(n_band · gain) items of the band are kept, the largest v̂_i (1 - x̄_i) first, ties (12 decimals) by
    catalogue order. A family without a valid score on an item is ignored there. Thresholds allow for 1e-6, as scores
    are stored as float32.

    Parameters
    ----------
    panel : Dataset
    gain : float, optional
        Above 0 and at most 1. By default the largest gain per step along the declared axes (`axis_gains`).
    axis : str, optional
        That axis alone.
    category_by : str
        As for `optotype.pipelines.compression.slices.slices`; only for the column.

    Raises
    ------
    UsageError
        ``gain`` out of range, both, or neither and no axis is declared; the axis does not gain.
    NotFoundError
        No such axis.
    InvalidDataError
        No model has scores; an axis that is not ``name:position``.
    """
    check_models(panel)
    if gain is not None and axis is not None:
        raise UsageError("give a gain or an axis, not both")
    if gain is not None and not (math.isfinite(gain) and 0 < gain <= 1):
        raise UsageError(f"a gain is a share of the items, above 0 and at most 1; got {gain}")
    cut = slices(panel, category_by)
    axes, warnings = _axes(panel)
    chosen = None if gain is not None else largest_gain(axes, axis)
    share = chosen.gain if chosen is not None else float(gain or 0)
    family, told = _families(panel)
    parts = map_blocks(panel, _of_block, extra=family)
    moments = [part[0] for part in parts]
    valid, mean, variance = (
        np.concatenate([getattr(part, name) for part in moments]) for name in ("valid", "mean", "variance")
    )
    scored, hardest = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
    candidate = (valid >= _LEAST_VALID) & (hardest <= _HARD + ROUNDING)
    band = candidate & (mean >= _BAND[0] - ROUNDING) & (mean <= _BAND[1] + ROUNDING)
    size = math.floor(round(int(band.sum()) * share, 9) + 0.5)
    if not size:
        told.append(f"{int(band.sum())} items are in band, {size} of them are kept")
    score = (variance * (1 - mean)).round(DECIMALS)
    inside = np.flatnonzero(band)
    falling = inside[np.argsort(-score[inside], kind="stable")][:size]
    rank = np.zeros(len(score), np.int64)
    rank[falling] = np.arange(1, len(falling) + 1)
    kept = np.sort(falling)
    return Frontier(
        items=_table(panel, cut.category, cut.of_item, kept, mean, variance, score, scored, rank),
        candidates=int(candidate.sum()),
        in_band=len(inside),
        kept=len(kept),
        gain=share,
        axis=chosen,
        axes=axes,
        families=int(family.max(initial=-1)) + 1,
        warnings=[*told, *warnings],
    )


def _of_block(scores: Floats, family: NDArray[np.int64]) -> tuple[Moments, NDArray[np.int32], Floats]:
    """Moments of a chunk, families with a score on each item, and the highest mean of a family (-inf without)."""
    means = row_group_means(scores, family)
    there = np.isfinite(means)
    return item_moments(scores), there.sum(axis=0, dtype=np.int32), np.where(there, means, -np.inf).max(axis=0)


def _families(panel: xr.Dataset) -> tuple[NDArray[np.int64], list[str]]:
    """Number of each model's family, and what to say of models without one."""
    models = [str(name) for name in panel["model"].to_numpy()]
    given = [str(name) for name in panel["family"].to_numpy()] if "family" in panel.coords else [""] * len(models)
    alone = sum(not name for name in given)
    keys = [("family", name) if name else ("model", model) for name, model in zip(given, models, strict=True)]
    number = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    told = []
    if alone == len(models):
        told = ["the models have no families: each model is its own"]
    elif alone:
        told = [f"{alone} model(s) have no family: each is its own"]
    return np.array([number[key] for key in keys], dtype=np.int64), told


def _axes(panel: xr.Dataset) -> tuple[list[AxisGain], list[str]]:
    if "axis" not in panel.coords or not any(panel["axis"].to_numpy()):
        return [], []
    by_benchmark = slices(panel, "benchmark")
    scores = slice_scores(panel, by_benchmark.of_item, len(by_benchmark))
    models, texts = ([str(value) for value in panel[name].to_numpy()] for name in ("model", "axis"))
    return axis_gains(models, texts, scores)


def _table(
    panel: xr.Dataset,
    category: tuple[str, ...],
    of_item: NDArray[np.int32],
    kept: NDArray[np.int64],
    mean: Floats,
    variance: Floats,
    score: Floats,
    scored: NDArray[np.int32],
    rank: NDArray[np.int64],
) -> Any:
    import pandas as pd

    return pd.DataFrame(
        {
            "benchmark": panel["benchmark"].to_numpy()[kept],
            "item_id": panel["item"].to_numpy()[kept],
            "category": np.array(category, dtype=object)[of_item[kept]],
            "mean": mean[kept],
            "variance": variance[kept],
            "score": score[kept],
            "families_below": scored[kept],
            "rank": rank[kept],
        }
    )
