"""Means and differences with intervals, against plain loops over the same draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optotype.pipelines.emoji.probe.halves import seeded
from optotype.pipelines.emoji.retrieval.contrasts import contrasts

ENCODERS, MODELS, STYLES = ("a", "b", "c"), ("lm", "other"), ("plain", "punct")
CELLS = (("i2t", "en"), ("i2t", "it"), ("t2i", "en"), ("t2i", "it"))
ITEMS = [f"e{i}" for i in range(9)]
CLUSTERS = {item: (0 if item in ("e1", "e5") else item) for item in ITEMS}


def made(seed: int = 0) -> dict[Any, Any]:
    rng = np.random.default_rng(seed)
    found = {}
    for setting in ((e, m, f, s) for e in ENCODERS for m in MODELS for f in STYLES for s in STYLES):
        found[setting] = {
            cell: {item: float(rng.choice([0, 0.5, 1])) for item in ITEMS[: 9 if cell != ("i2t", "it") else 7]}
            for cell in CELLS
        }
    return found


def slow_mean(outcomes: Any, model: str, fitted_on: str, style: str, cell: Any, times: dict[Any, int]) -> float:
    """Percent over the drawn items, encoder by encoder, then over encoders."""
    of_encoders = []
    for encoder in ENCODERS:
        drawn = [
            value
            for item, value in outcomes[encoder, model, fitted_on, style][cell].items()
            for _ in range(times[CLUSTERS[item]])
        ]
        of_encoders.append(sum(drawn) / len(drawn))
    return 100 * sum(of_encoders) / len(of_encoders)


def slow_value(row: dict[str, Any], outcomes: Any, times: dict[Any, int]) -> float:
    def mean(fitted_on: str, style: str, language: str | None) -> float:
        spoken = ["en", "it"] if language is None else [language]
        each = [
            slow_mean(outcomes, row["language_model"], fitted_on, style, (row["task"], name), times) for name in spoken
        ]
        return sum(each) / len(each)

    fitted_on, style, language = row["fitted_on"], row["style"], row["language"]
    if row["kind"] == "mean":
        return mean(fitted_on, style, language)
    if row["kind"] == "style":
        return mean(style, style, language) - mean(row["against"], row["against"], language)
    if row["kind"] == "other-style":
        return mean(fitted_on, style, language) - mean(fitted_on, fitted_on, language)
    return mean(style, style, "en") - mean(style, style, language)


def test_every_row_is_what_loops_say() -> None:
    outcomes = made()
    rows = contrasts(outcomes, CLUSTERS, bootstrap=30, seed=5)
    kinds = [row["kind"] for row in rows]
    # Per model and task: 4 settings x (2 languages and both), 1 and 2 differences x the same, 2 styles x 1 gap.
    assert {kind: kinds.count(kind) for kind in kinds} == {"mean": 48, "style": 12, "other-style": 24, "gap": 8}
    order = list(dict.fromkeys(CLUSTERS[item] for item in ITEMS))
    draw = seeded(5, "retrieval", len(order)).multinomial(len(order), np.full(len(order), 1 / len(order)), size=30)
    once = dict.fromkeys(order, 1)
    for row in rows:
        assert row["value"] == pytest.approx(slow_value(row, outcomes, once), abs=1e-9)
        resampled = [slow_value(row, outcomes, dict(zip(order, times, strict=True))) for times in draw.tolist()]
        low, high = np.quantile(resampled, [0.025, 0.975])
        assert (row["low"], row["high"]) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))


def test_no_difference_is_zero_with_no_width() -> None:
    outcomes = made(1)
    for encoder in ENCODERS:
        for model in MODELS:
            for fitted_on in STYLES:
                outcomes[encoder, model, fitted_on, "punct"] = outcomes[encoder, model, "plain", "plain"]
                outcomes[encoder, model, fitted_on, "plain"] = outcomes[encoder, model, "plain", "plain"]
    for row in contrasts(outcomes, CLUSTERS, bootstrap=20, seed=0):
        if row["kind"] in ("style", "other-style"):
            assert (row["value"], row["low"], row["high"]) == (0, 0, 0)


def test_without_resamples_there_is_no_interval() -> None:
    rows = contrasts(made(), CLUSTERS, bootstrap=0, seed=0)
    assert {(row["low"], row["high"]) for row in rows} == {(None, None)}


def test_one_style_and_no_english() -> None:
    outcomes = {("a", "lm", "plain", "plain"): {("i2t", "it"): {"e0": 1.0, "e1": 0.0}}}
    rows = contrasts(outcomes, CLUSTERS, bootstrap=0, seed=0)
    assert [(row["kind"], row["language"], row["value"]) for row in rows] == [("mean", "it", 50), ("mean", None, 50)]
