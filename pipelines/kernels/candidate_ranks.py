"""How many candidates are more similar to a query than its truth, how many as similar, and which are most similar.

Products of unit rows are float32. Whatever comes within 1e-5 of a threshold or of the largest value is scored again by
:func:`~optotype.pipelines.kernels.pair_mining.cosines`, one fixed float64 routine whose value hangs on the two rows
alone, and rounded to 12 decimals; equal means equal after rounding to 12 decimals, which is transitive. So counts hang
on no size of a block, and float32 rounding neither makes a tie nor breaks one. Cosines that come out 1e-16 apart on the
two sides of a half of 1e-12 round to different values and count as different. (The error of a float32 product of unit
rows is some 1e-6, also where all of its terms have one sign.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.pair_mining import cosines
from optotype.pipelines.kernels.topk import WINDOW

__all__ = [
    "ABOVE",
    "EQUAL",
    "NOT_FINITE",
    "OK",
    "ZERO",
    "Compared",
    "Exact",
    "compare",
    "exact_cosines",
    "float_rows",
    "unit_rows",
]

OK, NOT_FINITE, ZERO = 0, 1, 2
"""What a row is: it has a direction, it holds NaN or Inf, it is all zeros."""

EQUAL, ABOVE = 1, 2
"""A candidate against a threshold; below is 0."""

Exact = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]

_STRIP = 2**18  # values of a product that are looked at together: they stay in the cache, and near-ties take little
_CHUNK = 512  # pairs whose rows lie side by side in the cache
_MANY = 8  # pairs a row: more are worth a look for copies
_PIECE = 64  # channels whose squares are added in float32
_SAFE = 1e-20, 1e20  # squares of lengths that float32 has with all digits


@dataclass(frozen=True)
class Compared:
    """Queries (q) and candidates (n) of one product.

    Attributes
    ----------
    above, equal : ndarray (t,) int64
        Candidates above each threshold, and those equal to it.
    code : ndarray (t, n) uint8 or None
        ABOVE, EQUAL or 0 of each candidate, where that was asked for.
    query, candidate : ndarray (m,) int64
        The most similar candidates of each query, all that are tied; none where all are below the query's floor.
    value : ndarray (m,) float64
        Their cosines, rounded to 12 decimals.
    """

    above: NDArray[np.int64]
    equal: NDArray[np.int64]
    code: NDArray[np.uint8] | None
    query: NDArray[np.int64]
    candidate: NDArray[np.int64]
    value: NDArray[np.float64]


def unit_rows(rows: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Rows scaled to length 1 in float64, and what each is.

    A row's values hang on that row alone. The mean of stored tokens is taken elsewhere; these are finished vectors.

    Parameters
    ----------
    rows : ndarray (m, d)
        Any float type.

    Returns
    -------
    unit : ndarray (m, d) float64
        C-contiguous; zeros where there is no direction.
    state : ndarray (m,) uint8
        OK, NOT_FINITE or ZERO.
    """
    unit = np.array(rows, dtype=np.float64, order="C")
    finite = np.isfinite(unit).all(axis=1)
    unit[~finite] = 0
    if unit.shape[1]:
        # By a power of two, which changes no digit: squares of the largest and smallest floats stay in range.
        unit = np.ldexp(unit, -np.frexp(np.abs(unit).max(axis=1, keepdims=True))[1])
    norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))
    directed = norm > 0
    unit /= np.where(directed, norm, 1)[:, None]
    state = np.where(finite, np.where(directed, OK, ZERO), NOT_FINITE).astype(np.uint8)
    return unit, state


