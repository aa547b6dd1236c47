"""Stabilised PCA whitening on plain arrays: streamed moments, the fit, and its application.

Everything is float64 whatever the type of the rows: ε = 1e-4 is absolute, so the tail of the spectrum
decides the result, and float32 products lose that tail beside one large direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = [
    "EIGENVALUE_FLOOR",
    "Moments",
    "Prenorm",
    "Whitening",
    "check_eps",
    "check_prenorm",
    "fit",
    "merge",
    "moments",
    "normalise_rows",
    "whiten",
]

Prenorm = Literal["none", "l2"]

EIGENVALUE_FLOOR = 1e-10
"""Absolute floor of a "positive" eigenvalue; float64 noise, λ_max · d · 2.2e-16, is the other one."""

_EPSILON64 = 2.2e-16
# Rows that are no longer: the squares of their smaller channels begin to lose digits.
_SHORT = 1e-140
# Rows turned into float64 at a time. Fixed, so that the order of additions never depends on how the
# array is stored or on the number of threads; 2048 x 1024 channels are 16 MiB.
_BLOCK_ROWS = 2048


def _overflows() -> np.errstate:
    """Sums and squares of values beyond 1e154 overflow without a word; `fit` finds that in the moments of all rows."""
    return np.errstate(over="ignore", invalid="ignore")


def check_prenorm(prenorm: str, what: str = "prenorm") -> Prenorm:
    """``prenorm`` itself if it is ``none`` or ``l2``; UsageError otherwise."""
    if prenorm not in get_args(Prenorm):
        raise UsageError(f"{what} is one of none, l2; got {prenorm!r}")
    return "l2" if prenorm == "l2" else "none"


def check_eps(eps: float) -> float:
    """``eps`` as float if it is finite and >= 0; UsageError otherwise."""
    if not np.isfinite(eps) or eps < 0:
        raise UsageError(f"eps is a finite number >= 0, got {eps!r}", hint="The usual value is 1e-4.")
    return float(eps)


@dataclass(frozen=True)
class Moments:
    """Count, mean and scatter of a set of rows; sets are joined with :func:`merge`.

    Attributes
    ----------
    count : int
        Number of rows.
    mean : ndarray (d,) float64
    scatter : ndarray (d, d) float64
        Σ (x - mean)(x - mean)ᵀ.
    """

    count: int
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]


def normalise_rows(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Rows of unit length, and which rows have none (all zeros; these are returned as they are).

    Rows whose squares leave the range of float64, longer than 1e154 or shorter than 1e-140, are scaled by a power of
    two first, which changes no digit.
    """
    with _overflows():
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    extreme = ~np.isfinite(norms) | (norms < _SHORT)
    if extreme.any():
        largest = np.abs(rows[extreme]).max(axis=1, keepdims=True, initial=0.0)
        rows = rows.copy()
        rows[extreme] = np.ldexp(rows[extreme], -np.frexp(largest)[1])
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    zero = norms == 0
    result: NDArray[np.float64] = rows / np.where(zero, 1.0, norms)[:, None]
    return result, zero


def moments(rows: NDArray[np.floating], prenorm: Prenorm = "none") -> Moments:
    """Moments of ``rows`` (t, d), t >= 1, optionally of the rows scaled to unit length.

    The rows are centred per block before the product (no cancellation), and numpy turns ``Xᵀ X`` into a
    symmetric rank-k update: half the work, an exactly symmetric result.
    """
    total: Moments | None = None
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS].astype(np.float64)
        if prenorm == "l2":
            block, _ = normalise_rows(block)
        with _overflows():
            mean = block.mean(axis=0)
            block -= mean
            part = Moments(len(block), mean, block.T @ block)
        total = part if total is None else merge(total, part)
    if total is None:
        raise ValueError("moments of no rows")
    return total


def merge(first: Moments, second: Moments) -> Moments:
    """Moments of two disjoint sets of rows together.

    Chan, Golub & LeVeque (1979), "Updating formulae and a pairwise algorithm for computing sample variances".
    The bytes of the result depend on the order of merging; callers merge in the order of the rows.
    """
    count = first.count + second.count
    with _overflows():
        delta = second.mean - first.mean
        mean = first.mean + delta * (second.count / count)
        scatter = first.scatter + second.scatter
        scatter += np.outer(delta, delta) * (first.count * second.count / count)
    return Moments(count, mean, scatter)


