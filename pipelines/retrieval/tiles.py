"""The pass over all candidates: what is above, as high as, and highest, for some thousand queries at a time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.candidate_ranks import ABOVE, EQUAL, OK, Compared, Exact, compare, exact_cosines
from optotype.pipelines.progress import Progress
from optotype.pipelines.retrieval.embeddings import Embeddings
from optotype.pipelines.retrieval.lists import CandidateList
from optotype.pipelines.scheduler import Scheduler

__all__ = ["MOST_TIED", "Counts", "Span", "Work", "count"]

MOST_TIED = 1024
"""Rows that may share the first place; which ones, if there are more, is not kept."""

_MANY = 64  # queries that make a product of their own worth while
_APART = 4  # one product of everything costs so much less a value than those of fewer queries


@dataclass(frozen=True)
class Span:
    """Queries ``first`` to ``last`` (open), which choose from one list."""

    own: CandidateList
    first: int
    last: int


@dataclass(frozen=True)
class Work:
    """Queries (m), each with a direction, in the order of their lists.

    Attributes
    ----------
    candidates : Embeddings
    unit, short : ndarray (m, d)
        Vectors of length 1 in float64 and float32.
    spans : sequence of Span
        All queries, in order.
    threshold : ndarray (t,) float64
        Exact cosines of what is relevant, each once for a query; those of query i at ``start[i]:start[i + 1]``.
    start : ndarray (m + 1,) int64
    floor : ndarray (m,) float64
        The largest cosine known so far, -inf for none; rises while tiles come back, whenever that is: it saves work
        and decides nothing.
    """

    candidates: Embeddings
    unit: NDArray[np.float64]
    short: NDArray[np.float32]
    spans: Sequence[Span]
    threshold: NDArray[np.float64]
    start: NDArray[np.int64]
    floor: NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """What came of all tiles.

    Attributes
    ----------
    above, equal : ndarray (t,) int64
        Distinct candidates above and at each threshold.
    best : list of ndarray or None
        Of each query the numbers, in its list, of the distinct candidates that share the first place; empty if no
        candidate has a direction, None if more than 1,024 rows share it.
    """

    above: NDArray[np.int64]
    equal: NDArray[np.int64]
    best: list[NDArray[np.int64] | None]


@dataclass(frozen=True)
class _Piece:
    """A tile's part of one span: candidates with one row, or those with several, by their numbers."""

    span: int
    several: bool
    number: NDArray[np.int64]
    compared: Compared


def count(work: Work, place: Scheduler, block: int, progress: Progress) -> Counts:
    """Go through all rows of all lists, ``block`` rows at a time."""
    parts = [rows for span in work.spans for rows in (span.own.single[0], span.own.several[0])]
    tiles = work.candidates.blocks(np.unique(np.concatenate([np.empty(0, np.int64), *parts])), block)
    above, equal = np.zeros(len(work.threshold), np.int64), np.zeros(len(work.threshold), np.int64)
    codes = {
        number: np.zeros((int(work.start[span.last] - work.start[span.first]), len(span.own.numbers)), np.uint8)
        for number, span in enumerate(work.spans)
        if len(span.own.numbers)
    }
    best = _Best(len(work.unit))
    with progress(f"ranking for {len(work.unit)} queries", total=len(tiles), unit="blocks") as task:
        for pieces in place.map(_tile, work, tiles):
            for piece in pieces:
                span = work.spans[piece.span]
                own = slice(int(work.start[span.first]), int(work.start[span.last]))
                if piece.compared.code is None:
                    above[own] += piece.compared.above
                    equal[own] += piece.compared.equal
                else:
                    _raise_codes(codes[piece.span], piece.number, piece.compared.code)
                best.add(span, piece, work.floor)
            task.advance()
    for number, code in codes.items():
        span = work.spans[number]
        own = slice(int(work.start[span.first]), int(work.start[span.last]))
        above[own] += np.count_nonzero(code == ABOVE, axis=1)
        equal[own] += np.count_nonzero(code == EQUAL, axis=1)
    return Counts(above, equal, best.numbers())


