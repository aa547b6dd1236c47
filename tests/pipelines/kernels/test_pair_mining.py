"""One tile of mined pairs against a loop over all of its pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from optotype.pipelines.kernels import pair_mining
from optotype.pipelines.kernels.pair_mining import Criterion, cosines, greedy_cap, mine_tile


class Plain:
    """Unit rows in an array; remembers which were asked for."""

    def __init__(self, array: NDArray[np.float64]) -> None:
        self.array = array / np.linalg.norm(array, axis=1, keepdims=True)
        self.asked: set[tuple[int, ...]] = set()

    def rows(self, indices: NDArray[np.integer]) -> NDArray[np.float64]:
        self.asked.add(tuple(indices.tolist()))
        return self.array[indices]

    def images(self) -> set[int]:
        return {image for asked in self.asked for image in asked}


def _cosine(rows: Plain, i: int, j: int) -> float:
    return round(float(sum(x * y for x, y in zip(rows.array[i].tolist(), rows.array[j].tolist(), strict=True))), 12)


def _slow(
    a: range, b: range, similar: Plain, different: Plain, criterion: Criterion
) -> tuple[int, list[tuple[int, int]]]:
    passed = [(i, j) for i in a for j in b if i < j and _cosine(similar, i, j) > criterion.above]
    return len(passed), [(i, j) for i, j in passed if _cosine(different, i, j) < criterion.below]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("above", "below"), [(0.2, 0.1), (-1.0, 1.0), (-1.0, 2.0), (0.999, 0.9), (1.0, 1.0)])
def test_a_tile_is_what_a_loop_finds(same: bool, above: float, below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_mining, "_STRIP", 7)
    monkeypatch.setattr(pair_mining, "_CHUNK", 5)
    generator = np.random.default_rng(3)
    first = generator.normal(size=(50, 6))
    first[[3, 20, 44]] = first[9]  # copies
    similar, different = Plain(first), Plain(generator.normal(size=(50, 4)))
    single = similar.array.astype(np.float32)
    criteria = [Criterion(above, below), Criterion(0.5, 0.0)]
    if same:
        found = mine_tile(single[:30], 0, None, 0, similar, different, criteria)
        sides = range(30), range(30)
    else:
        found = mine_tile(single[:30], 0, single[30:], 30, similar, different, criteria)
        sides = range(30), range(30, 50)
    expected = [_slow(*sides, similar, different, criterion) for criterion in criteria]
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == expected[0][1]
    assert found.passed.tolist() == [passed for passed, _ in expected]
    assert found.met.tolist() == [len(pairs) for _, pairs in expected]
    for i, j, one, other in zip(found.first, found.second, found.similar, found.different, strict=True):
        assert one == pytest.approx(_cosine(similar, i, j), abs=2e-12)
        assert other == pytest.approx(_cosine(different, i, j), abs=2e-12)


def test_the_second_space_is_asked_only_where_the_first_passed() -> None:
    angles = np.array([0.0, 0.1, 0.2, 1.5, 3.0])
    similar = Plain(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    different = Plain(np.eye(5))
    found = mine_tile(similar.array.astype(np.float32), 0, None, 0, similar, different, [Criterion(0.99, 0.5)])
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert different.images() == {0, 1, 2}


def test_what_is_near_a_threshold_is_decided_in_float64() -> None:
    """Cosines 1e-9 apart around 0.95, which float32 cannot tell from each other."""
    steps = np.arange(-20, 21)
    angles = np.arccos(0.95) + 1e-9 * steps
    rows = np.concatenate([[[1.0, 0.0]], np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    similar, different = Plain(rows), Plain(np.eye(len(rows)))
    found = mine_tile(
        similar.array[:1].astype(np.float32),
        0,
        similar.array[1:].astype(np.float32),
        1,
        similar,
        different,
        [Criterion(0.95, 0.5)],
    )
    assert found.second.tolist() == [1 + place for place in range(len(steps)) if steps[place] < 0]


def test_cosines_do_not_depend_on_order_place_or_company() -> None:
    generator = np.random.default_rng(0)
    a, b = (Plain(generator.normal(size=(40, 33))).array for _ in range(2))
    whole = cosines(a, b)
    assert np.array_equal(whole, cosines(b, a))
    for place in range(40):
        assert cosines(a[place : place + 1], b[place : place + 1])[0] == whole[place]
    assert np.array_equal(cosines(a, a), np.ones(40))
    assert np.array_equal(whole, whole.round(12))


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_the_cap_is_that_of_counting_anew(most: int) -> None:
    generator = np.random.default_rng(most)
    first = generator.integers(0, 9, 60)
    second = first + generator.integers(1, 5, 60)
    expected: list[bool] = []
    for place in range(60):
        before = [first[i] for i in range(place) if expected[i]] + [second[i] for i in range(place) if expected[i]]
        expected.append(before.count(first[place]) < most and before.count(second[place]) < most)
    assert greedy_cap(first, second, 13, most).tolist() == expected
    assert all(expected) == (most == 100)
    assert greedy_cap(first[:0], second[:0], 13, most).tolist() == []
