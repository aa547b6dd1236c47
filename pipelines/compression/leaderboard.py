"""Scores of models: on slices, on categories, and on the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.columns import Models, map_blocks
from optotype.pipelines.compression.slices import Slices
from optotype.pipelines.kernels.item_moments import DECIMALS, group_sums
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "LEAST_MODELS",
    "NORMALISATIONS",
    "Normalise",
    "category_scores",
    "check_models",
    "check_normalise",
    "entering",
    "gaps_warning",
    "group_totals",
    "leaderboard",
    "nan_mean",
    "slice_scores",
    "standardised",
]

Normalise = Literal["none", "zscore"]
NORMALISATIONS = ("none", "zscore")
LEAST_MODELS = 3  # with fewer, a ranking says nothing
_CONSTANT = 1e-12  # sd of scores in [0, 1] below which a column is constant

Floats = NDArray[np.float64]


def slice_scores(
    panel: xr.Dataset,
    of_item: NDArray[np.integer],
    size: int,
    keep: NDArray[np.bool_] | None = None,
    models: Models = None,
) -> Floats:
    """Mean of the valid scaled items of every model in every group of items: one pass over the chunks.

    Parameters
    ----------
    panel : Dataset
    of_item : ndarray (n,) int
        Group of every item, below ``size``; -1 for none.
    size : int
        Number of groups, S.
    keep : ndarray (n,) bool, optional
        Items that count; all by default.
    models : sequence of int, optional
        Positions of the models; all by default.

    Returns
    -------
    ndarray (M, S) float64
        NaN where a model has no valid score in a group.
    """
    group = of_item if keep is None else np.where(keep, of_item, -1)
    sums, counts = group_totals(panel, group, size, models)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def group_totals(
    panel: xr.Dataset, of_item: NDArray[np.integer], size: int, models: Models = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Sum and number of the valid scaled scores of every model in every group of items, each (M, S).

    Parameters are those of `slice_scores`.
    """
    height = panel.sizes["model"] if models is None else len(models)
    sums, counts = np.zeros((height, size)), np.zeros((height, size), np.int64)
    group = np.asarray(of_item, dtype=np.int64)
    for present, partial, number in map_blocks(panel, _sums_of_block, group, models=models):
        sums[:, present] += partial
        counts[:, present] += number
    return sums, counts


def _sums_of_block(scores: Floats, group: NDArray[np.int64], extra: None) -> Any:
    return group_sums(scores, group)


def category_scores(scores: Floats, slices: Slices, normalise: Normalise = "none") -> Floats:
    """Mean over the benchmarks of each category that a model has, (M, C): the leaderboard before any pool is made.

    With ``zscore`` over the z-scored benchmarks, as the category mean of stage 1; without, over scores in [0, 1]
    (the paper's reference of Section D.3; it leaves open what a model without one of the benchmarks gets: the mean of
    those it has).

    Parameters
    ----------
    scores : ndarray (M, S) float64
        Of `slice_scores`.
    slices : Slices
    normalise : {"none", "zscore"}
    """
    check_normalise(normalise)
    values = scores if normalise == "none" else standardised(scores)
    columns = [nan_mean(values[:, slices.of_category(number)]) for number in range(len(slices.categories))]
    return np.stack(columns, axis=1) if columns else np.empty((len(scores), 0))


def standardised(scores: Floats) -> Floats:
    """z-scores of each column over its finite rows (population sd); a constant column becomes NaN: it is left out."""
    there = np.isfinite(scores)
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, scores, 0).sum(axis=0) / count
    deviation = np.where(there, scores - mean, np.nan)
    sd = np.sqrt(np.where(there, deviation**2, 0).sum(axis=0) / count)
    varies = sd > _CONSTANT
    return np.where(varies, deviation / np.where(varies, sd, 1), np.nan)


def nan_mean(values: Floats) -> Floats:
    """Mean of each row over its finite values; NaN for a row without one."""
    there = np.isfinite(values)
    count = there.sum(axis=1)
    return np.where(count > 0, np.where(there, values, 0).sum(axis=1) / np.maximum(count, 1), np.nan)


def entering(category_scores: Floats, names: Sequence[str] | None = None) -> NDArray[np.bool_]:
    """Models that enter the leaderboard: those with at least half of the categories, (M,) bool.

    ``names`` of the models are for the error alone.

    Raises
    ------
    InvalidDataError
        Fewer than 3 models do.
    """
    total = category_scores.shape[1]
    covered = np.isfinite(category_scores).sum(axis=1)
    enters: NDArray[np.bool_] = (2 * covered >= total) & (covered > 0)
    if enters.sum() < LEAST_MODELS:
        left_out = [
            Problem(
                f"model {row}" if names is None else names[row],
                "low-coverage",
                f"scores in {covered[row]} of {total} categories; half are needed",
            )
            for row in np.flatnonzero(~enters).tolist()
        ]
        raise InvalidDataError(
            f"{int(enters.sum())} of {len(enters)} models have scores in at least half of the {total} categories; a "
            f"ranking needs {LEAST_MODELS} or more",
            left_out,
            hint="Import more scores with `optotype scores import`, or see the coverage with `optotype scores show`",
        )
    return enters


def check_models(panel: xr.Dataset) -> None:
    """Refuse a panel of runs without the image alone.

    Raises
    ------
    InvalidDataError
        It has no model with scores.
    """
    if panel.sizes["model"] == 0 or panel.sizes["item"] == 0:
        blind = panel.sizes.get("blind_model", 0)
        raise InvalidDataError(
            f"panel {panel.attrs.get('name', '')}: no model has scores"
            + (f", only {blind} blind run(s) do" if blind else ""),
            [],
            hint="Import scores of models that see the images with `optotype scores import`",
        )


def leaderboard(
    category_scores: Floats,
    normalise: Normalise = "none",
    *,
    enters: NDArray[np.bool_] | None = None,
    names: Sequence[str] | None = None,
) -> Floats:
    """A model's score: the mean over the categories that it has, (M,), rounded to 12 decimals.

    Parameters
    ----------
    category_scores : ndarray (M, C) float64
        NaN where a model has no score in a category.
    normalise : {"none", "zscore"}
        ``zscore`` standardises each category over the entering models first (population sd; a constant category is
        left out).
    enters : ndarray (M,) bool, optional
        Models that enter, where that is known already; by default those with at least half of these categories.
    names : sequence of str, optional
        Of the models, for the error alone.

    Returns
    -------
    ndarray (M,) float64
        NaN for models that do not enter (`entering`).

    Raises
    ------
    InvalidDataError
        Fewer than 3 models enter.
    """
    check_normalise(normalise)
    if enters is None:
        enters = entering(category_scores, names)
    values = np.where(enters[:, None], category_scores, np.nan)
    if normalise == "zscore":
        values = standardised(values)
    return nan_mean(values).round(DECIMALS)


def gaps_warning(category_scores: Floats, normalise: Normalise, enters: NDArray[np.bool_]) -> str | None:
    """What to say where entering models lack categories and nothing was normalised; None if all is well."""
    lacking = int(np.isnan(category_scores[enters]).any(axis=1).sum())
    if normalise != "none" or not lacking:
        return None
    return (
        f"{lacking} model(s) lack some categories; means over different categories are not comparable: use "
        "--normalise zscore"
    )


def check_normalise(normalise: str) -> None:
    """Refuse a normalisation that there is not.

    Raises
    ------
    UsageError
    """
    if normalise not in NORMALISATIONS:
        raise UsageError(f"normalise is one of {', '.join(NORMALISATIONS)}; got {normalise!r}")