@dataclass(frozen=True)
class Whitening:
    """A fitted transformation z -> (Λ + εI)^(-1/2) Uᵀ (z - μ).

    Attributes
    ----------
    mean : ndarray (d,) float64
        μ, of the rows after ``prenorm``.
    components : ndarray (d, r) float64
        U, the kept directions by falling eigenvalue.
    eigenvalues : ndarray (d,) float64
        The whole raw spectrum of the covariance (N - 1), falling; the first r belong to ``components``.
    eps : float
    prenorm : {"none", "l2"}
        Whether rows are scaled to unit length before anything else.
    count : int
        Number of rows N that the fit saw.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    eps: float
    prenorm: Prenorm
    count: int

    @property
    def kept(self) -> NDArray[np.float64]:
        """The r positive eigenvalues, falling."""
        return self.eigenvalues[: self.components.shape[1]]

    @property
    def scale(self) -> NDArray[np.float64]:
        """(λ + ε)^(-1/2) of the kept directions."""
        scale: NDArray[np.float64] = 1.0 / np.sqrt(self.kept + self.eps)
        return scale

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """U (Λ + εI)^(-1/2), (d, r)."""
        return np.ascontiguousarray(self.components * self.scale)

    @property
    def whitened_variance(self) -> NDArray[np.float64]:
        """Variance of each direction after whitening, before the final L2: λ / (λ + ε); 0 where dropped. (d,)."""
        variance = np.zeros_like(self.eigenvalues)
        variance[: len(self.kept)] = self.kept / (self.kept + self.eps)
        return variance


def fit(
    total: Moments, eps: float, prenorm: Prenorm = "none", *, where: str = "rows", option: str = "prenorm"
) -> Whitening:
    """Fit the whitening from the moments of all rows.

    Kept are the directions with λ > max(1e-10, λ_max · d · 2.2e-16); no further truncation.

    Parameters
    ----------
    total : Moments
        Of the rows after ``prenorm``.
    eps : float
        Absolute stabiliser ε >= 0.
    where : str
        What the rows are, for the message.
    option : str
        How the caller's user asks for a prenorm, for the hint.

    Raises
    ------
    InvalidDataError
        Fewer than two rows, values whose squares overflow float64, or no direction has a positive eigenvalue (all
        rows are equal).
    """
    if total.count < 2:
        raise InvalidDataError(
            "Whitening cannot be fitted", [Problem(where, "too-few-rows", f"needs two rows or more, got {total.count}")]
        )
    with _overflows():
        # Σ‖x‖² = tr(scatter) + N‖μ‖² bounds whatever is squared from here on; NaN where the moments overflowed.
        squares = np.trace(total.scatter) + total.count * (total.mean @ total.mean)
    if not (np.isfinite(squares) and np.isfinite(total.scatter).all()):
        raise InvalidDataError(
            "Whitening cannot be fitted",
            [Problem(where, "overflow", "values too large to whiten: the covariance overflows float64")],
            hint=f"Scale them down, or give {option} l2." if prenorm == "none" else "Scale them down.",
        )
    ascending, vectors = np.linalg.eigh(total.scatter / (total.count - 1))
    eigenvalues = ascending[::-1].copy()
    floor = max(EIGENVALUE_FLOOR, float(eigenvalues[0]) * len(eigenvalues) * _EPSILON64)
    kept = int(np.count_nonzero(eigenvalues > floor))
    if kept == 0:
        # Unit length turns the variance of one direction into a share of the mean square at most.
        constant = eigenvalues[0] <= EIGENVALUE_FLOOR * squares / total.count
        raise InvalidDataError(
            "Whitening cannot be fitted",
            [
                Problem(
                    where, "no-variance", f"all rows are (nearly) equal: the largest variance is {eigenvalues[0]:.3g}"
                )
            ],
            hint=_mend_of_equal_rows(prenorm, option, constant=bool(constant)),
        )
    components = np.ascontiguousarray(vectors[:, ::-1][:, :kept])
    return Whitening(total.mean, components, eigenvalues, eps, prenorm, total.count)


def _mend_of_equal_rows(prenorm: Prenorm, option: str, *, constant: bool) -> str:
    """What helps where all rows are equal; no scaling does where they are ``constant`` beside their length."""
    if prenorm == "l2":
        return (
            f"Rows that differ in length alone are equal under {option} l2: try {option} none; rows that are equal "
            "before it are mended by other data alone."
        )
    if constant:
        return "No option mends rows that are equal: take other data, or leave this array out."
    return f"If the values are merely small, scale them up, or try {option} l2."


def whiten(rows: NDArray[np.floating], whitening: Whitening) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Whiten ``rows`` (t, d) and scale each to unit length.

    The whole of ``rows`` goes through one product, so the bytes of a row may depend on its neighbours in the call
    (in the last place); who needs them not to, calls with the same rows each time.

    Parameters
    ----------
    rows : ndarray (t, d)
    whitening : Whitening

    Returns
    -------
    whitened : ndarray (t, r) float64
        Rows of length 1, or 0 where they have no direction.
    zero : ndarray (t,) bool
        Rows whose length is nothing but float64 rounding: shorter than
        8·√d·2.2e-16·(‖x‖ + √(Σλ + ‖μ‖²))·(λ_r + ε)^(-1/2), the second term being the root mean square of all rows.
        Scaling them up would blow rounding errors up to full size.
        A row of zeros stays one under ``prenorm`` l2 (a dead patch after a ReLU; as ``torch.nn.functional.normalize``
        has it) and is whitened to W(0 - μ): it has a direction.
    """
    block = rows.astype(np.float64)
    if whitening.prenorm == "l2":
        block, _ = normalise_rows(block)
    noise = 8 * np.sqrt(block.shape[1]) * _EPSILON64 * whitening.scale[-1]
    typical = np.sqrt(whitening.kept.sum() + whitening.mean @ whitening.mean)
    floor = noise * (np.sqrt(np.einsum("ij,ij->i", block, block)) + typical)
    block -= whitening.mean
    result: NDArray[np.float64] = block @ whitening.matrix
    norms = np.sqrt(np.einsum("ij,ij->i", result, result))
    zero = norms <= floor
    result /= np.where(zero, np.inf, norms)[:, None]
    return result, zero
