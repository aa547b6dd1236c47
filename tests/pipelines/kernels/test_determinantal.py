"""The greedy determinantal choice against determinants worked out one by one."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.kernels.determinantal import greedy_map, median_squared_distance


def _slow(points: np.ndarray, quality: np.ndarray, count: int, bandwidth: float) -> list[int]:
    n = len(points)
    kernel = np.array(
        [
            [quality[i] * quality[j] * np.exp(-((points[i] - points[j]) ** 2).sum() / bandwidth) for j in range(n)]
            for i in range(n)
        ]
    )
    chosen: list[int] = []
    while len(chosen) < count:
        before = np.linalg.det(kernel[np.ix_(chosen, chosen)]) if chosen else 1.0
        gain = {
            i: round(float(np.linalg.det(kernel[np.ix_([*chosen, i], [*chosen, i])]) / before), 9)
            for i in range(n)
            if i not in chosen
        }
        best = max(gain, key=lambda i: (gain[i], -i))
        if gain[best] <= 0:
            break
        chosen.append(best)
    return chosen


@pytest.mark.parametrize("seed", range(8))
def test_greedy_map_is_greedy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    points, quality = generator.normal(size=(14, 3)), generator.uniform(0.2, 1.0, size=14)
    quality[3] = 0.0
    found = greedy_map(points, quality, 7, bandwidth=2.0)
    assert found.tolist() == _slow(points, quality, 7, 2.0)
    assert 3 not in found


def test_spread_counts_beside_quality() -> None:
    points = np.array([[0.0], [0.1], [5.0]])
    assert greedy_map(points, np.array([1.0, 0.9, 0.5]), 2, bandwidth=1.0).tolist() == [0, 2]


@pytest.mark.parametrize("bandwidth", [1.0, 0.0])
def test_copies_gain_nothing(bandwidth: float) -> None:
    points = np.random.default_rng(0).normal(size=(4, 2))[[0, 1, 1, 2, 3, 3]]
    found = greedy_map(points, np.full(6, 0.5), 6, bandwidth=bandwidth)
    assert sorted(found.tolist()) == [0, 1, 3, 4]


def test_equal_gains_go_to_the_first() -> None:
    assert greedy_map(np.arange(4.0)[:, None] * 1e6, np.full(4, 0.3), 3, bandwidth=1.0).tolist() == [0, 1, 2]
    assert greedy_map(np.zeros((3, 1)), np.zeros(3), 2, bandwidth=1.0).tolist() == []


def test_median_is_over_pairs_of_different_rows() -> None:
    points = np.array([[0.0], [3.0]])
    assert median_squared_distance(points, pairs=50, seed=0) == 9.0
    assert median_squared_distance(points[:1], pairs=50, seed=0) == 0.0
    many = np.random.default_rng(0).normal(size=(300, 4))
    exact = np.median([((many[i] - many[j]) ** 2).sum() for i in range(300) for j in range(i)])
    found = median_squared_distance(many, pairs=2000, seed=1)
    assert found == pytest.approx(exact, rel=0.1)
    assert found == median_squared_distance(many, pairs=2000, seed=1)
    assert found != median_squared_distance(many, pairs=2000, seed=2)
