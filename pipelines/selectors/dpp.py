"""A determinantal point process in place of coverage cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.cells import seed_of
from optotype.pipelines.kernels.determinantal import greedy_map, median_squared_distance
from optotype.pipelines.selectors.order import best_first, seeded_keys
from optotype.pipelines.selectors.selector import Selection
from optotype.pipelines.selectors.shares import NO_CELLS, in_shares
from optotype.pipelines.selectors.spaces import points, space_of
from optotype.pipelines.selectors.vaw import embedding_notes

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["Dpp"]

_PAIRS = 2000
_MOST_NUMBERS = 2**25  # of the factor, 256 MiB


class Dpp:
    """Greedy MAP of a DPP with kernel diag(q) G diag(q) within each benchmark's share (arXiv 2609.37515, Appendix D.4).

    G is an RBF kernel on the projected embeddings of ``vaw``. Its bandwidth is the median squared distance of 2,000
    seeded pairs of the benchmark's items, and q is the score that ``vaw`` ranks by: no weight is tuned.

    Where the paper is silent: G = exp(-‖x - y‖² / bandwidth). Equal gains are in the order of ``vaw``, seeded ties
    included. What the process leaves of a share (items without an embedding, copies, q = 0) goes to the best remaining
    items. In a benchmark of more than 2²⁵ / K_b items the process chooses among the best of them, and the notes say so.
    """

    name = "dpp"
    needs = frozenset({"text", "vision_text"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        keys = seeded_keys(pool, seed)
        cut: list[str] = []

        def draw(benchmark: str, members: NDArray[np.int64], share: int) -> tuple[str, NDArray[np.int32]]:
            cell = np.full(len(members), -1, dtype=np.int32)
            space = space_of(pool, benchmark, members)
            where = None if space is None else points(pool, space, benchmark, members)
            if space is None or where is None:
                return NO_CELLS, cell
            order = best_first(pool.vaw[members], keys[members])
            order = order[np.isfinite(where[order]).all(axis=1)]
            most = max(share, _MOST_NUMBERS // share)
            if len(order) > most:
                order = order[:most]
                cut.append(f"{benchmark}: the process chooses among the {most} items with the highest scores")
            bandwidth = median_squared_distance(
                where[np.isfinite(where).all(axis=1)], pairs=_PAIRS, seed=seed_of(seed, "bandwidth", benchmark)
            )
            quality = np.nan_to_num(pool.vaw[members][order], nan=0.0)
            chosen = greedy_map(where[order], quality, share, bandwidth=bandwidth)
            # Each chosen item as a cell of its own: `in_shares` keeps those and fills the rest by score.
            cell[order[chosen]] = np.arange(len(chosen), dtype=np.int32)
            return space, cell

        selection = in_shares(pool, budget, seed=seed, draw=draw)
        told = [
            {
                **{key: value for key, value in row.items() if key not in ("cells", "in_no_cell", "from_cells")},
                "by_process": row["from_cells"],
            }
            for row in selection.details["benchmarks"]
        ]
        return replace(
            selection,
            cell=None,
            notes=(*_notes(pool, selection), *cut),
            details={"seed": seed, "benchmarks": told},
        )


def _notes(pool: Pool, selection: Selection) -> tuple[str, ...]:
    """As for cells, but that an item which the process did not choose is not one without an embedding."""
    rows = [{**row, "in_no_cell": 0} for row in selection.details["benchmarks"]]
    return embedding_notes(pool, replace(selection, details={"benchmarks": rows}))
