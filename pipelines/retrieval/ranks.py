"""The rank of every relevant candidate of every query, and what each query's first place is about.

Two passes over the candidates for some thousand queries at a time: the first scores what is relevant exactly, the
second counts what is more similar, as similar, and most similar. Nothing of the size of queries x candidates is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.candidate_ranks import OK
from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.kernels.pair_mining import cosines
from optotype.pipelines.progress import Progress
from optotype.pipelines.retrieval.blocks import Block, Limits, blocks_of_queries
from optotype.pipelines.retrieval.embeddings import Embeddings
from optotype.pipelines.retrieval.lists import Lists
from optotype.pipelines.retrieval.tiles import Span, Work, count
from optotype.pipelines.scheduler import Scheduler

__all__ = ["NOT_FOUND", "Prediction", "Ranks", "Relevant", "rank_truths"]

NOT_FOUND = -1
"""``above`` of a relevant candidate that has no vector, or whose query has none."""

_PAIRS = 512  # pairs whose rows lie side by side in the cache


@dataclass(frozen=True)
class Prediction:
    """What the first place of a query is about.

    Attributes
    ----------
    item : ndarray (i,) int64
        Codes of items, rising, as `Lists` has them; -1 for candidates of which that is not known.
    share : ndarray (i,) float64
        Share of the tied candidates that are about each; adds up to 1.
    """

    item: NDArray[np.int64]
    share: NDArray[np.float64]


@dataclass(frozen=True)
class Relevant:
    """Distinct relevant candidates, one a row (r), by rising query.

    Attributes
    ----------
    query : ndarray (r,) int64
        Place of the query in the task set.
    above, size : ndarray (r,) int64
        Distinct candidates of the query's list that are more similar, NOT_FOUND (size 0) where query or candidate has
        no vector; and those as similar, itself included.
    grade : ndarray (r,) float64
        The largest among ids with its target.
    vector : ndarray (r,) bool
        Whether the candidate has a valid vector, whatever its query has.
    """

    query: NDArray[np.int64]
    above: NDArray[np.int64]
    size: NDArray[np.int64]
    grade: NDArray[np.float64]
    vector: NDArray[np.bool_]


@dataclass(frozen=True)
class Ranks:
    """What came out for the chosen queries.

    Attributes
    ----------
    relevant : Relevant
    candidates : dict of int to int
        Distinct candidates of each query's list.
    prediction : dict of int to Prediction or None
        Of each query that has a vector and a candidate with one; None where too many share the first place to say.
    """

    relevant: Relevant
    candidates: dict[int, int]
    prediction: dict[int, Prediction | None]


def rank_truths(
    tasks: xr.Dataset,
    chosen: NDArray[np.int64],
    rows: NDArray[np.int64],
    lists: Lists,
    queries: Embeddings,
    candidates: Embeddings,
    place: Scheduler,
    progress: Progress,
    limits: Limits | None = None,
) -> Ranks:
    """Rank what is relevant to the ``chosen`` queries.

    Parameters
    ----------
    tasks : Dataset
        As `optotype.store.tasks.open_tasks` gives it.
    chosen : ndarray (c,) int64
        Places of queries.
    rows : ndarray (query,) int64
        Row of each query's embedding, -1 where there is none.
    lists : Lists
    queries, candidates : Embeddings
    place : Scheduler
        Threads of this process.
    progress : Progress
    limits : Limits, optional

    Raises
    ------
    InvalidDataError
        Relevance that is no task set's.
    """
    limits = limits or Limits()
    sizes: dict[int, int] = {}
    predictions: dict[int, Prediction | None] = {}
    kept: dict[bytes, Prediction] = {}
    parts: list[Relevant] = []
    for block in blocks_of_queries(tasks, chosen, lists, limits, queries.channels):
        unit, valid = _query_rows(rows[block.places], queries)
        cosine, vector = _truths(block, unit, candidates)
        found = vector & valid[block.query]
        work, threshold = _work(block, unit, valid, cosine, found, candidates)
        counts = count(work, place, limits.block, progress)
        above, size = np.full(len(found), NOT_FOUND, np.int64), np.zeros(len(found), np.int64)
        above[found], size[found] = counts.above[threshold], counts.equal[threshold]
        parts.append(Relevant(block.places[block.query], above, size, block.grade, vector))
        asked = block.places[valid]
        for span, number in zip(work.spans, _lists(block, valid), strict=True):
            items = lists.items(number, span.own)
            for at in range(span.first, span.last):
                _predict(predictions, kept, int(asked[at]), counts.best[at], items)
        for span in block.spans:
            for at in block.places[span.first : span.last].tolist():
                sizes[at] = len(span.own.target)
    return Ranks(_joined(parts), sizes, predictions)


def _joined(parts: list[Relevant]) -> Relevant:
    none = Relevant(*(np.empty(0, np.int64),) * 3, np.empty(0), np.empty(0, bool))
    query, above, size, grade, vector = (
        np.concatenate([getattr(part, name) for part in (none, *parts)])
        for name in ("query", "above", "size", "grade", "vector")
    )
    order = np.argsort(query, kind="stable")
    return Relevant(query[order], above[order], size[order], grade[order], vector[order])


def _query_rows(rows: NDArray[np.int64], queries: Embeddings) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Unit vectors of queries, zeros where there is none, and which have one."""
    unit, valid = np.zeros((len(rows), queries.channels)), np.zeros(len(rows), bool)
    for here, made, state in queries.units(rows[rows >= 0]):
        own = np.flatnonzero(np.isin(rows, here))
        at = np.searchsorted(here, rows[own])
        unit[own], valid[own] = made[at], state[at] == OK
    return unit, valid


