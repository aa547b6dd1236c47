"""Scores on the scale that the methods speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["scaled"]


def scaled(panel: xr.Dataset, variable: Literal["score", "blind"] = "score") -> Any:
    """Scores of a panel, scaled linearly from their benchmark's scale to [0, 1].

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.
    variable : {"score", "blind"}
        Runs with the image, or without it.

    Returns
    -------
    dask or NumPy array, shape (models, items), float64
        ``(x - scale_min) / (scale_max - scale_min)``; NaN where a score is missing. Lazy and chunked along the items
        if the panel is.
    """
    scores = panel[variable].data
    low = np.asarray(panel["scale_min"].values, dtype=np.float64)
    high = np.asarray(panel["scale_max"].values, dtype=np.float64)
    return (scores - low) / (high - low)
