"""Every metric of the catalogue keeps to the interface, and one that does not is told so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.metrics.catalogue import METRICS, get_metric
from optotype.pipelines.metrics.conformance import CHECKS, conformance_problems, planted_inputs, planted_pool
from optotype.pipelines.metrics.metric import Option, Score, checked_options, metric_error
from optotype.pipelines.metrics.misfits import Misfit, misfits, too_few
from optotype.schemas.errors import NotFoundError, UsageError

# The weights that it needs are made in test_mid_training.py.
WITHOUT_WEIGHTS = [name for name in METRICS if name != "mid-training-loss"]
OPTIONS: dict[str, dict[str, Any]] = {name: {"k": 20} for name in METRICS if name.startswith("ravel")}
SKIPPED = {
    "linear-probing": "joint-order",  # splits by id
    "cca": "joint-order",
}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_metric_conforms(name: str) -> None:
    skip = frozenset({SKIPPED[name]} if name in SKIPPED else ())
    assert conformance_problems(get_metric(name), options=OPTIONS.get(name), skip=skip) == []


@pytest.mark.parametrize("name", METRICS)
def test_catalogue_gives_what_it_names(name: str) -> None:
    assert get_metric(name).name == name


def test_unknown_metric_is_told_the_closest() -> None:
    with pytest.raises(NotFoundError, match=r"no metric is called 'mutal-nn'.*\n.*'mutual-nn'"):
        get_metric("mutal-nn")


class Fair:
    """Share of the variance of the first state that a least-squares fit on the features explains."""

    name = "fair"
    kind = "cross-modal"
    needs = frozenset({"states"})
    options: Mapping[str, Option] = {"ridge": Option(1.0, float, "penalty", minimum=0)}
    source = "a test"

    def score(self, inputs: Any, options: Mapping[str, Any], *, seed: int) -> Score:
        if inputs.states is None:
            raise metric_error(self.name, "no states", "Give --states.")
        x, y = inputs.pooled - inputs.pooled.mean(axis=0), inputs.states[:, 0] - inputs.states[:, 0].mean()
        weight = np.linalg.solve(x.T @ x + options["ridge"] * np.eye(x.shape[1]), x.T @ y)
        return Score(float(1 - np.mean((y - x @ weight) ** 2) / y.var()))


def broken(**changes: Any) -> Any:
    return type("Broken", (Fair,), changes)()


def drifting(self: Any, inputs: Any, options: Any, *, seed: int) -> Score:
    self.calls = getattr(self, "calls", 0) + 1
    return Score(Fair.score(self, inputs, options, seed=seed).value + 1e-9 * self.calls)


def by_position(self: Any, inputs: Any, options: Any, *, seed: int) -> Score:
    fair = Fair.score(self, inputs, options, seed=seed).value
    return Score(fair + 1e-3 * float(np.tanh(inputs.pooled[0, 0])))


CASES: dict[str, tuple[Any, str]] = {
    "a loss": (
        broken(score=lambda self, inputs, options, seed: Score(-Fair.score(self, inputs, options, seed=seed).value)),
        "planted",
    ),
    "NaN": (broken(score=lambda self, inputs, options, seed: Score(float("nan"))), "form"),
    "another mean": (
        broken(score=lambda self, inputs, options, seed: Score(0.5, per_item=np.zeros(len(inputs.items)))),
        "form",
    ),
    "details that are not JSON": (
        broken(score=lambda self, inputs, options, seed: Score(0.5, details={"rows": np.zeros(2)})),
        "form",
    ),
    "a state of its own": (broken(score=drifting), "repeatable"),
    "row order": (broken(score=by_position), "joint-order"),
    "a pairing that has a say": (broken(pairing=False), "planted"),
    "a size that is refused alone": (
        broken(check=lambda self, n, options: too_few(n, 5)),
        "sizes",
    ),
    "a default that does not fit": (broken(check=lambda self, n, options: too_few(n, 500)), "sizes"),
    "a largest that is refused": (
        broken(check=lambda self, n, options: [Misfit("no", "ridge", 3)] if n < 9 else []),
        "sizes",
    ),
    "no refusal": (
        broken(score=lambda self, inputs, options, seed: Score(0.0 if inputs.states is None else 1.0)),
        "needs",
    ),
    "a need that there is not": (broken(needs=frozenset({"states", "luck"})), "described"),
    "patches unsaid": (
        broken(score=lambda self, inputs, options, seed: Score(float(inputs.features.sizes.get("token", 0)))),
        "patches",
    ),
    "an option that takes anything": (
        broken(options={"ridge": Option(1.0, str, " ", choices=("1.0", "not-a-value"))}),
        "options",
    ),
}


def test_a_sound_metric_has_no_problems() -> None:
    assert conformance_problems(broken()) == []


@pytest.mark.parametrize("case", CASES)
def test_broken_metrics_are_found_out(case: str) -> None:
    metric, check = CASES[case]
    assert check in {problem.kind for problem in conformance_problems(metric)}


def test_a_metric_that_cannot_score_is_one_problem() -> None:
    def fails(self: Any, inputs: Any, options: Any, *, seed: int) -> Score:
        raise ZeroDivisionError("by zero")

    (problem,) = conformance_problems(broken(score=fails))
    assert (problem.kind, problem.message) == ("scores", "ZeroDivisionError: by zero")


def test_planted_data_is_what_it_says(make: SimpleNamespace) -> None:
    inputs = planted_inputs(3)
    assert list(inputs.items) == sorted(inputs.items)
    tokens = inputs.features["patches"].values.reshape(len(inputs.items), 4, -1)
    np.testing.assert_allclose(inputs.pooled, tokens.mean(axis=1), rtol=0, atol=1e-12)
    pool = planted_pool(3)
    fits = [Fair().score(inputs, {"ridge": 1.0}, seed=0).value for inputs in pool]
    assert fits == sorted(fits, reverse=True)
    assert set(CHECKS) >= {"planted", "needs", "options"}


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 11, 12, 13, 20, 21])
def test_check_foretells_every_refusal_of_so_many_items(name: str, n: int) -> None:
    metric: Any = get_metric(name)
    if getattr(metric, "over_pool", False) or "labels" in metric.needs:
        return  # these hang on what else is given
    options, whole = checked_options(metric, OPTIONS.get(name)), planted_inputs(2, n=30)
    first = {
        "items": whole.items[:n],
        "pooled": whole.pooled[:n],
        "states": None if whole.states is None else whole.states[:n],
        "features": whole.features.isel(image=slice(n), token=slice(4 * n)),
    }
    inputs = replace(whole, **first, labels=None, captions=None, keypoints=None)
    if misfits(metric, n, options):
        with pytest.raises(UsageError):
            metric.score(inputs, options, seed=0)
    else:
        assert np.isfinite(metric.score(inputs, options, seed=0).value)
