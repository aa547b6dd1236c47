"""Metrics judged: how their scores correlate with what encoders reach downstream, with intervals, curves and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.judging.correlations import EXACT, STATISTICS, critical, difference_p, permutation_p
from optotype.pipelines.judging.costs import Known, cost_rows
from optotype.pipelines.judging.curves import chosen_curves, flops_curve, pool_curve, setting_curves
from optotype.pipelines.judging.flops import ENCODING, SYMBOLS
from optotype.pipelines.judging.joining import MEAN, Joined, join
from optotype.pipelines.judging.predictions import Outcome, Prediction
from optotype.pipelines.judging.resampling import against_best, mean_over_models, resampled, with_interval
from optotype.pipelines.judging.results import Result, results
from optotype.pipelines.progress import SILENT, Progress
from optotype.schemas.errors import NotFoundError, UsageError, did_you_mean

__all__ = ["JUDGEMENT_FORMAT", "KIND", "ROW_COLUMNS", "SMALL", "judge"]

JUDGEMENT_FORMAT = 1
KIND = "judgement"
SMALL = 30
"""Encoders below which a pool is called small."""

ROW_COLUMNS = (
    "metric",
    "label",
    "main",
    "model",
    "encoders",
    "rho",
    "rho_low",
    "rho_high",
    "rho_resamples",
    "rho_p",
    "r",
    "r_low",
    "r_high",
    "r_resamples",
    "r_p",
    "p_kind",
)
_MOST_RESAMPLES = 1_000_000

Row = dict[str, Any]


def judge(
    predictions: Sequence[Prediction],
    outcomes: Sequence[Outcome],
    *,
    metrics: Sequence[str] | None = None,
    curves: Sequence[str] | None = None,
    bootstrap: int = 1000,
    pool_repeats: int = 100,
    seed: int = 0,
    common: bool = False,
    partial: bool = False,
    known: Mapping[str, Known] | None = None,
    progress: Progress | None = None,
) -> Row:
    """Judge every metric, and every setting of it, by what the encoders reach downstream.

    Spearman's ρ (average ranks for ties) and Pearson's r between scores and outcomes over the encoders, for each
    language model and on average over them. Each vector is divided by its largest magnitude and rounded to 12 decimals
    first, so that ties do not hang on the scale of a metric. Intervals are percentiles (2.5,
    97.5) of a bootstrap over encoders, whose resamples serve all metrics and language models alike, so that
    differences between metrics have intervals, too; a resample on which a side is all equal counts for nothing. p is
    two-sided, over all orders of the encoders up to nine, else over 9,999 random ones.

    Parameters
    ----------
    predictions : sequence of Prediction
        Of one metric or several, in any order.
    outcomes : sequence of Outcome
    metrics : sequence of str, optional
        Those judged; default all.
    curves : sequence of str, optional
        Of `optotype.pipelines.judging.curves.CURVES`; default all along which the results vary.
    bootstrap : int
        Resamples; 0 for no intervals.
    pool_repeats : int
        Random orders of the encoders in which pools grow.
    seed : int
        Of resamples, orders and shuffles, each by a seed of its own that is derived from it.
    common, partial : bool
        See `optotype.pipelines.judging.joining.join`.
    known : mapping of str to Known, optional
        Shapes of arrays by encoder and language model, for the FLOPs.
    progress : Progress, optional

    Returns
    -------
    dict
        The document ``judgement``: ``downstream``, ``results``, ``rows`` (`ROW_COLUMNS`; model ``mean`` is the mean
        over the language models; its p shuffles the encoders alike in all of them), ``comparisons``, ``curves``,
        ``costs``, ``points`` (score and outcome of each pair under main settings), ``critical_rho``, ``parameters``,
        ``warnings``.

    Raises
    ------
    NotFoundError
        A metric that no source has.
    UsageError
        A number out of range; a curve along which nothing varies.
    InvalidDataError
        As `optotype.pipelines.judging.joining.join`.
    """
    report = progress or SILENT
    for name, value, fewest in (("bootstrap", bootstrap, 0), ("pool repeats", pool_repeats, 1)):
        if not fewest <= value <= _MOST_RESAMPLES:
            raise UsageError(f"{name} is {fewest} to {_MOST_RESAMPLES:,}, got {value}")
    if seed < 0:
        raise UsageError(f"seed is 0 or more, got {seed}")
    chosen = _chosen(predictions, metrics)
    found, notes, problems = results(chosen)
    joined = join(found, outcomes, common=common, partial=partial, found=problems)
    costs = cost_rows(joined.results, known or {})
    varied = [name for result in joined.results for name in result.varied]
    drawn = chosen_curves(curves, varied, any(row["scoring"] is not None for row in costs.values()))
    report.note(
        f"{len(joined.results)} results of {len({each.metric for each in joined.results})} metrics, "
        f"{len(joined.encoders)} encoders, {len(joined.models)} language models"
    )
    rows, comparisons = _rows(joined, bootstrap, seed)
    least = critical(len(joined.encoders), derived_seed(seed, "judge", "critical"))
    judged = {(row["label"], row["model"]): row for row in rows}
    curve_rows = pool_curve(joined, pool_repeats, seed) if "pool" in drawn else []
    curve_rows += setting_curves(joined, judged, drawn)
    curve_rows += flops_curve(joined, judged, costs) if "flops" in drawn else []
    return {
        "format_version": JUDGEMENT_FORMAT,
        "kind": KIND,
        "parameters": {
            "bootstrap": bootstrap,
            "pool_repeats": pool_repeats,
            "seed": seed,
            "common": common,
            "partial": partial,
            "metrics": list(dict.fromkeys(each.metric for each in joined.results)),
            "curves": drawn,
            "exact_p_up_to": EXACT,
        },
        "downstream": {
            "encoders": list(joined.encoders),
            "models": list(joined.models),
            "benchmarks": list(joined.benchmarks),
            "scores": {
                model: dict(zip(joined.encoders, row.tolist(), strict=True))
                for model, row in zip(joined.models, joined.outcomes, strict=True)
            },
        },
        "critical_rho": least,
        "results": [
            {
                "metric": each.metric,
                "label": each.label,
                "main": each.main,
                "settings": dict(each.settings),
                "varied": dict(each.varied),
            }
            for each in joined.results
        ],
        "rows": rows,
        "comparisons": comparisons,
        "curves": curve_rows,
        "costs": {"symbols": dict(SYMBOLS), "encoding": ENCODING, "rows": list(costs.values())},
        "points": _points(joined),
        "warnings": [*_caveats(joined, rows, least, bootstrap), *notes, *joined.notes],
    }


def _chosen(predictions: Sequence[Prediction], metrics: Sequence[str] | None) -> list[Prediction]:
    if metrics is None:
        return list(predictions)
    there = list(dict.fromkeys(each.metric for each in predictions))
    for name in metrics:
        if name not in there:
            raise NotFoundError(f"no source has a metric {name!r}", hint=did_you_mean(name, there))
    return [each for name in dict.fromkeys(metrics) for each in predictions if each.metric == name]


def _rows(joined: Joined, bootstrap: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Correlations of each result, and the best main result against the others."""
    draws = resampled(joined.scores, joined.outcomes, bootstrap, seed)
    means = {name: mean_over_models(values) for name, values in draws.items()}
    shape = joined.scores.shape[:2]
    shuffles = derived_seed(seed, "judge", "permutation")
    values = {name: np.full(shape, np.nan) for name in STATISTICS}
    rows = []
    for number, result in enumerate(joined.results):
        for m, model in enumerate(joined.models):
            scores, outcomes = joined.scores[number, m], joined.outcomes[m]
            told: Row = {}
            if not np.isnan(scores).any():
                for name, correlate in STATISTICS.items():
                    values[name][number, m] = correlate(scores[None], outcomes[None])[0]
                    p, kind = permutation_p(name, scores, outcomes, shuffles)
                    told[f"{name}_p"], told["p_kind"] = p, kind
            for name in STATISTICS:
                told |= with_interval(name, values[name][number, m], draws[name][number, m])
            rows.append(_row(result, model, len(joined.encoders), told))
        told = {}
        for name in STATISTICS:
            told |= with_interval(name, values[name][number].mean(), means[name][number])
            if not np.isnan(joined.scores[number]).any():
                told[f"{name}_p"], told["p_kind"] = permutation_p(
                    name, joined.scores[number], joined.outcomes, shuffles
                )
        rows.append(_row(result, MEAN, len(joined.encoders), told))
    main = [number for number, result in enumerate(joined.results) if result.main]

    def apart(name: str, one: int, other: int) -> float | None:
        both = joined.scores[main[one]], joined.scores[main[other]]
        return difference_p(name, *both, joined.outcomes, shuffles)

    comparisons = against_best(
        [joined.results[number].label for number in main],
        {name: mean_over_models(own)[main] for name, own in values.items()},
        {name: own[main] for name, own in means.items()},
        apart,
    )
    return rows, comparisons


