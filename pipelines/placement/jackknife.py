"""A straight line through a few points, and intervals for what is predicted from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import UsageError

__all__ = ["LEAST_POINTS", "Prediction", "check_level", "predict", "rank_of"]

LEAST_POINTS = 3  # without any one of them two are left, which is a line
_CONSTANT = 1e-18  # sum of squares below which the x are all the same

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Predicted values and their intervals.

    Attributes
    ----------
    estimate, low, high : ndarray (t,) float64
        ``low`` and ``high`` are -inf and inf where there are too few points for the level.
    slope, intercept : float
    error : float
        Mean absolute residual of each point from the line through the others.
    """

    estimate: Floats
    low: Floats
    high: Floats
    slope: float
    intercept: float
    error: float


def predict(x: Floats, y: Floats, new: Floats, level: float = 0.9) -> Prediction:
    """Predict y at ``new`` by least squares, with jackknife+ intervals.

    With f the line through all points, f_i the line through all but point i, and R_i = |y_i - f_i(x_i)|, the interval
    is [the ⌊(1 - level)(n + 1)⌋-th smallest of f_i(new) - R_i, the ⌈level (n + 1)⌉-th smallest of f_i(new) + R_i]
    (Barber, Candès, Ramdas and Tibshirani 2021, "Predictive inference with the jackknife+", equation 1.3). For points
    that are exchangeable with the new one it covers the truth with a probability of at least 2 level - 1, whatever the
    distribution, and in practice of about ``level``. With fewer than level / (1 - level) points it is everything.

    Parameters
    ----------
    x, y : ndarray (n,) float64
        Finite; n >= 3. Where all x (of all points, or of all but one) are the same, the line is flat.
    new : ndarray (t,) float64
    level : float
        Between 0 and 1.

    Raises
    ------
    UsageError
        Fewer than 3 points, or no such level.
    """
    check_level(level)
    n = len(x)
    if n < LEAST_POINTS:
        raise UsageError(f"a line through fewer than {LEAST_POINTS} points says nothing; got {n}")
    slope, intercept = _line(x, y)
    at_x, at_y = x.mean(), y.mean()
    from_x, from_y = x - at_x, y - at_y
    rest = n / (n - 1)
    squares = (from_x**2).sum() - rest * from_x**2
    products = (from_x * from_y).sum() - rest * from_x * from_y
    slopes = np.where(squares > _CONSTANT, products / np.where(squares > _CONSTANT, squares, 1.0), 0.0)
    means_x, means_y = at_x - from_x / (n - 1), at_y - from_y / (n - 1)
    residuals = np.abs(y - (means_y + slopes * (x - means_x)))
    others = means_y[:, None] + slopes[:, None] * (new[None, :] - means_x[:, None])
    rank = rank_of(level, n)
    if rank > n:
        low, high = np.full(len(new), -np.inf), np.full(len(new), np.inf)
    else:
        low = np.sort(others - residuals[:, None], axis=0)[n - rank]
        high = np.sort(others + residuals[:, None], axis=0)[rank - 1]
    return Prediction(intercept + slope * new, low, high, slope, intercept, float(residuals.mean()))


def check_level(level: float) -> float:
    """``level`` itself if an interval may have it.

    Raises
    ------
    UsageError
    """
    if not 0 < level < 1:
        raise UsageError(f"the level of an interval lies between 0 and 1, both left out; got {level}")
    return level


def rank_of(level: float, n: int) -> int:
    """⌈level (n + 1)⌉, robust to floating point: which of n errors, from the smallest, an interval reaches to."""
    return math.ceil(round(level * (n + 1), 9))


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    from_x = x - x.mean()
    squares = float((from_x**2).sum())
    slope = float((from_x * (y - y.mean())).sum()) / squares if squares > _CONSTANT else 0.0
    return slope, float(y.mean() - slope * x.mean())
