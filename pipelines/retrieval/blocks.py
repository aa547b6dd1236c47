"""Queries that go through the candidates together, as many as the limits of memory allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.retrieval.embeddings import BLOCK
from optotype.pipelines.retrieval.lists import CandidateList, Lists
from optotype.pipelines.retrieval.tiles import Span

__all__ = ["Block", "Limits", "blocks_of_queries"]


@dataclass(frozen=True)
class Limits:
    """How much is in memory at a time; the result is the same for any.

    Attributes
    ----------
    queries, query_bytes : int
        Queries of one pass over the candidates, and bytes of their vectors in float64, at most.
    entries : int
        Of all their lists.
    codes : int
        Relevant candidates of the queries x candidates with several rows, a byte each.
    block : int
        Rows of candidates that are multiplied together.
    """

    queries: int = 2048
    query_bytes: int = 64 * 2**20
    entries: int = 4 * 10**6
    codes: int = 64 * 2**20
    block: int = BLOCK


@dataclass(frozen=True)
class Block:
    """Queries of one pass (b), in the order of their lists, with what is relevant to them (r).

    ``spans`` cover all of them; ``query`` of a relevant candidate is its place among them, ``number`` its own in the
    list.
    """

    places: NDArray[np.int64]
    spans: list[Span]
    lists: list[int]
    query: NDArray[np.int64]
    number: NDArray[np.int64]
    grade: NDArray[np.float64]


def blocks_of_queries(
    tasks: xr.Dataset, chosen: NDArray[np.int64], lists: Lists, limits: Limits, channels: int
) -> Iterator[Block]:
    """Queries by their lists, as many at a time as the limits allow, one at least."""
    number = np.asarray(tasks["query_list"].values, np.int64)
    sizes = np.asarray(tasks["relevance_size"].values, np.int64)
    offset = offsets_of(sizes)
    relevant, grade = np.asarray(tasks["relevant"].values, np.int64), np.asarray(tasks["grade"].values, np.float64)
    most = max(1, min(limits.queries, limits.query_bytes // (8 * max(1, channels))))
    order = chosen[np.argsort(number[chosen], kind="stable")]
    at = 0
    own: CandidateList | None = None
    while at < len(order):
        begun, entries, codes = at, 0, 0
        spans: list[Span] = []
        used: list[int] = []
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]] = []
        while at < len(order) and at - begun < most:
            this = int(number[order[at]])
            fresh = not used or used[-1] != this
            if own is None or fresh:
                own = lists.get(this)
            more = int(sizes[order[at]]) * len(own.numbers)
            if at > begun and (codes + more > limits.codes or (fresh and entries + len(own.row) > limits.entries)):
                break
            codes += more
            if fresh:
                entries += len(own.row)
                used.append(this)
                spans.append(Span(own, at - begun, at - begun))
            spans[-1] = Span(own, spans[-1].first, at - begun + 1)
            at += 1
        for span, this in zip(spans, used, strict=True):
            members = order[begun + span.first : begun + span.last]
            picked = np.concatenate([np.arange(offset[place], offset[place + 1]) for place in members])
            query = np.repeat(np.arange(span.first, span.last), sizes[members])
            parts.append(_merged(query, lists.places(this, span.own, relevant[picked]), grade[picked]))
        query, group, graded = (np.concatenate(each) for each in zip(*parts, strict=True))
        yield Block(order[begun:at], spans, used, query, group, graded)


def _merged(
    query: NDArray[np.int64], number: NDArray[np.int64], grade: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Relevant ids that are one candidate become one, with the largest grade."""
    order = np.lexsort((-grade, number, query))
    query, number, grade = query[order], number[order], grade[order]
    first = np.ones(len(query), bool)
    first[1:] = (query[1:] != query[:-1]) | (number[1:] != number[:-1])
    return query[first], number[first], grade[first]
