from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from optotype.pipelines.irt import two_parameter
from optotype.pipelines.irt.two_parameter import TwoParameter, fit, logistic, quadrature

SLOPE_SD, INTERCEPT_SD = 0.5, 3.0


def draw(
    models: int, items: int, *, missing: float = 0.0, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Responses, abilities, slopes and difficulties."""
    rng = np.random.default_rng(seed)
    ability, slope, difficulty = rng.normal(size=models), np.exp(rng.normal(0, 0.4, items)), rng.normal(size=items)
    chance = 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
    responses = (rng.random((models, items)) < chance).astype(float)
    responses[rng.random(responses.shape) < missing] = np.nan
    return responses, ability, slope, difficulty


def dirty(seed: int) -> NDArray[np.float64]:
    """Missing responses, items that all or none got right, one that nobody has, and a model without any."""
    responses = draw(14, 7, missing=0.15, seed=seed)[0]
    responses[:, 0], responses[:, 1], responses[:, 2] = 1, 0, np.nan
    responses[3] = np.nan
    return responses


def log_posterior(responses: NDArray[np.float64], slope: NDArray[np.float64], intercept: NDArray[np.float64]) -> float:
    """Marginal likelihood times the priors, written out."""
    total = 0.0
    nodes = [-4 + 8 * q / 30 for q in range(31)]
    density = [math.exp(-(x**2) / 2) for x in nodes]
    for row in responses:
        marginal = 0.0
        for x, w in zip(nodes, density, strict=True):
            product = w / sum(density)
            for i, y in enumerate(row):
                if not math.isnan(y):
                    p = 1 / (1 + math.exp(-(slope[i] * x + intercept[i])))
                    product *= p if y == 1 else 1 - p
            marginal += product
        total += math.log(marginal)
    for a, d in zip(slope, intercept, strict=True):
        total -= math.log(a) ** 2 / (2 * SLOPE_SD**2) + d**2 / (2 * INTERCEPT_SD**2)
    return total


def expectation_maximisation(responses: NDArray[np.float64], rounds: int) -> TwoParameter:
    """Bock and Aitkin's EM one item at a time, the M step left to a library."""
    n = responses.shape[1]
    slope, intercept = np.ones(n), np.zeros(n)
    nodes, log_weight = quadrature()
    for _ in range(rounds):
        posterior = np.zeros((len(responses), len(nodes)))
        for m, row in enumerate(responses):
            for q, x in enumerate(nodes):
                p = 1 / (1 + np.exp(-(slope * x + intercept)))
                here = np.where(row == 1, p, 1 - p)[~np.isnan(row)]
                posterior[m, q] = np.exp(log_weight[q]) * here.prod()
            posterior[m] /= posterior[m].sum()
        for i in range(n):
            known = ~np.isnan(responses[:, i])
            models_at = posterior[known].sum(axis=0)
            right_at = posterior[responses[:, i] == 1].sum(axis=0)

            def loss(
                x: NDArray[np.float64],
                models_at: NDArray[np.float64] = models_at,
                right_at: NDArray[np.float64] = right_at,
            ) -> float:
                p = 1 / (1 + np.exp(-(np.exp(x[0]) * nodes + x[1])))
                value = (right_at * np.log(p) + (models_at - right_at) * np.log(1 - p)).sum()
                return float(x[0] ** 2 / (2 * SLOPE_SD**2) + x[1] ** 2 / (2 * INTERCEPT_SD**2) - value)

            log_slope, intercept[i] = minimize(loss, [np.log(slope[i]), intercept[i]]).x
            slope[i] = np.exp(log_slope)
    return TwoParameter(slope, intercept, (~np.isnan(responses)).sum(axis=0), rounds, True)


@pytest.mark.parametrize("seed", [0, 1])
def test_fit_is_that_of_a_slow_em(seed: int) -> None:
    responses = dirty(seed)
    fast, slow = fit(responses, tolerance=1e-7, iterations=2000), expectation_maximisation(responses, 60)
    np.testing.assert_allclose(fast.slope, slow.slope, atol=2e-3)
    np.testing.assert_allclose(fast.intercept, slow.intercept, atol=2e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_nothing_near_the_fit_is_more_probable(seed: int) -> None:
    responses = dirty(seed)
    model = fit(responses, tolerance=1e-7, iterations=2000)
    best = log_posterior(responses, model.slope, model.intercept)
    for i in range(len(model.slope)):
        for change in (-0.02, 0.02):
            slope, intercept = model.slope.copy(), model.intercept.copy()
            slope[i] *= 1 + change
            intercept[i] += change
            assert log_posterior(responses, slope, model.intercept) < best
            assert log_posterior(responses, model.slope, intercept) < best


def test_no_iteration_lowers_the_posterior() -> None:
    responses = dirty(2)
    values = []
    for rounds in range(1, 15):
        model = fit(responses, tolerance=0.0, iterations=rounds)
        assert model.iterations == rounds
        assert not model.converged
        values.append(log_posterior(responses, model.slope, model.intercept))
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0]


def test_a_step_that_would_overshoot_is_halved() -> None:
    nodes, _ = quadrature()
    models_at = np.full((1, len(nodes)), 50.0)
    right_at = models_at * logistic(0.1 * nodes[None] - 0.2)[0]
    before = np.array([[2.5], [6.0]])  # far too steep and too easy: chances are 0 or 1, second derivatives vanish

    def objective(x: NDArray[np.float64]) -> float:
        z = np.exp(x[0, 0]) * nodes + x[1, 0]
        return float((right_at[0] * z - models_at[0] * np.logaddexp(0, z)).sum() - (precision * x**2).sum() / 2)

    precision = np.array([[4.0], [1 / 9]])
    x = before
    for _ in range(100):
        y = two_parameter._step(x, right_at, models_at, nodes, precision)
        assert objective(y) >= objective(x)
        x = y
    assert np.exp(x[0, 0]) == pytest.approx(0.1, abs=0.05)
    assert x[1, 0] == pytest.approx(-0.2, abs=0.05)


def test_parameters_are_recovered_with_many_models() -> None:
    responses, _, slope, difficulty = draw(1500, 40, missing=0.1)
    model = fit(responses)
    assert model.converged
    assert np.corrcoef(model.slope, slope)[0, 1] > 0.95
    assert np.corrcoef(model.difficulty, difficulty)[0, 1] > 0.99
    # not only their order: the scale of ability is that of its prior
    assert np.abs(np.log(model.slope / slope)).mean() < 0.15
    assert np.abs(model.intercept + slope * difficulty).mean() < 0.15


def test_degenerate_items_stay_finite() -> None:
    model = fit(dirty(0))
    assert np.isfinite(model.slope).all()
    assert np.isfinite(model.intercept).all()
    assert (model.slope > 0).all()
    assert model.intercept[0] > 1  # all right
    assert model.intercept[1] < -1  # all wrong
    assert (model.slope[2], model.intercept[2], model.answered[2]) == (1, 0, 0)  # the prior


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_panels_without_any_difference_are_fitted(value: float) -> None:
    model = fit(np.full((5, 4), value))
    assert model.converged
    assert np.ptp(model.slope) == 0
    assert np.ptp(model.intercept) == 0


def test_missing_may_be_nan_or_minus_one() -> None:
    responses = dirty(1)
    first, second = fit(responses), fit(np.nan_to_num(responses, nan=-1).astype(np.int8))
    assert first.slope.tobytes() == second.slope.tobytes()


def test_order_of_models_changes_no_digit() -> None:
    responses = draw(20, 200, missing=0.1)[0]
    first, second = fit(responses), fit(responses[::-1])
    assert first.slope.tobytes() == second.slope.tobytes()
    assert first.intercept.tobytes() == second.intercept.tobytes()


def test_blocks_of_items_give_the_same_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = draw(20, 100, missing=0.1)[0]
    whole = fit(responses)
    information = whole.information(np.array([-1.0, 0.5]))
    monkeypatch.setattr(two_parameter, "_BLOCK", 7)
    assert len(list(two_parameter.blocks(100))) == 15
    parts = fit(responses)
    np.testing.assert_allclose(parts.slope, whole.slope, rtol=1e-9)
    np.testing.assert_allclose(parts.intercept, whole.intercept, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(parts.information(np.array([-1.0, 0.5])), information, rtol=1e-9)


def test_information_is_squared_slope_of_the_curve_over_its_variance() -> None:
    model = TwoParameter(np.array([0.4, 2.0, 1.0]), np.array([0.3, -1.0, 0.0]), np.array([5, 5, 0]), 1, True)
    ability, small = np.array([-1.3, 0.2, 0.9]), 1e-6
    chance = model.probability(ability)
    change = (model.probability(ability + small) - model.probability(ability - small)) / (2 * small)
    expected = (change**2 / (chance * (1 - chance))).mean(axis=0)
    np.testing.assert_allclose(model.information(ability)[:2], expected[:2], rtol=1e-6)
    assert model.information(ability)[2] == 0  # nobody answered it


def test_logistic_does_not_overflow() -> None:
    chance, log_sum = logistic(np.array([-1e4, -1.0, 0.0, 2.0, 1e4]))
    np.testing.assert_allclose(chance, [0, 1 / (1 + math.e), 0.5, 1 / (1 + math.exp(-2)), 1])
    np.testing.assert_allclose(log_sum, [0, math.log(1 + math.exp(-1)), math.log(2), math.log(1 + math.exp(2)), 1e4])
