"""Moments, fit and application against two-pass formulas."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from optotype.pipelines.kernels import whitening as kernel
from optotype.schemas.errors import InvalidDataError, UsageError


def _rows(seed: int, rows: int, channels: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((rows, channels)) * np.logspace(0, -3, channels) + 100 * generator.random(channels)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("prenorm", ["none", "l2"])
def test_moments_are_those_of_two_passes_in_float64(dtype: type, prenorm: kernel.Prenorm) -> None:
    rows = _rows(0, 5000, 7).astype(dtype)
    exact = rows.astype(np.float64)
    if prenorm == "l2":
        exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    found = kernel.moments(rows, prenorm)
    assert found.count == 5000
    np.testing.assert_allclose(found.mean, exact.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.scatter / 4999, np.cov(exact.T), rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(found.scatter, found.scatter.T)


def test_merged_parts_are_the_whole() -> None:
    rows = _rows(1, 300, 5)
    parts = [kernel.moments(part) for part in np.split(rows, [1, 40, 41, 200])]
    found, whole = reduce(kernel.merge, parts), kernel.moments(rows)
    assert found.count == whole.count
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(found.scatter, whole.scatter, rtol=1e-9, atol=1e-12)


def test_whitened_data_has_the_stated_variances_and_no_correlation() -> None:
    rows = _rows(2, 400, 6)
    fitted = kernel.fit(kernel.moments(rows), 1e-4)
    white = (rows - fitted.mean) @ fitted.matrix
    np.testing.assert_allclose(np.cov(white.T), np.diag(fitted.whitened_variance), atol=1e-9)
    np.testing.assert_allclose(fitted.whitened_variance, fitted.eigenvalues / (fitted.eigenvalues + 1e-4), rtol=1e-12)
    assert np.all(np.diff(fitted.eigenvalues) <= 0)


def test_float32_rows_keep_the_tail_of_the_spectrum() -> None:
    # Beside a direction of variance 1e6, a float32 product would drown one of variance 1e-5.
    generator = np.random.default_rng(3)
    rows = (generator.standard_normal((4000, 3)) * np.sqrt([1e6, 1.0, 1e-5])).astype(np.float32)
    fitted = kernel.fit(kernel.moments(rows), 1e-4)
    exact = np.linalg.eigvalsh(np.cov(rows.astype(np.float64).T))[::-1]
    np.testing.assert_allclose(fitted.eigenvalues, exact, rtol=1e-4)


def test_directions_without_variance_are_dropped() -> None:
    generator = np.random.default_rng(4)
    rows = generator.standard_normal((50, 2)) @ generator.standard_normal((2, 8))
    fitted = kernel.fit(kernel.moments(rows), 1e-4)
    assert fitted.components.shape == (8, 2)
    assert np.count_nonzero(fitted.whitened_variance) == 2


def test_fewer_rows_than_channels_leave_rows_minus_one_directions() -> None:
    fitted = kernel.fit(kernel.moments(np.random.default_rng(5).standard_normal((9, 30))), 1e-4)
    assert fitted.components.shape == (30, 8)


def test_absolute_floor() -> None:
    rows = np.random.default_rng(6).standard_normal((500, 3)) * np.sqrt([1e-3, 3e-10, 3e-11])
    assert kernel.fit(kernel.moments(rows), 1e-4).components.shape == (3, 2)


@pytest.mark.parametrize("rows", [np.ones((5, 3)), np.full((4, 2), 0.1), np.zeros((1, 2))])
def test_nothing_to_whiten_is_an_error(rows: np.ndarray) -> None:
    with pytest.raises(InvalidDataError, match="cannot be fitted"):
        kernel.fit(kernel.moments(rows), 1e-4)


@pytest.mark.parametrize("scale", [1e160, 1e200, 1e308])
def test_values_whose_squares_overflow_are_refused_and_prenorm_takes_them(scale: float) -> None:
    rows = np.random.default_rng(9).uniform(-1, 1, (3000, 4))
    with pytest.raises(InvalidDataError, match=r"too large to whiten.*overflows float64") as caught:
        kernel.fit(kernel.moments(rows * scale), 1e-4, option="--prenorm-states")
    assert "--prenorm-states l2" in str(caught.value)
    found = kernel.fit(kernel.moments(rows * scale, "l2"), 1e-4, "l2")
    expected = kernel.fit(kernel.moments(rows, "l2"), 1e-4, "l2")
    np.testing.assert_allclose(found.eigenvalues, expected.eigenvalues, rtol=1e-12)
    np.testing.assert_allclose(
        np.abs(kernel.whiten(rows * scale, found)[0]), np.abs(kernel.whiten(rows, expected)[0]), atol=1e-9
    )


def test_a_mean_whose_square_overflows_is_refused() -> None:
    rows = np.random.default_rng(10).uniform(-1, 1, (50, 3)) * 1e140 + 1e155  # the covariance itself is finite
    with pytest.raises(InvalidDataError, match="too large to whiten"):
        kernel.fit(kernel.moments(rows), 1e-4)


def test_only_what_may_help_is_advised_against_no_variance() -> None:
    rows = np.outer(np.arange(1.0, 6.0), [1.0, 2.0])
    with pytest.raises(InvalidDataError, match="nearly") as caught:
        kernel.fit(kernel.moments(rows, "l2"), 1e-4, "l2")
    assert "prenorm none" in str(caught.value)
    with pytest.raises(InvalidDataError, match="nearly") as caught:
        kernel.fit(kernel.moments(rows * 1e-9), 1e-4)
    assert "try prenorm l2" in str(caught.value)


@pytest.mark.parametrize("value", [1.0, 0.1, 1e-3, 1e3])
def test_no_option_is_advised_for_rows_that_are_equal(value: float) -> None:
    rows = np.full((50, 4), value) * [1.0, -2.0, 3.0, 0.3]
    with pytest.raises(InvalidDataError, match="nearly") as caught:
        kernel.fit(kernel.moments(rows), 1e-4)
    assert "No option mends" in str(caught.value.hint)
    with pytest.raises(InvalidDataError, match="nearly") as caught:
        kernel.fit(kernel.moments(rows, "l2"), 1e-4, "l2")
    assert "by other data alone" in str(caught.value.hint)


def test_unit_rows_of_any_size() -> None:
    rows = np.random.default_rng(3).standard_normal((30, 5))
    unit, zero = kernel.normalise_rows(rows)
    assert not zero.any()
    # the plain quotient, to the byte, where squares stay in range
    for scale in (1.0, 1e-130, 1e150, 3e-45):
        ordinary = rows * scale
        quotient = ordinary / np.sqrt(np.einsum("ij,ij->i", ordinary, ordinary))[:, None]
        assert kernel.normalise_rows(ordinary)[0].tobytes() == quotient.tobytes()
    for power in (-1000, -700, -500, 400, 1000):
        scaled = np.ldexp(rows, power)
        kept = scaled.copy()
        found, zero = kernel.normalise_rows(scaled)
        assert not zero.any()
        assert found.tobytes() == unit.tobytes()
        assert scaled.tobytes() == kept.tobytes()
    mixed = np.stack([rows[0], np.zeros(5), np.ldexp(rows[1], -900), np.full(5, 5e-324)])
    found, zero = kernel.normalise_rows(mixed)
    assert zero.tolist() == [False, True, False, False]
    np.testing.assert_array_equal(found[[0, 1, 2]], [unit[0], np.zeros(5), unit[1]])
    np.testing.assert_allclose(found[3], np.full(5, 5**-0.5), rtol=1e-15)
    assert kernel.normalise_rows(np.zeros((2, 0)))[1].tolist() == [True, True]


def test_rows_without_direction_are_found_beside_rounding() -> None:
    generator = np.random.default_rng(7)
    rows = generator.standard_normal((64, 5)) + 1e3
    rows[-1] = rows[:-1].mean(axis=0)  # the mean, up to the last place
    white, zero = kernel.whiten(rows, kernel.fit(kernel.moments(rows), 1e-4))
    assert np.flatnonzero(zero).tolist() == [63]
    np.testing.assert_allclose(np.linalg.norm(white[:-1], axis=1), 1.0, rtol=1e-12)
    assert np.all(white[-1] == 0)


def test_zero_rows_stay_zero_under_prenorm_and_have_a_direction() -> None:
    rows = np.random.default_rng(8).standard_normal((20, 4))
    rows[3] = 0
    fitted = kernel.fit(kernel.moments(rows, "l2"), 1e-4, "l2")
    white, zero = kernel.whiten(rows, fitted)
    assert not zero.any()
    expected = -fitted.mean @ fitted.components / np.sqrt(fitted.kept + 1e-4)
    np.testing.assert_allclose(white[3], expected / np.linalg.norm(expected), rtol=1e-12)


def test_options() -> None:
    assert kernel.check_eps(0) == 0.0
    for eps in (-1e-9, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="eps"):
            kernel.check_eps(eps)
    with pytest.raises(UsageError, match="none, l2"):
        kernel.check_prenorm("L2")
