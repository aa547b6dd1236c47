"""Measures under ties, against every order of the tied candidates and against scikit-learn."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score, top_k_accuracy_score

from optotype.pipelines.retrieval.measures import POLICIES, measure
from optotype.pipelines.retrieval.ranks import NOT_FOUND, Relevant

Groups = list[list[float]]
"""Tied groups, best first, of one query: the grades of their members, 0 for what is not relevant."""

AT = (1, 2, 3, 5, 50)


def _relevant(queries: list[Groups], lost: list[list[float]] | None = None) -> Relevant:
    """What ranks.py would say; ``lost`` are grades of relevant candidates that have no vector."""
    rows = []
    for query, groups in enumerate(queries):
        above = 0
        for group in groups:
            rows += [(3 * query, above, len(group), grade, True) for grade in group if grade]
            above += len(group)
        rows += [(3 * query, NOT_FOUND, 0, grade, False) for grade in (lost or [[]] * len(queries))[query]]
    columns = list(zip(*rows, strict=True))
    kinds = (np.int64, np.int64, np.int64, np.float64, bool)
    return Relevant(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))  # type: ignore[arg-type]


def _of_order(order: list[float], more: list[float]) -> dict[str, float]:
    """One order of all candidates, in plain words."""
    hits = [rank for rank, grade in enumerate(order, 1) if grade]
    ideal = sorted([*order, *more], reverse=True)
    found = {"mrr": 1 / hits[0] if hits else 0.0}
    for k in AT:
        found[f"hit{k}"] = float(any(rank <= k for rank in hits))
        gain, best = (sum(grade / math.log2(rank + 1) for rank, grade in enumerate(of[:k], 1)) for of in (order, ideal))
        found[f"ndcg{k}"] = gain / best
    return found


def _reference(groups: Groups, more: list[float]) -> dict[str, dict[str, float]]:
    """Mean, best and worst over every order of every tied group."""
    orders = [
        _of_order([grade for group in parts for grade in group], more)
        for parts in itertools.product(*(itertools.permutations(group) for group in groups))
    ]
    pick: dict[str, Any] = {"expected": lambda v: math.fsum(v) / len(v), "optimistic": max, "pessimistic": min}
    return {name: {policy: pick[policy]([one[name] for one in orders]) for policy in POLICIES} for name in orders[0]}


def _flat(queries: list[Groups], lost: list[list[float]] | None = None) -> list[dict[str, dict[str, float]]]:
    found = measure(_relevant(queries, lost), AT)
    named = {"mrr": found.reciprocal, "p1": found.p1}
    named |= {f"hit{k}": found.hit[k] for k in AT} | {f"ndcg{k}": found.ndcg[k] for k in AT}
    return [
        {name: {policy: float(values[policy][query]) for policy in POLICIES} for name, values in named.items()}
        for query in range(len(queries))
    ]


def _random_groups(rng: np.random.Generator) -> Groups:
    groups = [
        [float(grade) for grade in rng.choice([0, 0, 0, 1, 2, 3], int(rng.integers(1, 5)))]
        for _ in range(int(rng.integers(1, 4)))
    ]
    if not any(grade for group in groups for grade in group):
        groups[-1][0] = 1.0
    return groups


def test_measures_are_those_of_all_orders() -> None:
    rng = np.random.default_rng(5)
    queries = [_random_groups(rng) for _ in range(60)]
    queries += [
        [[1.0]],
        [[0.0] * 5 + [1.0]],
        [[1.0, 1.0]],
        [[0.0], [0.0, 0.0], [2.0, 1.0, 0.0, 0.0]],
        [[1, 1, 1, 0, 0]],
    ]
    lost = [[float(g) for g in rng.integers(1, 4, int(rng.integers(0, 3)))] for _ in queries]
    for found, groups, more in zip(_flat(queries, lost), queries, lost, strict=True):
        expected = _reference(groups, more)
        for name, values in expected.items():
            for policy in POLICIES:
                assert found[name][policy] == pytest.approx(values[policy], abs=1e-12), (name, policy, groups)
        assert found["p1"] == found["hit1"]


def test_p1_is_the_share_of_what_is_relevant_in_the_first_group() -> None:
    found = _flat([[[1.0] * 2 + [0.0] * 5], [[0.0] * 9 + [1.0]], [[0.0], [1.0]], [[1.0, 1.0], [0.0]]])
    assert [one["p1"]["expected"] for one in found] == [2 / 7, 1 / 10, 0.0, 1.0]
    assert [one["p1"]["optimistic"] for one in found] == [1.0, 1.0, 0.0, 1.0]
    assert [one["p1"]["pessimistic"] for one in found] == [0.0, 0.0, 0.0, 1.0]


def test_what_has_no_vector_is_worth_nothing() -> None:
    (found,) = _flat([[]], [[1.0, 2.0]])
    assert all(value == 0 for values in found.values() for value in values.values())


def test_large_ties_are_exact() -> None:
    (found,) = _flat([[[1.0] + [0.0] * 99_999]])
    assert found["p1"]["expected"] == 1e-5
    assert found["mrr"]["expected"] == pytest.approx(math.fsum(1 / i for i in range(1, 100_001)) / 100_000, rel=1e-14)
    (several,) = _flat([[[1.0] * 3 + [0.0] * 997]])
    miss = math.comb(997, 50) / math.comb(1000, 50)
    assert several["hit50"]["expected"] == pytest.approx(1 - miss, rel=1e-12)
    first = [math.comb(1000 - j, 2) / math.comb(1000, 3) / j for j in range(1, 999)]
    assert several["mrr"]["expected"] == pytest.approx(math.fsum(first), rel=1e-12)


def test_scikit_learn_agrees() -> None:
    """Untied: all three. Tied: nDCG of scikit-learn is the expected one, its LRAP of one label the pessimistic MRR."""
    rng = np.random.default_rng(2)
    for scores in (rng.normal(size=(40, 15)), rng.integers(0, 4, (40, 15)).astype(float)):
        grades = rng.integers(1, 4, (40, 15)) * (rng.random((40, 15)) < 0.3)
        grades[np.arange(40), rng.integers(0, 15, 40)] = 2
        labels = rng.integers(0, 15, 40)
        graded, single = [], []
        for row, grade, label in zip(scores, grades.astype(float), labels, strict=True):
            levels = sorted(set(row), reverse=True)
            graded.append([grade[row == level].tolist() for level in levels])
            single.append([(np.flatnonzero(row == level) == label).astype(float).tolist() for level in levels])
        many, one = _flat(graded), _flat(single)
        for k in (1, 3, 5):
            mean = np.mean([found[f"ndcg{k}"]["expected"] for found in many])
            assert mean == pytest.approx(ndcg_score(grades, scores, k=k), abs=1e-12)
        truth = np.arange(15) == labels[:, None]
        worst = np.mean([found["mrr"]["pessimistic"] for found in one])
        assert worst == pytest.approx(label_ranking_average_precision_score(truth, scores), abs=1e-12)
        if len(set(scores[0])) == 15:
            for k in (1, 3, 5):
                share = top_k_accuracy_score(labels, scores, k=k, labels=np.arange(15))
                assert np.mean([found[f"hit{k}"]["expected"] for found in one]) == pytest.approx(share)