def _row(result: Result, model: str, encoders: int, told: Mapping[str, Any]) -> Row:
    head = {
        "metric": result.metric,
        "label": result.label,
        "main": result.main,
        "model": model,
        "encoders": encoders,
    }
    return {**head, **{name: told.get(name) for name in ROW_COLUMNS if name not in head}}


def _points(joined: Joined) -> list[Row]:
    return [
        {
            "metric": result.metric,
            "label": result.label,
            "model": model,
            "encoder": encoder,
            "score": float(joined.scores[number, m, e]),
            "downstream": float(joined.outcomes[m, e]),
        }
        for number, result in enumerate(joined.results)
        if result.main
        for m, model in enumerate(joined.models)
        if not np.isnan(joined.scores[number, m]).any()
        for e, encoder in enumerate(joined.encoders)
    ]


def _at_least(rho: float) -> str:
    """``0.81 or more``; there is nothing above 1."""
    return f"{rho:.2f}" if rho > 1 - 1e-9 else f"{rho:.2f} or more"


def _caveats(joined: Joined, rows: Sequence[Row], least: float | None, bootstrap: int) -> list[str]:
    """What has to be known before the numbers are believed."""
    count = len(joined.encoders)
    found = []
    if count < SMALL:
        told = (
            f"Shuffled scores reach a ρ of {_at_least(least)}, up or down, in at most 5 % of the cases"
            if least is not None
            else "No ρ whatever would be rare among shuffled scores (5 %)"
        )
        found.append(
            f"This is a small pool: {count} encoders. {told}; intervals are over encoders and wide, and encoders of "
            "one family are no independent draws."
        )
    kept = [row["rho_resamples"] for row in rows if row["rho"] is not None]
    if bootstrap and kept and min(kept) < bootstrap:
        found.append(
            "On some resamples a side is all equal and has no correlation; intervals rest on the others, "
            f"{min(kept):,} of {bootstrap:,} at the least."
        )
    return found
