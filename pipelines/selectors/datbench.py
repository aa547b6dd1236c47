"""DatBench: the items whose scores go with the models' scores on the rest of the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.selectors.order import seeded_keys, top
from optotype.pipelines.selectors.selector import Selection, check_budget

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["DatBench", "item_rest_correlation"]

_BLOCK_ITEMS = 4096
_CONSTANT = 1e-12  # variance below which a column is taken for constant


class DatBench:
    """Point-biserial item discrimination r_pb, the K items with the highest (Joshi et al. 2026).

    The Pearson correlation between an item's scores and the models' means over the rest of the pool; on 0/1 scores it
    is the point-biserial one (arXiv 2609.37515, Appendix D.1). Where the papers are silent: the rest is the whole pool
    less the item, each model over those that it has; an item whose correlation is undefined (fewer than two models, or
    constant scores) comes last, behind negative ones; ties are seeded.
    """

    name = "datbench"
    needs = frozenset({"scores"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        count = check_budget(pool, budget, seed)
        score = item_rest_correlation(pool.scores)
        undefined = int(np.isnan(score).sum())
        notes = (f"{undefined} of {pool.n} items have no item-rest correlation and come last",) if undefined else ()
        return Selection(top(score, seeded_keys(pool, seed), count), score=score, notes=notes, details={"seed": seed})


def item_rest_correlation(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pearson correlation of each column with the rows' means over their other columns.

    Parameters
    ----------
    scores : ndarray (M, n) float64
        NaN where missing.

    Returns
    -------
    ndarray (n,) float64
        Over the models that have the item and at least one other; NaN where that is undefined.
    """
    present = ~np.isnan(scores)
    total = np.where(present, scores, 0.0).sum(axis=1, keepdims=True)
    number = present.sum(axis=1, keepdims=True)
    result = np.full(scores.shape[1], np.nan)
    for start in range(0, scores.shape[1], _BLOCK_ITEMS):
        block = slice(start, start + _BLOCK_ITEMS)
        here = present[:, block] & (number > 1)
        item = np.where(here, scores[:, block], 0.0)
        rest = np.where(here, (total - item) / np.maximum(number - 1, 1), 0.0)
        count = np.maximum(here.sum(axis=0), 1)
        item = np.where(here, item - item.sum(axis=0) / count, 0.0)
        rest = np.where(here, rest - rest.sum(axis=0) / count, 0.0)
        first, second = (item * item).sum(axis=0) / count, (rest * rest).sum(axis=0) / count
        varies = (first > _CONSTANT) & (second > _CONSTANT)
        spread = np.sqrt(np.where(varies, first * second, 1.0))
        result[block] = np.where(varies, (item * rest).sum(axis=0) / count / spread, np.nan)
    return result
