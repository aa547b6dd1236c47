"""Scores on the scale that the methods speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["SCORE_DECIMALS", "scaled", "unit_scale"]

SCORE_DECIMALS = 6
"""Of a score on [0, 1]. Scores are stored as float32, which holds no more; 0.2 is 0.2 again, so that ties are ties."""


def unit_scale(scores: Any, low: Any, high: Any) -> Any:
    """Scores scaled linearly to [0, 1], as ``(x - low) / (high - low)``, in float64 at 6 decimals.

    Parameters
    ----------
    scores : dask or NumPy array, any float dtype
        NaN stays NaN.
    low, high : array
        Ends of the scale, of a shape that goes with ``scores``.

    Notes
    -----
    float32 keeps 0.2 with an error of 3e-9. Without rounding, means and variances that are equal on paper differ in the
    ninth decimal, and neither ranks nor seeded ties would be what they are for the decimals that were imported.
    """
    return ((scores.astype(np.float64) - low) / (high - low)).round(SCORE_DECIMALS)


def scaled(panel: xr.Dataset, variable: Literal["score", "blind"] = "score") -> Any:
    """Scores of a panel, scaled linearly from their benchmark's scale to [0, 1] by `unit_scale`.

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.
    variable : {"score", "blind"}
        Runs with the image, or without it.

    Returns
    -------
    dask or NumPy array, shape (models, items), float64
        NaN where a score is missing. Lazy and chunked along the items if the panel is.
    """
    low = np.asarray(panel["scale_min"].values, dtype=np.float64)
    high = np.asarray(panel["scale_max"].values, dtype=np.float64)
    return unit_scale(panel[variable].data, low, high)
