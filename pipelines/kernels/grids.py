"""Token grids brought onto another grid, and channels onto another width, on plain arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["orthonormal_map", "resample_grid", "resampling"]


def resampling(source: int, target: int) -> NDArray[np.float64]:
    """Weights (target, source) of linear interpolation between the centres of cells; each row adds up to 1.

    Cell j of the target lies at x_j = (j + ½) · source / target - ½, and takes max(0, 1 - |x_j - i| / s) of cell i,
    normalised, with s = max(1, source / target): where there are fewer cells than before, each averages over all that
    it stands for. This is the bilinear kernel with anti-aliasing of image libraries. Equal numbers give the identity.
    """
    scale = max(1.0, source / target)
    centres = (np.arange(target) + 0.5) * (source / target) - 0.5
    weights = np.maximum(0.0, 1.0 - np.abs(centres[:, None] - np.arange(source)) / scale)
    result: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return result


def resample_grid(rows: NDArray[np.floating], grid: tuple[int, int], target: tuple[int, int]) -> NDArray[np.floating]:
    """Tokens of whole images on another grid.

    Parameters
    ----------
    rows : ndarray (n · h · w, d)
        Image by image, row by row.
    grid, target : (int, int)
        Rows and columns that the tokens have, (h, w), and that they are to have, (H, W).

    Returns
    -------
    ndarray (n · H · W, d)
        float32, or float64 for float64. An image's values depend on its own tokens alone.
    """
    kind = np.result_type(rows.dtype, np.float32)
    (height, width), (tall, wide) = grid, target
    channels = rows.shape[1]
    images = len(rows) // (height * width)
    down, across = resampling(height, tall).astype(kind), resampling(width, wide).astype(kind)
    # One product an image (and a row of it), so that its bytes do not depend on the images beside it.
    tokens = np.matmul(down, rows.astype(kind).reshape(images, height, width * channels))
    tokens = np.matmul(across, tokens.reshape(images * tall, width, channels))
    result: NDArray[np.floating] = tokens.reshape(images * tall * wide, channels)
    return result


def orthonormal_map(source: int, target: int, seed: int) -> NDArray[np.float64]:
    """A seeded random map (source, target) that keeps lengths: exactly where it widens, on average where it narrows.

    The orthonormal factor of a Gaussian matrix (QR, signs fixed by a positive diagonal of R), a uniformly random frame.
    Narrowing scales by √(source / target), so that E‖x P‖² = ‖x‖² (Johnson-Lindenstrauss).

    Parameters
    ----------
    source, target : int
        Channels before and after.
    seed : int
        Two maps of unlike shape are unlike under one seed.
    """
    generator = np.random.default_rng([seed, source, target])
    tall, wide = max(source, target), min(source, target)
    factor, upper = np.linalg.qr(generator.standard_normal((tall, wide)))
    factor = factor * np.where(np.diag(upper) < 0, -1.0, 1.0)
    frame = factor.T if target > source else factor * np.sqrt(source / target)
    return np.ascontiguousarray(frame)
