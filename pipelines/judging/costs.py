"""FLOPs of each judged result over the whole pool, out of the shapes of the arrays that it was computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optotype.pipelines.judging.flops import Shape, encoding_flops, formula, metric_flops, options_of
from optotype.pipelines.judging.predictions import Prediction
from optotype.pipelines.judging.results import Result

__all__ = ["Known", "cost_rows"]

Row = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """What is known of an encoder or a language model; None: nothing.

    Attributes
    ----------
    channels : int or None
        Of its patches or states.
    tokens : float or None
        Patches of an image or tokens of a caption, on average.
    parameters : float or None
        Of the forward pass.
    """

    channels: int | None = None
    tokens: float | None = None
    parameters: float | None = None


def cost_rows(results: Sequence[Result], known: Mapping[str, Known]) -> dict[str, Row]:
    """What each result cost, by its label.

    Parameters
    ----------
    results : sequence of Result
    known : mapping of str to Known
        By the name of an encoder or a language model, or by the digest of its array; a name comes first.

    Returns
    -------
    dict
        ``metric, label, formula, pairs``, ``scoring`` (FLOPs of all its scores), ``encoding`` (of the forward passes of
        each encoder, and of each language model that it reads, once) and ``total``; each None where a part of it is
        not known. A vision-only score counts once, however many language models it stands for.
    """
    return {result.label: _row(result, known) for result in results}


def _row(result: Result, known: Mapping[str, Known]) -> Row:
    # A score that read no states was computed once, and stands in a row for each language model.
    once = {(each.encoder, each.model if each.digests.get("states") else None): each for each in result.predictions}
    if not any(each.digests for each in result.predictions):
        once = {(each.encoder, each.model): each for each in result.predictions}
    scoring = _sum([_scoring(each, result, known) for each in once.values()])
    passes: dict[str, tuple[Known, int | None]] = {}
    for each in result.predictions:
        n = each.settings.get("n")
        passes[f"features {each.encoder}"] = (_known(known, each.encoder, each.digests.get("features")), n)
        if each.model is not None and each.digests.get("states") is not None:
            passes[f"states {each.model}"] = (_known(known, each.model, each.digests.get("states")), n)
    encoding = _sum([encoding_flops(own.parameters, own.tokens, n) for own, n in passes.values()])
    total = _sum([scoring, encoding])
    return {
        "metric": result.metric,
        "label": result.label,
        "formula": formula(result.metric),
        "pairs": len(result.predictions),
        "scoring": scoring,
        "encoding": encoding,
        "total": total,
    }


def _scoring(prediction: Prediction, result: Result, known: Mapping[str, Known]) -> float | None:
    if prediction.flops is not None:
        return prediction.flops
    seen = _known(known, prediction.encoder, prediction.digests.get("features"))
    read = _known(known, prediction.model or "", prediction.digests.get("states"))
    shape = Shape(
        n=result.settings.get("n"),
        k=result.settings.get("k"),
        M=seen.tokens,
        d=seen.channels,
        t=read.channels,
        details=prediction.details,
        options=options_of(result.settings),
    )
    return metric_flops(result.metric, shape)


def _known(known: Mapping[str, Known], name: str, digest: str | None) -> Known:
    """What is known by name, and beside it what is known by digest."""
    named, stored = known.get(name, Known()), known.get(digest or "", Known())
    return Known(
        named.channels if named.channels is not None else stored.channels,
        named.tokens if named.tokens is not None else stored.tokens,
        named.parameters if named.parameters is not None else stored.parameters,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Their sum; None where there is none, one of them is not known, or it is beyond the largest float."""
    there = [value for value in values if value is not None]
    total = float(sum(there)) if there and len(there) == len(values) else math.inf
    return total if math.isfinite(total) else None