def float_rows(rows: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    """As `unit_rows`, in float32 and fast; what each row is comes out the same.

    Rows whose length float32 does not have with all digits go through `unit_rows`.
    """
    with np.errstate(all="ignore"):  # what overflows or is not finite is taken care of below
        short = np.ascontiguousarray(rows, dtype=np.float32)
        square = _squares(short)
        plain = (square > _SAFE[0]) & (square < _SAFE[1])
        made = short * np.where(plain, 1 / np.sqrt(square), 1).astype(np.float32)[:, None]
    state = np.zeros(len(made), np.uint8)
    odd = np.flatnonzero(~plain)
    if len(odd):
        unit, state[odd] = unit_rows(rows[odd])
        made[odd] = unit
    return made, state


def _squares(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Squared lengths, (m,): in float64 over float32 pieces, lest one large channel swallow the small ones."""
    count, channels = rows.shape
    whole = channels // _PIECE * _PIECE
    pieces = rows[:, :whole].reshape(count, whole // _PIECE, _PIECE)
    total = np.einsum("ijk,ijk->ij", pieces, pieces).sum(axis=1, dtype=np.float64)
    rest = rows[:, whole:]
    square: NDArray[np.float64] = total + np.einsum("ij,ij->i", rest, rest)
    return square


def exact_cosines(queries: NDArray[np.float64], rows: NDArray[np.floating]) -> Exact:
    """The fixed routine for pairs (query, row) by their numbers.

    Parameters
    ----------
    queries : ndarray (q, d) float64
        Unit rows, as `unit_rows` makes them.
    rows : ndarray (n, d)
        As they are stored; the few that are asked for are scaled when they are.
    """

    def exact(query: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.float64]:
        distinct, place = np.unique(row, return_inverse=True)
        unit, _ = unit_rows(rows[distinct])
        if len(query) <= _MANY * len(distinct):
            return _scored(queries, unit, query, place)
        # Ties everywhere: rows may be copies of each other, and copies have one cosine.
        content = unit.view(f"V{unit.itemsize * unit.shape[1]}").ravel()
        _, first, copy = np.unique(content, return_index=True, return_inverse=True)
        pair, again = np.unique(query * len(first) + copy[place], return_inverse=True)
        return _scored(queries, unit[first], pair // len(first), pair % len(first))[again]

    return exact


def _scored(
    queries: NDArray[np.float64], unit: NDArray[np.float64], query: NDArray[np.int64], row: NDArray[np.int64]
) -> NDArray[np.float64]:
    result = np.empty(len(query))
    for start in range(0, len(query), _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = cosines(queries[query[part]], unit[row[part]])
    return result


def compare(
    product: NDArray[np.float32],
    exact: Exact,
    threshold: NDArray[np.float64],
    start: NDArray[np.int64],
    floor: NDArray[np.float64],
    *,
    each: bool = False,
) -> Compared:
    """Compare each query's cosines with its thresholds, and find its most similar candidates.

    Parameters
    ----------
    product : ndarray (q, n) float32
        Cosines, accurate to 5e-6; no NaN.
    exact : callable
        ``exact(query, candidate) -> cosines`` of pairs by their places in ``product``.
    threshold : ndarray (t,) float64
        Exact cosines; those of query i are ``threshold[start[i]:start[i + 1]]``.
    start : ndarray (q + 1,) int64
    floor : ndarray (q,) float64
        A value that the largest cosine of the query is known to reach; -inf where none is known. It saves work; what
        comes of all blocks together is the same for any.
    each : bool
        Whether each candidate is told apart (``code``) or only counted.
    """
    q, n = product.shape
    above, equal = np.zeros(len(threshold), np.int64), np.zeros(len(threshold), np.int64)
    code = np.zeros((len(threshold), n), np.uint8) if each else None
    tops: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
    step = max(1, _STRIP // max(1, n))
    for first in range(0, q if n else 0, step):
        strip = product[first : first + step]
        asked = _Asked(first, n)
        starts, counts = start[first : first + len(strip)], np.diff(start[first : first + len(strip) + 1])
        for layer in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > layer)
            which = starts[rows] + layer
            values = strip if len(rows) == len(strip) else strip[rows]
            over = values > (threshold[which] + WINDOW).astype(np.float32)[:, None]
            near = values >= (threshold[which] - WINDOW).astype(np.float32)[:, None]
            near ^= over
            above[which] += np.count_nonzero(over, axis=1)
            if code is not None:
                code[which] = np.where(over, np.uint8(ABOVE), np.uint8(0))
            asked.add(rows, which, near)
        known = floor[first : first + len(strip)]
        largest = np.maximum(strip.max(axis=1), known)
        asked.add(
            np.arange(len(strip)), np.full(len(strip), -1), strip >= (largest - WINDOW).astype(np.float32)[:, None]
        )
        which, candidate, query, value = asked.score(exact)
        counted = which >= 0
        own, got = which[counted], value[counted]
        higher, same = got > threshold[own], got == threshold[own]
        above += np.bincount(own[higher], minlength=len(above))
        equal += np.bincount(own[same], minlength=len(equal))
        if code is not None:
            code[own[higher], candidate[counted][higher]] = ABOVE
            code[own[same], candidate[counted][same]] = EQUAL
        tops.append(_largest(query[~counted], candidate[~counted], value[~counted], floor))
    none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    query, candidate, value = (np.concatenate(parts) for parts in zip(none, *tops, strict=True))
    return Compared(above, equal, code, query, candidate, value)


class _Asked:
    """Pairs of one strip that have to be scored exactly, each once, and for what."""

    def __init__(self, first: int, n: int) -> None:
        self._first, self._n = first, n
        self._which: list[NDArray[np.int64]] = []
        self._key: list[NDArray[np.int64]] = []

    def add(self, rows: NDArray[np.int64], which: NDArray[np.int64], near: NDArray[np.bool_]) -> None:
        """Pairs of the mask ``near`` (rows, n), asked for by ``which`` (rows,)."""
        row, column = np.divmod(np.flatnonzero(near), self._n)
        self._which.append(which[row])
        self._key.append(rows[row] * self._n + column)

    def score(
        self, exact: Exact
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Who asked, candidate, query (of the product) and cosine of each pair asked for."""
        key = np.concatenate(self._key)
        distinct, place = np.unique(key, return_inverse=True)
        row, column = np.divmod(distinct, self._n)
        query = row + self._first
        value = exact(query, column)
        return np.concatenate(self._which), column[place], query[place], value[place]


def _largest(
    query: NDArray[np.int64], candidate: NDArray[np.int64], value: NDArray[np.float64], floor: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Of the pairs, those with the largest value of their query, if that reaches the floor."""
    if not len(query):
        return query, candidate, value
    best = floor[query[0] : query[-1] + 1].copy()  # pairs rise by query
    np.maximum.at(best, query - query[0], value)
    kept = value == best[query - query[0]]
    return query[kept], candidate[kept], value[kept]
