"""Fitted affine steps, each made from the moments of the rows that reach it; plain arrays.

Every affine step centres, so the mean of what leaves it is 0 and the next step can be fitted on moments that are
carried through, without another pass over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.whitening import Moments, fit
from optotype.pipelines.postprocessing.chain import Step
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = ["ROUNDING", "Affine", "fit_step"]

Floats = NDArray[np.float64]

ROUNDING = 2.2e-16
_CONSTANT = 1e-12
"""A channel whose standard deviation is below this share of its mean is constant: float32 values differ by 6e-8."""


@dataclass(frozen=True, eq=False)
class Affine:
    """z -> M(z - μ), with M a scale of each channel, a projection onto directions, or the removal of some.

    Attributes
    ----------
    step : Step
    mean : ndarray (d,) float64
        μ, of the rows that reach the step.
    typical : float
        Root mean square length of those rows; with it the rounding of a result is judged.
    scale : ndarray (d,) float64, optional
    matrix : ndarray (d, r) float64, optional
        The result has r channels.
    removed : ndarray (d, D) float64, optional
        Orthonormal directions that are taken out; the result keeps its d channels.
    details : mapping
        JSON-ready account of the fit.
    """

    step: Step
    mean: Floats
    typical: float
    scale: Floats | None = None
    matrix: Floats | None = None
    removed: Floats | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def gain(self) -> float:
        """Most that the step can lengthen a row."""
        if self.scale is not None:
            return float(self.scale.max(initial=0.0))
        if self.matrix is not None:
            return float(np.sqrt(np.einsum("ij,ij->j", self.matrix, self.matrix).max()))  # its columns are orthogonal
        return 1.0

    @property
    def channels(self) -> int:
        """Of the result."""
        return len(self.mean) if self.matrix is None else self.matrix.shape[1]

    def apply(self, rows: Floats) -> Floats:
        """Rows (m, d) to (m, channels), float64."""
        return self._linear(rows - self.mean)

    def _linear(self, centred: Floats) -> Floats:
        if self.scale is not None:
            return centred * self.scale
        if self.matrix is not None:
            return np.asarray(centred @ self.matrix)
        if self.removed is not None and self.removed.shape[1]:
            return np.asarray(centred - (centred @ self.removed) @ self.removed.T)
        return centred

    def carry(self, total: Moments) -> Moments:
        """Moments of what leaves the step, from those of what reaches it."""
        half = self._linear(total.scatter).T
        scatter = self._linear(half)
        return Moments(total.count, np.zeros(self.channels), 0.5 * (scatter + scatter.T))


def fit_step(step: Step, total: Moments, *, where: str) -> Affine:
    """Fit an affine step on the moments of all rows that reach it.

    Variances are with N - 1. The principal directions are those of the whitening
    (:func:`optotype.pipelines.kernels.whitening.fit`): eigenvalues above max(1e-10, λ_max · d · 2.2e-16), falling.

    Raises
    ------
    InvalidDataError
        Fewer than two rows, values too large, or nothing that varies.
    UsageError
        More components are to be removed than there are.
    """
    if total.count < 2:
        raise InvalidDataError(
            f"{step} cannot be fitted",
            [Problem(where, "too-few-rows", f"needs two rows or more, got {total.count}")],
        )
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.trace(total.scatter) / total.count + total.mean @ total.mean)
    if not (np.isfinite(squares) and np.isfinite(total.scatter).all()):
        raise InvalidDataError(
            f"{step} cannot be fitted",
            [Problem(where, "overflow", "values too large: the covariance overflows float64")],
            hint="Scale them down, or put l2 in front.",
        )
    try:
        return _FITS[step.name](Affine(step, total.mean, float(np.sqrt(squares))), total, where)
    except InvalidDataError as error:  # of the whitening, whose directions these are
        hint = "If the values are merely small, scale them up, or put l2 in front."
        raise InvalidDataError(f"{step} cannot be fitted", error.problems, hint=hint) from error


def _centre(bare: Affine, total: Moments, where: str) -> Affine:
    return bare


def _zscore(bare: Affine, total: Moments, where: str) -> Affine:
    deviation = np.sqrt(np.diagonal(total.scatter) / (total.count - 1))
    constant = deviation <= _CONSTANT * np.abs(total.mean)
    if constant.all():
        raise InvalidDataError(
            f"{bare.step} cannot be fitted", [Problem(where, "no-variance", "every channel is constant")]
        )
    scale = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation))
    return replace(bare, scale=scale, details={"constant_channels": int(constant.sum())})


def _remove(bare: Affine, total: Moments, where: str) -> Affine:
    fitted = fit(total, 0.0, where=where)
    count = _removable(bare.step, len(fitted.kept), where)
    details = {
        "directions": len(fitted.kept) - count,
        "variance_removed": float(fitted.kept[:count].sum() / fitted.kept.sum()),
    }
    return replace(bare, removed=np.ascontiguousarray(fitted.components[:, :count]), details=details)


def _drop(bare: Affine, total: Moments, where: str) -> Affine:
    fitted = fit(total, 0.0, where=where)
    there = len(fitted.kept)
    count = _removable(bare.step, there, where)
    kept = slice(count, None) if bare.step.name == "drop-leading" else slice(0, there - count)
    details = {
        "directions": there - count,
        "variance_removed": float(1 - fitted.kept[kept].sum() / fitted.kept.sum()),
    }
    return replace(bare, matrix=np.ascontiguousarray(fitted.components[:, kept]), details=details)


def _whiten(bare: Affine, total: Moments, where: str) -> Affine:
    eps = float(bare.step.value or 0.0)
    fitted = fit(total, eps, where=where)
    details = {
        "directions": len(fitted.kept),
        "eps": eps,
        "rows_over_channels": fitted.count / len(fitted.mean),
        "share_below_eps": float(np.mean(fitted.kept < eps)),
        "median_eigenvalue": float(np.median(fitted.kept)),
    }
    return replace(bare, matrix=fitted.matrix, details=details)


def _removable(step: Step, there: int, where: str) -> int:
    count = int(step.value or 0)
    if count >= there:
        raise UsageError(
            f"{step}: {where} have {there} components of positive variance, so at most {there - 1} can be removed",
            hint=f"Largest that leaves something: {step.name}:{there - 1}",
        )
    return count


_FITS: dict[str, Callable[[Affine, Moments, str], Affine]] = {
    "centre": _centre,
    "zscore": _zscore,
    "abtt": _remove,
    "drop-leading": _drop,
    "drop-trailing": _drop,
    "pca-whiten": _whiten,
    "spca-whiten": _whiten,
}
