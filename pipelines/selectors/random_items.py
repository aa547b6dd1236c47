"""Items drawn at random: what every other selector is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optotype.pipelines.selectors.order import seeded_keys
from optotype.pipelines.selectors.selector import Selection, check_budget

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["RandomItems"]


class RandomItems:
    """K items of the pool, each set of K as likely as any other; no scores are read.

    So an item that no build model has a score on is drawn like any other; every other selector keeps those for last.

    The items with the K smallest seeded random numbers: for one seed, a smaller budget gives a part of a larger one's
    items, whatever the order of the items.
    """

    name = "random"
    needs: frozenset[str] = frozenset()

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        count = check_budget(pool, budget, seed)
        order = np.argsort(seeded_keys(pool, seed, "random"), kind="stable").astype(np.int64)
        return Selection(np.sort(order[:count]), details={"seed": seed})
