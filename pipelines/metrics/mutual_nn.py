"""Mutual nearest neighbours of pooled features and states, with ties to the lower index or counted in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from optotype.pipelines.kernels import overlap
from optotype.pipelines.kernels.cosine_neighbours import Cosines, cosine_neighbours, memberships
from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score
from optotype.pipelines.metrics.misfits import Misfit, check_fit, too_large
from optotype.pipelines.metrics.paired_rows import paired_unit_rows

__all__ = ["MutualNn", "MutualNnTies"]

_OPTIONS: Mapping[str, Option] = MappingProxyType(
    {"k": Option(10, int, "neighbours of each item; 10 as a rival, 100 as the base of the ablation", minimum=1)}
)


class MutualNn:
    """Mean over items of |N_v(i) ∩ N_t(i)| / k, neighbours by cosine of raw pooled rows.

    An item is not its own neighbour; ties go to the lower index, cosines being rounded to 12 decimals. ``chance`` is
    k / (n - 1), the expected overlap of unrelated graphs.

    FLOPs: 2·n²·(d + t); the sort is not counted.
    """

    name = "mutual-nn"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options = _OPTIONS
    source = "Huh, Cheung, Wang & Isola 2024, arXiv 2405.07987: mutual k-nearest-neighbour metric"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """k is less than the items."""
        yield from too_large(int(options["k"]), n)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [0, 1], one per item as well; see the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=2)
        n, k = len(visual), int(options["k"])
        check_fit(self, n, options)
        with one_thread():
            found = overlap.matches(cosine_neighbours(visual, k)[0], cosine_neighbours(textual, k)[0])
        level = overlap.chance(n, k)
        return Score(int(found.sum()) / (n * k), chance=level, per_item=found / k, details={"k": k})


class MutualNnTies:
    """The same with neighbours that are tied at the k-th place counted in parts.

    Where g items share the k-th similarity and a are above it, each of the g is a neighbour by (k - a) / g. The
    overlap of an item is Σ_j w_v(j) w_t(j) / k: what is expected when ties are broken at random, on each side on its
    own. ``chance`` is k / (n - 1). Without ties at the k-th place this is ``mutual-nn``.

    FLOPs: 2·n²·(d + t + 1).
    """

    name = "mutual-nn-ties"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options = _OPTIONS
    source = "Huh, Cheung, Wang & Isola 2024, arXiv 2405.07987; expectation over random orders of ties"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """k is less than the items."""
        yield from too_large(int(options["k"]), n)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [0, 1], one per item as well; see the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=2)
        n, k = len(visual), int(options["k"])
        check_fit(self, n, options)
        per_item = np.empty(n)
        tied = 0
        with one_thread():
            sides = Cosines(visual), Cosines(textual)
            for start, stop in sides[0].spans():
                first, second = (memberships(side.block(start, stop), k) for side in sides)
                per_item[start:stop] = np.einsum("ij,ij->i", first, second) / k
                parts = ((first > 0) & (first < 1)).any(axis=1) | ((second > 0) & (second < 1)).any(axis=1)
                tied += int(parts.sum())
        details = {"k": k, "items_with_ties": tied}
        return Score(float(per_item.mean()), chance=overlap.chance(n, k), per_item=per_item, details=details)
