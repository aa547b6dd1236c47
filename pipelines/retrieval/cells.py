"""What is told of one task in one language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.candidate_ranks import NOT_FINITE, OK, ZERO
from optotype.pipelines.retrieval.embeddings import Embeddings
from optotype.pipelines.retrieval.lists import Lists
from optotype.pipelines.retrieval.measures import POLICIES, Measures, measure
from optotype.pipelines.retrieval.ranks import Ranks
from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited

__all__ = ["Cell", "Located", "Outcome", "cell_row", "interval", "invalid_vectors", "unable_tasks"]

_MISSING = 3
_REASONS = {_MISSING: "no embedding", NOT_FINITE: "NaN or Inf", ZERO: "all zeros"}
_DRAWS = 2**21  # at a time
_LEVEL = (2.5, 97.5)

Cell = tuple[str, str]
"""Task and language."""


class Located:
    """A task set, and where the vectors of its queries and candidates lie.

    Attributes
    ----------
    rows, candidate_rows : ndarray int64
        Row of each query's and candidate's embedding, -1 where there is none.
    number : ndarray (query,) int64
        List of each query.
    lists : Lists
    queries, candidates : Embeddings

    Raises
    ------
    InvalidDataError
        A query without relevant candidates; see `Lists`.
    """

    def __init__(self, tasks: xr.Dataset, queries: Embeddings, candidates: Embeddings) -> None:
        self.tasks, self.queries, self.candidates = tasks, queries, candidates
        self.rows = queries.find(tasks["query_embedding"].values)
        self.candidate_rows = candidates.find(tasks["candidate_embedding"].values)
        self.number = np.asarray(tasks["query_list"].values, np.int64)
        self.lists = Lists(tasks, self.candidate_rows)
        size = tasks["relevance_size"].values
        problems = [
            Problem(str(name), "no-truth", "nothing is relevant to it") for name in tasks["query"].values[size < 1]
        ]
        if problems:
            raise InvalidDataError("This is not a task set", limited(problems))

    def members(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Candidates of the lists of these queries, each once, rising."""
        seen = np.zeros(len(self.candidate_rows), bool)
        for number in np.unique(self.number[places]):
            seen[self.lists.members(int(number))] = True
        return np.flatnonzero(seen)


def unable_tasks(
    located: Located, cells: Mapping[Cell, NDArray[np.int64]], declared: Collection[str]
) -> dict[str, str]:
    """Tasks that the model cannot do, and why: declared, or no query or no candidate has an embedding."""
    places: dict[str, list[NDArray[np.int64]]] = {}
    for (task, _), own in cells.items():
        places.setdefault(task, []).append(own)
    reasons = {}
    for task, parts in places.items():
        own = np.concatenate(parts)
        if task in declared:
            reasons[task] = "declared"
        elif not (located.rows[own] >= 0).any():
            reasons[task] = "no query has an embedding"
        elif not (located.candidate_rows[located.members(own)] >= 0).any():
            reasons[task] = "no candidate has an embedding"
    return reasons


@dataclass(frozen=True)
class Outcome:
    """Ranks of all queries that were asked, and what they measure.

    ``places`` (q,) are their places in the task set, rising, as `Measures` has them; ``share`` is the share of the
    candidates that is relevant; ``truths`` counts distinct relevant candidates without a vector.
    """

    places: NDArray[np.int64]
    measures: Measures
    share: NDArray[np.float64]
    candidates: NDArray[np.int64]
    truths: NDArray[np.int64]

    @classmethod
    def of(cls, ranks: Ranks, at: Sequence[int]) -> Outcome:
        """Measure what was ranked."""
        places, own, count = np.unique(ranks.relevant.query, return_inverse=True, return_counts=True)
        candidates = np.array([ranks.candidates[place] for place in places.tolist()], np.int64)
        without = np.bincount(own, ~ranks.relevant.vector, len(places)).astype(np.int64)
        return cls(places, measure(ranks.relevant, at), count / candidates, candidates, without)

    def where(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of some queries."""
        return np.searchsorted(self.places, places)


def cell_row(
    located: Located,
    cell: Cell,
    places: NDArray[np.int64],
    outcome: Outcome,
    at: Sequence[int],
    ties: str,
    unable: str | None,
) -> dict[str, Any]:
    """One cell, without what is invalid and the interval; see `optotype.pipelines.retrieval.evaluate.Retrieval`."""
    head: dict[str, Any] = {
        "task": cell[0],
        "language": cell[1],
        "queries": len(places),
        "candidates": located.lists.distinct(located.number[places]),
        "candidates_per_query": None,
        "invalid_queries": None,
        "invalid_candidates": None,
        "invalid_truths": None,
        "unable": unable,
    }
    if unable is not None:
        nothing = ("p_at_1", "p1", "hit", "mrr", "ndcg", "chance", "interval")
        return head | dict.fromkeys(nothing)
    own, found = outcome.where(places), outcome.measures

    def means(values: Mapping[str, NDArray[np.float64]], scale: float = 1.0) -> dict[str, float]:
        return {policy: scale * float(np.mean(values[policy][own])) for policy in POLICIES}

    p1 = means(found.p1, 100)
    return head | {
        "candidates_per_query": float(np.mean(outcome.candidates[own])),
        "invalid_truths": int(outcome.truths[own].sum()),
        "p_at_1": p1[ties],
        "p1": p1,
        "hit": {str(k): means(found.hit[k], 100) for k in at},
        "mrr": means(found.reciprocal),
        "ndcg": {str(k): means(found.ndcg[k]) for k in at},
        "chance": 100 * float(np.mean(outcome.share[own])),
        "interval": None,
    }


def invalid_vectors(located: Located, cell: Cell, places: NDArray[np.int64]) -> list[dict[str, str]]:
    """Queries and candidates of a cell that have no usable vector, each with the reason."""
    task, language = cell
    result = []
    for kind, own, rows, side in (
        ("query", places, located.rows, located.queries),
        ("candidate", located.members(places), located.candidate_rows, located.candidates),
    ):
        state = np.full(len(own), _MISSING, np.uint8)
        there = rows[own] >= 0
        state[there] = side.state(rows[own][there])
        for at in np.flatnonzero(state != OK).tolist():
            name = str(located.tasks[kind].values[own[at]])
            reason = _REASONS[int(state[at])]
            result.append({"kind": kind, "id": name, "task": task, "language": language, "reason": reason})
    return result


def interval(values: NDArray[np.float64], resamples: int, seed: int) -> list[float] | None:
    """The 95 % percentile interval of the mean, in percent, by drawing the queries anew with replacement."""
    if not resamples:
        return None
    rng = np.random.default_rng(seed)
    step = max(1, _DRAWS // len(values))
    means = np.empty(resamples)
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        means[start : start + count] = values[rng.integers(0, len(values), (count, len(values)))].mean(axis=1)
    low, high = np.percentile(100 * means, _LEVEL)
    return [float(low), float(high)]
