from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.selectors.anchors import anchors, in_fixed_order


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 5, 30, 59])
def test_weights_are_whole_numbers_of_items(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(60, 3))
    index, weight = anchors(vectors, k, keys=np.arange(60), seed=seed)
    assert len(index) == k
    assert (np.diff(index) > 0).all()
    assert weight.sum() == pytest.approx(1)
    assert (weight * 60).round(6).tolist() == (weight * 60).round().tolist()
    assert (weight > 0).all()


def test_separate_groups_are_found_and_weighted() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [10, 25, 5])
    vectors = np.array([[0, 0], [50, 0], [0, 50]])[group] + rng.normal(size=(40, 2))
    shuffled = rng.permutation(40)
    index, weight = anchors(vectors[shuffled], 3, keys=np.arange(40), seed=0)
    found = group[shuffled][index]
    assert sorted(found) == [0, 1, 2]
    np.testing.assert_allclose(weight, np.array([0.25, 0.625, 0.125])[found])
    for g, i in zip(found, index, strict=True):  # nearest to the mean of its group
        members = np.flatnonzero(group[shuffled] == g)
        distance = ((vectors[shuffled][members] - vectors[shuffled][members].mean(axis=0)) ** 2).sum(axis=1)
        assert members[distance.argmin()] == i


def test_with_more_anchors_than_vectors_every_mean_is_exact() -> None:
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 2, size=(6, 9)).astype(float)
    vectors = patterns[np.repeat(np.arange(6), [1, 2, 3, 10, 20, 4])]
    for k in (6, 7, 15, 39, 40):
        index, weight = anchors(vectors, k, keys=rng.permutation(40), seed=0)
        assert len(index) == k
        np.testing.assert_allclose(weight @ vectors[index], vectors.mean(axis=0))
    assert len(set(weight.round(9))) == 1  # all of them


def test_keys_decide_between_equal_items() -> None:
    vectors = np.repeat([[0.0], [9.0]], 5, axis=0)
    keys = np.array([3, 1, 2, 4, 5, 9, 8, 5, 6, 7])
    assert anchors(vectors, 2, keys=keys, seed=0)[0].tolist() == [1, 7]


def test_vectors_that_differ_in_the_last_digits_only() -> None:
    vectors = 0.5 + np.arange(20)[:, None] * 1e-8  # distinct at 9 decimals, but hardly for k-means
    index, weight = anchors(vectors, 15, keys=np.arange(20), seed=0)
    assert len(index) == 15
    assert weight.sum() == pytest.approx(1)
    assert len(anchors(vectors * 1e-3, 15, keys=np.arange(20), seed=0)[0]) == 15
    assert len(anchors(vectors, 0, keys=np.arange(20), seed=0)[0]) == 0


def test_fixed_order_is_the_same_for_any_order() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, size=(8, 4)) / 2
    scores[2, 1] = np.nan
    first, second = in_fixed_order(scores), in_fixed_order(scores[rng.permutation(8)])
    np.testing.assert_array_equal(first, second)
    assert sorted(map(str, scores)) == sorted(map(str, first))


def test_large_jobs_start_at_random_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from optotype.pipelines.selectors import anchors as module

    vectors = np.random.default_rng(0).normal(size=(200, 3))
    usual = anchors(vectors, 20, keys=np.arange(200), seed=0)
    monkeypatch.setattr(module, "_COSTLY", 100)
    once = anchors(vectors, 20, keys=np.arange(200), seed=0)
    assert len(once[0]) == 20
    assert once[1].sum() == pytest.approx(1)
    assert usual[0].tolist() != once[0].tolist()
