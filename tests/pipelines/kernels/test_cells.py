"""Coverage cells and the projection before them."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from optotype.pipelines.kernels import cells as module
from optotype.pipelines.kernels.cells import cells, project, seed_of


def _points(seed: int, n: int = 90, d: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("seed", range(6))
def test_every_point_is_in_the_nearest_cell(seed: int) -> None:
    points = _points(seed)
    label = cells(points, 8, seed=seed)
    assert sorted(set(label.tolist())) == list(range(8))
    centres = np.array([np.mean([p for p, c in zip(points, label, strict=True) if c == k], axis=0) for k in range(8)])
    nearest = [min(range(8), key=lambda k, p=p: float(((p - centres[k]) ** 2).sum())) for p in points]
    assert label.tolist() == nearest


def test_cells_far_apart_are_found() -> None:
    """One start suffices where every distinct place is drawn as a centre, which equal points make certain."""
    places = _points(1, n=6)
    label = cells(places[[0, 1, 0, 2, 3, 3, 4, 5, 1]], 6, seed=0)
    assert label.tolist() == [0, 1, 0, 2, 3, 3, 4, 5, 1]


@pytest.mark.parametrize("seed", range(5))
def test_equal_points_share_a_cell_and_weigh_by_their_number(seed: int) -> None:
    points = _points(seed, n=30)
    repeated = np.concatenate([points, points[:7], points[:7]])
    label = cells(repeated, 5, seed=seed)
    assert label[30:37].tolist() == label[:7].tolist() == label[37:].tolist()
    centres = np.array([repeated[label == k].mean(axis=0) for k in range(5)])
    nearest = ((repeated[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert label.tolist() == nearest.tolist()


def test_numbered_in_order_of_appearance() -> None:
    label = cells(_points(3), 9, seed=4)
    _, first = np.unique(label, return_index=True)
    assert (np.diff(first) > 0).all()


def test_fewer_places_than_cells() -> None:
    points = _points(0, n=4)[[0, 1, 1, 2, 3, 3]]
    assert cells(points, 6, seed=0).tolist() == [0, 1, 1, 2, 3, 3]
    assert cells(np.zeros((5, 3)), 3, seed=0).tolist() == [0] * 5
    assert cells(np.array([[0.0], [-0.0]]), 2, seed=0).tolist() == [0, 0]


def test_points_that_rounding_cannot_tell_apart_raise_no_warning() -> None:
    label = cells(1e8 + _points(0, n=40, d=2) * 1e-9, 12, seed=0)
    assert label.min() == 0
    assert label.max() < 12


def test_rows_that_are_not_finite_are_in_no_cell() -> None:
    points = _points(2, n=20)
    points[[3, 8]] = np.nan
    points[5, 1] = np.inf
    label = cells(points, 4, seed=1)
    rest = np.delete(np.arange(20), [3, 5, 8])
    assert label[[3, 5, 8]].tolist() == [-1, -1, -1]
    assert label[rest].tolist() == cells(points[rest], 4, seed=1).tolist()
    assert cells(np.full((3, 2), np.nan), 2, seed=0).tolist() == [-1, -1, -1]
    assert cells(np.zeros((0, 2)), 2, seed=0).tolist() == []
    assert cells(points, 0, seed=0).tolist() == [-1] * 20


def test_seed_decides_and_threads_do_not() -> None:
    points = _points(5, n=3000, d=8)
    with threadpool_limits(limits=4):
        many = cells(points, 40, seed=11)
    with threadpool_limits(limits=1):
        one = cells(points, 40, seed=11)
    assert many.tolist() == one.tolist()
    assert many.tolist() != cells(points, 40, seed=12).tolist()


def test_a_projection_is_one_product_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _points(0, n=50, d=200).astype(np.float32)
    rows[7], rows[31] = np.nan, rows[30]
    found = project(rows)
    matrix = np.random.default_rng(64).standard_normal((200, 64)) / 8
    slow = np.array(
        [[sum(float(x) * y for x, y in zip(row, column, strict=True)) for column in matrix.T] for row in rows]
    )
    np.testing.assert_allclose(found, slow, rtol=0, atol=1e-12)
    assert found[31].tolist() == found[30].tolist()
    monkeypatch.setattr(module, "_BLOCK_ROWS", 7)
    np.testing.assert_allclose(project(rows), slow, rtol=0, atol=1e-12)


def test_a_projection_keeps_distances_on_average() -> None:
    rows = _points(1, n=60, d=500)
    low = project(rows)
    ratio = [((low[i] - low[j]) ** 2).sum() / ((rows[i] - rows[j]) ** 2).sum() for i in range(60) for j in range(i)]
    assert np.mean(ratio) == pytest.approx(1, abs=0.06)


def test_few_dimensions_are_left_alone() -> None:
    rows = _points(0, n=5, d=64).astype(np.float32)
    assert project(rows).tolist() == rows.astype(np.float64).tolist()
    assert project(np.zeros((0, 80))).shape == (0, 64)


def test_a_seed_is_told_apart_by_every_part() -> None:
    seeds = {seed_of(0), seed_of(1), seed_of(0, "a"), seed_of(0, "a", "b"), seed_of(0, "ab"), seed_of(0, "b", "a")}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**128 for seed in seeds)
    # Stored selections hang on it: SHA-256 of "3\0cells\0mmmu".
    assert seed_of(3, "cells", "mmmu") == 78055222449371020655553861410481601444
