"""Evaluation of embeddings by retrieval: P@1 and its kin by task and language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.retrieval.agreement import agreement, by_item
from optotype.pipelines.retrieval.averages import ENGLISH, language_rows, macro_row, ordered_languages, ordered_tasks
from optotype.pipelines.retrieval.blocks import Limits
from optotype.pipelines.retrieval.cells import (
    Cell,
    Located,
    Outcome,
    cell_row,
    interval,
    invalid_vectors,
    unable_tasks,
)
from optotype.pipelines.retrieval.embeddings import Embeddings, one_space
from optotype.pipelines.retrieval.measures import POLICIES
from optotype.pipelines.retrieval.ranks import Ranks, rank_truths
from optotype.pipelines.retrieval.tiles import MOST_TIED
from optotype.pipelines.scheduler import scheduler
from optotype.schemas.errors import InvalidDataError, Problem, UsageError, did_you_mean

__all__ = ["MOST_K", "Retrieval", "check_options", "evaluate"]

MOST_K = 1_000_000
"""The largest k of hit@k and nDCG@k."""


@dataclass(frozen=True)
class Retrieval:
    """What `evaluate` found; JSON-ready but for the last.

    Attributes
    ----------
    cells : list of dict
        One for each task and language: ``task, language, queries, candidates`` (distinct targets of all lists),
        ``candidates_per_query`` (mean), ``invalid_queries``, ``invalid_candidates`` (ids), ``invalid_truths``
        (distinct relevant candidates, by query, without a vector), ``unable`` (why the model cannot do the task, or
        None), ``p_at_1`` (percent, by the policy chosen), ``p1`` (percent), ``hit`` ({k: }, percent), ``mrr`` (0 to 1),
        ``ndcg`` ({k: }, 0 to 1), each under ``expected``, ``optimistic``, ``pessimistic``; ``chance``, the P@1 of
        guessing, in percent; ``interval`` of the expected P@1 ([low, high], 95 %, percent) or None. Where the model
        cannot do the task everything else but the counts of queries and candidates is None.
    languages : list of dict
        As `optotype.pipelines.retrieval.averages.language_rows` gives them, by the policy chosen.
    macro : dict
        Means over languages, as `optotype.pipelines.retrieval.averages.macro_row` gives them.
    invalid : list of dict
        ``kind`` (query or candidate), ``id``, ``task``, ``language``, ``reason``: what has no usable vector.
    notes : list of str
        What a reader should know.
    p1 : ndarray (query,) float64
        Expected P@1 of each query of the task set, 0 to 1; NaN where the model cannot do the task.
    """

    cells: list[dict[str, Any]]
    languages: list[dict[str, Any]]
    macro: dict[str, Any]
    invalid: list[dict[str, str]]
    notes: list[str]
    p1: NDArray[np.float64]


def evaluate(
    tasks: xr.Dataset,
    queries: Sequence[xr.Dataset],
    candidates: Sequence[xr.Dataset],
    *,
    at: Sequence[int] = (1, 5, 10),
    ties: str = "expected",
    unable: Collection[str] = (),
    bootstrap: int = 0,
    seed: int = 0,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Retrieval:
    """Rank each query's candidates by cosine and measure where the truth stands.

    Cosines that are equal after rounding to 12 decimals are tied. That is transitive and hangs on no size of a block;
    equal cosines that are computed 1e-16 apart on the two sides of a half of 1e-12 count as different. See
    `optotype.pipelines.kernels.candidate_ranks`. Policies and formulas: `optotype.pipelines.retrieval.measures`.
    Candidates of one list with equal targets are one, as similar as the most similar of them. A query without a usable
    vector (no embedding, NaN, Inf, zeros) is wrong, and so is one whose truth has none; such candidates win nothing. A
    task of which no query, or no candidate, has an embedding in any language is one that the model cannot do: null.

    Memory is bounded, whatever the number of candidates and channels: strings and indices of the task set, a byte a
    row, and blocks (`Limits`); candidates are read twice for every 2,048 queries. Where a model makes all candidates
    alike, ties take up to some 200 MB a thread beyond that.

    Parameters
    ----------
    tasks : Dataset
        As `optotype.store.tasks.open_tasks` gives it.
    queries, candidates : sequence of Dataset
        ``states(text, channel)``, coordinate ``text``; dask or NumPy, any float type. Several are taken as one by the
        union of their ids.
    at : sequence of int
        Values of k for hit@k and nDCG@k, each 1 to `MOST_K`.
    ties : {"expected", "optimistic", "pessimistic"}
        Which policy averages, gaps and ``p_at_1`` go by.
    unable : collection of str
        Tasks that the model cannot do, by declaration.
    bootstrap : int
        Resamples of the queries of each cell for the interval; 0 for none.
    seed : int
        Of the resamples.
    workers : int, optional
        Threads; one per CPU by default. The same result for any.
    limits : Limits, optional
        Sizes of blocks. The same result for any.
    progress : Progress, optional

    Raises
    ------
    UsageError
        A k out of range or given twice, an unknown policy, a task that the set does not have, or every task declared as
        one that the model cannot do.
    InvalidDataError
        Arrays of other numbers of channels, an id in two arrays, no query or no candidate with an embedding at all.
    """
    check_options(at=at, ties=ties, bootstrap=bootstrap)
    names = ordered_tasks(_strings(tasks, "task"))
    languages = ordered_languages(_strings(tasks, "language"))
    for name in unable:
        if name not in names:
            raise UsageError(
                f"--unable {name}: the set has no such task",
                hint=did_you_mean(name, names) or f"It has {', '.join(names)}.",
            )
    if not set(names) - set(unable):
        raise UsageError(
            f"every task is --unable ({', '.join(names)}), so there is nothing to evaluate", hint="Leave one out."
        )
    asked, offered = Embeddings(queries, "queries"), Embeddings(candidates, "candidates")
    one_space(asked, offered)
    located = Located(tasks, asked, offered)
    cells = _cells(tasks, names, languages)
    reasons = unable_tasks(located, cells, unable)
    if set(reasons.values()) - {"declared"} and len(reasons) == len(names):
        raise _nothing(located, queries, candidates, _few_found(located, cells, unable))
    chosen = [places for (task, _), places in cells.items() if task not in reasons]
    with scheduler("threads", workers=workers) as place:
        ranks = rank_truths(
            tasks,
            np.sort(np.concatenate([np.empty(0, np.int64), *chosen])),
            located.rows,
            located.lists,
            asked,
            offered,
            place,
            progress or SILENT,
            limits,
        )
    outcome = Outcome.of(ranks, at)
    rows: list[dict[str, Any]] = []
    invalid: list[dict[str, str]] = []
    for cell, places in cells.items():
        row = cell_row(located, cell, places, outcome, at, ties, reasons.get(cell[0]))
        if row["unable"] is None:
            listed = invalid_vectors(located, cell, places)
            count = Counter(entry["kind"] for entry in listed)
            row["invalid_queries"], row["invalid_candidates"] = count["query"], count["candidate"]
            own = outcome.measures.p1["expected"][outcome.where(places)]
            row["interval"] = interval(own, bootstrap, derived_seed(seed, "retrieval", *cell))
            invalid += listed
        rows.append(row)
    values = {(row["task"], row["language"]): row["p_at_1"] for row in rows}
    agreements = _agreements(tasks, {cell: cells[cell] for cell in cells if cell[0] not in reasons}, ranks)
    by_language = language_rows(values, names, languages, agreements, ties)
    notes = [
        *_few_found(located, cells, unable),
        *_notes(rows, reasons, names, languages),
        *_undecided(agreements),
    ]
    p1 = np.full(len(located.rows), np.nan)
    p1[outcome.places] = outcome.measures.p1["expected"]
    return Retrieval(rows, by_language, macro_row(by_language, names), invalid, notes, p1)


def check_options(*, at: Sequence[int], ties: str, bootstrap: int) -> None:
    """UsageError unless `evaluate` takes these options."""
    if not at or min(at) < 1 or max(at) > MOST_K or len(set(at)) < len(at):
        raise UsageError(f"at: one k or more, each 1 to {MOST_K:,} and once, got {list(at)}")
    if ties not in POLICIES:
        raise UsageError(f"ties is one of {', '.join(POLICIES)}, got {ties!r}")
    if bootstrap < 0:
        raise UsageError(f"a bootstrap takes 0 resamples or more, got {bootstrap}")


def _strings(tasks: xr.Dataset, name: str) -> list[str]:
    return [str(value) for value in tasks[name].values.tolist()]


def _cells(tasks: xr.Dataset, names: Sequence[str], languages: Sequence[str]) -> dict[Cell, NDArray[np.int64]]:
    """Places of the queries of each task and language."""
    members: dict[Cell, list[int]] = {}
    for place, cell in enumerate(zip(_strings(tasks, "task"), _strings(tasks, "language"), strict=True)):
        members.setdefault(cell, []).append(place)
    order = [(task, language) for task in names for language in languages]
    return {cell: np.array(members[cell], np.int64) for cell in order if cell in members}


def _agreements(tasks: xr.Dataset, cells: Mapping[Cell, NDArray[np.int64]], ranks: Ranks) -> dict[Cell, dict[str, Any]]:
    item = _strings(tasks, "item")
    answers = {cell: by_item((at, item[at]) for at in places.tolist()) for cell, places in cells.items()}
    return {
        (task, language): agreement(own, answers[task, ENGLISH], ranks.prediction)
        for (task, language), own in answers.items()
        if language != ENGLISH and (task, ENGLISH) in answers
    }


def _few_found(located: Located, cells: Mapping[Cell, NDArray[np.int64]], declared: Collection[str]) -> list[str]:
    """A note for each side on which fewer than half of the ids that are asked for have a row: it may be the other's."""
    places = np.concatenate([np.empty(0, np.int64), *(own for (task, _), own in cells.items() if task not in declared)])
    notes = []
    for kind, own, rows, given, other in (
        ("query", places, located.rows, located.queries, located.candidates),
        ("candidate", located.members(places), located.candidate_rows, located.candidates, located.queries),
    ):
        if (rows[own] >= 0).all():
            continue
        ids = np.unique(located.tasks[f"{kind}_embedding"].values[own])
        found = int((given.find(ids) >= 0).sum())
        if 2 * found >= len(ids):
            continue
        there = int((other.find(ids) >= 0).sum())
        more = f"the arrays of the {other.side} have {there}"
        more += ": are --queries and --candidates swapped?" if there > found else ", no more than that"
        notes.append(f"{given.side}: {found} of {len(ids)} ids that are asked for have a row; {more}")
    return notes


