"""Stage 0: items that say nothing about vision, or nothing about models, are left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.item_statistics import ItemStatistics, item_statistics
from optotype.pipelines.compression.slices import Slices
from optotype.pipelines.kernels.item_moments import ROUNDING
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["TAU", "Cleaning", "clean"]

TAU = 2 / 3


@dataclass(frozen=True)
class Cleaning:
    """What stage 0 keeps.

    Attributes
    ----------
    keep : ndarray (n,) bool
    report : DataFrame
        A row for each benchmark in catalogue order: ``benchmark, items, all_correct, blind_solvable, both,
        without_blind_run, kept``. ``all_correct`` and ``blind_solvable`` count what each filter would remove alone,
        ``both`` what they share: kept = items - all_correct - blind_solvable + both.
    """

    keep: NDArray[np.bool_]
    report: pd.DataFrame


def clean(panel: xr.Dataset, slices: Slices, tau: float = TAU, *, statistics: ItemStatistics | None = None) -> Cleaning:
    """Drop all-correct and blind-solvable items (Section 4.1).

    - All-correct: at least one valid model, and every valid model scores 1. All-wrong items stay.
    - Blind-solvable: the mean score β_i of the image-free runs is at least τ. Items without a valid blind run stay, and
      are counted.

    Both comparisons allow for 1e-6, since scores are stored as float32: 2 of 3 right is at least 2/3.

    Parameters
    ----------
    panel : Dataset
    slices : Slices
        Only the benchmarks are used.
    tau : float
        Above 0, at most 1.
    statistics : ItemStatistics, optional
        Of all models, if known already.

    Raises
    ------
    UsageError
        ``tau`` out of range.
    """
    import pandas as pd

    if not (math.isfinite(tau) and 0 < tau <= 1):
        raise UsageError(f"tau is above 0 and at most 1 (2/3 by default); got {tau}")
    found = item_statistics(panel) if statistics is None else statistics
    solvable = found.blind_mean >= tau - ROUNDING  # NaN compares as false
    keep = ~(found.all_correct | solvable)
    names = np.array(slices.benchmark, dtype=object)
    _, first = np.unique(names, return_index=True)
    order = names[np.sort(first)].tolist()
    number = {name: place for place, name in enumerate(order)}
    of_item = np.array([number[name] for name in slices.benchmark], dtype=np.int64)[slices.of_item]

    def count(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(of_item[which], minlength=len(order))

    report = pd.DataFrame(
        {
            "benchmark": order,
            "items": count(np.ones(len(keep), dtype=bool)),
            "all_correct": count(found.all_correct),
            "blind_solvable": count(solvable),
            "both": count(found.all_correct & solvable),
            "without_blind_run": count(found.blind_valid == 0),
            "kept": count(keep),
        }
    )
    return Cleaning(keep, report)
