"""Linear probing and k-NN classification against scikit-learn and plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from labelled_inputs import clusters, make_inputs, run
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from optotype.pipelines.metrics.held_out import drawn_order, held_out, stratified_folds, stratified_held_out
from optotype.pipelines.metrics.knn_classification import KnnClassification
from optotype.pipelines.metrics.linear_probing import STRENGTHS, LinearProbing
from optotype.schemas.errors import InvalidDataError, UsageError

METRICS = [LinearProbing(), KnnClassification()]


def names(n: int) -> Any:
    return np.array([f"i{number:03}" for number in range(n)], dtype=object)


def slow_knn(rows: np.ndarray, labels: list[str], k: int, temperature: float) -> list[float]:
    """One loop for each thing that the definition says."""
    hits = []
    unit = [row / math.sqrt(sum(float(x) * float(x) for x in row)) for row in rows]
    for i, row in enumerate(unit):
        others = sorted((-round(float(row @ unit[j]), 12), j) for j in range(len(unit)) if j != i)[:k]
        votes: dict[str, float] = {}
        for minus, j in others:
            votes[labels[j]] = votes.get(labels[j], 0.0) + math.exp((others[0][0] - minus) / temperature)
        most = max(votes.values())
        guess = min(label for label, vote in votes.items() if round(vote / most, 12) == 1.0)
        hits.append(float(guess == labels[i]))
    return hits


@pytest.mark.parametrize(("k", "temperature"), [(1, 0.07), (20, 0.07), (59, 1.0), (5, 0.005)])
def test_knn_is_what_loops_find(k: int, temperature: float) -> None:
    rows, labels = clusters(1, 60, 5, 4, spread=1.5)
    rows[10:20] = rows[0]  # ties of similarity
    score = run(KnnClassification(), make_inputs(rows, labels=labels), k=k, temperature=temperature)
    assert score.per_item.tolist() == slow_knn(rows, labels, k, temperature)
    assert score.value == score.per_item.mean()
    assert score.chance == max(labels.count(label) for label in labels) / 60


def test_knn_is_that_of_scikit_learn() -> None:
    rows, labels = clusters(2, 80, 6, 3, spread=1.2)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    score = run(KnnClassification(), make_inputs(rows, labels=labels), k=7)
    for i in range(80):
        rest = np.delete(np.arange(80), i)
        model = KNeighborsClassifier(
            n_neighbors=7, metric="cosine", algorithm="brute", weights=lambda distance: np.exp((1 - distance) / 0.07)
        ).fit(unit[rest], np.array(labels)[rest])
        assert score.per_item[i] == (model.predict(unit[i : i + 1])[0] == labels[i])


def test_knn_ties_go_to_the_label_that_sorts_first() -> None:
    # the first item has two neighbours of either class, all equally near; each other one is outvoted two to one
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    score = run(KnnClassification(), make_inputs(rows, labels=["a", "b", "a", "b", "a"]), k=4)
    assert score.per_item.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert score.per_item.tolist() == slow_knn(rows, ["a", "b", "a", "b", "a"], 4, 0.07)


def test_knn_of_blocks_is_that_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = clusters(3, 50, 4, 3, spread=1.0)
    whole = run(KnnClassification(), make_inputs(rows, labels=labels), k=5)
    monkeypatch.setattr("optotype.pipelines.metrics.knn_classification._BLOCK_VALUES", 150)
    assert run(KnnClassification(), make_inputs(rows, labels=labels), k=5).per_item.tolist() == whole.per_item.tolist()


def test_knn_has_no_cosine_of_zeros() -> None:
    rows, labels = clusters(4, 30, 4, 2)
    rows[[3, 7]] = 0.0
    with pytest.raises(InvalidDataError) as caught:
        run(KnnClassification(), make_inputs(rows, labels=labels))
    assert [problem.where for problem in caught.value.problems] == ["i003", "i007"]
    rows[[3, 7]] = 1e-200  # small, but a direction
    assert 0 <= run(KnnClassification(), make_inputs(rows, labels=labels)).value <= 1
    with pytest.raises(UsageError, match="k = 30, items = 30"):
        run(KnnClassification(), make_inputs(rows, labels=labels), k=30)


@pytest.mark.parametrize(("n", "channels"), [(90, 6), (60, 100)])  # more items than channels, and the other way
def test_linear_probing_is_that_of_scikit_learn(n: int, channels: int) -> None:
    rows, labels = clusters(5, n, channels, 3, spread=1.5)
    score = run(LinearProbing(), make_inputs(rows, labels=labels), seed=3)
    codes = np.array([int(label[1:]) for label in labels])
    train, test = stratified_held_out(names(n), codes, 0.3, 3, "linear-probing")
    fold = stratified_folds(names(n)[train], codes[train], 3, 3, "linear-probing/C")

    def fit(where: np.ndarray, strength: float) -> Any:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000, tol=1e-4))
        return model.fit(rows[where], codes[where])

    right = [
        sum(
            int((fit(train[fold != f], c).predict(rows[train[fold == f]]) == codes[train[fold == f]]).sum())
            for f in range(3)
        )
        for c in STRENGTHS
    ]
    best = STRENGTHS[int(np.argmax(right))]
    assert score.details["c"] == best
    assert score.per_item.tolist() == (fit(train, best).predict(rows[test]) == codes[test]).astype(float).tolist()
    assert score.value == score.per_item.mean()
    assert (score.details["train"], score.details["held_out"]) == (len(train), len(test))
    assert score.value > score.chance


def test_linear_probing_reads_what_is_linear_and_nothing_of_noise() -> None:
    rows, labels = clusters(6, 120, 8, 4, spread=0.05)
    assert run(LinearProbing(), make_inputs(rows, labels=labels)).value == 1.0
    noise = np.random.default_rng(6).standard_normal((120, 8))
    assert run(LinearProbing(), make_inputs(noise, labels=labels)).value < 0.6


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
class TestBoth:
    def test_items_without_a_shared_label_are_left_out(self, metric: Any) -> None:
        rows, labels = clusters(7, 60, 5, 3)
        padded = np.concatenate([rows, np.ones((3, 5)), np.full((1, 5), np.nan)])
        score = run(metric, make_inputs(padded, labels=[*labels, "one", "two", "", ""]))
        alone = run(metric, make_inputs(rows, labels=labels))
        assert score.per_item.tolist() == alone.per_item.tolist()
        assert score.details["unlabelled"] == 2
        assert (score.details["small_classes"], score.details["in_small_classes"]) == (["one", "two"], 2)

    def test_constant_features_are_right_by_chance_alone(self, metric: Any) -> None:
        labels = ["a"] * 30 + ["b"] * 10
        score = run(metric, make_inputs(np.ones((40, 3)), labels=labels))
        assert score.value == score.chance == 0.75

    def test_rows_may_come_in_any_order(self, metric: Any) -> None:
        rows, labels = clusters(8, 60, 5, 3, spread=1.0)
        order = np.random.default_rng(0).permutation(60)
        shuffled = make_inputs(rows[order], labels=[labels[i] for i in order], items=names(60)[order])
        assert run(metric, shuffled).value == run(metric, make_inputs(rows, labels=labels)).value

    def test_the_seed_draws_the_split_and_nothing_else_does(self, metric: Any) -> None:
        rows, labels = clusters(9, 60, 5, 3, spread=1.5)
        first = run(metric, make_inputs(rows, labels=labels), seed=1)
        np.random.seed(99)  # noqa: NPY002 - the global state must not matter
        assert first.per_item.tolist() == run(metric, make_inputs(rows, labels=labels), seed=1).per_item.tolist()
        assert first.details == run(metric, make_inputs(rows, labels=labels), seed=1).details

    @pytest.mark.parametrize("labels", [None, [""] * 6, ["a"] * 6, list("abcdef"), [*"aabcde"]])
    def test_refuses_without_two_classes(self, metric: Any, labels: Any) -> None:
        with pytest.raises(UsageError, match=r"--labels|--label-column"):
            run(metric, make_inputs(np.eye(6), labels=labels))

    def test_values_that_are_not_finite_are_named(self, metric: Any) -> None:
        rows, labels = clusters(10, 40, 4, 2)
        rows[5, 1], rows[9, 2] = np.nan, np.inf
        with pytest.raises(InvalidDataError) as caught:
            run(metric, make_inputs(rows, labels=labels))
        assert [problem.where for problem in caught.value.problems] == ["i005", "i009"]


class TestHeldOut:
    def test_every_class_is_on_both_sides(self) -> None:
        codes = np.array([0] * 2 + [1] * 3 + [2] * 40)
        train, test = stratified_held_out(names(45), codes, 0.3, 0, "x")
        assert sorted([*train, *test]) == list(range(45))
        assert np.bincount(codes[test]).tolist() == [1, 1, 12]
        fold = stratified_folds(names(45), codes, 4, 0, "x")
        assert max(np.bincount(fold)) - min(np.bincount(fold)) <= 1
        assert all(
            max(counts) - min(counts) <= 1 for c in range(3) for counts in [np.bincount(fold[codes == c], minlength=4)]
        )

    def test_an_item_more_moves_no_other(self) -> None:
        short, long = drawn_order(names(20), 5, "x").tolist(), drawn_order(names(30), 5, "x").tolist()
        assert [place for place in long if place < 20] == short
        assert drawn_order(names(20), 6, "x").tolist() != short != drawn_order(names(20), 5, "y").tolist()

    @pytest.mark.parametrize(("n", "share", "count"), [(2, 0.05, 1), (2, 0.95, 1), (10, 0.25, 3), (3, 0.95, 2)])
    def test_neither_side_is_empty(self, n: int, share: float, count: int) -> None:
        train, test = held_out(names(n), share, 0, "x")
        assert (len(train), len(test)) == (n - count, count)
        assert sorted([*train, *test]) == list(range(n))