def _undecided(agreements: Mapping[Cell, Mapping[str, Any]]) -> list[str]:
    """A note for each cell whose agreement leaves items out because too many candidates share a first place."""
    counts = [(*cell, int(found["left_out"]["undecided"])) for cell, found in agreements.items()]
    return [
        f"{task}, {language}: agreement with English leaves {count} item(s) out, whose first place more than "
        f"{MOST_TIED:,} candidates share"
        for task, language, count in counts
        if count
    ]


def _nothing(
    located: Located, queries: Sequence[xr.Dataset], candidates: Sequence[xr.Dataset], few: Sequence[str]
) -> InvalidDataError:
    """No task can be evaluated: the ids are other ones."""
    problems = []
    for kind, rows, arrays in (
        ("query", located.rows, queries),
        ("candidate", located.candidate_rows, candidates),
    ):
        if not (rows >= 0).any():
            wanted, there = located.tasks[f"{kind}_embedding"].values[0], arrays[0]["text"].values[0]
            message = (
                f"none of {len(rows)} has an embedding: looked for {wanted!r} and so on, the arrays have {there!r}"
            )
            problems.append(Problem(kind, "no-embedding", message))
    if not problems:
        problems.append(Problem("task", "no-embedding", "each lacks the embeddings of all its queries or candidates"))
    swapped = [line for line in few if "swapped" in line]
    return InvalidDataError(
        "Nothing can be evaluated with these arrays",
        [*problems, *(Problem("arrays", "swapped", line) for line in swapped)],
        hint="Rows are found by the embedding ids of the task set: encode its tables of queries and candidates.",
    )


def _notes(
    rows: Sequence[Mapping[str, Any]], reasons: Mapping[str, str], names: Sequence[str], languages: Sequence[str]
) -> list[str]:
    notes = []
    for task, reason in reasons.items():
        why = "declared as one" if reason == "declared" else f"{reason}, so it is taken for one"
        notes.append(f"{task}: {why} that the model cannot do: null, and so is every average over it")
    there = {(row["task"], row["language"]) for row in rows}
    for language in languages:
        absent = ", ".join(task for task in names if (task, language) not in there)
        if absent:
            notes.append(f"{language}: the set has no {absent} in this language, so its average over all tasks is null")
    notes += [
        f"{row['task']}, {row['language']}: no query has a usable vector, so all of them are wrong"
        for row in rows
        if row["unable"] is None and row["invalid_queries"] == row["queries"]
    ]
    return notes
