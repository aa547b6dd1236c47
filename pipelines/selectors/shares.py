"""The budget divided among the benchmarks of a pool, and each share filled from cells or by score alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.shares import shares
from optotype.pipelines.selectors.order import best_first, seeded_keys
from optotype.pipelines.selectors.selector import Selection, check_budget

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["NO_CELLS", "Draw", "SharesOnly", "best_of_each", "delta_notes", "in_shares"]

NO_CELLS = "none"
"""Name of the space of a benchmark without cells."""

Draw = Callable[[str, NDArray[np.int64], int], tuple[str, NDArray[np.int32]]]
"""Benchmark, positions of its items, share -> what its cells are drawn on, and the cell of each item (-1: none)."""


def best_of_each(
    cell: NDArray[np.int32], order: NDArray[np.int64], share: int, scored: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], int]:
    """Which items fill a share: the best of each cell, then the best of those that remain.

    Parameters
    ----------
    cell : ndarray (n,) int32
        -1 for an item in no cell.
    order : ndarray (n,) int64
        Positions from the best item to the worst.
    share : int
        At least the number of cells.
    scored : ndarray (n,) bool, optional
        Items that can stand for a cell; all by default. The paper is silent on a cell without a single score: here it
        has no best item.

    Returns
    -------
    chosen : ndarray (share,) int64
        Ascending.
    from_cells : int
        How many of them are there as the best of their cell.
    """
    ordered = cell[order]
    _, first = np.unique(ordered, return_index=True)
    leads = np.zeros(len(order), dtype=bool)
    leads[first] = True
    leads &= ordered >= 0
    if scored is not None:
        leads &= scored[order]
    remaining = order[~leads][: share - int(leads.sum())]
    return np.sort(np.concatenate([order[leads], remaining])), int(leads.sum())


def delta_notes(pool: Pool) -> tuple[str, ...]:
    """Whether δ is 0 for want of one of the two embeddings."""
    lacking = {"text-only": pool.text, "vision-text": pool.vision_text}
    missing = [name for name, rows in lacking.items() if rows is None]
    return (f"no {' and no '.join(missing)} embeddings: δ = 0",) if missing else ()


def in_shares(pool: Pool, budget: int, *, seed: int, draw: Draw) -> Selection:
    """Items by Vision-Aware Variance, in shares proportional to the benchmarks' sizes, spread over cells.

    Ties in score are in a seeded random order. ``details["benchmarks"]`` tells of each benchmark with a share its
    items, the share, what its cells were drawn on, the cells that came out, the items that are in none, and how many
    of the share came from cells and how many were filled by score.
    """
    budget = check_budget(pool, budget, seed)
    score = pool.vaw
    keys = seeded_keys(pool, seed)
    parts = shares([len(members) for _, members in pool.groups], budget)
    chosen: list[NDArray[np.int64]] = []
    labels: list[NDArray[np.int32]] = []
    told: list[dict[str, Any]] = []
    for (benchmark, members), share in zip(pool.groups, parts, strict=True):
        if share == 0:
            continue
        space, cell = draw(benchmark, members, share)
        kept, from_cells = best_of_each(
            cell, best_first(score[members], keys[members]), share, ~np.isnan(score[members])
        )
        chosen.append(members[kept])
        labels.append(cell[kept])
        told.append(
            {
                "benchmark": benchmark,
                "items": len(members),
                "share": share,
                "space": space,
                "cells": int(cell.max(initial=-1)) + 1,
                "in_no_cell": int((cell < 0).sum()),
                "from_cells": from_cells,
                "by_score": share - from_cells,
            }
        )
    index = np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)
    cells = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int32)
    ascending = np.argsort(index)
    return Selection(
        index=index[ascending], cell=cells[ascending], score=score, details={"seed": seed, "benchmarks": told}
    )


class SharesOnly:
    """Vision-Aware Variance without cells: each benchmark's share goes to its highest scores (Appendix D.4).

    The score, δ included, the shares and the seeded ties are those of ``vaw``.
    """

    name = "shares-only"
    needs = frozenset({"text", "vision_text"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        def draw(benchmark: str, members: NDArray[np.int64], share: int) -> tuple[str, NDArray[np.int32]]:
            return NO_CELLS, np.full(len(members), -1, dtype=np.int32)

        selection = in_shares(pool, budget, seed=seed, draw=draw)
        return replace(selection, notes=delta_notes(pool))
