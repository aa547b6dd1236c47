"""Pairs that are alike in one space and unlike in another, out of one tile of the n x n cosines at a time.

A tile is a float32 product of unit rows of the first space. What comes within 1e-5 of a threshold is decided by
:func:`cosines`, one fixed float64 routine; the second space is looked at only where the first one passed, and always
in float64. Both thresholds are strict.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.topk import DECIMALS, WINDOW

__all__ = ["TILE", "Criterion", "Found", "UnitRows", "cosines", "greedy_cap", "mine_tile"]

TILE = 2048
"""Images a side of a tile: a product of 16 MiB, one buffer a thread."""

_STRIP = 512  # rows of a tile that are searched at a time, so that a tile where all pass takes little memory
_CHUNK = 512  # pairs whose rows lie side by side in the cache

_local = threading.local()


@dataclass(frozen=True)
class Criterion:
    """Thresholds, both strict: a pair is found if cosine > ``above`` in the first space, < ``below`` in the second."""

    above: float
    below: float


class UnitRows(Protocol):
    """Rows of length 1 in float64, wherever they lie."""

    def rows(self, indices: NDArray[np.integer]) -> NDArray[np.float64]:
        """The rows at ``indices`` (m,), shape (m, d), C-contiguous."""
        ...


@dataclass(frozen=True)
class Found:
    """Pairs of one tile.

    Attributes
    ----------
    first, second : ndarray (m,) int32
        Images, ``first < second``; rising. Those that meet the first criterion.
    similar, different : ndarray (m,) float64
        Their cosines in the two spaces, rounded to 12 decimals.
    passed, met : ndarray (criteria,) int64
        Pairs above the first threshold of each criterion, and pairs that meet it.
    """

    first: NDArray[np.int32]
    second: NDArray[np.int32]
    similar: NDArray[np.float64]
    different: NDArray[np.float64]
    passed: NDArray[np.int64]
    met: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence[Found], criteria: int) -> Found:
        """Parts one after the other, their counts added up."""
        return cls(
            np.concatenate([np.empty(0, np.int32), *(part.first for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.second for part in parts)]),
            np.concatenate([np.empty(0), *(part.similar for part in parts)]),
            np.concatenate([np.empty(0), *(part.different for part in parts)]),
            sum((part.passed for part in parts), np.zeros(criteria, np.int64)),
            sum((part.met for part in parts), np.zeros(criteria, np.int64)),
        )


def cosines(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of each row of ``a`` (m, d) with the row of ``b`` (m, d) beside it, (m,), rounded to 12 decimals.

    Rows are of length 1, float64. The value of a pair depends on its two rows alone, not on their order, their place
    or what else is asked: equal pairs have equal cosines, and a row has cosine 1 with its copy.
    """
    result: NDArray[np.float64] = np.einsum("ij,ij->i", a, b).round(DECIMALS)
    return result


def _exact(rows: UnitRows, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    result = np.empty(len(first))
    for start in range(0, len(first), _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = cosines(rows.rows(first[part]), rows.rows(second[part]))
    return result


def mine_tile(
    a: NDArray[np.float32],
    start_a: int,
    b: NDArray[np.float32] | None,
    start_b: int,
    similar: UnitRows,
    different: UnitRows,
    criteria: Sequence[Criterion],
) -> Found:
    """All pairs of a tile that meet the first criterion, and how many meet the others.

    Parameters
    ----------
    a, b : ndarray (k, d), (m, d) float32
        Unit rows of two blocks in the first space, C-contiguous; ``b`` None: the pairs i < j within ``a``.
    start_a, start_b : int
        Number of the first image of each; all of ``b`` come after all of ``a``.
    similar, different : UnitRows
        The two spaces in float64.
    criteria : sequence of Criterion
        At least one.
    """
    parts = []
    if b is None:
        # Below the diagonal is nothing to find: in strips, hardly any of it is computed.
        for top in range(0, len(a), _STRIP):
            product = _product(a[top : top + _STRIP], a[top:])
            parts += _search(product, start_a + top, start_a + top, True, similar, different, criteria)
    else:
        parts = _search(_product(a, b), start_a, start_b, False, similar, different, criteria)
    return Found.joined(parts, len(criteria))


def _product(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """``a @ b.T`` in this thread's reused buffer."""
    size = len(a) * len(b)
    buffer: NDArray[np.float32] | None = getattr(_local, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _local.buffer = np.empty(max(size, TILE * TILE), np.float32)
    product: NDArray[np.float32] = np.matmul(a, b.T, out=buffer[:size].reshape(len(a), len(b)))
    return product


def _search(
    product: NDArray[np.float32],
    start_a: int,
    start_b: int,
    diagonal: bool,
    similar: UnitRows,
    different: UnitRows,
    criteria: Sequence[Criterion],
) -> list[Found]:
    low = min(criterion.above for criterion in criteria) - WINDOW
    parts = []
    for top in range(0, len(product), _STRIP):
        strip = product[top : top + _STRIP]
        hits = np.flatnonzero(strip > low)
        row, column = hits // strip.shape[1], hits % strip.shape[1]
        first, second = row + (start_a + top), column + start_b
        value = strip.ravel()[hits].astype(np.float64)
        if diagonal:
            upper = first < second
            first, second, value = first[upper], second[upper], value[upper]
        if len(first):
            parts.append(_decide(first, second, value, similar, different, criteria))
    return parts


def _decide(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    value: NDArray[np.float64],
    similar: UnitRows,
    different: UnitRows,
    criteria: Sequence[Criterion],
) -> Found:
    """What of the candidates, whose float32 cosines are ``value``, is found."""
    exact = np.zeros(len(value), dtype=bool)
    for criterion in criteria:
        exact |= np.abs(value - criterion.above) <= WINDOW
    value[exact] = _exact(similar, first[exact], second[exact])
    passes = np.array([value > criterion.above for criterion in criteria])
    other = np.full(len(value), np.inf)
    asked = passes.any(axis=0)
    other[asked] = _exact(different, first[asked], second[asked])
    met = passes & (other < np.array([[criterion.below] for criterion in criteria]))
    rest = met[0] & ~exact
    value[rest] = _exact(similar, first[rest], second[rest])
    chosen = met[0]
    return Found(
        first[chosen].astype(np.int32),
        second[chosen].astype(np.int32),
        value[chosen],
        other[chosen],
        passes.sum(axis=1, dtype=np.int64),
        met.sum(axis=1, dtype=np.int64),
    )


def greedy_cap(first: NDArray[np.integer], second: NDArray[np.integer], images: int, most: int) -> NDArray[np.bool_]:
    """Which pairs are kept, (m,), if no image is to be in more than ``most`` of them.

    From the first pair to the last: a pair is kept if both of its images are in fewer than ``most`` kept ones.

    Parameters
    ----------
    first, second : ndarray (m,) int
        Images, from 0 to ``images`` - 1, best pair first.
    most : int
        At least 1.
    """
    room = [most] * images
    kept = np.zeros(len(first), dtype=bool)
    for place, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if room[a] and room[b]:
            room[a] -= 1
            room[b] -= 1
            kept[place] = True
    return kept
