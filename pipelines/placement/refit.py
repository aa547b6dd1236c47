"""How far off estimates are for models that a suite was not chosen on: the suite made anew without each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.pipelines.compression.compress import compress
from optotype.pipelines.compression.slices import Slices
from optotype.pipelines.placement.place import place
from optotype.pipelines.placement.yardstick import Yardstick, yardstick
from optotype.pipelines.progress import SILENT, Progress

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["refitted_errors"]


def refitted_errors(
    panel: xr.Dataset,
    cut: Slices,
    parameters: Mapping[str, Any],
    *,
    embeddings: xr.Dataset | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Absolute error of the estimated full score of every model, had the suite been made without it.

    For each model the whole compression runs on the others, and the model is placed by what it scores on the suite that
    comes out: its error has no part in the choice of items, categories or line. Costs as many compressions as there are
    models.

    Parameters
    ----------
    panel : Dataset
        The one that the suite was chosen on.
    cut : Slices
        Its slices, by the suite's categories.
    parameters : mapping
        Of the compression, as `optotype.pipelines.compression.compress.compress` takes them.
    embeddings : Dataset, optional
        Those that the compression used.

    Returns
    -------
    dict
        Model -> error; without models that have no full score of their own or cannot be placed.
    """
    keys = zip(panel["benchmark"].to_numpy().tolist(), panel["item"].to_numpy().tolist(), strict=True)
    at = {key: place for place, key in enumerate(keys)}
    models = [str(name) for name in panel["model"].to_numpy()]
    errors: dict[str, float] = {}
    with (progress or SILENT)("compressing without each model", total=len(models), unit="models") as task:
        for row, model in enumerate(models):
            others = panel.isel(model=[each for each in range(len(models)) if each != row])
            suite = compress(others, embeddings=embeddings, **parameters).items
            index = np.array(
                [at[key] for key in zip(suite["benchmark"], suite["item_id"], strict=True)], dtype=np.int64
            )
            weight = suite["weight"].fillna(1.0).to_numpy(dtype=np.float64)
            measure = yardstick(panel, cut, index)
            found = place(measure.items[row], suite["category"].tolist(), weight, measure.without(model))
            truth = _full_score(measure, row, found.left_out)
            if found.estimate is not None and np.isfinite(truth):
                errors[model] = abs(found.estimate.value - truth)
            task.advance()
    return errors


def _full_score(measure: Yardstick, row: int, left_out: tuple[str, ...]) -> float:
    """What `place` estimates, measured; NaN for a model that lacks some of it."""
    by_category: dict[str, list[float]] = {}
    for place_, name in enumerate(measure.slice_name):
        if name not in left_out:
            by_category.setdefault(measure.slice_category[place_], []).append(float(measure.slices[row, place_]))
    return float(np.mean([np.mean(values) for values in by_category.values()])) if by_category else np.nan
