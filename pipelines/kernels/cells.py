"""Coverage cells: the items of a benchmark grouped by k-means on their embeddings (Section 4.3)."""

from __future__ import annotations

import warnings
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread

__all__ = ["DIMENSIONS", "cells", "project", "seed_of"]

DIMENSIONS = 64
"""Of the space in which the cells are drawn."""

_PROJECTION_SEED = 64  # part of the method, not a parameter: one projection for every panel, benchmark and seed
_BLOCK_ROWS = 2048


def seed_of(seed: int, *names: str) -> int:
    """A seed of 128 bits from a seed and names: the first half of the SHA-256 of them, separated by zero bytes.

    What is drawn for one name never depends on which others are drawn for.
    """
    return int.from_bytes(sha256("\0".join((str(seed), *names)).encode()).digest()[:16], "little")


def project(rows: Any) -> NDArray[np.float64]:
    """Rows in at most 64 dimensions, by a fixed Gaussian projection.

    Parameters
    ----------
    rows : array (n, d), or anything that is sliced and read like one
        NaN rows stay NaN.

    Returns
    -------
    ndarray (n, min(d, 64)) float64
        rows · R with R of (d, 64) independent N(0, 1/64), the same for every call. Rows of 64 channels or fewer are
        left as they are: the projection is there for speed alone (Appendix D.1). Rows are not brought to unit length;
        the paper does not say so. Equal rows give equal rows. 2048 rows at a time, on one thread.
    """
    n, d = rows.shape
    if d <= DIMENSIONS:
        return np.array(rows, dtype=np.float64)
    matrix = np.random.default_rng(_PROJECTION_SEED).standard_normal((d, DIMENSIONS)) / np.sqrt(DIMENSIONS)
    result = np.empty((n, DIMENSIONS))
    same = _Distinct()
    with one_thread():
        for start in range(0, n, _BLOCK_ROWS):
            block = np.asarray(rows[start : start + _BLOCK_ROWS], dtype=np.float64)
            same.add(block)
            result[start : start + len(block)] = block @ matrix
    # A product may round a row differently at the edge of a block.
    return result[np.array(same.first, dtype=np.int64)[same.member]] if n else result


def cells(points: NDArray[np.float64], k: int, *, seed: int) -> NDArray[np.int32]:
    """Cell of each point: k-means with k clusters.

    Parameters
    ----------
    points : ndarray (n, d) float64
        A row that is not finite enters no cell.
    k : int
        Clusters; fewer come out where there are fewer distinct points.
    seed : int
        Of the initial centres.

    Returns
    -------
    ndarray (n,) int32
        Numbered from 0 in the order in which they are first met; -1 for a row in none.

    Notes
    -----
    scikit-learn's Lloyd iteration in float64, one start from k random distinct points, on one thread: at thousands of
    clusters k-means++ costs twenty times as much for no better inertia. Where there are no more than k distinct points,
    each is a cell of its own, which is the exact optimum. Equal points are clustered as one point with their number as
    its weight, so they always share a cell.
    """
    labels = np.full(len(points), -1, dtype=np.int32)
    finite = np.flatnonzero(np.isfinite(points).all(axis=1))
    if not len(finite) or k <= 0:
        return labels
    rows = points[finite]
    same = _Distinct()
    same.add(rows)
    member = np.array(same.member, dtype=np.int32)
    if len(same.first) <= k:
        labels[finite] = member
        return labels
    labels[finite] = _in_order(_lloyd(rows[same.first], np.bincount(member), k, seed)[member])
    return labels


class _Distinct:
    """Rows told apart by their bytes: where each distinct one is first, and which of them each row equals."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.member: list[int] = []
        self._seen: dict[bytes, int] = {}

    def add(self, rows: NDArray[np.float64]) -> None:
        for row in np.ascontiguousarray(rows) + 0.0:  # -0.0 and 0.0 are one number
            number = self._seen.setdefault(blake2b(row.tobytes(), digest_size=16).digest(), len(self.first))
            if number == len(self.first):
                self.first.append(len(self.member))
            self.member.append(number)


def _lloyd(points: NDArray[np.float64], count: NDArray[np.int64], k: int, seed: int) -> NDArray[np.int32]:
    from sklearn.cluster import KMeans

    state = np.random.RandomState(np.random.MT19937(seed))
    means = KMeans(n_clusters=k, init="random", n_init=1, algorithm="lloyd", random_state=state, copy_x=True)
    with one_thread(), warnings.catch_warnings():
        # "Fewer distinct clusters than k": an empty cell, whose place is filled by score.
        warnings.simplefilter("ignore")
        labels: NDArray[np.int32] = means.fit(points, sample_weight=count.astype(np.float64)).labels_
    return labels


def _in_order(labels: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """The same groups, numbered in the order in which they are first met."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int32)
    number[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return number[inverse]
