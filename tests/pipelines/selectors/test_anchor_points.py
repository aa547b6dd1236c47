from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from optotype.pipelines.selectors import anchor_points
from optotype.pipelines.selectors.anchor_points import AnchorPoints, correlation_distance, item_means
from optotype.pipelines.selectors.conformance import conformance_problems, random_pool
from optotype.pipelines.selectors.pool import Pool


@pytest.mark.parametrize("seed", range(3))
def test_conforms(seed: int) -> None:
    assert conformance_problems(AnchorPoints(), seed) == []


def distance_of(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Of two items, by the definition."""
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    both = ~np.isnan(first) & ~np.isnan(second)
    x, y = first[both], second[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 1.0
    return float(1 - np.corrcoef(x, y)[0, 1])


@pytest.mark.parametrize("missing", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("rows", [7, 1024])
def test_distances_are_those_of_a_loop(missing: float, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor_points, "_ROWS", rows)
    scores = random_pool(5, models=7, missing=missing, sizes=(25, 15)).scores
    found = correlation_distance(scores)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, found.T)
    for i, j in itertools.product(range(40), repeat=2):
        assert found[i, j] == pytest.approx(distance_of(scores[:, i], scores[:, j]), abs=1e-6)


def loss(distance: NDArray[np.float32], medoids: tuple[int, ...] | NDArray[np.int64]) -> float:
    return float(distance[:, list(medoids)].min(axis=1).sum())


@pytest.mark.parametrize("seed", range(5))
def test_no_single_swap_betters_the_medoids(seed: int) -> None:
    pool = random_pool(seed, models=8, sizes=(18,))
    distance = correlation_distance(pool.scores)
    chosen = AnchorPoints().select(pool, 4, seed=seed).index
    for position, other in itertools.product(range(4), range(18)):
        swapped = chosen.copy()
        swapped[position] = other
        assert loss(distance, swapped) >= loss(distance, chosen) - 1e-5


@pytest.mark.parametrize("k", [1, 4, 17])
def test_weights_are_the_shares_of_the_clusters(k: int) -> None:
    pool = random_pool(2, models=8, missing=0.1, sizes=(18,))
    selection = AnchorPoints().select(pool, k, seed=0)
    mean = item_means(pool.scores)
    size = dict.fromkeys(selection.index.tolist(), 0)
    known = [i for i in range(18) if pool.valid[i]]
    assert len(known) == 17
    for i in known:
        if i in size:
            size[i] += 1
            continue
        keys = {
            j: (round(distance_of(pool.scores[:, i], pool.scores[:, j]), 5), round(abs(mean[i] - mean[j]), 9), j)
            for j in size
        }
        size[min(size, key=keys.__getitem__)] += 1
    assert selection.weight is not None
    np.testing.assert_allclose(selection.weight, np.array(list(size.values())) / 17)


def test_unsolved_items_form_one_cluster() -> None:
    rng = np.random.default_rng(0)
    scores = np.zeros((9, 40))
    scores[:, 25:] = np.repeat(rng.integers(0, 2, size=(9, 3)), 5, axis=1)
    selection = AnchorPoints().select(Pool.of(scores, benchmark=["a"] * 40), 4, seed=1)
    assert selection.weight is not None
    assert sorted(zip(selection.index // 5 >= 5, selection.weight.round(6), strict=True)) == [
        (False, 0.625),
        (True, 0.125),
        (True, 0.125),
        (True, 0.125),
    ]
    np.testing.assert_allclose(selection.estimate(scores), scores.mean(axis=1))


def test_a_constant_item_joins_the_medoid_of_the_nearest_mean() -> None:
    scores = np.array([[0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1.0]])[[0, 0, 0, 1, 1, 1, 2]].T
    medoids, size = anchor_points._medoids(scores, 2, 0)
    assert medoids[0] < 3 <= medoids[1] < 6
    assert size.tolist() == [3, 4]  # the last item is as far from either, but its mean is nearer to the second


def test_a_large_pool_is_cut_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = random_pool(0, models=8, sizes=(50,))
    whole = AnchorPoints().select(pool, 11, seed=0)
    assert whole.notes == ()
    monkeypatch.setattr(anchor_points, "MOST_ITEMS", 20)
    parts = AnchorPoints().select(pool, 11, seed=0)
    assert len(parts.index) == 11
    assert parts.weight is not None
    assert parts.weight.sum() == pytest.approx(1)
    assert "3 random parts" in parts.notes[0]
    for budget in (1, 2, 49):  # fewer places than parts, and parts kept whole
        assert len(AnchorPoints().select(pool, budget, seed=0).index) == budget


def test_items_without_a_score_have_the_overall_mean() -> None:
    scores = np.array([[0.0, np.nan, 1.0], [1.0, np.nan, np.nan]])
    np.testing.assert_allclose(item_means(scores), [0.5, 2 / 3, 1.0])
    np.testing.assert_allclose(item_means(np.full((2, 2), np.nan)), 0.5)


def test_threads_change_nothing() -> None:
    pool = random_pool(1, models=30, missing=0.1, sizes=(400,))
    one = AnchorPoints().select(pool, 40, seed=3)
    with threadpool_limits(2):
        two = AnchorPoints().select(pool, 40, seed=3)
    assert one.index.tobytes() == two.index.tobytes()
    assert one.weight is not None
    assert two.weight is not None
    assert one.weight.tobytes() == two.weight.tobytes()
