"""Overlap, chance, permutation null and bootstrap interval."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.kernels import overlap


def _graph(seed: int, n: int, k: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.array([generator.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])


def test_matches_are_set_intersections() -> None:
    first, second = _graph(0, 40, 9), _graph(1, 40, 9)
    expected = [len(set(a) & set(b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    assert overlap.matches(first, second).tolist() == expected
    assert overlap.matches(first, first).tolist() == [9] * 40


def test_chance_is_the_mean_of_unrelated_graphs() -> None:
    scores = [overlap.matches(_graph(2 * s, 30, 6), _graph(2 * s + 1, 30, 6)).mean() / 6 for s in range(60)]
    assert np.mean(scores) == pytest.approx(overlap.chance(30, 6), abs=0.01)


def test_adjusted() -> None:
    assert overlap.adjusted(1.0, 0.25) == 1.0
    assert overlap.adjusted(0.25, 0.25) == 0.0
    assert overlap.adjusted(0.1, 0.25) < 0
    assert overlap.adjusted(1.0, 1.0) == 0.0  # k = n - 1 tells nothing


@pytest.mark.parametrize("dense", [8192, 0])
def test_null_is_that_of_relabelled_sets(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_DENSE_ITEMS", dense)
    first, second = _graph(4, 25, 5), _graph(5, 25, 5)
    null = overlap.permutation_null(first, second, repeats=40, seed=7)
    generator = np.random.default_rng(7)
    scores = []
    for _ in range(40):
        new = generator.permutation(25)
        relabelled = {int(new[i]): {int(new[j]) for j in second[i]} for i in range(25)}
        scores.append(np.mean([len(set(first[i].tolist()) & relabelled[i]) / 5 for i in range(25)]))
    assert null.mean == pytest.approx(np.mean(scores), abs=1e-12)
    assert null.sd == pytest.approx(np.std(scores, ddof=1), abs=1e-12)
    observed = overlap.matches(first, second).mean() / 5
    assert null.p == (1 + sum(score >= observed - 1e-12 for score in scores)) / 41


def test_null_of_equal_graphs_is_small_and_never_zero() -> None:
    graph = _graph(6, 30, 4)
    null = overlap.permutation_null(graph, graph, repeats=19, seed=0)
    assert null.p == 1 / 20
    assert overlap.permutation_null(graph, graph, repeats=1, seed=0).sd == 0.0


def test_bootstrap_interval() -> None:
    found = np.array([0] * 50 + [4] * 50)
    low, high = overlap.bootstrap_interval(found, 4, repeats=500, seed=1)
    assert low < 0.5 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.05, rel=0.2)
    assert overlap.bootstrap_interval(found, 4, repeats=500, seed=1) == (low, high)
    assert overlap.bootstrap_interval(np.full(9, 2), 4, repeats=10, seed=0) == (0.5, 0.5)
