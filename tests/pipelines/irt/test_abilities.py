from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from optotype.pipelines.irt.abilities import abilities
from optotype.pipelines.irt.two_parameter import TwoParameter, fit


def model_of(n: int, seed: int) -> TwoParameter:
    rng = np.random.default_rng(seed)
    return TwoParameter(np.exp(rng.normal(0, 0.4, n)), rng.normal(0, 1.5, n), np.full(n, 9), 1, True)


def posterior_mean(model: TwoParameter, row: NDArray[np.float64]) -> float:
    """By a grid so fine that it needs no thought."""
    grid = np.linspace(-8, 8, 8001)
    log = -(grid**2) / 2
    for a, d, y in zip(model.slope, model.intercept, row, strict=True):
        if not np.isnan(y):
            log += y * (a * grid + d) - np.logaddexp(0, a * grid + d)
    weight = np.exp(log - log.max())
    return float((weight * grid).sum() / weight.sum())


@pytest.mark.parametrize("n", [1, 5, 30, 100, 200, 1500])
def test_ability_is_the_mean_of_the_posterior(n: int) -> None:
    model, rng = model_of(n, n), np.random.default_rng(n)
    truth = np.array([-2.0, -0.5, 0.0, 0.7, 2.2])
    responses = (rng.random((5, n)) < model.probability(truth)).astype(float)
    responses[rng.random(responses.shape) < 0.2] = np.nan
    expected = [posterior_mean(model, row) for row in responses]
    np.testing.assert_allclose(abilities(model, responses), expected, atol=1e-3)


def test_extreme_and_empty_rows_are_finite() -> None:
    model = model_of(20, 0)
    responses = np.stack([np.ones(20), np.zeros(20), np.full(20, np.nan)])
    found = abilities(model, responses)
    assert found[0] > 1 > -1 > found[1]
    assert found[2] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(found[:2], [posterior_mean(model, row) for row in responses[:2]], atol=1e-3)


def test_no_items_and_no_models() -> None:
    model = model_of(4, 0)
    np.testing.assert_allclose(abilities(model.take(np.array([], dtype=int)), np.zeros((2, 0))), 0, atol=1e-12)
    assert abilities(model, np.zeros((0, 4))).shape == (0,)


def test_models_with_many_items_are_told_apart_beyond_the_nodes() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=30)
    slope, intercept = np.exp(rng.normal(0, 0.4, 3000)), rng.normal(size=3000)
    responses = (rng.random((30, 3000)) < 1 / (1 + np.exp(-(np.outer(truth, slope) + intercept)))).astype(float)
    found = abilities(fit(responses), responses)
    assert np.corrcoef(found, truth)[0, 1] > 0.997
    assert len(np.unique(found)) == 30
