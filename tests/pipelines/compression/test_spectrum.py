"""The spectrum against formulas."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.compression.spectrum import spectrum
from optotype.schemas.errors import InvalidDataError


def test_energy_is_models_times_categories_and_the_eigenvalues_are_those_of_the_correlation() -> None:
    matrix = np.random.default_rng(0).random((30, 18))
    found = spectrum(matrix)
    assert (found.singular_values**2).sum() == pytest.approx(30 * 18)
    values = np.sort(np.linalg.eigvalsh(np.corrcoef(matrix.T)))[::-1]
    np.testing.assert_allclose(found.singular_values**2 / 30, values, atol=1e-10)
    assert found.top5 == pytest.approx(values[:5].sum() / 18)
    singular = np.sqrt(30 * values)
    assert found.participation_ratio == pytest.approx(singular.sum() ** 2 / (singular**2).sum())
    shares = np.cumsum(values) / 18
    assert shares[found.components95 - 1] >= 0.95 > shares[found.components95 - 2]
    assert (found.models, found.categories, found.imputed, found.constant) == (30, 18, 0, 0)


def test_one_direction() -> None:
    found = spectrum(np.outer(np.arange(5), [1, 2, 3.0]))
    assert found.components95 == 1
    assert found.participation_ratio == pytest.approx(1)
    assert found.top5 == pytest.approx(1)


def test_missing_entries_are_the_mean_and_constant_columns_nothing() -> None:
    matrix = np.random.default_rng(1).random((6, 4))
    matrix[0, 1], matrix[5, :3] = np.nan, np.nan  # the last has one of four: it does not enter
    matrix[:, 3] = 0.5
    found = spectrum(matrix)
    assert (found.models, found.imputed, found.constant) == (5, 1, 1)
    rows = matrix[:5, :3]
    standard = np.nan_to_num((rows - np.nanmean(rows, axis=0)) / np.nanstd(rows, axis=0))
    np.testing.assert_allclose(found.singular_values[:3], np.linalg.svd(standard)[1], atol=1e-12)


def test_nothing_varies() -> None:
    found = spectrum(np.ones((4, 3)))
    assert found.components95 == 0
    assert np.isnan(found.participation_ratio)
    with pytest.raises(InvalidDataError):
        spectrum(np.ones((2, 3)))
