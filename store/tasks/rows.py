"""The rows of a task set while they are gathered: queries, candidates, lists of candidates, what is right."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.schemas.errors import Problem
from optotype.schemas.names import id_problems
from optotype.store.checks import limited

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["CANDIDATE_TEXTS", "LABELS", "LANGUAGE", "QUERY_TEXTS", "TASK", "TaskRows", "spans"]

QUERY_TEXTS = ("query", "task", "language", "item", "query_embedding", "query_text", "query_image")
CANDIDATE_TEXTS = (
    "candidate",
    "candidate_embedding",
    "target",
    "candidate_item",
    "candidate_text",
    "candidate_image",
)
TASK = re.compile(r"[a-z0-9-]+")
LANGUAGE = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
LABELS = {
    "task": (TASK, "lower-case letters, digits and hyphens"),
    "language": (LANGUAGE, "letters and digits, hyphens inside, such as en or pt-BR"),
}
_SHOWN = 5


@dataclass
class TaskRows:
    """Rows in the order in which they came; places are positions in that order.

    A list of candidates is a set: equal ones are held once, and the order of the candidates in it means nothing, so
    that nobody can tell the right one by its place. Everything is held in memory: 8 bytes an entry of the lists, and
    the texts.

    Attributes
    ----------
    queries, candidates : dict of str to list of str
        Columns `QUERY_TEXTS` and `CANDIDATE_TEXTS`; ``""`` = not given.
    query_list : list of int
        Of each query, which of `lists`.
    relevant : list of dict of int to float
        Of each query, places of right candidates -> grade.
    lists : list of ndarray of int64
        Places of candidates, ascending, each once.
    """

    queries: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in QUERY_TEXTS})
    candidates: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in CANDIDATE_TEXTS})
    query_list: list[int] = field(default_factory=list)
    relevant: list[dict[int, float]] = field(default_factory=list)
    lists: list[Any] = field(default_factory=list)
    _known: dict[bytes, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, tasks: xr.Dataset) -> TaskRows:
        """The rows of an open task set."""
        columns = {name: tasks[name].values.tolist() for name in (*QUERY_TEXTS, *CANDIDATE_TEXTS)}
        grades = zip(tasks["relevant"].values.tolist(), tasks["grade"].values.tolist(), strict=True)
        right = list(grades)
        return cls(
            queries={name: columns[name] for name in QUERY_TEXTS},
            candidates={name: columns[name] for name in CANDIDATE_TEXTS},
            query_list=tasks["query_list"].values.tolist(),
            relevant=[dict(right[start:stop]) for start, stop in spans(tasks["relevance_size"].values)],
            lists=[tasks["list_candidate"].values[start:stop] for start, stop in spans(tasks["list_size"].values)],
        )

    def add_candidate(
        self, candidate: str, *, target: str, embedding: str = "", item: str = "", text: str = "", image: str = ""
    ) -> int:
        """Take in a candidate and give its place; ``embedding`` is its own id by default."""
        row = (candidate, embedding or candidate, target, item, text, image)
        for name, value in zip(CANDIDATE_TEXTS, row, strict=True):
            self.candidates[name].append(value)
        return len(self.candidates["candidate"]) - 1

    def add_list(self, places: Iterable[int]) -> int:
        """Take in a list of candidates and give its number, which is that of an equal list if there is one."""
        held = np.unique(np.fromiter(places, np.int64))
        key = hashlib.sha256(held.tobytes()).digest()
        number = self._known.setdefault(key, len(self.lists))
        if number == len(self.lists):
            self.lists.append(held)
        return number

    def add_query(
        self,
        query: str,
        *,
        task: str,
        language: str,
        of_list: int,
        relevant: Mapping[int, float],
        item: str = "",
        embedding: str = "",
        text: str = "",
        image: str = "",
    ) -> None:
        """Take in a query; ``embedding`` is its own id by default."""
        row = (query, task, language, item, embedding or query, text, image)
        for name, value in zip(QUERY_TEXTS, row, strict=True):
            self.queries[name].append(value)
        self.query_list.append(of_list)
        self.relevant.append(dict(relevant))

    def name_candidates(self) -> None:
        """Give candidates without an item that of the query that they are right for, the smallest where several are.

        It is how predictions are compared across languages: two strings are the same answer if they are true of the
        same item. A candidate that is right for no query keeps ``""``.
        """
        smallest: dict[int, str] = {}
        for item, truth in zip(self.queries["item"], self.relevant, strict=True):
            for place in truth if item else ():
                smallest[place] = min(item, smallest.get(place, item))
        items = self.candidates["candidate_item"]
        for place, item in smallest.items():
            items[place] = items[place] or item

    def unused(self) -> int:
        """How many candidates are in no query's list; they are not written."""
        return len(self.candidates["candidate"]) - len(self._used())

    def in_order(self) -> TaskRows:
        """The same as it is stored.

        Queries sorted by (task, language, query), candidates by id, lists by their first use; what nobody uses is
        dropped.
        """
        queries = self.queries
        keys = list(zip(queries["task"], queries["language"], queries["query"], strict=True))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        used = sorted(self._used().tolist(), key=self.candidates["candidate"].__getitem__)
        place = np.full(len(self.candidates["candidate"]), -1, np.int64)
        place[used] = np.arange(len(used))
        numbers = {old: new for new, old in enumerate(dict.fromkeys(self.query_list[at] for at in order))}
        return TaskRows(
            queries={name: [column[at] for at in order] for name, column in queries.items()},
            candidates={name: [column[at] for at in used] for name, column in self.candidates.items()},
            query_list=[numbers[self.query_list[at]] for at in order],
            relevant=[
                {int(place[old]): grade for old, grade in sorted(self.relevant[at].items(), key=lambda r: place[r[0]])}
                for at in order
            ],
            lists=[np.sort(place[self.lists[old]]) for old in numbers],
        )

    def problems(self, *, implied: Collection[tuple[str, str]] = ()) -> list[Problem]:
        """Everything that is wrong with the rows: ids, labels, texts, lists, what is right.

        Parameters
        ----------
        implied : collection of (str, str)
            Place (``""``: any) and kind of problems that are left out, since what they follow from is told already.
        """
        if not self.queries["query"]:
            return [Problem("query", "empty", "there are no queries; a task set has at least one")]
        found = id_problems(self.queries["query"], "query") + id_problems(self.candidates["candidate"], "candidate")
        for name, of in (("query_embedding", self.queries), ("candidate_embedding", self.candidates)):
            found += id_problems(list(dict.fromkeys(of[name])), name)
        for name, (pattern, words) in LABELS.items():
            for value in dict.fromkeys(self.queries[name]):
                if pattern.fullmatch(value) is None:
                    found.append(Problem(name, f"bad-{name}", f"{words}, got {value!r}"))
        for name, column in (*self.queries.items(), *self.candidates.items()):
            found += _half_characters(name, column)
        for identity, target in zip(self.candidates["candidate"], self.candidates["target"], strict=True):
            if not target:
                message = "the target, which says which candidates are the same, is blank"
                found.append(Problem(f"candidate {identity!r}", "no-target", message))
        found += _differing("query_embedding", self.queries, ("query_text", "query_image"))
        found += _differing("candidate_embedding", self.candidates, ("candidate_text", "candidate_image"))
        found += self._truth_problems()
        return limited(p for p in found if not implied or {("", p.kind), (p.where, p.kind)}.isdisjoint(implied))

    def _truth_problems(self) -> list[Problem]:
        """Empty lists, queries that nothing is right for, what is right and not in the list, grades."""
        found = []
        names = self.candidates["candidate"]
        for query, number, truth in zip(self.queries["query"], self.query_list, self.relevant, strict=True):
            where, held = f"query {query!r}", self.lists[number]
            if not len(held):
                found.append(Problem(where, "no-candidates", "its list of candidates is empty"))
            if not truth:
                found.append(Problem(where, "no-relevant", "no candidate is right for it; at least one has to be"))
                continue
            places = np.array(list(truth), np.int64)
            at = np.minimum(np.searchsorted(held, places), max(0, len(held) - 1))
            absent = places[held[at] != places] if len(held) else places
            if len(absent):
                told = ", ".join(repr(names[place]) for place in absent[:_SHOWN])
                found.append(Problem(where, "not-in-list", f"right, but not among its candidates: {told}"))
            with np.errstate(over="ignore", under="ignore"):
                grades = np.array(list(truth.values()), np.float64).astype(np.float32)
            if not (np.isfinite(grades) & (grades > 0)).all():
                message = f"grades are finite float32 above 0, got {sorted(set(truth.values()))[:_SHOWN]}"
                found.append(Problem(where, "bad-grade", message))
        return found

    def _used(self) -> Any:
        """Places of the candidates in the lists of queries, ascending."""
        held = [self.lists[number] for number in dict.fromkeys(self.query_list)]
        mark = np.zeros(len(self.candidates["candidate"]), bool)
        for places in held:
            mark[places] = True
        return np.flatnonzero(mark)


def spans(sizes: Any) -> list[tuple[int, int]]:
    """First and one past the last row of each in a contiguous ragged array."""
    ends = np.cumsum(sizes)
    return list(zip((ends - sizes).tolist(), ends.tolist(), strict=True))


def _half_characters(name: str, column: Sequence[str]) -> list[Problem]:
    """Texts that hold a lone surrogate, which no file can hold."""
    found = []
    for number, value in enumerate(column):
        try:
            value.encode()
        except UnicodeEncodeError:
            found.append(Problem(f"{name}[{number}]", "bad-text", "holds half a character (a lone surrogate)"))
    return found


def _differing(embedding: str, rows: Mapping[str, Sequence[str]], contents: Sequence[str]) -> list[Problem]:
    """Embeddings that are said to be those of two texts or images; one that is not given says nothing."""
    found = []
    for content in contents:
        first: dict[str, str] = {}
        for identity, value in zip(rows[embedding], rows[content], strict=True):
            if value and first.setdefault(identity, value) != value:
                message = f"is the embedding of {first[identity][:60]!r} and of {value[:60]!r}; give them two ids"
                found.append(Problem(f"{embedding} {identity!r}", "embedding-differs", message))
    return found
