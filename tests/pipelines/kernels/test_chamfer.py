"""The tiled kernel and the fixed pair routine against loops over patches."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from optotype.pipelines.kernels import chamfer
from optotype.pipelines.kernels.chamfer import chamfer_block, chamfer_pair, groups, offsets_of


def _items(sizes: list[int], seed: int, dtype: type = np.float32, channels: int = 6) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    items = [generator.standard_normal((size, channels)) for size in sizes]
    return [(item / np.linalg.norm(item, axis=1, keepdims=True)).astype(dtype) for item in items]


def _stack(items: list[np.ndarray], limit: int) -> tuple[np.ndarray, list[chamfer.Group]]:
    return np.concatenate(items), groups(offsets_of(np.array([len(item) for item in items])), limit)


SIZES = [
    pytest.param([3] * 11, id="equal"),
    pytest.param([20] * 5, id="equal, many rows"),
    pytest.param([1] * 9, id="single patches"),
    pytest.param([5, 1, 4, 4, 12, 2, 7, 1, 3], id="ragged"),
    pytest.param([2, 40, 3, 33, 1, 1], id="larger than a tile"),
    pytest.param([17], id="one image"),
]


@pytest.mark.parametrize("limit", [4, 16, 1024])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_block_is_the_loop(
    sizes: list[int], limit: int, dtype: type, slow: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chamfer, "TILE_ROWS", max(limit, 8))
    items = _items(sizes, 1, dtype)
    tolerance = 1e-6 if dtype is np.float32 else 1e-13
    stack, cut = _stack(items, limit)
    found = chamfer_block(stack, cut)
    np.testing.assert_allclose(found, slow.chamfer([item.astype(float) for item in items]), atol=tolerance)
    np.testing.assert_array_equal(found, found.T)

    others = _items([2, 9, 1, 30], 2, dtype)
    across = chamfer_block(stack, cut, *_stack(others, limit))
    both = slow.chamfer([item.astype(float) for item in items + others])
    np.testing.assert_allclose(across, both[: len(items), len(items) :], atol=tolerance)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_images_that_match_nowhere(sign: float, slow: SimpleNamespace) -> None:
    # All matches of opposite cones are negative, which the integer order of the bits does not bear.
    generator = np.random.default_rng(9)
    items = [np.abs(generator.standard_normal((20 + i, 5))) * (1.0 if i % 2 else sign) for i in range(6)]
    items = [(item / np.linalg.norm(item, axis=1, keepdims=True)).astype(np.float32) for item in items]
    expected = slow.chamfer([item.astype(float) for item in items])
    assert (np.nanmin(expected) < 0) == (sign < 0)
    np.testing.assert_allclose(chamfer_block(*_stack(items, 64)), expected, atol=1e-6)


def test_groups_cover_all_images_within_the_limit() -> None:
    sizes = np.array([3, 3, 3, 9, 1, 1, 1, 1, 1, 1, 2])
    cut = groups(offsets_of(sizes), 6)
    assert [(group.first, group.last) for group in cut] == [(0, 2), (2, 3), (3, 4), (4, 10), (10, 11)]
    assert [group.equal for group in cut] == [3, 3, 9, 1, 2]


@pytest.mark.parametrize("sizes", [(4, 4), (1, 1), (3, 8)])
def test_pair_is_the_loop_and_symmetric_to_the_bit(sizes: tuple[int, int], slow: SimpleNamespace) -> None:
    for seed in range(20):
        a, b = _items(list(sizes), seed, np.float64)
        assert chamfer_pair(a, b) == chamfer_pair(b, a)
        assert chamfer_pair(a, b) == pytest.approx(slow.chamfer([a, b])[0, 1], abs=1e-14)


def test_pair_of_an_image_with_itself_and_of_equal_images() -> None:
    a, b = _items([7, 7], 3, np.float64)
    assert chamfer_pair(a, a.copy()) == pytest.approx(1.0, abs=1e-14)
    assert chamfer_pair(a, b) == chamfer_pair(a.copy(), b.copy()) == chamfer_pair(b.copy(), a.copy())


def test_order_of_patches_does_not_matter() -> None:
    a, b = _items([6, 9], 4, np.float64)
    assert chamfer_pair(a[::-1].copy(), b) == pytest.approx(chamfer_pair(a, b), abs=1e-14)
