"""The paired bootstrap against plain loops."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from optotype.pipelines.evaluation.bootstrap import interval, macro, resampled_models, resampled_rho, strata
from optotype.schemas.errors import UsageError


def _rho(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < 2:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant input is NaN, which is what is wanted
        return float(spearmanr(first[both], second[both]).statistic)


def test_models_are_drawn_within_their_family() -> None:
    families = ["a", "b", "a", "c", "a", "b"]
    draws = resampled_models(families, 500, seed=1)
    assert draws.shape == (500, 6)
    labels = np.array(families)
    assert (labels[draws] == labels).all()
    assert (draws[:, 3] == 3).all()  # alone in its family
    assert {tuple(row) for row in draws[:, [1, 5]].tolist()} == {(1, 1), (1, 5), (5, 1), (5, 5)}
    assert (draws == resampled_models(families, 500, seed=1)).all()
    assert (draws != resampled_models(families, 500, seed=2)).any()
    with pytest.raises(UsageError):
        resampled_models(families, 0, seed=1)


def test_models_without_a_family_are_their_own() -> None:
    assert strata(["x", "", ""], ["a", "b", "c"]) == ["x", "\0b", "\0c"]


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ties", [False, True])
def test_resampled_correlations_equal_a_loop(missing: float, ties: bool) -> None:
    rng = np.random.default_rng(7)
    full = rng.normal(size=9).round(0 if ties else 6)
    kept = (full + rng.normal(size=9)).round(0 if ties else 6)
    full[rng.random(9) < missing], kept[rng.random(9) < missing] = np.nan, np.nan
    draws = resampled_models(["a"] * 4 + ["b"] * 3 + ["c", "d"], 1_200, seed=0)
    found = resampled_rho(full, kept, draws)
    expected = [_rho(full[row], kept[row]) for row in draws]
    np.testing.assert_allclose(found, expected, atol=1e-12, equal_nan=True)


def test_macro_and_interval() -> None:
    one, other = np.array([0.5, np.nan, np.nan]), np.array([1.0, -0.5, np.nan])
    np.testing.assert_allclose(macro([one, other], 3), [0.75, -0.5, np.nan])
    assert np.isnan(macro([], 2)).all()
    values = np.array([*np.linspace(-1, 1, 101), np.nan])
    found = interval(values)
    assert (found.low, found.high) == pytest.approx((-0.95, 0.95))
    assert (found.resamples, found.above_zero) == (101, pytest.approx(0.5))
    nothing = interval(np.full(3, np.nan))
    assert nothing.resamples == 0
    assert np.isnan(nothing.low)
