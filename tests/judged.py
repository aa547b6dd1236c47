"""Predictions and outcomes to judge: planted, small, in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optotype.pipelines.judging.predictions import ATTRIBUTES, SETTINGS, Outcome, Prediction, normalised

Values = Mapping[str, Mapping[str, Sequence[float]]]
"""Metric -> language model -> a score for each encoder."""


def encoders(count: int) -> list[str]:
    return [f"e{number:02d}" for number in range(count)]


def predicted(values: Values, **settings: Any) -> list[Prediction]:
    """Predictions; a language model called ``""`` stands for all."""
    whole = {name: normalised(name, settings.get(name)) for name in (*SETTINGS, *ATTRIBUTES)}
    return [
        Prediction(metric, encoder, model or None, float(score), whole, "file", f"row {number}")
        for metric, models in values.items()
        for model, scores in models.items()
        for number, (encoder, score) in enumerate(zip(encoders(len(scores)), scores, strict=True))
    ]


def reached(values: Mapping[str, Sequence[float]], benchmark: str = "score") -> list[Outcome]:
    return [
        Outcome(encoder, model or None, benchmark, float(score), f"{model} {encoder}")
        for model, scores in values.items()
        for encoder, score in zip(encoders(len(scores)), scores, strict=True)
    ]


def planted(
    count: int, noise: Mapping[str, float], models: Sequence[str] = ("lm-a", "lm-b"), seed: int = 0
) -> tuple[list[Prediction], list[Outcome]]:
    """Metrics that see what encoders reach through so much noise."""
    rng = np.random.default_rng(seed)
    truth = {model: rng.normal(size=count) for model in models}
    seen = {
        metric: {model: truth[model] + sd * rng.normal(size=count) for model in models} for metric, sd in noise.items()
    }
    return predicted(seen), reached(truth)
