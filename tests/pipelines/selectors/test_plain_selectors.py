"""Variance, Random, DISCO and DatBench against choices made item by item."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from optotype.pipelines.selectors import datbench
from optotype.pipelines.selectors.conformance import random_pool
from optotype.pipelines.selectors.datbench import item_rest_correlation
from optotype.pipelines.selectors.order import best_first, seeded_keys
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import get_selector


def _best(pool: Pool, value: dict[int, float], budget: int, seed: int) -> list[int]:
    keys = seeded_keys(pool, seed)
    return sorted(sorted(value, key=lambda i: (-round(value[i], 12), int(keys[i])))[:budget])


def test_best_first() -> None:
    score = np.array([0.1, np.nan, 0.3, 0.1 + 1e-15, 0.3 + 1e-11, -1.0])
    keys = np.array([5, 0, 1, 4, 9, 2], dtype=np.uint64)
    assert best_first(score, keys).tolist() == [4, 2, 3, 0, 5, 1]
    largest = np.array([2**64 - 1, 2**63], dtype=np.uint64)
    assert best_first(np.zeros(2), largest).tolist() == [1, 0]


@pytest.mark.parametrize("seed", range(4))
def test_variance_takes_the_whole_pools_best(seed: int) -> None:
    pool = random_pool(seed, missing=0.2)
    value = {i: -math.inf if np.isnan(v) else float(v) for i, v in enumerate(pool.variance)}
    for budget in (1, 9, 40):
        found = get_selector("variance").select(pool, budget, seed=seed)
        assert found.index.tolist() == _best(pool, value, budget, seed)


def test_random_is_uniform_nested_and_blind_to_scores() -> None:
    selector = get_selector("random")
    pool = random_pool(0)
    times = np.zeros(pool.n)
    for seed in range(400):
        times[selector.select(pool, 15, seed=seed).index] += 1
    expected = 400 * 15 / pool.n
    assert np.abs(times - expected).max() < 5 * math.sqrt(expected * (1 - 15 / pool.n))
    small, large = (set(selector.select(pool, k, seed=3).index.tolist()) for k in (5, 20))
    assert small < large
    flat = replace(pool, matrix=np.zeros((2, pool.n)))
    assert selector.select(flat, 15, seed=3).index.tolist() == selector.select(pool, 15, seed=3).index.tolist()
    ties = get_selector("variance").select(Pool.of(np.zeros((2, pool.n)), benchmark=pool.benchmark), 15, seed=3)
    assert ties.index.tolist() != selector.select(flat, 15, seed=3).index.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_disco_counts_distinct_answers(seed: int) -> None:
    pool = random_pool(seed, missing=0.2)
    assert pool.responses is not None
    answers = pool.responses.copy()
    answers[:, 6:9] = 0
    pool = replace(pool, response=answers)
    value = {}
    for i in range(pool.n):
        valid = [m for m in range(9) if not np.isnan(pool.scores[m, i])]
        given = {int(answers[m, i]) for m in valid} - {0}
        value[i] = float(len(given) or len({round(float(pool.scores[m, i]), 12) for m in valid}))
    found = get_selector("disco").select(pool, 12, seed=seed)
    assert found.score.tolist() == [value[i] for i in range(pool.n)]
    assert found.index.tolist() == _best(pool, value, 12, seed)
    without = sum(1 for i in range(pool.n) if not answers[~np.isnan(pool.scores[:, i]), i].any())
    assert without >= 3
    assert found.notes == (f"{without} of 61 items have no answers: they are ranked by the number of distinct scores",)


def test_an_answer_that_was_not_scored_does_not_count() -> None:
    scores = np.array([[1.0, 1.0], [np.nan, 0.0], [1.0, 0.0]])
    pool = Pool.of(scores, benchmark=["b"] * 2, response=np.array([[1, 1], [2, 2], [1, 1]], dtype=np.uint32))
    assert get_selector("disco").select(pool, 1, seed=0).score.tolist() == [1.0, 2.0]


def test_disco_without_answers_says_so() -> None:
    pool = replace(random_pool(0), response=None)
    found = get_selector("disco").select(pool, 12, seed=0)
    assert found.notes == ("no answers: items are ranked by the number of distinct scores",)
    assert found.score[[0, 2]].tolist() == [1.0, 0.0]


def _slow_correlation(scores: np.ndarray) -> list[float]:
    models, n = scores.shape
    result = []
    for i in range(n):
        pairs = []
        for m in range(models):
            rest = [float(scores[m, j]) for j in range(n) if j != i and not np.isnan(scores[m, j])]
            if rest and not np.isnan(scores[m, i]):
                pairs.append((float(scores[m, i]), sum(rest) / len(rest)))
        if len(pairs) < 2 or len({x for x, _ in pairs}) == 1 or len({round(y, 12) for _, y in pairs}) == 1:
            result.append(math.nan)
            continue
        x, y = (np.array(side) for side in zip(*pairs, strict=True))
        result.append(float(np.corrcoef(x, y)[0, 1]))
    return result


@pytest.mark.parametrize("block", [4096, 5])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_item_rest_correlation(missing: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datbench, "_BLOCK_ITEMS", block)
    for seed in range(3):
        pool = random_pool(seed, missing=missing)
        scores = pool.scores.copy()
        scores[0] = np.nan
        scores[0, 10] = 1.0  # a model with nothing but one item has no rest
        np.testing.assert_allclose(item_rest_correlation(scores), _slow_correlation(scores), rtol=0, atol=1e-9)
    assert np.isnan(item_rest_correlation(np.array([[0.0], [1.0]]))).all()
    assert np.isnan(item_rest_correlation(np.full((3, 4), np.nan))).all()


@pytest.mark.parametrize("seed", range(3))
def test_datbench_takes_the_highest(seed: int) -> None:
    pool = random_pool(seed, missing=0.2)
    value = {i: -math.inf if math.isnan(v) else v for i, v in enumerate(_slow_correlation(pool.scores))}
    found = get_selector("datbench").select(pool, 14, seed=seed)
    assert found.index.tolist() == _best(pool, value, 14, seed)
    undefined = sum(v == -math.inf for v in value.values())
    assert found.notes == (f"{undefined} of 61 items have no item-rest correlation and come last",)


def test_on_binary_scores_it_is_the_point_biserial_correlation() -> None:
    generator = np.random.default_rng(0)
    scores = (generator.random((20, 8)) < 0.5).astype(float)
    for i, found in enumerate(item_rest_correlation(scores)):
        rest = np.delete(scores, i, axis=1).mean(axis=1)
        right = scores[:, i] == 1
        p = right.mean()
        biserial = (rest[right].mean() - rest[~right].mean()) / rest.std() * math.sqrt(p * (1 - p))
        assert found == pytest.approx(biserial, abs=1e-12)
