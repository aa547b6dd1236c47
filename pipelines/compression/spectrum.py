"""How many directions a model x category matrix has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.leaderboard import entering, standardised
from optotype.pipelines.kernels.item_moments import DECIMALS

__all__ = ["Spectrum", "spectrum"]

_TOP = 5
_SHARE = 0.95
_ROUNDING = 1e-12  # a share of energy this close to 0.95 reaches it


@dataclass(frozen=True)
class Spectrum:
    """Singular values of a z-scored matrix, and what they say.

    Attributes
    ----------
    singular_values : ndarray (min(M, C),) float64
        Falling.
    energy : ndarray (min(M, C),) float64
        Cumulative share of the sum of squared singular values; NaN where the matrix is all zeros.
    top5 : float
        Share of the first five (all, if there are fewer).
    components95 : int
        Least number of components that hold 95 % of the energy; 0 where the matrix is all zeros.
    participation_ratio : float
        Effective rank (Σ λ)² / Σ λ² over the singular values λ (Section F.4).
    models, categories : int
        Rows and columns.
    imputed, constant : int
        Missing entries that were taken as 0, the mean; columns that are constant and were taken as 0.
    """

    singular_values: NDArray[np.float64]
    energy: NDArray[np.float64]
    top5: float
    components95: int
    participation_ratio: float
    models: int
    categories: int
    imputed: int
    constant: int


def spectrum(matrix: NDArray[np.float64]) -> Spectrum:
    """Spectrum of the z-scored matrix (population sd; Figure 2, Section H.4).

    Where the paper is silent: only entering models count (at least half of the columns, at least 3 of them), a missing
    entry is 0 after z-scoring, and so is a constant column.

    Parameters
    ----------
    matrix : ndarray (M, C) float64
        Scores of models in categories; NaN where missing.

    Raises
    ------
    InvalidDataError
        Fewer than 3 models enter.
    """
    matrix = matrix.round(DECIMALS)  # means of other chunks differ behind it, and nothing here may hang on that
    rows = matrix[entering(matrix)]
    standard = standardised(rows)
    constant = np.isnan(standard).all(axis=0)
    missing = np.isnan(rows) & ~constant
    values = np.linalg.svd(np.nan_to_num(standard), compute_uv=False)
    squares = values**2
    total = float(squares.sum())
    energy = np.cumsum(squares) / total if total > 0 else np.full(len(values), np.nan)
    return Spectrum(
        singular_values=values,
        energy=energy,
        top5=float(energy[min(_TOP, len(energy)) - 1]),
        components95=int(np.argmax(energy >= _SHARE - _ROUNDING)) + 1 if total > 0 else 0,
        participation_ratio=float(values.sum()) ** 2 / total if total > 0 else float("nan"),
        models=len(rows),
        categories=matrix.shape[1],
        imputed=int(missing.sum()),
        constant=int(constant.sum()),
    )
