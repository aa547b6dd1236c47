"""DISCO: the items to which the build models give the most different answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.selectors.order import DECIMALS, seeded_keys, top
from optotype.pipelines.selectors.selector import Selection, check_budget

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["Disco"]


class Disco:
    """Number of distinct answers of the build models, the K items with most (Rubinstein et al. 2026).

    As in Section 5 of arXiv 2609.37515, the kept items are scored by their mean rather than by DISCO's learned
    performance predictor. Only answers of valid records count. Ties, which are most of the order, are seeded. An item
    without any answer is ranked by the number of distinct scores (at 12 decimals) in place of answers, and the notes
    give their number: 0/1 scores tell two answers apart at most, so such items come behind those with answers.
    """

    name = "disco"
    needs = frozenset({"scores", "responses"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        count = check_budget(pool, budget, seed)
        scores = pool.scores
        valid = ~np.isnan(scores)
        score = _distinct(np.asarray(np.round(scores, DECIMALS), dtype=np.float64), valid)
        without: NDArray[np.bool_] = np.ones(pool.n, dtype=bool)
        if pool.responses is not None:
            given = valid & (pool.responses > 0)
            without = np.asarray(~given.any(axis=0))
            score = np.where(without, score, _distinct(pool.responses.astype(np.float64), given))
        notes = []
        if without.all() and pool.n:
            notes.append("no answers: items are ranked by the number of distinct scores")
        elif without.any():
            count_of = f"{int(without.sum())} of {pool.n}"
            notes.append(f"{count_of} items have no answers: they are ranked by the number of distinct scores")
        return Selection(
            top(score, seeded_keys(pool, seed), count), score=score, notes=tuple(notes), details={"seed": seed}
        )


def _distinct(values: NDArray[np.float64], present: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Number of distinct present values of each column."""
    ordered = np.sort(np.where(present, values, np.inf), axis=0)  # what is absent comes last
    new = np.ones(ordered.shape, dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    count: NDArray[np.float64] = (new & np.isfinite(ordered)).sum(axis=0).astype(np.float64)
    return count
