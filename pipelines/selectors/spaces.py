"""Where the cells of a benchmark are drawn: which of its embeddings, in how many dimensions, and the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.cells import cells, project, seed_of

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["SPACES", "drawn", "points", "space_of"]

SPACES = ("vision_text", "text")
"""E^VL, else E^L: in this order a benchmark takes the first of which any of its items has one."""


def points(pool: Pool, space: str, benchmark: str, members: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """Projected embeddings of a benchmark's items, a row of NaN where there is none; None if no item has one.

    Kept with the pool: they depend on no model.
    """
    key = ("points", space, benchmark)
    if key not in pool.kept:
        rows = getattr(pool, space)
        found = None if rows is None else project(rows[members])
        pool.kept[key] = None if found is None or not np.isfinite(found).all(axis=1).any() else found
    result: NDArray[np.float64] | None = pool.kept[key]
    return result


def space_of(pool: Pool, benchmark: str, members: NDArray[np.int64]) -> str | None:
    """The space of a benchmark's cells; None if its items have no embedding of either kind."""
    return next((space for space in SPACES if points(pool, space, benchmark, members) is not None), None)


def drawn(
    pool: Pool, space: str, benchmark: str, members: NDArray[np.int64], count: int, seed: int
) -> NDArray[np.int32]:
    """Cell of each of a benchmark's items, -1 for none; kept with the pool.

    The seed of the k-means comes from the pool's ``cell_seed``, or else ``seed``, and the benchmark's name: no other
    benchmark changes these cells.
    """
    seed = seed if pool.cell_seed is None else pool.cell_seed
    key = ("cells", space, benchmark, count, seed)
    if key not in pool.kept:
        where = points(pool, space, benchmark, members)
        nowhere = np.full(len(members), -1, dtype=np.int32)
        pool.kept[key] = nowhere if where is None else cells(where, count, seed=seed_of(seed, "cells", benchmark))
    result: NDArray[np.int32] = pool.kept[key]
    return result