def _tile(work: Work, rows: tuple[int, int]) -> list[_Piece]:
    """One block of rows against every query whose list has some of them."""
    first, last = rows
    stored, short, state = work.candidates.scaled(first, last)
    valid = state == OK
    wanted = []
    for number, span in enumerate(work.spans):
        for several, (row, of) in enumerate((span.own.single, span.own.several)):
            a, b = np.searchsorted(row, rows)
            columns = row[a:b] - first
            kept = valid[columns]
            if kept.any():
                wanted.append((number, bool(several), columns[kept], of[a:b][kept]))
    if not wanted:
        return []
    exact = exact_cosines(work.unit, stored)
    used = np.unique(np.concatenate([columns for _, _, columns, _ in wanted]))
    asked = [work.spans[number].last - work.spans[number].first for number, *_ in wanted]
    values = sum(queries * len(columns) for queries, (_, _, columns, _) in zip(asked, wanted, strict=True))
    together = sum(asked) < _MANY * len(wanted) and len(work.short) * len(used) <= _APART * values
    whole = work.short @ _some(short, used).T if together else None
    pieces = []
    for number, is_several, columns, of in wanted:
        span = work.spans[number]
        if whole is None:
            product = work.short[span.first : span.last] @ _some(short, columns).T
        else:
            part = whole[span.first : span.last]
            product = part if len(columns) == len(used) else part.take(np.searchsorted(used, columns), axis=1)
        start = work.start[span.first : span.last + 1]
        compared = compare(
            product,
            _shifted(exact, span.first, columns),
            work.threshold[start[0] : start[-1]],
            start - start[0],
            work.floor[span.first : span.last],
            each=is_several,
        )
        pieces.append(_Piece(number, is_several, of, compared))
    return pieces


def _some(rows: NDArray[np.float32], columns: NDArray[np.int64]) -> NDArray[np.float32]:
    return rows if len(columns) == len(rows) and columns[0] == 0 else rows[columns]


def _shifted(exact: Exact, first: int, columns: NDArray[np.int64]) -> Exact:
    return lambda query, column: exact(query + first, columns[column])


def _raise_codes(codes: NDArray[np.uint8], number: NDArray[np.int64], code: NDArray[np.uint8]) -> None:
    """The code of a candidate is the largest of its rows'."""
    order = np.argsort(number, kind="stable")
    distinct, starts = np.unique(number[order], return_index=True)
    codes[:, distinct] = np.maximum(codes[:, distinct], np.maximum.reduceat(code[:, order], starts, axis=1))


class _Best:
    """The rows that share first place, as far as has been seen."""

    def __init__(self, queries: int) -> None:
        self._value = np.full(queries, -np.inf)
        self._count = np.zeros(queries, np.int64)
        self._numbers: list[list[NDArray[np.int64]]] = [[] for _ in range(queries)]

    def add(self, span: Span, piece: _Piece, floor: NDArray[np.float64]) -> None:
        """What one piece found; ``floor`` rises with it."""
        query, value = piece.compared.query + span.first, piece.compared.value
        number = piece.number[piece.compared.candidate]
        if piece.several:
            number = span.own.numbers[number]
        ends = [*np.flatnonzero(np.diff(query)) + 1, len(query)] if len(query) else []
        for a, b in itertools.pairwise([0, *ends]):
            at, high = int(query[a]), float(value[a])
            if high < self._value[at]:
                continue
            if high > self._value[at]:
                self._value[at], self._count[at], self._numbers[at] = high, 0, []
                floor[at] = max(floor[at], high)
            self._count[at] += b - a
            if self._count[at] > MOST_TIED:
                self._numbers[at] = []
            else:
                self._numbers[at].append(number[a:b])

    def numbers(self) -> list[NDArray[np.int64] | None]:
        """Of each query; see `Counts`."""
        none = np.empty(0, np.int64)
        return [
            None if tied > MOST_TIED else found[0] if tied == 1 else np.unique(np.concatenate([none, *found]))
            for tied, found in zip(self._count.tolist(), self._numbers, strict=True)
        ]
