from __future__ import annotations

import statistics

import numpy as np
import pytest
from numpy.typing import NDArray

from optotype.pipelines.irt.binarise import binarise


def reference(scores: NDArray[np.float64], benchmark: list[str], scoring: list[str]) -> list[list[int]]:
    """One score at a time."""
    m, n = scores.shape
    half = [kind.lower() in ("binary", "vqa", "soft", "judge") for kind in scoring]
    result = [[-1] * n for _ in range(m)]
    for i in range(n):
        group = [j for j in range(n) if benchmark[j] == benchmark[i] and half[j] == half[i]]
        known = [scores[k, j] for j in group for k in range(m) if not np.isnan(scores[k, j])]
        for k in range(m):
            x = scores[k, i]
            if np.isnan(x):
                continue
            if half[i] or all(v in (0, 1) for v in known):
                result[k][i] = int(x >= 0.5)
            else:
                middle = statistics.median(known)
                strict = sum(v > middle for v in known) / len(known)
                loose = sum(v >= middle for v in known) / len(known)
                result[k][i] = int(x > middle if abs(strict - 0.5) <= abs(loose - 0.5) else x >= middle)
    return result


@pytest.mark.parametrize("seed", range(6))
def test_responses_are_those_of_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 5, size=(6, 30)) / 4
    benchmark = list(rng.choice(["a", "b", "c", "d"], size=30))
    scores[:, [name == "a" for name in benchmark]] = rng.integers(0, 2, size=(6, benchmark.count("a")))
    scores[:, [name == "b" for name in benchmark]] = 0.4  # constant
    scores[rng.random(scores.shape) < 0.2] = np.nan
    scores[:, 4] = np.nan
    scoring = list(rng.choice(["", "VQA", "judge", "caption"], size=30))
    found, cut = binarise(scores, np.array(benchmark, dtype=object), np.array(scoring, dtype=object))
    assert found.tolist() == reference(scores, benchmark, scoring)
    assert cut(scores).tolist() == found.tolist()
    some = np.array([3, 17, 4])
    assert cut.take(some)(scores[:, some]).tolist() == found[:, some].tolist()


def test_a_median_that_most_scores_equal_leaves_something_on_either_side() -> None:
    names = np.array(["low"] * 2 + ["high"] * 2)
    scores = np.array([[0, 0, 1, 1], [0, 0.3, 1, 0.3], [0, 0.6, 1, 0.6]])
    found, _ = binarise(scores, names)
    assert found.tolist() == [[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 1, 0]]


def test_levels_turn_chances_into_scores() -> None:
    names = np.array(["graded"] * 3 + ["binary"] * 2)
    scores = np.array([[0.1, 0.2, 0.9, 1, 0], [0.3, 0.8, 0.7, 0, 0]])
    found, cut = binarise(scores, names)
    right, wrong = np.mean([0.9, 0.8, 0.7]), np.mean([0.1, 0.2, 0.3])
    np.testing.assert_allclose(
        cut.expected(np.array([[0, 1, 0.5, 0, 0.3]])), [[wrong, right, (wrong + right) / 2, 0, 0.3]]
    )
    # the responses themselves give back the mean of each benchmark
    assert cut.expected(found.astype(float))[:, :3].mean() == pytest.approx(scores[:, :3].mean())


def test_other_models_are_cut_where_the_build_models_were() -> None:
    build = np.array([[0.2, 0.4], [0.6, 0.8]])
    _, cut = binarise(build, np.array(["a", "a"]))
    assert cut(np.array([[0.45, 0.55], [0.99, np.nan]])).tolist() == [[0, 1], [1, -1]]


def test_without_any_score_nothing_is_learnt() -> None:
    found, cut = binarise(np.full((3, 2), np.nan), np.array(["a", "b"]))
    assert (found == -1).all()
    assert cut.threshold.tolist() == [0.5, 0.5]
    assert binarise(np.zeros((0, 2)), np.array(["a", "b"]))[0].shape == (0, 2)
