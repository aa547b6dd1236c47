"""The items on which the build models differ most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optotype.pipelines.selectors.order import seeded_keys, top
from optotype.pipelines.selectors.selector import Selection, check_budget

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["Variance"]


class Variance:
    """The K highest plug-in variances v̂_i of the whole pool, without shares or cells (arXiv 2609.37515, Section 5).

    Ties, which are many among 0/1 scores, are in the seeded order of ``vaw``. An item without a score comes last.
    """

    name = "variance"
    needs: frozenset[str] = frozenset()

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        count = check_budget(pool, budget, seed)
        return Selection(
            top(pool.variance, seeded_keys(pool, seed), count), score=pool.variance, details={"seed": seed}
        )
