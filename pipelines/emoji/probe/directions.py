"""Whitening of few rows in many channels, shrunk towards none, by rows of the training half alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["MOST_DIRECTIONS", "Directions", "fit_directions", "unit"]

MOST_DIRECTIONS = 128
"""Principal directions that a probe may use; with half of a few hundred pairs, more are noise."""

_FLOOR = 1e-10  # of the largest variance; below it a direction is rounding


@dataclass(frozen=True)
class Directions:
    """Principal directions of a set of rows.

    Attributes
    ----------
    mean : ndarray (d,) float64
    vectors : ndarray (d, r) float64
        By falling variance.
    variance : ndarray (r,) float64
        Divided by the number of rows.
    typical : float
        Mean variance of all directions that have any (r of them and those beyond `MOST_DIRECTIONS`).
    """

    mean: NDArray[np.float64]
    vectors: NDArray[np.float64]
    variance: NDArray[np.float64]
    typical: float

    def apply(self, rows: NDArray[np.float64], shrink: float) -> NDArray[np.float64]:
        """Rows (t, d) along the directions, each divided by √(variance + shrink · typical): (t, r).

        ``shrink`` -> 0 whitens fully, which blows up what few rows tell little about; a large one only rotates.
        """
        result: NDArray[np.float64] = (rows - self.mean) @ (
            self.vectors / np.sqrt(self.variance + shrink * self.typical)
        )
        return result


def fit_directions(rows: NDArray[np.float64], where: str) -> Directions:
    """Principal directions of ``rows`` (t, d), at most `MOST_DIRECTIONS`.

    Found in the smaller of the two Gram matrices: t is a few hundred, d more.

    Raises
    ------
    InvalidDataError
        All rows are equal; ``where`` names them.
    """
    mean = rows.mean(axis=0)
    centred = rows - mean
    few = len(rows) <= rows.shape[1]
    values, vectors = np.linalg.eigh(centred @ centred.T if few else centred.T @ centred)
    values, vectors = values[::-1], vectors[:, ::-1]
    positive = int(np.count_nonzero(values > max(values[0], 0.0) * _FLOOR))
    if positive == 0:
        raise InvalidDataError(
            "A probe cannot be fitted", [Problem(where, "no-variance", f"all {len(rows)} training rows are equal")]
        )
    kept = min(positive, MOST_DIRECTIONS)
    directions = centred.T @ vectors[:, :kept] / np.sqrt(values[:kept]) if few else vectors[:, :kept]
    variance = values / len(rows)
    return Directions(mean, np.ascontiguousarray(directions), variance[:kept], float(variance[:positive].mean()))


def unit(rows: NDArray[np.floating]) -> NDArray[np.float64]:
    """Rows of length 1; rows of zeros stay zeros."""
    rows64 = rows.astype(np.float64)
    norms = np.linalg.norm(rows64, axis=1, keepdims=True)
    result: NDArray[np.float64] = rows64 / np.where(norms == 0, 1.0, norms)
    return result
