"""Predictions and outcomes joined by the names of encoder and language model, strict about what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.judging.correlations import levelled
from optotype.pipelines.judging.predictions import ATTRIBUTES, Outcome
from optotype.pipelines.judging.results import Result
from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited

__all__ = ["ANY_MODEL", "FEWEST", "MEAN", "Joined", "join"]

FEWEST = 3
ANY_MODEL = "any language model"
MEAN = "mean"
"""What stands for a language model in rows of the mean over all of them."""
_MOST = 30

Pair = tuple[str, str]


@dataclass(frozen=True)
class Joined:
    """What is judged, over one pool of encoders.

    Attributes
    ----------
    encoders, models : tuple of str
        Sorted.
    benchmarks : tuple of str
        Those whose mean the outcome is.
    outcomes : ndarray (models, encoders) float64
    results : tuple of Result
    scores : ndarray (results, models, encoders) float64
        NaN for a language model that a result does not speak of (one of several text layers); never in part.
    notes : tuple of str
        What was left out.
    """

    encoders: tuple[str, ...]
    models: tuple[str, ...]
    benchmarks: tuple[str, ...]
    outcomes: NDArray[np.float64]
    results: tuple[Result, ...]
    scores: NDArray[np.float64]
    notes: tuple[str, ...]


def join(
    results: Sequence[Result],
    outcomes: Sequence[Outcome],
    *,
    common: bool = False,
    partial: bool = False,
    found: Sequence[Problem] = (),
) -> Joined:
    """Scores and outcomes of the same pairs; every order of the rows gives the same.

    Parameters
    ----------
    results : sequence of Result
    outcomes : sequence of Outcome
        Several benchmarks of a pair are averaged without weights. One without a language model holds for all: those of
        the other outcomes, else those of the predictions.
    common : bool
        Judge over the encoders and language models that outcomes and all results have, and note what is left out,
        instead of asking for equal sets. A pair without a score on one of the benchmarks has no outcome then.
    partial : bool
        Let a metric be silent on a whole language model (one that cannot be trained with it, say), which is noted; it
        has no mean over language models then. What a metric says of a language model has to be whole all the same.
    found : sequence of Problem
        Those of `optotype.pipelines.judging.results.results`, to be listed with the others.

    Raises
    ------
    InvalidDataError
        Everything at once: pairs that are missing, unknown or there twice, benchmarks that a pair lacks, sides that do
        not vary over the encoders (to 1e-12 of their largest value), fewer than three encoders.
    """
    problems = list(found)
    notes: list[str] = []
    table, benchmarks, models = _outcomes(outcomes, results, problems, notes if common else None)
    if MEAN in models:
        message = f"{MEAN!r} stands for the mean over language models: rename it with --rename {MEAN}=NAME"
        problems.append(Problem("language models", "reserved-name", message))
    predicted = [_predicted(result, models) for result in results]
    if common:
        table, predicted, left = _shared(table, predicted, results, partial)
        notes += left
        models = sorted({model for _, model in table})
    encoders = sorted({encoder for encoder, _ in table})
    problems += [
        Problem(f"downstream, {encoder} x {model}", "missing", "has no downstream score")
        for encoder in encoders
        for model in models
        if (encoder, model) not in table
    ]
    spoken = _spoken(results, predicted)
    for result, own in zip(results, predicted, strict=True):
        covered = {model for _, model in own}
        wanted = [model for model in models if model in covered or model not in spoken[result.metric]]
        by_layer = any(name in result.varied for name in ATTRIBUTES)
        silent = [model for model in models if model not in covered]
        if partial and silent and covered and not by_layer:
            notes.append(f"{result.label} has no mean, as it says nothing of {', '.join(silent)}")
            wanted = [model for model in models if model in covered]
        elif not by_layer:
            wanted = list(models)
        problems += _gaps(result.label, own, table, wanted)
    if encoders and len(encoders) < FEWEST:
        problems.append(
            Problem("encoders", "too-few", f"{len(encoders)} ({', '.join(encoders)}); {FEWEST} or more are needed")
        )
    if not encoders:
        problems.append(Problem("encoders", "too-few", "no encoder has predictions and an outcome; names are compared"))
    made = np.full((len(models), len(encoders)), np.nan)
    scores = np.full((len(results), len(models), len(encoders)), np.nan)
    for m, model in enumerate(models):
        for e, encoder in enumerate(encoders):
            made[m, e] = table.get((encoder, model), np.nan)
            for number, pairs in enumerate(predicted):
                scores[number, m, e] = pairs.get((encoder, model), np.nan)
    problems += _constant("downstream", models, made)
    for number, result in enumerate(results):
        problems += _constant(result.label, models, scores[number])
    if problems:
        raise InvalidDataError(
            "These cannot be judged:",
            limited(problems, _MOST),
            hint=_hint(common, partial),
        )
    return Joined(tuple(encoders), tuple(models), tuple(benchmarks), made, tuple(results), scores, tuple(notes))


def _hint(common: bool, partial: bool) -> str:
    """What may be typed next, without what was typed already."""
    ways = [] if common else ["judge over what all sides have with --common"]
    ways += [] if partial else ["let metrics be silent on a whole language model with --partial"]
    ways.append("name what is called differently with --rename FROM=TO")
    text = f"{', '.join(ways)}, or choose metrics with --metric."
    return text[0].upper() + text[1:]


def _outcomes(
    outcomes: Sequence[Outcome],
    results: Sequence[Result],
    problems: list[Problem],
    left_out: list[str] | None,
) -> tuple[dict[Pair, float], list[str], list[str]]:
    """Mean outcome of each pair, the benchmarks, the language models.

    A pair that lacks a benchmark is a problem or, with ``left_out``, has no outcome, which is noted there.
    """
    named = {each.model for each in outcomes if each.model is not None}
    told = named or {each.model for result in results for each in result.predictions if each.model is not None}
    models = sorted(told) or [ANY_MODEL]
    benchmarks = sorted({each.benchmark for each in outcomes})
    cells: dict[Pair, dict[str, float]] = {}
    places: dict[tuple[str, str, str], str] = {}
    for each in outcomes:
        for model in models if each.model is None else [each.model]:
            own = cells.setdefault((each.encoder, model), {})
            if each.benchmark in own:
                on = f" on {each.benchmark}" if len(benchmarks) > 1 else ""
                where = f"downstream, {each.encoder} x {model}"
                both = f"{places[each.encoder, model, each.benchmark]} and {each.place}"
                problems.append(Problem(where, "duplicate", f"has two scores{on}: {both}"))
            own[each.benchmark] = each.score
            places[each.encoder, model, each.benchmark] = each.place
    gaps = []
    for (encoder, model), own in sorted(cells.items()):
        lacking = [name for name in benchmarks if name not in own]
        if lacking and left_out is not None:
            gaps.append(f"{encoder} x {model} ({', '.join(lacking)})")
            del cells[encoder, model]
        elif lacking:
            message = f"has no score on {', '.join(lacking)}; a mean over other benchmarks is no outcome to compare"
            problems.append(Problem(f"downstream, {encoder} x {model}", "missing-benchmark", message))
    if gaps and left_out is not None:
        left_out.append(f"{len(gaps)} pair(s) lack a benchmark, so they have no outcome: {', '.join(gaps)}")
    means = {pair: _mean([own[name] for name in sorted(own)]) for pair, own in cells.items()}
    return means, benchmarks, models


def _mean(values: Sequence[float]) -> float:
    """The mean, of values near the largest float, too."""
    with np.errstate(over="ignore"):
        mean = float(np.mean(values))
    return mean if np.isfinite(mean) else float(np.sum(np.asarray(values) / len(values)))


def _predicted(result: Result, models: Sequence[str]) -> dict[Pair, float]:
    """Score of each pair; a score for every language model comes for each."""
    found: dict[Pair, float] = {}
    for each in result.predictions:
        for model in models if each.model is None else [each.model]:
            found[each.encoder, model] = each.score
    return found


def _spoken(results: Sequence[Result], predicted: Sequence[dict[Pair, float]]) -> dict[str, set[str]]:
    """Language models that any result of a metric speaks of."""
    spoken: dict[str, set[str]] = {}
    for result, found in zip(results, predicted, strict=True):
        spoken.setdefault(result.metric, set()).update(model for _, model in found)
    return spoken


def _gaps(label: str, found: dict[Pair, float], table: dict[Pair, float], wanted: Sequence[str]) -> list[Problem]:
    models = set(wanted)
    missing = sorted(pair for pair in table if pair[1] in models and pair not in found)
    unknown = sorted(pair for pair in found if pair not in table)
    lines = [(pair, "missing", "has a downstream score and no prediction") for pair in missing]
    lines += [(pair, "unknown", "has a prediction and no downstream score") for pair in unknown]
    return [Problem(f"{label}, {encoder} x {model}", kind, message) for (encoder, model), kind, message in lines]


def _constant(label: str, models: Sequence[str], values: NDArray[np.float64]) -> list[Problem]:
    problems = []
    for model, row in zip(models, values, strict=True):
        there = row[~np.isnan(row)]
        if len(there) > 1 and np.ptp(levelled(there)) == 0:
            message = f"all {len(there)} encoders have {there[0]:g}; what does not vary foretells nothing"
            problems.append(Problem(f"{label}, {model}", "constant", message))
    return problems


def _shared(
    table: dict[Pair, float], predicted: Sequence[dict[Pair, float]], results: Sequence[Result], partial: bool
) -> tuple[dict[Pair, float], list[dict[Pair, float]], list[str]]:
    """All sides over the language models (unless ``partial``), then the encoders, that all of them have."""
    spoken = _spoken(results, predicted)
    models = {model for _, model in table}
    models = models if partial else models.intersection(*spoken.values())
    sides = [{pair for pair in table if pair[1] in models}]
    sides += [{pair for pair in found if pair[1] in models} for found in predicted]
    kept = set.intersection(*(_whole(side) for side in sides)) if models else set()

    def inside(pairs: Iterable[Pair]) -> set[Pair]:
        return {pair for pair in pairs if pair[0] in kept and pair[1] in models}

    everything = set(table).union(*predicted)
    notes = []
    for what, names, own in (("encoder", kept, 0), ("language model", models, 1)):
        left = sorted({pair[own] for pair in everything} - set(names))
        if left:
            notes.append(f"left out, as not all sides have them: {len(left)} {what}(s): {', '.join(left)}")
    chosen = {pair: table[pair] for pair in inside(table)}
    return chosen, [{pair: found[pair] for pair in inside(found)} for found in predicted], notes


def _whole(pairs: set[Pair]) -> set[str]:
    """Encoders that are there for every language model of ``pairs``."""
    models = {model for _, model in pairs}
    counted: dict[str, set[str]] = {}
    for encoder, model in pairs:
        counted.setdefault(encoder, set()).add(model)
    return {encoder for encoder, own in counted.items() if own == models}
