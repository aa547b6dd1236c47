"""The judgement against scipy and plain loops, and against what the paper prints."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged import planted, predicted, reached
from scipy import stats

from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.judging.curves import CURVES, sizes
from optotype.pipelines.judging.judge import judge
from optotype.pipelines.judging.resampling import mean_over_models
from optotype.registry.report.judgement.printed import ABLATION, COMPARISON, printed_mean
from optotype.schemas.errors import NotFoundError, UsageError

NOISE = {"good": 0.3, "fair": 1.0, "poor": 6.0}


def _row(document: dict[str, Any], label: str, model: str) -> dict[str, Any]:
    (row,) = [row for row in document["rows"] if (row["label"], row["model"]) == (label, model)]
    return dict(row)


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    return judge(*planted(12, NOISE), bootstrap=100, pool_repeats=40, seed=5)


def _vectors(metric: str, model: str) -> tuple[np.ndarray, np.ndarray]:
    predictions, outcomes = planted(12, NOISE)
    scores = [each.score for each in predictions if (each.metric, each.model) == (metric, model)]
    return np.array(scores), np.array([each.score for each in outcomes if each.model == model])


def test_correlations_are_those_of_scipy(judged: dict[str, Any]) -> None:
    for metric in NOISE:
        both = []
        for model in ("lm-a", "lm-b"):
            scores, outcomes = _vectors(metric, model)
            row = _row(judged, metric, model)
            both.append((stats.spearmanr(scores, outcomes)[0], stats.pearsonr(scores, outcomes)[0]))
            assert (row["rho"], row["r"]) == pytest.approx(both[-1], abs=1e-12)
            assert row["encoders"] == 12
        row = _row(judged, metric, "mean")
        assert (row["rho"], row["r"]) == pytest.approx(np.mean(both, axis=0), abs=1e-12)
        assert 0 < row["rho_p"] <= 1


def test_intervals_are_those_of_a_plain_loop_over_shared_resamples(judged: dict[str, Any]) -> None:
    draws = np.random.default_rng(derived_seed(5, "judge", "bootstrap")).integers(0, 12, size=(100, 12))
    means = {}
    for metric in NOISE:
        values = []
        for model in ("lm-a", "lm-b"):
            scores, outcomes = _vectors(metric, model)
            values.append([stats.spearmanr(scores[draw], outcomes[draw])[0] for draw in draws])
            row = _row(judged, metric, model)
            assert (row["rho_low"], row["rho_high"]) == pytest.approx(np.percentile(values[-1], (2.5, 97.5)), abs=1e-9)
            assert row["rho_resamples"] == 100
        means[metric] = np.mean(values, axis=0)
    for row in judged["comparisons"]:
        if row["statistic"] == "rho":
            gap = means[row["best"]] - means[row["other"]]
            assert (row["low"], row["high"]) == pytest.approx(np.percentile(gap, (2.5, 97.5)), abs=1e-9)
            assert row["wins"] == pytest.approx(np.mean(gap > 1e-12) + np.mean(abs(gap) <= 1e-12) / 2)


def test_a_planted_order_of_metrics_is_found_and_told_with_intervals(judged: dict[str, Any]) -> None:
    ranked = [row["other"] for row in judged["comparisons"] if row["statistic"] == "rho"]
    assert {row["best"] for row in judged["comparisons"]} == {"good"}
    assert ranked == ["fair", "poor"]
    far = next(row for row in judged["comparisons"] if row["other"] == "poor" and row["statistic"] == "rho")
    assert far["low"] > 0
    assert far["wins"] > 0.95
    assert _row(judged, "good", "mean")["rho_low"] > 0
    assert _row(judged, "poor", "mean")["rho_low"] < 0 < _row(judged, "poor", "mean")["rho_high"]
    assert judged["warnings"][0].startswith("This is a small pool: 12 encoders.")


def test_pools_are_those_of_a_plain_loop(judged: dict[str, Any]) -> None:
    rng = np.random.default_rng(derived_seed(5, "judge", "pool"))
    orders = rng.permuted(np.tile(np.arange(12), (40, 1)), axis=1)
    for size in (3, 7, 12):
        both = []
        for model in ("lm-a", "lm-b"):
            scores, outcomes = _vectors("fair", model)
            values = [stats.spearmanr(scores[order[:size]], outcomes[order[:size]])[0] for order in orders]
            both.append(values)
            (row,) = [
                row
                for row in judged["curves"]
                if (row["curve"], row["metric"], row["model"], row["x"]) == ("pool", "fair", model, size)
            ]
            assert row["rho"] == pytest.approx(np.mean(values), abs=1e-12)
            assert (row["rho_low"], row["rho_high"]) == pytest.approx(np.percentile(values, (2.5, 97.5)), abs=1e-9)
        (row,) = [
            row
            for row in judged["curves"]
            if (row["curve"], row["metric"], row["model"], row["x"]) == ("pool", "fair", "mean", size)
        ]
        assert row["rho"] == pytest.approx(np.mean(both), abs=1e-12)
    last = [row for row in judged["curves"] if row["curve"] == "pool" and row["x"] == 12 and row["model"] == "mean"]
    assert all(row["rho_low"] == pytest.approx(row["rho_high"]) for row in last)
    assert {row["metric"]: row["rho"] for row in last} == pytest.approx(
        {metric: _row(judged, metric, "mean")["rho"] for metric in NOISE}
    )


def test_sizes_of_pools() -> None:
    assert sizes(3) == [3]
    assert sizes(8) == [3, 4, 5, 6, 7, 8]
    many = sizes(200)
    assert (many[0], many[-1]) == (3, 200)
    assert len(many) <= 40


def test_equal_input_gives_equal_bytes_in_any_order() -> None:
    predictions, outcomes = planted(9, NOISE)
    texts = set()
    for seed in range(2):
        keyed = sorted(predictions, key=lambda each: each.metric)
        random.Random(seed).shuffle(outcomes)
        blocks = [[each for each in keyed if each.metric == name] for name in sorted(NOISE)]
        for block in blocks:
            random.Random(seed + 1).shuffle(block)
        found = judge([each for block in blocks for each in block], outcomes, bootstrap=50, pool_repeats=5)
        texts.add(json.dumps(found, allow_nan=False))
    assert len(texts) == 1


def test_curves_are_drawn_along_what_varies() -> None:
    truth = {"lm": list(range(9)), "lm-b": [3, 1, 2, 0, 5, 4, 6, 7, 8]}
    rng = np.random.default_rng(0)
    rows = []
    for setting in ({}, {"k": 50}, {"k": 150}, {"gamma": 0.0}, {"gamma": 0.5}, {"n": 100}, {"k": 50, "gamma": 0.5}):
        scores = {model: np.array(values) + rng.normal(size=9) for model, values in truth.items()}
        rows += predicted({"m": scores}, **{"k": 100, "n": 400, **setting})
    found = judge(rows, reached(truth), bootstrap=20)
    points: dict[str, list[float]] = {}
    for row in found["curves"]:
        if row["model"] == "mean" and row["curve"] != "pool":
            points.setdefault(row["curve"], []).append(row["x"])
            told = _row(found, row["label"], "mean")
            assert (row["rho"], row["rho_low"], row["of"]) == (told["rho"], told["rho_low"], told["rho_resamples"])
    assert points == {"k": [50, 100, 150], "gamma": [0.0, 0.5, 1.0], "n": [100, 400]}
    assert found["parameters"]["curves"] == ["pool", "n", "k", "gamma"]
    only = judge(rows, reached(truth), bootstrap=0, curves=["k"])
    assert {row["curve"] for row in only["curves"]} == {"k"}
    assert all(row["rho_low"] is None for row in only["curves"])
    for name in ("eps", "layer", "flops", "elsewhere"):
        with pytest.raises(UsageError):
            judge(rows, reached(truth), curves=[name])


def test_scales_change_nothing_but_the_points() -> None:
    predictions, outcomes = planted(7, NOISE, seed=3)
    plain = judge(predictions, outcomes, bootstrap=40, pool_repeats=5)
    assert plain["comparisons"][0]["p"] is not None
    for scale in (1e-300, 1e-13, 1e300):
        tiny = [replace(each, score=each.score * scale) for each in predictions]
        small = [replace(each, score=each.score * scale) for each in outcomes]
        found = judge(tiny, small, bootstrap=40, pool_repeats=5)
        for part in ("rows", "comparisons", "curves"):
            for one, other in zip(plain[part], found[part], strict=True):
                assert other == {
                    name: pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
                    for name, value in one.items()
                }


@pytest.mark.parametrize(("count", "said"), [(5, "a ρ of 1.00, up"), (6, "a ρ of 0.89 or more, up")])
def test_no_more_than_a_rho_of_1_is_spoken_of(count: int, said: str) -> None:
    assert said in judge(*planted(count, {"m": 1.0}), bootstrap=0)["warnings"][0]


def test_metrics_are_chosen_and_numbers_checked() -> None:
    predictions, outcomes = planted(5, NOISE)
    assert judge(predictions, outcomes, metrics=["poor", "good"])["parameters"]["metrics"] == ["poor", "good"]
    with pytest.raises(NotFoundError, match="no source has a metric 'god'") as caught:
        judge(predictions, outcomes, metrics=["god"])
    assert "good" in str(caught.value.hint)
    for wrong in ({"bootstrap": -1}, {"pool_repeats": 0}, {"seed": -1}):
        with pytest.raises(UsageError):
            judge(predictions, outcomes, **wrong)  # type: ignore[arg-type]
    assert set(judge(predictions, outcomes)["parameters"]["curves"]) < set(CURVES)


def test_resamples_without_a_correlation_are_counted_and_said() -> None:
    found = judge(predicted({"m": {"lm": [1, 1, 1, 2]}}), reached({"lm": [1, 2, 3, 4]}), bootstrap=400)
    row = _row(found, "m", "lm")
    # All four draws miss the one that differs, (3/4)⁴, or are it, (1/4)⁴: no correlation on 32 % of the resamples.
    assert 0.6 < row["rho_resamples"] / 400 < 0.75
    assert any(f"{row['rho_resamples']} of 400" in text for text in found["warnings"])
    assert judge(predicted({"m": {"lm": [1, 2, 4]}}), reached({"lm": [1, 3, 2]}), bootstrap=0)["comparisons"] == []


def test_means_over_language_models_are_those_that_the_paper_prints() -> None:
    """Table 1's three (ρ, r) of RAVEL average to table 2's last line."""
    three = np.array(COMPARISON["ravel"]).T[:, :, None]
    assert np.round(mean_over_models(three)[:, 0], 3).tolist() == list(ABLATION["ravel"])
    assert printed_mean("ravel") == pytest.approx(ABLATION["ravel"], abs=5e-4)
    assert printed_mean("svcca") is None
    best = max((name for name in COMPARISON if name != "ravel"), key=lambda name: (printed_mean(name) or (0, 0))[0])
    assert best == "alignment-probing"


def test_table_3_comes_out_of_five_encoders_of_which_two_tie() -> None:
    """Printed: ρ .359, -.308, -.975 for T-ACC, T-NED and F-Sim alike; they rank five tokenisers with one tie."""
    truth = {"qwen3": [1, 3, 4, 5, 2], "qwen2.5": [4, 1, 5, 2, 3], "smollm2": [5, 3, 4, 2, 1]}
    ranks = np.array([1.0, 2, 2, 3, 4])
    table = {"T-ACC": {"": 10 * ranks}, "T-NED": {"": ranks**2}, "F-Sim": {"": np.log(ranks)}}
    found = judge(predicted(table), reached(truth), bootstrap=0)
    for metric in table:
        told = {model: round(_row(found, metric, model)["rho"], 3) for model in truth}
        assert told == {"qwen3": 0.359, "qwen2.5": -0.308, "smollm2": -0.975}
    assert len({_row(found, metric, "qwen3")["r"] for metric in table}) == 3
