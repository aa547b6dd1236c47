"""Leading principal directions of rows, by the smaller of the two Gram matrices; plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread

__all__ = ["Principal", "leading"]

Floats = NDArray[np.float64]

_ROUNDING = 2.2e-16


@dataclass(frozen=True)
class Principal:
    """A truncated singular value decomposition X ≈ U Σ Vᵀ.

    Attributes
    ----------
    left : ndarray (n, r) float64
        U: orthonormal columns.
    values : ndarray (r,) float64
        The singular values, falling.
    right : ndarray (d, r) float64
        V: orthonormal columns.
    next_value : float
        The first singular value that is left out; 0 if all are there.
    """

    left: Floats
    values: Floats
    right: Floats
    next_value: float


def leading(rows: Floats, most: int) -> Principal:
    """The ``most`` leading singular triplets of centred rows, or all there are.

    Those with σ² > σ_max²·max(n, d)·2.2e-16 are there; what is smaller is rounding, since squares are taken. Memory is
    min(n, d)² numbers.

    Parameters
    ----------
    rows : ndarray (n, d) float64
    most : int
    """
    from scipy.linalg import eigh

    n, d = rows.shape
    wide = d > n
    gram = rows @ rows.T if wide else rows.T @ rows
    size = len(gram)
    with one_thread():  # a caller's own may have begun before SciPy brought its library along
        ascending, vectors = eigh(gram, subset_by_index=[max(0, size - most - 1), size - 1])
    squares, vectors = ascending[::-1], vectors[:, ::-1]
    there = int(np.count_nonzero(squares > max(float(squares[0]), 0.0) * max(n, d) * _ROUNDING))
    count = min(there, most)
    values = np.sqrt(squares[:count])
    one = np.ascontiguousarray(vectors[:, :count])
    other = (rows.T @ one if wide else rows @ one) / values
    left, right = (one, other) if wide else (other, one)
    return Principal(left, values, right, float(np.sqrt(squares[count])) if there > count else 0.0)
