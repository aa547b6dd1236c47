"""Counts of candidates above and at a threshold, against plain loops; rows and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optotype.pipelines.kernels import candidate_ranks
from optotype.pipelines.kernels.candidate_ranks import (
    ABOVE,
    EQUAL,
    NOT_FINITE,
    OK,
    ZERO,
    compare,
    exact_cosines,
    float_rows,
    unit_rows,
)


def _reference(unit: Any, rows: Any, thresholds: list[list[float]]) -> tuple[list[list[tuple[int, int]]], list[Any]]:
    """(above, equal) of each threshold of each query, and places and value of its best: one pair at a time."""
    counts, best = [], []
    for query, own in zip(unit, thresholds, strict=True):
        values = []
        for row in rows:
            row = row.astype(np.float64)
            values.append(round(float(query @ (row / np.sqrt(row @ row))), 12))
        counts.append([(sum(v > t for v in values), sum(v == t for v in values)) for t in own])
        high = max(values)
        best.append(([place for place, value in enumerate(values) if value == high], high))
    return counts, best


def _run(unit: Any, rows: Any, thresholds: list[list[float]], *, each: bool = False, floor: Any = None) -> Any:
    start = np.concatenate([[0], np.cumsum([len(own) for own in thresholds])])
    flat = np.array([value for own in thresholds for value in own])
    product = unit.astype(np.float32) @ float_rows(rows)[0].T
    floor = np.full(len(unit), -np.inf) if floor is None else floor
    return start, compare(product, exact_cosines(unit, rows), flat, start, floor, each=each)


@pytest.mark.parametrize("strip", [1, 7, 2**18])
@pytest.mark.parametrize("kind", ["random", "tied", "copies", "one"])
def test_counts_are_those_of_plain_loops(kind: str, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_ranks, "_STRIP", strip)
    rng = np.random.default_rng(3)
    queries, rows = rng.normal(size=(9, 5)), rng.normal(size=(40, 5)).astype(np.float32)
    if kind == "tied":  # few directions, of several lengths
        queries = rng.integers(-1, 2, (9, 5)) + np.array([2, 0, 0, 0, 0])
        rows = (rng.integers(0, 2, (40, 5)) + np.array([1, 0, 0, 0, 0])).astype(np.float32)
        rows *= rng.choice([1, 2, 3], (40, 1))
    if kind == "copies":
        rows = np.repeat(rows[:2], 20, axis=0)
    if kind == "one":
        rows = rows[:1]
    unit, _ = unit_rows(queries)
    exact = exact_cosines(unit, rows)
    thresholds = []
    for query in range(len(unit)):  # of none, one or several rows
        picked = rng.choice(len(rows), min(query % 4, len(rows)), replace=False)
        thresholds.append(sorted(set(exact(np.full(len(picked), query), picked).tolist())))
    counts, best = _reference(unit, rows, thresholds)
    floor = np.array([max(own, default=-np.inf) for own in thresholds])
    for each in (False, True):
        start, found = _run(unit, rows, thresholds, each=each, floor=floor)
        for query, own in enumerate(counts):
            at = slice(start[query], start[query + 1])
            assert list(zip(found.above[at].tolist(), found.equal[at].tolist(), strict=True)) == own
            chosen = found.candidate[found.query == query]
            assert sorted(chosen.tolist()) == best[query][0]
            assert set(found.value[found.query == query].tolist()) == {best[query][1]}
        if each:
            assert ((found.code == ABOVE).sum(axis=1) == found.above).all()
            assert ((found.code == EQUAL).sum(axis=1) == found.equal).all()


def test_a_floor_above_all_candidates_leaves_none() -> None:
    rng = np.random.default_rng(0)
    unit, _ = unit_rows(rng.normal(size=(3, 4)))
    _, found = _run(unit, rng.normal(size=(8, 4)), [[], [], []], floor=np.array([2.0, -np.inf, 2.0]))
    assert set(found.query.tolist()) == {1}


def test_differences_that_float32_has_not_are_told_apart() -> None:
    """Directions that differ by 1e-8: equal in float32, ordered all the same; and copies are equal."""
    unit, _ = unit_rows(np.array([[1.0, 0.3, -0.2, 0.0]]))
    rows = np.array([[1, 1, 0, 0], [1 + 1e-8, 1 - 1e-8, 0, 0], [1 + 2e-8, 1 - 2e-8, 0, 0], [1, 1, 0, 0]], np.float64)
    threshold = float(exact_cosines(unit, rows)(np.array([0]), np.array([0]))[0])
    _, found = _run(unit, rows, [[threshold]])
    assert len(set(float_rows(rows)[0] @ unit[0].astype(np.float32))) == 1
    assert (found.above.tolist(), found.equal.tolist(), found.candidate.tolist()) == ([2], [2], [2])


def test_a_cosine_hangs_on_its_two_rows_alone() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(700, 33)).astype(np.float32)
    unit, _ = unit_rows(rng.normal(size=(5, 33)))
    query, row = np.repeat(np.arange(5), 700), np.tile(np.arange(700), 5)
    together = exact_cosines(unit, rows)(query, row)
    for at in rng.choice(3500, 50, replace=False):
        alone = exact_cosines(unit[[query[at]]], rows[[row[at]]])(np.array([0]), np.array([0]))
        assert alone[0] == together[at]


def test_many_pairs_of_copies_are_scored_as_few() -> None:
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.normal(size=(3, 6)), 50, axis=0)
    unit, _ = unit_rows(rng.normal(size=(40, 6)))
    query, row = np.divmod(np.arange(40 * 150), 150)
    found = exact_cosines(unit, rows)(query, row)
    expected = np.concatenate([exact_cosines(unit, rows)(np.arange(40), np.full(40, at)) for at in range(150)])
    assert (found.reshape(40, 150).T.ravel() == expected).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_a_row_is(dtype: str) -> None:
    tiny, huge = {"float16": (6e-8, 6e4), "float32": (1e-42, 3e38), "float64": (1e-320, 1e308)}[dtype]
    rows = np.array(
        [
            [1, 2, 2],
            [0, 0, 0],
            [np.nan, 1, 1],
            [np.inf, 0, 0],
            [-np.inf, 1, 0],
            [tiny, 0, 0],
            [huge, huge, 0],
            [-0.0, 0, 0],
        ]
    ).astype(dtype)
    expected = [OK, ZERO, NOT_FINITE, NOT_FINITE, NOT_FINITE, OK, OK, ZERO]
    for make in (unit_rows, float_rows):
        unit, state = make(rows)  # type: ignore[operator]
        assert state.tolist() == expected
        length = np.sqrt((unit.astype(np.float64) ** 2).sum(axis=1))
        assert np.allclose(length, np.array(expected) == OK, atol=1e-6)
        assert np.allclose(unit[[0, 5, 6]], [[1 / 3, 2 / 3, 2 / 3], [1, 0, 0], [0.5**0.5, 0.5**0.5, 0]], atol=1e-6)
    assert unit_rows(rows)[0].dtype == np.float64
    assert float_rows(rows)[0].dtype == np.float32


@pytest.mark.parametrize("channels", [1, 63, 64, 65, 5000])
def test_float32_is_near_enough_beside_a_large_channel(channels: int) -> None:
    """The window of near-ties is 1e-5; a product is within half of it, lengths added in float32 alone are not."""
    rng = np.random.default_rng(0)
    rows = (1e-3 * rng.normal(size=(300, channels))).astype(np.float32)
    rows[:, 0] = 1
    short, (exact, _) = float_rows(rows)[0], unit_rows(rows)
    assert np.abs(short @ short[:20].T - exact @ exact[:20].T).max() < 5e-6
    assert np.abs(short - exact).max() < 5e-7


def test_no_candidates_is_no_count() -> None:
    unit, _ = unit_rows(np.ones((2, 3)))
    rows = np.empty((0, 3), np.float32)
    _, found = _run(unit, rows, [[0.5], [0.1, 0.2]])
    assert found.above.tolist() == [0, 0, 0]
    assert not len(found.query)
