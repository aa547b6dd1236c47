"""Properties that hold for any small input."""

from __future__ import annotations

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from optotype.pipelines.kernels.chamfer import chamfer_block, chamfer_pair, groups, offsets_of
from optotype.pipelines.kernels.topk import Candidates, top_k
from optotype.pipelines.kernels.whitening import fit, moments, whiten
from optotype.pipelines.operators.neighbours import feature_neighbours
from optotype.pipelines.ravel import score


def _items(seed: int, sizes: list[int], channels: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal((size, channels)) for size in sizes]


SIZES = st.lists(st.integers(1, 6), min_size=3, max_size=14)
SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, SIZES, st.integers(1, 12))
@settings(deadline=None, max_examples=60)
def test_tiles_of_any_size_give_the_pairs(seed: int, sizes: list[int], limit: int) -> None:
    items = [item / np.linalg.norm(item, axis=1, keepdims=True) for item in _items(seed, sizes, 3)]
    block = chamfer_block(np.concatenate(items), groups(offsets_of(np.array(sizes)), limit))
    for i in range(len(items)):
        for j in range(i):
            np.testing.assert_allclose(block[i, j], chamfer_pair(items[i], items[j]), atol=1e-12)


@given(SEEDS, st.integers(2, 20), st.integers(1, 4), st.data())
@settings(deadline=None, max_examples=60)
def test_candidates_in_parts_are_the_sort(seed: int, n: int, levels: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n - 1))
    generator = np.random.default_rng(seed)
    matrix = generator.integers(0, levels, (n, n)).astype(float)
    np.fill_diagonal(matrix, np.nan)
    found = Candidates(n, k)
    order = generator.permutation(n)
    for columns in np.array_split(order, data.draw(st.integers(1, n))):
        found.add(np.arange(n), columns, matrix[:, columns])
    index, value = found.finish()
    expected = top_k(matrix, k)
    np.testing.assert_array_equal(index, expected[0])
    np.testing.assert_array_equal(value, expected[1])


@given(SEEDS, st.integers(3, 40), st.integers(1, 12))
@settings(deadline=None, max_examples=60)
def test_cosines_after_whitening_survive_rotation_and_shift(seed: int, rows: int, channels: int) -> None:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((rows, channels))
    turn = np.linalg.qr(generator.standard_normal((channels, channels)))[0]
    found = []
    for data in (values, values @ turn + generator.standard_normal(channels)):
        white, zero = whiten(data, fit(moments(data), 1e-4))
        assert not zero.any()
        found.append(white @ white.T)
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)


@given(SEEDS, SIZES.filter(lambda sizes: sum(sizes) > 6))
@settings(deadline=None, max_examples=15)
def test_the_order_of_the_items_does_not_change_the_score(seed: int, sizes: list[int]) -> None:
    generator = np.random.default_rng(seed)
    first, second = _items(seed, sizes, 3), _items(seed + 1, sizes, 3)
    order = generator.permutation(len(sizes))
    scores = []
    for places in (np.arange(len(sizes)), order):
        pair = []
        for items in (first, second):
            data = xr.Dataset(
                {
                    "patches": (("token", "channel"), np.concatenate([items[i] for i in places])),
                    "row_size": ("image", np.array([sizes[i] for i in places])),
                },
                coords={"image": np.array([f"{i:03}" for i in places], dtype=object)},
            )
            pair.append(feature_neighbours(data, k=2))
        scores.append(score(*pair).score)
    assert scores[0] == scores[1]
