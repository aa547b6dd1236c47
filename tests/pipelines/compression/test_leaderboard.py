"""Scores of slices, categories and models against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from panels import make_panel
from slow_compression import matrix, slow_leaderboard, slow_scores, slow_zscore

from optotype.pipelines.compression.columns import read_columns
from optotype.pipelines.compression.leaderboard import (
    category_scores,
    entering,
    gaps_warning,
    leaderboard,
    nan_mean,
    slice_scores,
    standardised,
)
from optotype.pipelines.compression.slices import slices
from optotype.schemas.errors import InvalidDataError, UsageError


def _categories(seed: int, missing: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 8, (9, 5)) / 7
    scores[rng.random(scores.shape) < missing] = np.nan
    scores[:, 2] = np.where(np.isnan(scores[:, 2]), np.nan, 0.25)  # constant
    return scores


@pytest.mark.parametrize("models", [None, [5, 0, 2]])
def test_slice_scores_are_means_of_valid_items(models: list[int] | None) -> None:
    panel = make_panel(
        {"a": 20, "b": 15}, missing=0.5, graded=["b"], scales={"a": (0, 10)}, categories=list("xyz") * 11 + ["x", ""]
    )
    cut = slices(panel)
    keep = np.random.default_rng(0).random(35) < 0.6
    keep[cut.of_item == 1] = False
    found = slice_scores(panel, cut.of_item, len(cut), keep, models)
    scores = matrix(panel)[slice(None) if models is None else models]
    for number in range(len(cut)):
        items = np.flatnonzero(keep & (cut.of_item == number)).tolist()
        np.testing.assert_allclose(found[:, number], slow_scores(scores, items), atol=1e-12)
    np.testing.assert_allclose(read_columns(panel, np.array([30, 2, 2, 17]), models=models), scores[:, [30, 2, 2, 17]])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("normalise", ["none", "zscore"])
def test_leaderboard_is_that_of_a_loop(seed: int, missing: float, normalise: str) -> None:
    scores = _categories(seed, missing)
    found = leaderboard(scores, normalise)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, slow_leaderboard(scores, normalise), atol=1e-12)
    np.testing.assert_array_equal(np.isfinite(found), entering(scores))


def test_standardised_leaves_constant_columns_out() -> None:
    scores = _categories(1, 0.3)
    found = standardised(scores)
    for column in range(5):
        np.testing.assert_allclose(found[:, column], slow_zscore(scores[:, column].tolist()), atol=1e-12)
    assert np.isnan(found[:, 2]).all()
    assert math.isnan(nan_mean(np.full((1, 3), np.nan))[0])


def test_half_of_the_categories_enters_and_less_does_not() -> None:
    nan = np.nan
    scores = np.array([[1, 1, nan, nan], [1, nan, nan, nan], [1, 1, 1, 1], [nan, 1, 1, nan], [nan] * 4])
    assert entering(scores).tolist() == [True, False, True, True, False]
    with pytest.raises(
        InvalidDataError, match="2 of 4 models have scores in at least half of the 4 categories"
    ) as caught:
        entering(scores[[0, 1, 2, 4]], ["ann", "bob", "cas", "dee"])
    assert [problem.where for problem in caught.value.problems] == ["bob", "dee"]


def test_gaps_are_warned_of_where_nothing_is_normalised() -> None:
    whole, gaps = _categories(0, 0.0), _categories(0, 0.3)
    assert gaps_warning(whole, "none", entering(whole)) is None
    assert gaps_warning(gaps, "zscore", entering(gaps)) is None
    assert "zscore" in str(gaps_warning(gaps, "none", entering(gaps)))


def test_category_scores_average_the_benchmarks_that_a_model_has() -> None:
    panel = make_panel({"a": 6, "b": 4, "c": 5}, categories={"a": "x", "b": "x", "c": "y"}, missing=0.7, seed=5)
    cut = slices(panel)
    scores = slice_scores(panel, cut.of_item, len(cut))
    plain = category_scores(scores, cut)
    np.testing.assert_allclose(plain[:, 0], nan_mean(scores[:, :2]))
    np.testing.assert_allclose(plain[:, 1], scores[:, 2])
    np.testing.assert_allclose(category_scores(scores, cut, "zscore")[:, 0], nan_mean(standardised(scores)[:, :2]))
    with pytest.raises(UsageError, match="none, zscore"):
        category_scores(scores, cut, "minmax")  # type: ignore[arg-type]
