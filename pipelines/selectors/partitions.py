"""Ablations of the cells: a random partition in their place, or cells on the text alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.cells import seed_of
from optotype.pipelines.selectors.selector import Selection
from optotype.pipelines.selectors.shares import NO_CELLS, delta_notes, in_shares
from optotype.pipelines.selectors.spaces import drawn, points

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["RandomPartition", "TextCells"]


class RandomPartition:
    """Vision-Aware Variance over a random partition of each benchmark into as many groups as its share (Appendix D.4).

    Where the paper is silent: the groups' sizes differ by at most one, and all items are in one, with or without an
    embedding. Score and shares are those of ``vaw``.
    """

    name = "random-partition"
    needs = frozenset({"text", "vision_text"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        def draw(benchmark: str, members: NDArray[np.int64], share: int) -> tuple[str, NDArray[np.int32]]:
            generator = np.random.default_rng(seed_of(seed, "partition", benchmark))
            return "random", generator.permutation(len(members)).astype(np.int32) % np.int32(share)

        return replace(in_shares(pool, budget, seed=seed, draw=draw), notes=delta_notes(pool))


class TextCells:
    """Vision-Aware Variance with its cells on the text-only embedding E^L (Appendix D.4).

    Score, δ included, shares and projection are those of ``vaw``; a benchmark without E^L is filled by score alone.
    """

    name = "text-cells"
    needs = frozenset({"text", "vision_text"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        def draw(benchmark: str, members: NDArray[np.int64], share: int) -> tuple[str, NDArray[np.int32]]:
            if points(pool, "text", benchmark, members) is None:
                return NO_CELLS, np.full(len(members), -1, dtype=np.int32)
            return "text", drawn(pool, "text", benchmark, members, share, seed)

        selection = in_shares(pool, budget, seed=seed, draw=draw)
        notes = list(delta_notes(pool))
        if any(row["space"] == NO_CELLS for row in selection.details["benchmarks"]):
            notes.append("a benchmark without text embeddings: its share is filled by score alone")
        return replace(selection, notes=tuple(notes))
