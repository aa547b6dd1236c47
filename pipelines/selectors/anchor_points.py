"""Anchor points: medoids of items that the same models get right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.cells import seed_of
from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.shares import shares
from optotype.pipelines.selectors.anchors import all_known, in_fixed_order
from optotype.pipelines.selectors.order import seeded_keys
from optotype.pipelines.selectors.selector import Selection, check_budget, everything

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["MOST_ITEMS", "AnchorPoints", "correlation_distance", "item_means"]

MOST_ITEMS = 5_000
"""Items whose distances to each other are held at once, 100 MB; a larger pool is cut into parts of this size."""

_FEWEST = 3  # models in common; with two every correlation is 1 or -1
_ROWS = 1024
_FLAT = 1e-12  # variance of an item that is constant, but for rounding
_SAME = 1e-6  # distances are float32


class AnchorPoints:
    """K medoids of the items, each weighted by the size of its cluster (Vivek et al., 2024, "Anchor Points Weighted").

    The distance of two items is 1 - the Pearson correlation of their scores over the build models; medoids are found
    by FasterPAM (`kmedoids.fasterpam`, seeded random start), and a model's estimate is the mean of its scores on the
    medoids, weighted by cluster size. Where the source is silent:

    - *Missing scores*: a correlation is over the models that have both items; with fewer than 3 it counts as 0.
    - *Constant items* (all models alike) correlate with nothing: distance 1 to every other item, but 0 to an item with
      the same scores. The source would scatter the items that nobody solves over all clusters; here they form one.
    - *Equally near medoids*: an item goes to the one whose mean score is nearest to its own, then to the first.
    - *Large pools*: above 5,000 items the pool is cut at random (seeded) into the fewest equal parts of at most that
      size, K is shared among them in proportion, and each part gets its own medoids. The notes say so.
    - *Items without any score*: they are in no distance and stand for nothing; a budget larger than the other items is
      filled up with them, in seeded random order, and then all kept items count the same.
    - *K of all items*: the whole pool without weights.
    """

    name = "anchor-points"
    needs = frozenset({"scores"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """``budget`` medoids, with the share of the pool that each stands for as weight; the weights sum to 1."""
        budget = check_budget(pool, budget, seed)
        if budget == pool.n:
            return everything(pool)
        known = np.flatnonzero(pool.valid > 0)
        if budget > len(known):
            index, weight = all_known(pool.valid, budget, seeded_keys(pool, seed))
            return Selection(index, weight=weight, details={"seed": seed})
        rng = np.random.default_rng(seed_of(seed, "anchor points"))
        pieces = -(-len(known) // MOST_ITEMS)
        notes: tuple[str, ...] = ()
        parts = [known]
        if pieces > 1:
            parts = [np.sort(part) for part in np.array_split(rng.permutation(known), pieces)]
            notes = (
                f"{len(known)} items are more than the {MOST_ITEMS} whose distances are held at once: medoids were "
                f"sought within {pieces} random parts",
            )
        scores = in_fixed_order(pool.scores)
        places = shares([len(part) for part in parts], budget)
        size = np.zeros(pool.n)
        for part, place in zip(parts, places, strict=True):
            start = int(rng.integers(2**31))
            if place:
                medoids, counts = _medoids(scores[:, part], int(place), start)
                size[part[medoids]] = counts
        index = np.flatnonzero(size)
        return Selection(index.astype(np.int64), weight=size[index] / len(known), notes=notes, details={"seed": seed})


def correlation_distance(scores: NDArray[Any]) -> NDArray[np.float32]:
    """1 - Pearson correlation of every two items, over the models that have both.

    Parameters
    ----------
    scores : ndarray (M, n) float
        NaN is missing.

    Returns
    -------
    ndarray (n, n) float32
        In [0, 2], symmetric, 0 on the diagonal and between items of equal scores; 1 where the correlation is not
        defined: fewer than 3 models in common, or an item that is constant over them.
    """
    n = scores.shape[1]
    known = ~np.isnan(scores)
    value = np.where(known, scores - 0.5, 0.0)  # near its centre, where sums of squares lose little
    gaps = None if known.all() else known.astype(np.float64)
    distance = np.empty((n, n), dtype=np.float32)
    with one_thread():
        for start in range(0, n, _ROWS):
            rows, columns = slice(start, start + _ROWS), slice(start, n)
            part = 1.0 - (_correlation(value, rows, columns) if gaps is None else _pairwise(value, gaps, rows, columns))
            distance[rows, columns] = part
            distance[columns, rows] = part.T
            corner = distance[rows, rows]  # written twice, and equal but for rounding
            distance[rows, rows] = np.minimum(corner, corner.T)
    for equal in _equal_items(scores):
        distance[np.ix_(equal, equal)] = 0.0
    np.fill_diagonal(distance, 0.0)
    return distance


def _correlation(value: NDArray[np.float64], rows: slice, columns: slice) -> NDArray[np.float64]:
    """Correlations of some items with others, 0 where they are not defined; without missing scores."""
    centred = value - value.mean(axis=0, keepdims=True) if len(value) else value
    square = (centred**2).sum(axis=0)
    varies = (square > _FLAT * len(value)) & (len(value) >= _FEWEST)
    unit = np.where(varies, centred / np.sqrt(np.where(varies, square, 1.0)), 0.0)
    return np.asarray(np.clip(unit[:, rows].T @ unit[:, columns], -1.0, 1.0))


def _pairwise(
    value: NDArray[np.float64], present: NDArray[np.float64], rows: slice, columns: slice
) -> NDArray[np.float64]:
    """The same with missing scores, over the models that both items have."""
    one, other, in_one, in_other = value[:, rows].T, value[:, columns], present[:, rows].T, present[:, columns]
    common = in_one @ in_other
    count = np.maximum(common, 1.0)
    first, second = one @ in_other, in_one @ other  # sums over the common models
    shared = one @ other - first * second / count
    spread = np.maximum(one**2 @ in_other - first**2 / count, 0.0)
    reach = np.maximum(in_one @ other**2 - second**2 / count, 0.0)
    defined = (common >= _FEWEST) & (spread > _FLAT * count) & (reach > _FLAT * count)
    scale = np.sqrt(np.where(defined, spread * reach, 1.0))
    return np.asarray(np.where(defined, np.clip(shared / scale, -1.0, 1.0), 0.0))


def item_means(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean valid score (n,) of each item; that of all valid scores for an item without one, 0.5 without any."""
    known = ~np.isnan(scores)
    total, count = np.where(known, scores, 0.0).sum(axis=0), known.sum(axis=0)
    overall = total.sum() / count.sum() if count.any() else 0.5
    return np.where(count > 0, total / np.maximum(count, 1), overall)


def _equal_items(scores: NDArray[Any]) -> list[NDArray[np.intp]]:
    """Groups of two or more items with the same scores and the same gaps."""
    columns = np.ascontiguousarray(np.nan_to_num(scores.T, nan=-1.0))
    _, group = np.unique(columns, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return [part for part in np.split(order, cuts) if len(part) > 1]


def _medoids(scores: NDArray[np.float64], k: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Positions (k,) of the medoids and the number of items that each stands for."""
    from kmedoids import fasterpam

    distance = correlation_distance(scores)
    if k == len(distance):
        return np.arange(k), np.ones(k, dtype=np.int64)
    found = fasterpam(distance, k, init="random", random_state=seed, n_cpu=1)
    medoids = np.sort(np.asarray(found.medoids).astype(np.intp))
    near = distance[:, medoids]
    mean = item_means(scores)
    gap = np.abs(mean[:, None] - mean[medoids]).round(12)
    gap[near > near.min(axis=1, keepdims=True) + _SAME] = np.inf
    label = gap.argmin(axis=1)
    label[medoids] = np.arange(k)  # equal items may both be medoids; each stands for itself at least
    return medoids, np.bincount(label, minlength=k)
