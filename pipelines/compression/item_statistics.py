"""What stages 0 to 2 know about every item, from one pass over the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.columns import Models, map_blocks
from optotype.pipelines.kernels.item_moments import ROUNDING, Moments, item_moments

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ItemStatistics", "item_statistics"]


@dataclass(frozen=True)
class ItemStatistics:
    """Statistics of the scaled scores of every item, over its valid models.

    Attributes
    ----------
    valid : ndarray (n,) int32
        Models with a valid score, M_i.
    mean, variance : ndarray (n,) float64
        x̄_i and the plug-in variance v̂_i (divided by M_i), rounded to 12 decimals; NaN without a valid score.
    all_correct : ndarray (n,) bool
        At least one valid model, and every valid model scores 1 (up to 1e-6: scores are stored as float32).
    blind_valid : ndarray (n,) int32
        Valid runs without the image; 0 where the panel has none.
    blind_mean : ndarray (n,) float64
        β_i, their mean score, rounded to 12 decimals; NaN without one.
    """

    valid: NDArray[np.int32]
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    all_correct: NDArray[np.bool_]
    blind_valid: NDArray[np.int32]
    blind_mean: NDArray[np.float64]


def item_statistics(panel: xr.Dataset, models: Models = None) -> ItemStatistics:
    """Count, mean, variance and blind mean of every item: one pass over the chunks of items.

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.
    models : sequence of int, optional
        Positions of the models to count; all by default. Blind runs are counted all, they are no rows of the ranking.
    """
    found = _moments(panel, "score", models)
    if "blind" in panel:
        blind = _moments(panel, "blind", None)
    else:
        nothing = np.full(len(found.valid), np.nan)
        blind = Moments(np.zeros(len(found.valid), np.int32), nothing, nothing, nothing)
    correct = found.least >= 1 - ROUNDING  # NaN compares as false
    return ItemStatistics(found.valid, found.mean, found.variance, correct, blind.valid, blind.mean)


def _moments(panel: xr.Dataset, variable: Any, models: Models) -> Moments:
    parts = map_blocks(panel, _of_block, variable=variable, models=models)
    if not parts:
        nothing = np.empty(0)
        return Moments(np.empty(0, np.int32), nothing, nothing, nothing)
    return Moments(
        np.concatenate([part.valid for part in parts]),
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.variance for part in parts]),
        np.concatenate([part.least for part in parts]),
    )


def _of_block(scores: NDArray[np.float64], extra: None) -> Moments:
    return item_moments(scores)
