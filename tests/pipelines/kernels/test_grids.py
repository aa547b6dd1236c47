"""Grids resampled and channels mapped, against plain loops and an implementation of others."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.kernels.grids import orthonormal_map, resample_grid, resampling


def _slow(image: np.ndarray, target: tuple[int, int]) -> np.ndarray:
    """Every target cell as a weighted mean over all source cells, one by one."""
    height, width, channels = image.shape
    result = np.zeros((*target, channels))
    for y in range(target[0]):
        for x in range(target[1]):
            total = 0.0
            for v in range(height):
                for u in range(width):
                    weight = 1.0
                    for place, cell, source, aim in ((y, v, height, target[0]), (x, u, width, target[1])):
                        centre = (place + 0.5) * source / aim - 0.5
                        weight *= max(0.0, 1 - abs(centre - cell) / max(1.0, source / aim))
                    result[y, x] += weight * image[v, u]
                    total += weight
            result[y, x] /= total
    return result


@pytest.mark.parametrize(
    ("grid", "target"), [((7, 7), (12, 12)), ((12, 12), (7, 7)), ((3, 5), (4, 2)), ((1, 1), (3, 3)), ((4, 4), (1, 1))]
)
def test_resampled_as_by_hand(grid: tuple[int, int], target: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((3 * grid[0] * grid[1], 4))
    got = resample_grid(rows, grid, target).reshape(3, *target, 4)
    for image, expected in zip(got, rows.reshape(3, *grid, 4), strict=True):
        np.testing.assert_allclose(image, _slow(expected, target), atol=1e-12)


@pytest.mark.parametrize(("grid", "target"), [((7, 7), (12, 12)), ((12, 12), (7, 7)), ((16, 8), (5, 9))])
def test_resampled_as_torch_does(grid: tuple[int, int], target: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    rows = np.random.default_rng(1).standard_normal((2 * grid[0] * grid[1], 3)).astype(np.float32)
    images = torch.from_numpy(rows.reshape(2, *grid, 3)).permute(0, 3, 1, 2)
    theirs = torch.nn.functional.interpolate(images, size=target, mode="bilinear", antialias=True, align_corners=False)
    got = resample_grid(rows, grid, target)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, theirs.permute(0, 2, 3, 1).reshape(-1, 3).numpy(), atol=1e-5)


def test_resampling_keeps_constants_and_single_images() -> None:
    np.testing.assert_array_equal(resampling(5, 5), np.eye(5))
    np.testing.assert_allclose(resampling(7, 3).sum(axis=1), 1)
    rows = np.random.default_rng(2).standard_normal((5 * 9, 4)).astype(np.float16)
    whole = resample_grid(rows, (3, 3), (4, 4))
    for image in range(5):
        alone = resample_grid(rows[image * 9 : image * 9 + 9], (3, 3), (4, 4))
        assert alone.tobytes() == whole[image * 16 : image * 16 + 16].tobytes()


def test_widening_keeps_all_products_and_narrowing_lengths_on_average() -> None:
    rows = np.random.default_rng(3).standard_normal((200, 8))
    wide = rows @ orthonormal_map(8, 20, 0)
    np.testing.assert_allclose(wide @ wide.T, rows @ rows.T, atol=1e-10)
    seeds = [rows @ orthonormal_map(8, 3, seed) for seed in range(300)]
    ratio = np.mean([(narrow**2).sum() / (rows**2).sum() for narrow in seeds])
    assert ratio == pytest.approx(1, abs=0.05)


def test_maps_are_seeded() -> None:
    np.testing.assert_array_equal(orthonormal_map(6, 4, 1), orthonormal_map(6, 4, 1))
    assert not np.allclose(orthonormal_map(6, 4, 1), orthonormal_map(6, 4, 2))
