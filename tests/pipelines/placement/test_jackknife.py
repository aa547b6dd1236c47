"""Lines and intervals, against least squares done anew without each point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from optotype.pipelines.placement.jackknife import predict
from optotype.pipelines.placement.ranks import place_among, places_within
from optotype.schemas.errors import UsageError

_GRID = st.integers(0, 8).map(lambda number: number / 8)  # ties and constant columns come often


def _fit(x: list[float], y: list[float]) -> tuple[float, float]:
    if len(set(x)) == 1:
        return 0.0, sum(y) / len(y)
    design = np.array([[each, 1.0] for each in x])
    slope, intercept = np.linalg.lstsq(design, np.array(y), rcond=None)[0]
    return float(slope), float(intercept)


def _slow(x: list[float], y: list[float], new: float, level: float) -> tuple[float, float, float]:
    slope, intercept = _fit(x, y)
    lows, highs = [], []
    for left in range(len(x)):
        a, b = _fit(x[:left] + x[left + 1 :], y[:left] + y[left + 1 :])
        residual = abs(y[left] - (a * x[left] + b))
        lows.append(a * new + b - residual)
        highs.append(a * new + b + residual)
    rank = math.ceil(round(level * (len(x) + 1), 9))
    if rank > len(x):
        return slope * new + intercept, -math.inf, math.inf
    return slope * new + intercept, sorted(lows, reverse=True)[rank - 1], sorted(highs)[rank - 1]


@given(st.lists(st.tuples(_GRID, _GRID), min_size=3, max_size=14), _GRID, st.sampled_from([0.5, 0.8, 0.9, 0.95, 1 / 3]))
def test_as_refitted_without_each_point(points: list[tuple[float, float]], new: float, level: float) -> None:
    x, y = [one for one, _ in points], [other for _, other in points]
    found = predict(np.array(x), np.array(y), np.array([new, new]), level)
    estimate, low, high = _slow(x, y, new, level)
    np.testing.assert_allclose(found.estimate, estimate, atol=1e-9)
    np.testing.assert_allclose(found.low, low, atol=1e-9)
    np.testing.assert_allclose(found.high, high, atol=1e-9)


def test_covers_as_often_as_it_says() -> None:
    """On exchangeable points drawn anew; three standard errors of 2,000 draws allow for chance."""
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(2000):
        x = random.normal(size=20)
        y = 0.5 * x + random.standard_t(4, size=20)
        found = predict(x[:-1], y[:-1], x[-1:], 0.8)
        inside += bool(found.low[0] <= y[-1] <= found.high[0])
    assert 0.8 - 0.027 < inside / 2000 < 0.8 + 0.06


@pytest.mark.parametrize(("points", "level"), [(2, 0.9), (5, 0.0), (5, 1.0), (5, float("nan"))])
def test_refuses(points: int, level: float) -> None:
    with pytest.raises(UsageError):
        predict(np.arange(points, dtype=float), np.zeros(points), np.zeros(1), level)


@given(st.lists(_GRID, max_size=12), _GRID, _GRID)
def test_places(others: list[float], one: float, other: float) -> None:
    theirs: NDArray[np.float64] = np.array(others, dtype=np.float64)
    low, high = min(one, other), max(one, other)
    order = sorted([*others, one], reverse=True)
    mean = np.mean([place for place, each in enumerate(order, 1) if each == one])
    assert place_among(one, theirs) == mean
    best, worst = places_within(low, high, theirs)
    assert best == 1 + sum(each > high for each in others)
    assert worst == 1 + sum(each >= low for each in others)
    assert best <= place_among(low, theirs) <= worst
    assert places_within(-math.inf, math.inf, theirs) == (1, 1 + len(others))
