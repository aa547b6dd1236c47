"""Vision-Aware Variance: variance between models, tilted towards items that need the image, spread over cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.selectors.selector import Selection
from optotype.pipelines.selectors.shares import NO_CELLS, in_shares
from optotype.pipelines.selectors.spaces import drawn, space_of

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["VisionAwareVariance", "embedding_notes"]

_SHOWN = 5


class VisionAwareVariance:
    """Vision-Aware Variance with coverage cells (arXiv 2609.37515, Section 4.3 and Appendix D.1).

    Items are ranked by q_i / √M_i = v̂_i + α/√M_i · δ_i. The budget is divided among the benchmarks in proportion to
    their sizes; a benchmark's embeddings E^VL are clustered into as many cells as its share has places, and the best
    item of each cell is kept. Places that the cells leave go to the benchmark's best remaining items.

    Where the paper is silent: scores are compared at 12 decimals, and ties are in an order drawn for each item from the
    seed, the benchmark and the item's id. A benchmark none of whose items has an E^VL draws its cells on E^L, with
    δ = 0; one without any embedding is filled by score alone. The notes say which.
    """

    name = "vaw"
    needs = frozenset({"text", "vision_text"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        def draw(benchmark: str, members: NDArray[np.int64], share: int) -> tuple[str, NDArray[np.int32]]:
            space = space_of(pool, benchmark, members)
            if space is None:
                return NO_CELLS, np.full(len(members), -1, dtype=np.int32)
            return space, drawn(pool, space, benchmark, members, share, seed)

        selection = in_shares(pool, budget, seed=seed, draw=draw)
        return replace(selection, notes=embedding_notes(pool, selection))


def embedding_notes(pool: Pool, selection: Selection) -> tuple[str, ...]:
    """What was missing of the embeddings, and what was done instead; from the account that `in_shares` gives."""
    told = selection.details["benchmarks"]
    notes = []
    for space, text in (
        ("text", "only text embeddings: cells are drawn on them and δ = 0"),
        (NO_CELLS, "no embeddings: shares are filled by score alone and δ = 0"),
    ):
        names = [row["benchmark"] for row in told if row["space"] == space]
        if names:
            shown = ", ".join(names[:_SHOWN])
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            notes.append(text if len(names) == len(told) else f"{shown}{more}: {text}")
    with_cells = [row for row in told if row["space"] != NO_CELLS]
    outside = sum(row["in_no_cell"] for row in with_cells)
    if outside:
        among = sum(row["items"] for row in with_cells)
        notes.append(f"{outside} of {among} items have no embedding: they enter no cell and δ = 0 for them")
    if pool.text is None and any(row["space"] == "vision_text" for row in told):
        notes.append("no text-only embeddings: δ = 0")
    return tuple(notes)
