"""Cycle consistency: from an item to what reads like it, to what looks like that, and back to the item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.cosine_neighbours import cosine_neighbours
from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score
from optotype.pipelines.metrics.misfits import Misfit, check_fit, too_large
from optotype.pipelines.metrics.paired_rows import paired_unit_rows

__all__ = ["CycleKnn"]

_ROWS = 4096


class CycleKnn:
    """Share of items i that are among the visual neighbours of one of their textual neighbours.

    Neighbours as in ``mutual-nn``. ``chance`` is 1 - (1 - k/(n-1))^k, the expectation for two independent graphs in
    which every set of k neighbours is equally likely.

    FLOPs: 2·n²·(d + t); the look-ups, n·k², are not counted.
    """

    name = "cycle-knn"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType({"k": Option(10, int, "neighbours of each item", minimum=1)})
    source = "Huh, Cheung, Wang & Isola 2024, arXiv 2405.07987, appendix A; texts first, images second as in its code"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """k is less than the items."""
        yield from too_large(int(options["k"]), n)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [0, 1], 0 or 1 per item; see the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=2)
        n, k = len(visual), int(options["k"])
        check_fit(self, n, options)
        with one_thread():
            back = _returns(cosine_neighbours(textual, k)[0], cosine_neighbours(visual, k)[0])
        level = 1 - (1 - k / (n - 1)) ** k
        return Score(int(back.sum()) / n, chance=level, per_item=back.astype(np.float64), details={"k": k})


def _returns(first: NDArray[np.int32], second: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Whether i is in ``second`` of one of the items in ``first`` of i; both (n, k)."""
    n, k = first.shape
    back = np.zeros(n, dtype=bool)
    step = max(1, _ROWS * _ROWS // (k * k))  # 64 MiB of numbers at a time
    for start in range(0, n, step):
        reached = second[first[start : start + step]]
        itself = np.arange(start, start + len(reached))
        back[start : start + step] = (reached == itself[:, None, None]).any(axis=(1, 2))
    return back
