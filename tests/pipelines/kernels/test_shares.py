"""Budgets and shares against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from optotype.pipelines.kernels.shares import budget, shares
from optotype.schemas.errors import UsageError


def _shares(sizes: list[int], total: int) -> list[int]:
    whole = sum(sizes)
    quotas = [Fraction(total * size, whole) if whole else Fraction(0) for size in sizes]
    parts = [math.floor(quota) for quota in quotas]
    while sum(parts) < total:
        left = [quota - part for quota, part in zip(quotas, parts, strict=True)]
        parts[left.index(max(left))] += 1
    return parts


def test_a_budget_is_cut_where_the_decimals_say_so() -> None:
    for percent in range(1, 101):
        for n in (1, 7, 99, 100, 637, 1000, 2000, 386_324):
            assert budget(n, percent / 100, 0) == math.floor(Fraction(percent, 100) * n)
    assert budget(2000, 0.05, 0) == 100
    assert budget(3, 1 / 3, 0) == 1


@pytest.mark.parametrize(
    ("n", "floor", "kept"),
    [(2000, 100, 100), (4000, 100, 200), (637, 100, 100), (42, 100, 42), (42, 0, 2), (0, 100, 0)],
)
def test_a_budget_has_a_floor(n: int, floor: int, kept: int) -> None:
    assert budget(n, 0.05, floor) == kept


@pytest.mark.parametrize("retention", [0.0, -0.1, 1.0001, float("nan"), 5])
def test_a_retention_is_a_share(retention: float) -> None:
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        budget(10, retention, 0)


def test_a_floor_is_not_negative() -> None:
    with pytest.raises(UsageError, match="floor"):
        budget(10, 0.5, -1)


def test_shares_are_the_largest_remainders() -> None:
    generator = np.random.default_rng(0)
    for _ in range(300):
        sizes = generator.integers(0, 30, size=generator.integers(1, 8)).tolist()
        total = int(generator.integers(0, sum(sizes) + 1))
        found = shares(sizes, total)
        assert found == _shares(sizes, total)
        assert sum(found) == total
        assert all(part <= size for part, size in zip(found, sizes, strict=True))


def test_ties_go_to_the_first() -> None:
    assert shares([10, 10, 10], 4) == [2, 1, 1]
    assert shares([10, 10, 10], 5) == [2, 2, 1]
    assert shares([1, 1, 1, 1], 2) == [1, 1, 0, 0]


def test_more_than_there_is() -> None:
    assert shares([3, 0, 2], 9) == [3, 0, 2]
    assert shares([], 3) == []
    assert shares([0, 0], 3) == [0, 0]
