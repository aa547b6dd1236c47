"""What a compression tells of items and models, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.pruning import Pruning
from optotype.pipelines.compression.slices import Slices

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["item_table", "json_ready", "model_rows"]

Floats = NDArray[np.float64]


def item_table(panel: xr.Dataset, cut: Slices, alive: NDArray[np.bool_], pruning: Pruning | None) -> pd.DataFrame:
    """The items that are left, in catalogue order, with the columns of `Compression.items`."""
    import pandas as pd

    kept = np.flatnonzero(alive)
    names = np.array(cut.category, dtype=object)
    table = pd.DataFrame(
        {
            "benchmark": panel["benchmark"].to_numpy()[kept],
            "item_id": panel["item"].to_numpy()[kept],
            "category": names[cut.of_item[kept]],
        }
    )
    for column in ("vaw", "variance", "delta", "cell", "weight"):
        values = np.full(len(kept), np.nan) if pruning is None else getattr(pruning, column)[kept].astype(np.float64)
        if column == "cell":
            whole = [pd.NA if not value >= 0 else int(value) for value in values.tolist()]  # NaN compares as false
            table[column] = pd.array(whole, dtype="Int32")
        else:
            table[column] = values
    return table


def model_rows(panel: xr.Dataset, boards: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """Score and rank of every model on each of some leaderboards, as `Compression.models` has them."""
    ranks = {name: _ranks(scores) for name, scores in boards.items()}
    rows = []
    for row, model in enumerate(panel["model"].to_numpy().tolist()):
        entry: dict[str, Any] = {"model": str(model)}
        for name, scores in boards.items():
            entry |= {f"score_{name}": json_ready(scores[row]), f"rank_{name}": json_ready(ranks[name][row])}
        rows.append(entry)
    return rows


def _ranks(scores: Floats) -> Floats:
    """Ranks from 1 for the highest score, ties sharing their mean rank; NaN stays NaN."""
    import bottleneck

    ranks: Floats = bottleneck.nanrankdata(-scores)
    return ranks


def json_ready(value: Any) -> Any:
    """``value`` as JSON holds it: plain numbers, NaN as None, tuples and arrays as lists."""
    if isinstance(value, dict):
        return {str(key): json_ready(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return json_ready(value.tolist())
    if isinstance(value, np.generic):
        return json_ready(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
