"""ρ against SciPy and a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr
from slow_compression import slow_spearman

from optotype.pipelines.kernels.spearman import spearman, spearman_rows


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [2, 4, 1000])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_spearman_is_that_of_a_loop(seed: int, levels: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    rows, others = (rng.integers(0, levels, (20, 11)) / 7 for _ in range(2))
    rows[rng.random(rows.shape) < missing] = np.nan
    others[rng.random(others.shape) < missing] = np.nan
    found = spearman_rows(rows, others)
    for place in range(20):
        expected = slow_spearman(rows[place], others[place])
        assert spearman(rows[place], others[place]) == pytest.approx(expected, abs=1e-12, nan_ok=True)
        assert found[place] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    np.testing.assert_array_equal(spearman_rows(rows, others[:1]), spearman_rows(rows, np.repeat(others[:1], 20, 0)))


def test_spearman_is_scipys_without_gaps() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=30), rng.normal(size=30)
    assert spearman(one, other) == pytest.approx(float(spearmanr(one, other).statistic), abs=1e-14)


def test_undefined_where_a_side_is_tied_or_there_is_nothing() -> None:
    nan = math.nan
    for one, other in (([1, 1, 1], [1, 2, 3]), ([], []), ([1], [2]), ([1, nan], [nan, 2]), ([nan, 1, 2], [1, 5, 5])):
        assert math.isnan(spearman(one, other))


def test_differences_beyond_twelve_decimals_are_ties() -> None:
    assert spearman([0.1 + 0.2, 0.3, 1], [1, 2, 3]) == spearman([0.3, 0.3, 1], [1, 2, 3])
    assert spearman([0.3 + 1e-11, 0.3, 1], [1, 2, 3]) < spearman([0.3, 0.3, 1], [1, 2, 3])


def test_equal_orders_give_equal_bits() -> None:
    rng = np.random.default_rng(1)
    other = rng.normal(size=(1, 200))
    row = rng.normal(size=200)
    rows = np.stack([row, np.exp(row), 3 * row - 1])
    assert len(set(spearman_rows(rows, other).tolist())) == 1
    assert spearman(row, row) == 1
    assert spearman(row, -row) == -1
