"""Chamfer similarity of tokens in several spaces: the blocks of each add up to the brute force over all tokens."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.kernels.chamfer import (
    Group,
    chamfer_block,
    chamfer_pair,
    chamfer_pair_of_spaces,
    groups,
    offsets_of,
    one_of_spaces,
)


def _unit(random: np.random.Generator, rows: int, channels: int) -> np.ndarray:
    made = random.standard_normal((rows, channels))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def _directed(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    best = [max(float(token @ other) for other in b[space]) for space, rows in enumerate(a) for token in rows]
    return sum(best) / len(best)


def _images(seed: int, n: int, most: int = 9) -> list[list[np.ndarray]]:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, most, (n, 2), endpoint=True)
    return [[_unit(random, int(size[0]), 5), _unit(random, int(size[1]), 3)] for size in sizes]


def test_pairs_in_both_orders_and_one_space() -> None:
    images = _images(0, 12)
    for a, b in zip(images[:6], images[6:], strict=True):
        expected = 0.5 * (_directed(a, b) + _directed(b, a))
        assert chamfer_pair_of_spaces(a, b) == pytest.approx(expected, abs=1e-14)
        assert chamfer_pair_of_spaces(a, b) == chamfer_pair_of_spaces(b, a)
        assert chamfer_pair_of_spaces(a[:1], b[:1]) == chamfer_pair(a[0], b[0])
    a = images[0]
    assert chamfer_pair_of_spaces(a, [part.copy() for part in a]) == pytest.approx(1, abs=1e-14)
    # Equal in the first space: the second one settles which comes first.
    b = [a[0].copy(), images[1][1]]
    assert chamfer_pair_of_spaces(a, b) == chamfer_pair_of_spaces(b, a)


@pytest.mark.parametrize("limit", [7, 2048])
def test_blocks_add_up(limit: int) -> None:
    images = _images(1, 9, most=20)
    counts = np.array([sum(map(len, image)) for image in images])

    def stack(part: int, chosen: slice) -> tuple[np.ndarray, list[Group]]:
        rows = [image[part] for image in images[chosen]]
        cut = groups(offsets_of(np.array([len(row) for row in rows])), limit)
        return np.concatenate(rows), one_of_spaces(cut, counts[chosen])

    whole, across = np.zeros((9, 9)), np.zeros((4, 5))
    for part in (0, 1):
        whole += chamfer_block(*stack(part, slice(None)))
        across += chamfer_block(*stack(part, slice(4)), *stack(part, slice(4, None)))
    for i in range(9):
        for j in range(9):
            if i != j:
                expected = 0.5 * (_directed(images[i], images[j]) + _directed(images[j], images[i]))
                assert whole[i, j] == pytest.approx(expected, abs=1e-13)
                if i < 4 <= j:
                    assert across[i, j - 4] == pytest.approx(expected, abs=1e-13)
