"""Centred kernel alignment among mutual nearest neighbours alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.cosine_neighbours import cosine_neighbours
from optotype.pipelines.kernels.independence import sparse_hsic
from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, check_fit, too_large
from optotype.pipelines.metrics.paired_rows import paired_unit_rows

__all__ = ["Cknna"]

_SAME = 1e-12  # a criterion this small beside its terms is rounding


class Cknna:
    """Align(K, L) / sqrt(Align(K, K) Align(L, L)), each Align the unbiased criterion of masked cosines.

    In Align(K, L) the entry (i, j) is kept if j is among the k nearest of i on both sides, itself left out; in
    Align(K, K) if it is on that side. Neighbours as in ``mutual-nn``. Memory is n x k. May be below 0; no ``chance``.
    Masks are not symmetric, so neither is the term 1ᵀKL1: K is the visual side, as in the source's code (which also
    clips the largest 5 percent of all values beforehand, in front of every metric; that is not done here).

    FLOPs: 2·n²·(d + t); what follows the neighbours is n·k.
    """

    name = "cknna"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType({"k": Option(10, int, "neighbours of each item", minimum=2)})
    source = "Huh, Cheung, Wang & Isola 2024, arXiv 2405.07987, appendix A: CKNNA, unbiased"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """k is less than the items, of which there are 4."""
        yield from too_large(int(options["k"]), n, fewest=4)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """See the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=4)
        n, k = len(visual), int(options["k"])
        check_fit(self, n, options)
        with one_thread():
            first, second = _kernel(*cosine_neighbours(visual, k)), _kernel(*cosine_neighbours(textual, k))
        own = [sparse_hsic(side[0], side[0]) for side in (first, second)]
        for side, (value, size) in zip(("visual", "textual"), own, strict=True):
            if value <= _SAME * size:
                raise metric_error(
                    self.name,
                    f"it is not defined: the {side} side's alignment with itself is {value:.3g}, not above 0 "
                    f"(k = {k}, n = {n})",
                    f"Another k, as --set {self.name}.k={max(2, (n - 1) // 2)}, or other post-processing.",
                )
        both = first[1].multiply(second[1])
        value = sparse_hsic(first[0].multiply(both), second[0].multiply(both))[0] / math.sqrt(own[0][0] * own[1][0])
        return Score(value, details={"k": k, "mutual_share": float(both.sum()) / (n * k)})


def _kernel(neighbours: NDArray[np.int32], similarity: NDArray[np.float64]) -> tuple[Any, Any]:
    """Cosines of each item with its neighbours as a sparse array (n, n), and where they are."""
    from scipy.sparse import csr_array

    n, k = neighbours.shape
    starts = np.arange(0, n * k + 1, k)
    shape = (n, n)
    columns = neighbours.ravel().astype(np.int64)
    return (
        csr_array((similarity.ravel(), columns, starts), shape=shape),
        csr_array((np.ones(n * k), columns, starts), shape=shape),
    )