def _truths(
    block: Block, unit: NDArray[np.float64], candidates: Embeddings
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Exact cosine of each relevant candidate with its query, the largest of its rows', and whether it has a vector."""
    rows, owners = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for span in block.spans:
        a, b = np.searchsorted(block.query, [span.first, span.last])
        start, stop = span.own.start[block.number[a:b]], span.own.start[block.number[a:b] + 1]
        size = stop - start
        owners.append(np.repeat(np.arange(a, b), size))
        within = np.arange(int(size.sum())) - np.repeat(offsets_of(size)[:-1], size)
        rows.append(span.own.row[np.repeat(start, size) + within])
    row, owner = np.concatenate(rows), np.concatenate(owners)
    order = np.argsort(row, kind="stable")
    row, owner = row[order], owner[order]
    cosine, vector = np.full(len(block.query), -np.inf), np.zeros(len(block.query), bool)
    for here, made, state in candidates.units(row):
        first, last = np.searchsorted(row, [here[0], here[-1] + 1])
        for begin in range(int(first), int(last), _PAIRS):
            part = slice(begin, min(begin + _PAIRS, int(last)))
            at = np.searchsorted(here, row[part])
            good = state[at] == OK
            own = owner[part][good]
            np.maximum.at(cosine, own, cosines(unit[block.query[own]], made[at[good]]))
            vector[own] = True
    return cosine, vector


def _lists(block: Block, valid: NDArray[np.bool_]) -> list[int]:
    """Numbers of the lists of the queries that have a vector."""
    return [
        number for span, number in zip(block.spans, block.lists, strict=True) if valid[span.first : span.last].any()
    ]


def _work(
    block: Block,
    unit: NDArray[np.float64],
    valid: NDArray[np.bool_],
    cosine: NDArray[np.float64],
    found: NDArray[np.bool_],
    candidates: Embeddings,
) -> tuple[Work, NDArray[np.int64]]:
    """The queries that have a vector, and which threshold each relevant candidate that was found has."""
    new = offsets_of(valid.astype(np.int64))
    spans = [Span(span.own, int(new[span.first]), int(new[span.last])) for span in block.spans]
    query, own = new[block.query[found]], cosine[found]
    order = np.lexsort((own, query))
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(query[order]) != 0) | (np.diff(own[order]) != 0)
    threshold = np.empty(len(order), np.int64)
    threshold[order] = np.cumsum(fresh) - 1
    asked = order[fresh]
    count = int(new[-1])
    floor = np.full(count, -np.inf)
    np.maximum.at(floor, query, own)
    work = Work(
        candidates,
        unit[valid],
        unit[valid].astype(np.float32),
        [span for span in spans if span.last > span.first],
        own[asked],
        offsets_of(np.bincount(query[asked], minlength=count)),
        floor,
    )
    return work, threshold


def _predict(
    predictions: dict[int, Prediction | None],
    kept: dict[bytes, Prediction],
    query: int,
    best: NDArray[np.int64] | None,
    items: NDArray[np.int64],
) -> None:
    """What the best candidates are about; equal predictions are kept once."""
    if best is None:
        predictions[query] = None
    elif len(best) == 1:
        only = items[best]
        predictions[query] = kept.setdefault(only.tobytes(), Prediction(only, np.ones(1)))
    elif len(best):
        item, times = np.unique(items[best], return_counts=True)
        key = item.tobytes() + times.tobytes()
        predictions[query] = kept.setdefault(key, Prediction(item, times / times.sum()))
