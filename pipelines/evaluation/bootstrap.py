"""Paired bootstrap over models, stratified by family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.leaderboard import nan_mean
from optotype.pipelines.kernels.spearman import spearman_rows
from optotype.schemas.errors import UsageError

__all__ = ["RESAMPLES", "Interval", "interval", "macro", "resampled_models", "resampled_rho", "strata"]

RESAMPLES = 10_000
_LEVEL = (2.5, 97.5)
_BLOCK = 1_000


@dataclass(frozen=True)
class Interval:
    """A percentile interval of 95 % and what it rests on.

    Attributes
    ----------
    low, high : float
        NaN where no resample has a value.
    resamples : int
        Resamples with a finite value.
    above_zero : float
        Share of these above 0, half of those at 0; what a difference is judged by.
    """

    low: float
    high: float
    resamples: int
    above_zero: float


def strata(families: Sequence[str], names: Sequence[str]) -> list[str]:
    """Family of each model; one without is its own family."""
    return [family or f"\0{name}" for family, name in zip(families, names, strict=True)]


def resampled_models(families: Sequence[str], resamples: int, seed: int) -> NDArray[np.int64]:
    """Models drawn with replacement within each family, as many as the family has.

    A family of one model is never varied, so that intervals of a panel of many such families are too narrow; a report
    says how many there are. The same draws serve all selectors, which pairs them.

    Parameters
    ----------
    families : sequence of str, M of them
    resamples : int
        1 or more.
    seed : int

    Returns
    -------
    ndarray (resamples, M) int64
        Positions of models, the draws for a family at the places of its members.
    """
    if resamples < 1:
        raise UsageError(f"a bootstrap takes 1 resample or more, got {resamples}")
    rng = np.random.default_rng(seed)
    labels = np.asarray(families, dtype=object)
    draws = np.empty((resamples, len(labels)), dtype=np.int64)
    for family in dict.fromkeys(families):
        members = np.flatnonzero(labels == family)
        draws[:, members] = members[rng.integers(0, len(members), size=(resamples, len(members)))]
    return draws


def resampled_rho(
    full: NDArray[np.float64], compressed: NDArray[np.float64], draws: NDArray[np.int64]
) -> NDArray[np.float64]:
    """ρ between full and compressed scores on each resample of the models.

    Parameters
    ----------
    full, compressed : ndarray (M,) float64
        NaN where a model has no score; a resampled model without both is left out.
    draws : ndarray (R, M) int64
        As `resampled_models` gives them.

    Returns
    -------
    ndarray (R,) float64
        NaN where undefined.
    """
    parts = [draws[start : start + _BLOCK] for start in range(0, len(draws), _BLOCK)]
    return np.concatenate([spearman_rows(full[part], compressed[part]) for part in parts])


def macro(categories: Sequence[NDArray[np.float64]], resamples: int) -> NDArray[np.float64]:
    """Mean over the categories with a defined ρ, on each resample, (R,); NaN where there is none."""
    return nan_mean(np.stack(categories, axis=1)) if categories else np.full(resamples, np.nan)


def interval(values: NDArray[np.float64]) -> Interval:
    """The percentile interval of resampled values (R,); NaN entries are left out and show in ``resamples``."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Interval(float("nan"), float("nan"), 0, float("nan"))
    low, high = np.percentile(finite, _LEVEL)
    above = float(np.mean(finite > 0) + np.mean(finite == 0) / 2)
    return Interval(float(low), float(high), len(finite), above)
