"""ρ, r and their p against scipy and plain loops: random, tied, constant."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

from optotype.pipelines.judging.correlations import (
    EXACT,
    SHUFFLES,
    STATISTICS,
    critical,
    difference_p,
    levelled,
    pearson_rows,
    permutation_p,
)

REFERENCE = {"rho": stats.spearmanr, "r": stats.pearsonr}


def _reference(name: str, first: np.ndarray, second: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return float(REFERENCE[name](first, second)[0])


@pytest.mark.parametrize("name", ["rho", "r"])
@pytest.mark.parametrize("levels", [2, 4, 1_000_000])
def test_rows_are_those_of_scipy(name: str, levels: int) -> None:
    rng = np.random.default_rng(levels)
    rows, others = (rng.integers(0, levels, size=(60, 7)) / 3 for _ in range(2))
    rows[0], others[1] = 0.7, 0.1
    found = STATISTICS[name](rows, others)
    wanted = [_reference(name, row, other) for row, other in zip(rows, others, strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    assert np.isnan(found[:2]).all()


def test_pearson_of_far_scales_and_of_one_row() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(5, 9))
    other = rng.normal(size=(1, 9))
    plain = pearson_rows(rows, other)
    np.testing.assert_allclose(pearson_rows(rows * 1e200, other), plain, atol=1e-12)
    np.testing.assert_allclose(pearson_rows(rows * 1e8 + 3e9, -other), -plain, atol=1e-6)
    assert np.isnan(pearson_rows(np.array([[1, 1 + 1e-14, 1]]), np.array([[1.0, 2, 3]]))).all()


@pytest.mark.parametrize("name", ["rho", "r"])
@pytest.mark.parametrize("tied", [False, True])
def test_exact_p_is_that_of_every_order(name: str, tied: bool) -> None:
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 5))
    if tied:
        first, second = np.round(first), np.round(second)
    given = abs(_reference(name, first, second))
    every = [abs(_reference(name, first, np.array(order))) for order in itertools.permutations(second)]
    p, kind = permutation_p(name, first, second, seed=0)
    assert kind == "exact"
    assert p == pytest.approx(np.mean([value >= given - 1e-9 for value in every]), abs=1e-15)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-12, 1.0, 1e12, 1e200, 1e300])
def test_no_number_hangs_on_the_scale_of_a_metric(scale: float) -> None:
    """Against scipy on whole numbers, which no rounding touches; warnings are errors."""
    rng = np.random.default_rng(8)
    rows, others = rng.integers(-50, 50, size=(2, 40, 7)).astype(float)
    for name, reference in REFERENCE.items():
        wanted = [float(reference(row, other)[0]) for row, other in zip(rows, others, strict=True)]
        np.testing.assert_allclose(STATISTICS[name](rows * scale, others), wanted, atol=1e-12)
        np.testing.assert_allclose(STATISTICS[name](rows * scale, others * scale), wanted, atol=1e-12)
        assert permutation_p(name, rows[0, :6] * scale, others[0, :6], seed=0) == permutation_p(
            name, rows[0, :6], others[0, :6], seed=0
        )


def test_what_is_equal_is_told_by_the_largest_value() -> None:
    near = np.array([1.4, 1.1, 1.3, 2.6, 2.55]) * 1e-12
    assert STATISTICS["rho"](near[None], np.arange(5.0)[None])[0] == pytest.approx(
        float(stats.spearmanr(near, np.arange(5))[0])
    )
    values = levelled(np.array([[3e300, 3e300 * (1 + 1e-14), 3e300 * (1 + 1e-10)], [0, 0, 0], [np.nan] * 3]))
    assert values[0, 0] == values[0, 1] < values[0, 2] == 1
    assert (values[1] == 0).all()
    assert np.isnan(values[2]).all()
    assert levelled(np.array([5e-324, -5e-324])).tolist() == [1, -1]


@pytest.mark.parametrize("name", ["rho", "r"])
def test_p_of_means_and_of_differences_are_those_of_every_order(name: str) -> None:
    rng = np.random.default_rng(6)
    first, other, second = np.round(rng.normal(size=(3, 2, 5)), 1)

    def mean(side: np.ndarray, order: list[int]) -> float:
        return float(np.mean([_reference(name, side[m], second[m][order]) for m in range(2)]))

    orders = [list(order) for order in itertools.permutations(range(5))]
    every = np.array([mean(first, order) for order in orders])
    assert permutation_p(name, first, second, seed=0)[0] == pytest.approx(
        np.mean(np.abs(every) >= abs(every[0]) - 1e-9)
    )
    gaps = every - np.array([mean(other, order) for order in orders])
    assert difference_p(name, first, other, second, seed=0) == pytest.approx(
        np.mean(np.abs(gaps) >= abs(gaps[0]) - 1e-9)
    )
    assert difference_p(name, first, 2 * first + 1, second, seed=0) == 1
    assert difference_p(name, first, np.ones((2, 5)), second, seed=0) is None


def test_p_of_many_encoders_is_shuffled_and_seeded() -> None:
    rng = np.random.default_rng(2)
    first = rng.normal(size=EXACT + 6)
    second = 0.6 * first + rng.normal(size=len(first))
    p, kind = permutation_p("r", first, second, seed=3)
    assert kind == "shuffled"
    assert p == permutation_p("r", first, second, seed=3)[0] != permutation_p("r", first, second, seed=4)[0]
    assert p == pytest.approx(stats.pearsonr(first, second).pvalue, abs=0.015)
    assert permutation_p("r", first, first, seed=0)[0] == 1 / (1 + SHUFFLES)
    assert permutation_p("rho", first, np.full(len(first), 2.0), seed=0)[0] is None


@pytest.mark.parametrize(("count", "value"), [(3, None), (5, 1.0), (6, 31 / 35), (7, 11 / 14), (8, 31 / 42)])
def test_critical_rho_is_that_of_tables(count: int, value: float | None) -> None:
    """Zar's table of critical values, two-sided, 5 %: 1, .886, .786, .738 for 5 to 8."""
    assert critical(count, seed=0) == (None if value is None else pytest.approx(value, abs=1e-8))
    if count == 8:
        assert critical(30, seed=0) == pytest.approx(0.362, abs=0.02)
