"""Moments of score columns against Python's own sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optotype.pipelines.kernels.item_moments import group_sums, item_moments, row_group_means


def _matrix(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 2, (6, 23)).astype(np.float32)
    if kind == "graded":
        scores = rng.random((6, 23)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.3] = np.nan
    scores[:, 3] = np.nan  # nobody
    scores[:, 4] = 1.0  # everybody alike
    scores[1:, 5] = np.nan  # one alone
    return scores


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["binary", "graded"])
def test_moments_are_those_of_a_loop(kind: str, seed: int) -> None:
    scores = _matrix(kind, seed)
    found = item_moments(scores)
    for column in range(scores.shape[1]):
        valid = [float(x) for x in scores[:, column] if not math.isnan(x)]
        assert found.valid[column] == len(valid)
        if not valid:
            assert math.isnan(found.mean[column])
            assert math.isnan(found.variance[column])
            assert math.isnan(found.least[column])
            continue
        mean = math.fsum(valid) / len(valid)
        assert found.mean[column] == pytest.approx(mean, abs=1e-12)
        assert found.variance[column] == pytest.approx(
            math.fsum((x - mean) ** 2 for x in valid) / len(valid), abs=1e-12
        )
        assert found.least[column] == min(valid)


def test_a_constant_column_has_no_variance_at_all() -> None:
    scores = np.full((30, 4), [0.0, 1.0, 0.5, np.float32(0.7)])
    assert item_moments(scores).variance.tolist() == [0, 0, 0, 0]


def test_the_order_of_the_models_makes_no_tie_and_breaks_none() -> None:
    rng = np.random.default_rng(0)
    column = (rng.random(41) < 0.37).astype(np.float64)
    scores = np.stack([rng.permutation(column) for _ in range(500)], axis=1)
    assert len(set(item_moments(scores).variance.tolist())) == 1


def test_more_columns_than_a_block() -> None:
    scores = np.random.default_rng(1).random((3, 5000))
    found = item_moments(scores)
    np.testing.assert_allclose(found.mean, scores.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.variance, scores.var(axis=0), atol=1e-12)


def test_sums_of_groups_are_those_of_a_loop() -> None:
    scores = _matrix("graded", 4)
    group = np.random.default_rng(5).integers(-1, 6, scores.shape[1])
    group[group == 2] = -1
    present, sums, counts = group_sums(scores, group)
    assert present.tolist() == sorted(set(group.tolist()) - {-1})
    for place, number in enumerate(present):
        for row in range(len(scores)):
            values = [float(x) for x in scores[row, group == number] if not math.isnan(x)]
            assert sums[row, place] == pytest.approx(math.fsum(values), abs=1e-12)
            assert counts[row, place] == len(values)


def test_no_column_in_any_group() -> None:
    present, sums, counts = group_sums(np.ones((3, 4)), np.full(4, -1))
    assert (present.shape, sums.shape, counts.shape) == ((0,), (3, 0), (3, 0))


def test_means_of_groups_of_rows() -> None:
    scores = _matrix("graded", 6)
    group = np.array([0, 1, 0, 2, 1, 0])
    means = row_group_means(scores, group)
    for number in range(3):
        for column in range(scores.shape[1]):
            values = [float(x) for x in scores[group == number, column] if not math.isnan(x)]
            if values:
                assert means[number, column] == pytest.approx(math.fsum(values) / len(values), abs=1e-12)
            else:
                assert math.isnan(means[number, column])
