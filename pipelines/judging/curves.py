"""How a correlation moves with the pool of encoders, with each setting of a metric, and with what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.judging.correlations import STATISTICS, levelled
from optotype.pipelines.judging.joining import FEWEST, MEAN, Joined
from optotype.pipelines.judging.results import Result
from optotype.schemas.errors import UsageError

__all__ = ["COLUMNS", "CURVES", "chosen_curves", "flops_curve", "pool_curve", "setting_curves", "sizes"]

CURVES = ("pool", "n", "k", "eps", "gamma", "layer", "flops")
COLUMNS = (
    "curve",
    "metric",
    "label",
    "model",
    "x",
    "rho",
    "rho_low",
    "rho_high",
    "r",
    "r_low",
    "r_high",
    "band",
    "encoders",
    "of",
)
_KEYS = {"n": ("n",), "k": ("k",), "eps": ("eps",), "gamma": ("gamma",), "layer": ("states_layer", "features_layer")}
_MOST_SIZES = 40
_LEVEL = (2.5, 97.5)

Floats = NDArray[np.float64]
Row = dict[str, Any]


def chosen_curves(asked: Sequence[str] | None, varied: Sequence[str], costs: bool) -> list[str]:
    """Curves that are drawn: those asked for, else all that the results allow.

    Raises
    ------
    UsageError
        One that is asked for, and nothing varies along it.
    """
    there = ["pool", *(name for name in CURVES[1:-1] if set(_KEYS[name]) & set(varied))]
    there += ["flops"] if costs else []
    if asked is None:
        return there
    for name in asked:
        if name not in CURVES:
            raise UsageError(f"a curve is one of {', '.join(CURVES)}; got {name!r}")
        if name == "flops" and name not in there:
            raise UsageError(
                "no FLOPs are known, so there is no curve over them",
                hint="Judge in the project that holds the arrays, or tell channels and tokens in a table: --costs FILE",
            )
        if name not in there:
            sweep = "" if name == "layer" else f": optotype rank --sweep {'images' if name == 'n' else name}=V1,V2"
            raise UsageError(
                f"no result differs from another in {' or '.join(_KEYS[name])} alone, so there is no curve over it",
                hint=f"Rank with several values{sweep}",
            )
    return [name for name in CURVES if name in asked]


def sizes(encoders: int, most: int = _MOST_SIZES) -> list[int]:
    """Sizes of pools from three to all, at most ``most`` of them, evenly spread."""
    count = min(most, encoders - FEWEST + 1)
    return sorted({round(float(value)) for value in np.linspace(FEWEST, encoders, count)})


def pool_curve(joined: Joined, repeats: int, seed: int) -> list[Row]:
    """Both correlations of each main result over random pools that grow by one encoder at a time.

    A repeat is one random order of all encoders; the pool of size m is its first m. The same orders serve all metrics
    and language models. ``rho`` is the mean over repeats, ``rho_low`` and ``rho_high`` are the 2.5th and 97.5th
    percentile of the repeats: the spread between pools, which ends at 0 where the pool is whole, and no confidence
    interval. ``of`` is the number of repeats; those in which a side is all equal have no correlation and are left out.
    """
    rng = np.random.default_rng(derived_seed(seed, "judge", "pool"))
    count = len(joined.encoders)
    orders = rng.permuted(np.tile(np.arange(count), (repeats, 1)), axis=1)
    scores, outcomes = levelled(joined.scores), levelled(joined.outcomes)
    rows: list[Row] = []
    for number, result in enumerate(joined.results):
        if not result.main:
            continue
        for size in sizes(count):
            part = orders[:, :size]
            found = {
                name: np.stack(
                    [
                        correlate(scores[number, m][part], outcomes[m][part])
                        if not np.isnan(joined.scores[number, m]).any()
                        else np.full(repeats, np.nan)
                        for m in range(len(joined.models))
                    ]
                )
                for name, correlate in STATISTICS.items()
            }
            for m, model in enumerate((*joined.models, MEAN)):
                values = {name: own.mean(axis=0) if model == MEAN else own[m] for name, own in found.items()}
                told = {key: entry for name, own in values.items() for key, entry in _spread(name, own).items()}
                rows.append(_row("pool", result, model, size, told, "pools", size, _count(values["rho"])))
    return rows


def setting_curves(joined: Joined, judged: Mapping[tuple[str, str], Row], names: Sequence[str]) -> list[Row]:
    """Results that differ from the main one of their metric in one setting alone, by that setting.

    Parameters
    ----------
    joined : Joined
    judged : mapping
        The judged row of each (label of a result, language model or `MEAN`): its correlations and their intervals.
    names : sequence of str
        Of `CURVES`.
    """
    rows: list[Row] = []
    keys = [(name, key) for name in names for key in _KEYS.get(name, ())]
    for name, key in keys:
        for main in (result for result in joined.results if result.main and key in result.varied):
            line = [other for other in joined.results if other.metric == main.metric and _alone(main, other, key)]
            line = [each for each in line if isinstance(each.varied[key], (int, float))]
            for each in sorted(line, key=lambda each: float(each.varied[key])) if len(line) > 1 else ():
                rows += _judged_rows(name, each, each.varied[key], joined.models, judged)
    return rows


def _alone(main: Result, other: Result, key: str) -> bool:
    """Whether two results differ in ``key`` at most; layers may come with language models of their own."""
    return all(other.varied[name] == main.varied[name] for name in main.varied if name != key)


def flops_curve(joined: Joined, judged: Mapping[tuple[str, str], Row], costs: Mapping[str, Row]) -> list[Row]:
    """Correlations of every result by the FLOPs that its scores of the whole pool cost.

    With encoding where that is known for all of them, without it for none otherwise; see
    `optotype.pipelines.judging.costs.cost_rows`.
    """
    everything = all(row["total"] is not None for row in costs.values() if row["scoring"] is not None)
    rows: list[Row] = []
    for result in joined.results:
        cost = costs[result.label]["total" if everything else "scoring"]
        if cost is not None:
            rows += _judged_rows("flops", result, cost, joined.models, judged)
    return sorted(rows, key=lambda row: (row["model"] != MEAN, row["model"], row["x"], row["label"]))


def _judged_rows(
    curve: str, result: Result, x: float, models: Sequence[str], judged: Mapping[tuple[str, str], Row]
) -> list[Row]:
    """The point of a result on a curve, for each language model that it speaks of and their mean."""
    found = []
    for model in (*models, MEAN):
        told = judged[result.label, model]
        if told["rho"] is not None:
            found.append(_row(curve, result, model, x, told, "bootstrap", told["encoders"], told["rho_resamples"]))
    return found


def _row(
    curve: str, result: Result, model: str, x: float, told: Mapping[str, Any], band: str, encoders: int, of: int
) -> Row:
    head = {"curve": curve, "metric": result.metric, "label": result.label, "model": model, "x": x}
    body = {f"{name}{end}": told[f"{name}{end}"] for name in STATISTICS for end in ("", "_low", "_high")}
    return {**head, **body, "band": band, "encoders": encoders, "of": of}


def _spread(name: str, values: Floats) -> Row:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    low, high = np.percentile(finite, _LEVEL)
    return {name: float(finite.mean()), f"{name}_low": float(low), f"{name}_high": float(high)}


def _count(values: Floats) -> int:
    return int(np.isfinite(values).sum())
