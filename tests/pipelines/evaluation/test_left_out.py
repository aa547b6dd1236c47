"""Prediction of a left-out benchmark against the normal equations, written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from optotype.pipelines.evaluation.left_out import left_out
from optotype.pipelines.evaluation.seeds import derived_seed


def _reference(scores: NDArray[np.float64], target: int, name: str, size: int, repeats: int) -> tuple[float, float]:
    """Mean absolute errors of ridge (penalty 1, free intercept) and of the training mean, model by model."""
    models, benchmarks = scores.shape
    others = [b for b in range(benchmarks) if b != target]
    usable = [
        m for m in range(models) if not np.isnan(scores[m, target]) and not all(np.isnan(scores[m, b]) for b in others)
    ]
    errors, baselines = [], []
    for repeat in range(repeats):
        rng = np.random.default_rng(derived_seed(0, "left-out", name, size, repeat))
        shuffled = rng.permutation(np.array(usable))
        train, test = sorted(shuffled[:size]), sorted(shuffled[size:])
        used = [b for b in others if any(not np.isnan(scores[m, b]) for m in train)]
        means = {b: np.mean([scores[m, b] for m in train if not np.isnan(scores[m, b])]) for b in used}

        def row(m: int, used: list[int] = used, means: dict[int, float] = means) -> list[float]:
            return [means[b] if np.isnan(scores[m, b]) else scores[m, b] for b in used]

        X, y = np.array([row(m) for m in train]).reshape(size, len(used)), scores[train, target]
        centre, level = X.mean(axis=0), y.mean()
        weights = np.linalg.solve((X - centre).T @ (X - centre) + np.eye(len(used)), (X - centre).T @ (y - level))
        for m in test:
            errors.append(abs(level + (np.array(row(m)) - centre) @ weights - scores[m, target]))
            baselines.append(abs(level - scores[m, target]))
    return float(np.mean(errors)), float(np.mean(baselines))


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_equals_the_normal_equations(missing: float) -> None:
    rng = np.random.default_rng(5)
    ability = rng.normal(size=(14, 1))
    scores = 1 / (1 + np.exp(-(ability + rng.normal(scale=0.4, size=(14, 4)))))
    scores[rng.random(scores.shape) < missing] = np.nan
    names = ["a", "b", "c", "d"]
    rows = left_out(scores, names, seed=0, sizes=(1, 2, 4, 64), repeats=3, least=3)
    assert rows
    assert {row["training"] for row in rows} <= {1, 2, 4}
    for row in rows:
        mae, mean = _reference(scores, names.index(row["target"]), row["target"], row["training"], 3)
        assert (row["mae"], row["mae_of_mean"]) == pytest.approx((mae, mean), abs=1e-10)
    one = [row for row in rows if row["training"] == 1]
    assert all(row["mae"] == pytest.approx(row["mae_of_mean"]) for row in one)  # one model has no slope


def test_sizes_that_leave_too_few_models_and_empty_benchmarks() -> None:
    scores = np.random.default_rng(0).random((12, 3))
    scores[:, 2] = np.nan
    scores[10:, :2] = [[0.5, np.nan], [np.nan, 0.5]]  # models with no other benchmark
    rows = left_out(scores, ["a", "b", "c"], seed=0, repeats=2, least=6)
    assert [(row["target"], row["training"], row["models"]) for row in rows] == [
        (target, size, 10) for target in "ab" for size in (1, 2, 4)
    ]
    assert left_out(scores, ["a", "b", "c"], seed=0, least=10) == []
    constant = left_out(np.full((12, 2), 0.25), ["a", "b"], seed=0, repeats=1, least=2)
    assert all(row["mae"] == 0 and row["mae_sd"] is None for row in constant)
