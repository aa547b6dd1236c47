"""A pool counts what its models did, item by item."""

from __future__ import annotations

import pickle
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from panels import make_panel

from optotype.pipelines.selectors.pool import ALPHA, Pool
from optotype.schemas.errors import InvalidDataError, UsageError


def _counted(scores: np.ndarray) -> tuple[list[int], list[float]]:
    valid, variance = [], []
    for column in scores.T:
        values = [float(x) for x in column if not np.isnan(x)]
        valid.append(len(values))
        mean = sum(values) / len(values) if values else np.nan
        variance.append(sum((x - mean) ** 2 for x in values) / len(values) if values else np.nan)
    return valid, variance


def _scores(seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    scores = generator.random((6, 20))
    scores[generator.random(scores.shape) < 0.4] = np.nan
    scores[:, 0], scores[:, 1], scores[1:, 2] = np.nan, 0.1, np.nan
    return scores


@pytest.mark.parametrize("seed", range(4))
def test_valid_models_and_variance(seed: int) -> None:
    scores = _scores(seed)
    pool = Pool.of(scores, benchmark=["b"] * 20)
    valid, variance = _counted(scores)
    assert pool.valid.tolist() == valid
    np.testing.assert_allclose(pool.variance, variance, rtol=0, atol=1e-15)
    assert pool.valid.dtype == np.int64
    np.testing.assert_array_equal(pool.scores, scores)


def test_taken_models_are_counted_alone() -> None:
    scores = _scores(0)
    answers = np.arange(120, dtype=np.uint32).reshape(6, 20)
    pool = Pool.of(da.from_array(scores, chunks=(-1, 3)), benchmark=["b"] * 20, response=answers)
    mask = np.array([True, False, True, True, False, False])
    for models in ([0, 2, 3], mask):
        taken = pool.take(models)
        alone = Pool.of(scores[mask], benchmark=["b"] * 20)
        assert taken.valid.tolist() == alone.valid.tolist()
        np.testing.assert_array_equal(taken.variance, alone.variance)
        np.testing.assert_array_equal(taken.scores, scores[mask])
        assert taken.responses is not None
        assert taken.responses.tolist() == answers[mask].tolist()
        assert taken.kept is pool.kept


def test_of_a_panel() -> None:
    panel = make_panel(
        {"a": 12, "b": 9}, models=5, missing=0.2, graded=["b"], scales={"a": (0, 100)}, responses=True, seed=3
    ).assign_coords(scoring=("item", np.array(["binary"] * 12 + ["vqa"] * 9, dtype=object)))
    index, models = np.array([1, 2, 8, 12, 13, 20]), np.array([4, 1, 2])
    text = np.arange(42.0).reshape(21, 2)
    pool = Pool.of_panel(panel, index, models=models, text=text, alpha=0.5)
    expected = panel["score"].values.astype(np.float64)
    expected[:, :12] /= 100
    expected = expected[models][:, index]
    np.testing.assert_allclose(pool.scores, expected, atol=1e-15)
    assert pool.valid.tolist() == _counted(expected)[0]
    assert pool.benchmark.tolist() == ["a"] * 3 + ["b"] * 3
    assert pool.item.tolist() == ["0001", "0002", "0008", "0000", "0001", "0008"]
    assert pool.scoring.tolist() == ["binary"] * 3 + ["vqa"] * 3
    assert pool.responses is not None
    assert pool.responses.tolist() == panel["response"].values[models][:, index].tolist()
    assert np.asarray(pool.text).tolist() == text[index].tolist()
    assert (pool.vision_text, pool.alpha, pool.n) == (None, 0.5, 6)
    assert [(name, members.tolist()) for name, members in pool.groups] == [("a", [0, 1, 2]), ("b", [3, 4, 5])]


def test_known_counts_are_taken_and_scores_stay_unread() -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("read")

    valid, variance = np.arange(21), np.linspace(0, 0.25, 21)
    with dask.config.set(scheduler=refuse):
        panel = make_panel({"a": 12, "b": 9})
        panel["score"].data = da.map_blocks(refuse, panel["score"].data, dtype=np.float32, meta=np.zeros((0, 0), "f4"))
        pool = Pool.of_panel(panel, np.array([3, 20]), valid=valid, variance=variance)
    assert pool.valid.tolist() == [3, 20]
    assert pool.variance.tolist() == variance[[3, 20]].tolist()
    with pytest.raises(AssertionError, match="read"):
        _ = pool.scores


def test_ranked_score() -> None:
    scores = _scores(1)
    generator = np.random.default_rng(0)
    text, vision_text = generator.normal(size=(2, 20, 3))
    vision_text[4] = np.nan
    pool = Pool.of(scores, benchmark=["b"] * 20, text=text, vision_text=vision_text)
    valid, variance = _counted(scores)
    delta = [
        1 - float(a @ b) / float(np.sqrt(a @ a) * np.sqrt(b @ b)) if np.isfinite(b).all() else 0.0
        for a, b in zip(text, vision_text, strict=True)
    ]
    np.testing.assert_allclose(pool.delta, delta, atol=1e-12)
    for item in range(20):
        if valid[item] == 0:
            assert np.isnan(pool.vaw[item])
            continue
        root = np.sqrt(valid[item])
        q = root * variance[item] + 0.187 * delta[item]  # σ̂² = √M v̂
        assert pool.vaw[item] == pytest.approx(q / root, abs=1e-12)
    assert pytest.approx(0.05 * np.sqrt(14), abs=5e-4) == ALPHA


def test_what_does_not_fit_is_listed_whole() -> None:
    with pytest.raises(InvalidDataError) as caught:
        Pool.of(
            np.zeros((2, 3)),
            benchmark=["b"] * 2,
            item=["i"] * 4,
            text=np.zeros((5, 2)),
            response=np.zeros((2, 2), dtype=np.uint32),
            variance=np.zeros(1),
        )
    assert [problem.where for problem in caught.value.problems] == ["benchmark", "item", "text", "variance", "response"]


@pytest.mark.parametrize("alpha", [-0.1, float("nan"), float("inf")])
def test_alpha_is_finite_and_not_negative(alpha: float) -> None:
    with pytest.raises(UsageError, match="alpha"):
        Pool.of(np.zeros((2, 3)), benchmark=["b"] * 3, alpha=alpha)


def test_a_pool_goes_to_a_worker_process() -> None:
    pool = Pool.of(_scores(2), benchmark=["b"] * 20, text=np.ones((20, 2)))
    assert pool.groups
    again = pickle.loads(pickle.dumps(pool))
    np.testing.assert_array_equal(again.scores, pool.scores)
    assert again.variance.tobytes() == pool.variance.tobytes()
