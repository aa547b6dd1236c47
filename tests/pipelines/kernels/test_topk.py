"""Top-k out of a matrix and out of blocks of it, with ties and near-ties."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optotype.pipelines.kernels import topk
from optotype.pipelines.kernels.topk import Candidates, top_k


def _matrix(seed: int, n: int, levels: int | None = None) -> np.ndarray:
    generator = np.random.default_rng(seed)
    upper = generator.random((n, n)) if levels is None else generator.integers(0, levels, (n, n)) / levels
    matrix = np.triu(upper, 1)
    matrix = matrix + matrix.T
    np.fill_diagonal(matrix, np.nan)
    return matrix


def _blocks(n: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A partition of the items by itself, in a random order."""
    generator = np.random.default_rng(seed)
    cuts = np.sort(generator.choice(np.arange(1, n), 4, replace=False))
    parts = np.split(np.arange(n), cuts)
    pairs = [(a, b) for a in parts for b in parts]
    return [pairs[i] for i in generator.permutation(len(pairs))]


@pytest.mark.parametrize("levels", [None, 4, 1])
@pytest.mark.parametrize("k", [1, 5, 29])
def test_top_k_is_a_sort(levels: int | None, k: int, slow: SimpleNamespace) -> None:
    matrix = _matrix(0, 30, levels)
    index, value = top_k(matrix, k)
    assert index.dtype == np.int32
    assert index.tolist() == slow.neighbours(matrix, k)
    np.testing.assert_array_equal(value, np.take_along_axis(matrix.round(12), index.astype(int), axis=1))


@pytest.mark.parametrize("levels", [None, 4, 1])
@pytest.mark.parametrize("k", [1, 5, 29])
def test_blocks_in_any_order_are_the_whole(levels: int | None, k: int, slow: SimpleNamespace) -> None:
    matrix = _matrix(1, 30, levels)
    for seed in range(3):
        found = Candidates(30, k)
        for rows, columns in _blocks(30, seed):
            found.add(rows, columns, matrix[np.ix_(rows, columns)])
        index, _ = found.finish()
        assert index.tolist() == slow.neighbours(matrix, k)


@pytest.mark.parametrize("slack", [1, 64])
@pytest.mark.parametrize("levels", [None, 5, 1])
@pytest.mark.parametrize("k", [1, 6, 38])
def test_near_ties_are_settled_by_exact_values(
    slack: int, levels: int | None, k: int, slow: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topk, "_SLACK", slack)
    matrix = _matrix(2, 40, levels)
    noise = np.random.default_rng(3).uniform(-4e-6, 4e-6, matrix.shape)
    noisy = matrix + noise
    for seed in range(3):
        found = Candidates(40, k, window=1e-5, exact=lambda row, columns: matrix[row, columns])
        for rows, columns in _blocks(40, seed):
            found.add(rows, columns, noisy[np.ix_(rows, columns)])
        assert found.value.shape[1] <= k + slack
        index, _ = found.finish((row, columns, matrix[row, columns]) for row, columns in found.undecided())
        # The set is exact; the order inside may follow the noise.
        assert np.sort(index, axis=1).tolist() == [sorted(row) for row in slow.neighbours(matrix, k)]


def test_clear_rows_ask_for_nothing() -> None:
    matrix = _matrix(4, 12)
    found = Candidates(12, 3, window=1e-9, exact=lambda row, columns: matrix[row, columns])
    found.add(np.arange(12), np.arange(12), matrix)
    assert found.undecided() == []
