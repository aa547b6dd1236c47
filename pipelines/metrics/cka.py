"""Centred kernel alignment of unit rows, biased and unbiased."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.independence import biased_hsic, unbiased_hsic
from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, too_few
from optotype.pipelines.metrics.paired_rows import paired_unit_rows
from optotype.schemas.errors import UsageError

__all__ = ["Cka", "CkaUnbiased"]

_SAME = 1e-12  # rows that lie this near their mean, or a criterion this small beside its terms, are rounding


class Cka:
    """Linear CKA: tr(KHLH) / sqrt(tr(KHKH) tr(LHLH)), K and L the cosines of the two sides.

    Computed over channels, so nothing of size n x n exists. ``chance`` is the mean over all pairings,
    tr(KH) tr(LH) / ((n - 1) sqrt(...)), which nears 1 where n is not much above the number of channels.

    FLOPs: 2·n·(d² + t² + d·t).
    """

    name = "cka"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType({})
    source = "Kornblith, Norouzi, Lee & Hinton 2019; rows of length 1 as in Huh et al. 2024, arXiv 2405.07987"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 3 items or more."""
        yield from too_few(n, 3)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [0, 1]; see the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=3)
        visual, textual = visual - visual.mean(axis=0), textual - textual.mean(axis=0)
        n = len(visual)
        traces = [float(np.einsum("ij,ij->", rows, rows)) for rows in (visual, textual)]
        for side, trace in zip(("visual", "textual"), traces, strict=True):
            if math.sqrt(trace / n) <= _SAME:
                raise _no_spread(self.name, f"all items are equal on the {side} side")
        with one_thread():
            scale = math.sqrt(biased_hsic(visual, visual)) * math.sqrt(biased_hsic(textual, textual))
            value = biased_hsic(visual, textual) / scale
        return Score(min(1.0, value), chance=min(1.0, traces[0] * traces[1] / ((n - 1) * scale)))


class CkaUnbiased:
    """CKA with the unbiased criterion of Song et al. (2012): diagonals left out. May be below 0.

    ``chance`` is 0, the mean over all pairings.

    FLOPs: 2·n·(d² + t² + d·t).
    """

    name = "cka-unbiased"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType({})
    source = "Song et al. 2012, JMLR 13, equation 5; rows of length 1 as in Huh et al. 2024, arXiv 2405.07987"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 4 items or more."""
        yield from too_few(n, 4)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value of 1 at most; see the class."""
        sides = paired_unit_rows(self.name, inputs, fewest=4)
        with one_thread():
            visual, textual = (rows - rows.mean(axis=0) for rows in sides)
            value = unbiased_hsic(visual, textual)[0] / (
                self._spread(visual, "visual") * self._spread(textual, "textual")
            )
        return Score(min(1.0, max(-1.0, value)), chance=0.0)

    def _spread(self, rows: NDArray[np.float64], side: str) -> float:
        value, size = unbiased_hsic(rows, rows)
        if size <= _SAME**4 or value <= _SAME * size:
            raise _no_spread(self.name, f"all pairs of items are equally similar on the {side} side")
        return math.sqrt(value)


def _no_spread(name: str, why: str) -> UsageError:
    return metric_error(
        name,
        f"{why}, so it is not defined",
        "Put other post-processing in front (--post-features or --post-states), or leave it out.",
    )
