"""Representational similarity analysis: do pairs of items that look alike also read alike?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.similarity_pairs import pair_moments, pairs_of_tiles
from optotype.pipelines.kernels.spearman import spearman
from optotype.pipelines.kernels.topk import DECIMALS
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, check_fit, too_few
from optotype.pipelines.metrics.paired_rows import paired_unit_rows

__all__ = ["MOST_RANKED", "Rsa"]

MOST_RANKED = 5000
"""Items whose n(n-1)/2 similarities are ranked in memory: 12.5 million a side, some 600 MB in all."""

_SAME = 1e-12  # a standard deviation of cosines below this is rounding


class Rsa:
    """Correlation of the upper triangles of the two matrices of cosines.

    Rows are scaled to length 1. Pearson's r is streamed over tiles of 1024 x 1024 pairs; Spearman's ρ needs all pairs
    at once and is limited to :data:`MOST_RANKED` items (cosines are rounded to 12 decimals, ties get average ranks).
    ``chance`` is 0: the mean of r and of ρ over all pairings.

    FLOPs: n²·(d + t), two a multiplication and addition of each pair i < j.
    """

    name = "rsa"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType(
        {
            "correlation": Option("pearson", str, "pearson, or spearman on ranks", choices=("pearson", "spearman")),
        }
    )
    source = "Kriegeskorte, Mur & Bandettini 2008, Front. Syst. Neurosci. 2:4; cosines instead of dissimilarities"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 3 items or more, and few enough to rank all pairs."""
        yield from too_few(n, 3)
        if options["correlation"] == "spearman" and n > MOST_RANKED:
            yield Misfit(
                f"spearman ranks all {n * (n - 1) // 2} pairs in memory, which is for {MOST_RANKED} items at most; "
                f"got {n}",
                hint=f"Take fewer with --images {MOST_RANKED}, or --set rsa.correlation=pearson.",
            )

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [-1, 1]; see the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=3)
        check_fit(self, len(visual), options)
        ranked = options["correlation"] == "spearman"
        with one_thread():
            found = pair_moments(visual, textual)
            for side, squares in (("visual", found.xx), ("textual", found.yy)):
                if math.sqrt(squares / found.count) <= _SAME:
                    raise metric_error(
                        self.name,
                        f"all pairs of items are equally similar on the {side} side "
                        f"(cosine {found.mean_x if side == 'visual' else found.mean_y:.6g})",
                        "Put other post-processing in front (--post-features or --post-states), or leave it out.",
                    )
            if ranked:
                pairs = list(pairs_of_tiles(visual, textual))
                value = spearman(*(np.concatenate(side).round(DECIMALS) for side in zip(*pairs, strict=True)))
            else:
                value = found.xy / math.sqrt(found.xx * found.yy)
        details = {
            "correlation": options["correlation"],
            "pairs": found.count,
            "visual_mean_cosine": found.mean_x,
            "visual_sd_cosine": math.sqrt(found.xx / found.count),
            "textual_mean_cosine": found.mean_y,
            "textual_sd_cosine": math.sqrt(found.yy / found.count),
        }
        return Score(min(1.0, max(-1.0, value)), chance=0.0, details=details)
