"""What the models of a panel did on a suite and on all items: what a new model is measured by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.columns import read_columns
from optotype.pipelines.compression.leaderboard import group_totals
from optotype.pipelines.compression.slices import Slices

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Yardstick", "yardstick"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Yardstick:
    """Scores of a panel, scaled to [0, 1].

    Attributes
    ----------
    models : tuple of str, length M
    items : ndarray (M, K) float64
        On the items of the suite; NaN where one is missing.
    slices : ndarray (M, S) float64
        Mean over all items of each (benchmark, category); NaN where a model has less than half of them.
    slice_category : tuple of str, length S
    slice_name : tuple of str, length S
    """

    models: tuple[str, ...]
    items: Floats
    slices: Floats
    slice_category: tuple[str, ...]
    slice_name: tuple[str, ...]

    def without(self, model: str) -> Yardstick:
        """The same without one model."""
        keep = [place for place, name in enumerate(self.models) if name != model]
        names = tuple(self.models[place] for place in keep)
        return Yardstick(names, self.items[keep], self.slices[keep], self.slice_category, self.slice_name)


def yardstick(panel: xr.Dataset, cut: Slices, index: NDArray[np.integer]) -> Yardstick:
    """Read a panel once.

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.
    cut : Slices
        The (benchmark, category) pairs of its items.
    index : ndarray (K,) int
        Positions of the suite's items.
    """
    sums, counts = group_totals(panel, cut.of_item, len(cut))
    sizes = np.bincount(cut.of_item, minlength=len(cut))
    enough = (counts > 0) & (2 * counts >= sizes)
    return Yardstick(
        tuple(str(name) for name in panel["model"].to_numpy()),
        read_columns(panel, np.asarray(index, dtype=np.int64)),
        np.where(enough, sums / np.maximum(counts, 1), np.nan),
        cut.category,
        tuple(cut.label(number) for number in range(len(cut))),
    )
