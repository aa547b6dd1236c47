"""Anchors: the items nearest to the centres of k-means clusters, weighted by cluster size."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.shares import shares

__all__ = ["all_known", "anchors", "in_fixed_order"]

_STARTS = 5
_COSTLY = 4_000_000  # items times clusters: there k-means++ takes longer than all else
_DECIMALS = 9


def anchors(
    vectors: NDArray[Any], k: int, *, keys: NDArray[Any], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """k of n items, and the part of the items that each stands for (Polo et al., 2024, section 3.2).

    k-means (Lloyd, float64, one thread, the best of 5 k-means++ starts by inertia, as in the authors' code; one random
    start where distinct vectors times k exceed 4 million) runs on the distinct vectors, each counting as often as it
    occurs, which is k-means on all items. The anchor of a cluster is its member nearest to the centre, ties by
    ``keys`` (the source: the nearest of all items, which may be one item for two clusters). Where there are fewer
    distinct vectors than k, each is a cluster and the other anchors are shared among the clusters in proportion to
    the members they have left; anchors of one cluster count the same.

    Parameters
    ----------
    vectors : ndarray (n, d) float
        Without NaN; compared at 9 decimals.
    k : int
        At most n.
    keys : ndarray (n,)
        Decide between equally near items, the least first.
    seed : int
        Of the k-means.

    Returns
    -------
    index : ndarray (k,) int64
        Ascending.
    weight : ndarray (k,) float64
        Positive, of sum 1 (k > 0).
    """
    n = len(vectors)
    if k == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    rounded = np.asarray(vectors, dtype=np.float64).round(_DECIMALS) + 0.0  # no negative zero
    distinct, kind, count = np.unique(rounded, axis=0, return_inverse=True, return_counts=True)
    cluster, distance = _clusters(distinct, count, k, seed)
    label = cluster[kind]
    size = np.bincount(label)
    places = 1 + np.array(shares([int(s) - 1 for s in size], k - len(size)))
    order = np.lexsort((keys, distance[kind], label))
    start = np.cumsum(size) - size
    place_in_cluster = np.arange(n) - start[label[order]]
    index = np.sort(order[place_in_cluster < places[label[order]]])
    weight = size[label[index]] / (n * places[label[index]])
    return index.astype(np.int64), weight


def all_known(
    valid: NDArray[np.integer[Any]], budget: int, keys: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every item with a score and, by ``keys``, as many of the others as ``budget`` allows; all count the same."""
    order = np.lexsort((keys, valid == 0))
    return np.sort(order[:budget]).astype(np.int64), np.full(budget, 1 / budget)


def in_fixed_order(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows of scores (M, n), one a model, sorted by their bytes: no sum hangs on the order they came in."""
    return scores[sorted(range(len(scores)), key=lambda m: scores[m].tobytes())]


def _clusters(
    distinct: NDArray[np.float64], count: NDArray[np.integer[Any]], k: int, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Cluster of each distinct vector, numbered without gaps, and its squared distance from the centre, rounded."""
    if len(distinct) <= k:
        return np.arange(len(distinct)), np.zeros(len(distinct))
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    start = int(np.random.default_rng(seed).integers(2**31))  # scikit-learn takes no larger seed
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer clusters than k: dealt with by the caller
        costly = len(distinct) * k > _COSTLY
        means = KMeans(
            k,
            init="random" if costly else "k-means++",
            n_init=1 if costly else _STARTS,
            algorithm="lloyd",
            random_state=start,
        )
        means.fit(distinct, sample_weight=count.astype(np.float64))
    label = np.asarray(means.labels_)
    distance = ((distinct - means.cluster_centers_[label]) ** 2).sum(axis=1)
    _, label = np.unique(label, return_inverse=True)  # a cluster may have been left without members
    return label, distance.round(_DECIMALS)
