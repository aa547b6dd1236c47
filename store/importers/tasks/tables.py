"""Tasks as plain tables: queries, candidates, and which candidate is right for which query."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optotype.schemas.errors import InvalidDataError, Problem, did_you_mean
from optotype.store.checks import limited
from optotype.store.importers.scores.tables import read_text
from optotype.store.importers.tasks.lines import Found
from optotype.store.tasks.rows import TaskRows

__all__ = ["TableFiles", "read_tables"]

_OF_QUERIES = ("task", "language", "item", "embedding", "text", "image", "list")
_OF_CANDIDATES = (*_OF_QUERIES, "target", "query")


@dataclass(frozen=True)
class TableFiles:
    """The tables of a task set: CSV, TSV, Parquet or JSON lines, with byte-order marks or gzipped.

    Attributes
    ----------
    queries : Path
        Columns ``query`` (or ``id``), ``task``, ``language`` and, as far as known, ``item``, ``embedding`` (default the
        id), ``text``, ``image``, ``list``.
    candidates : Path
        ``candidate`` (or ``id``) and, as far as known, ``item``, ``embedding``, ``target``, ``text``, ``image``; of
        ``task``, ``language``, ``query`` and ``list`` what says whose candidate it is: of all queries of that task and
        language (blank: of any), of the one query, or of the queries with that list. One that belongs to several has
        several rows, alike in everything else.
    relevance : Path
        ``query``, ``candidate``, perhaps ``grade`` (default 1; 0 = not right).
    lists : Path, optional
        ``list``, ``candidate``: lists by name, for tables of candidates that would repeat themselves.
    """

    queries: Path
    candidates: Path
    relevance: Path
    lists: Path | None = None

    def paths(self) -> list[Path]:
        """Those given."""
        return [path for path in (self.queries, self.candidates, self.relevance, self.lists) if path is not None]


@dataclass
class _Table:
    """One table as text, column by column.

    Attributes
    ----------
    path : Path
    columns : dict of str to list of str
    rows : int
    """

    path: Path
    columns: dict[str, list[str]]
    rows: int

    def where(self, row: int) -> str:
        """A row, for messages; counted from 1 below the header."""
        return f"{self.path}, row {row + 1}"

    def get(self, name: str, default: Sequence[str] | str = "") -> list[str]:
        """A column; where it or a cell of it is blank, the default."""
        whole = [default] * self.rows if isinstance(default, str) else list(default)
        column = self.columns.get(name)
        return whole if column is None else [value or other for value, other in zip(column, whole, strict=True)]


def read_tables(files: TableFiles, *, task: str | None, language: str | None, found: Found) -> TaskRows:
    """Read a task set from tables.

    The target of a candidate, which says which ones are the same, is by default its content: its image, its text, or
    ``<image>\\t<text>``; its id where it has neither. Without a column ``item`` a candidate has the item of the query
    that it is right for, the smallest where several are.

    Parameters
    ----------
    files : TableFiles
    task, language : str, optional
        Of queries whose table has no such column, or a blank cell in it.
    found : Found
        Takes what is wrong. Rows of relevance with grade 0 are left out and counted.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        Of a table.
    """
    queries = _read(files.queries, {"query": ("query", "id")}, _OF_QUERIES, found)
    candidates = _read(files.candidates, {"candidate": ("candidate", "id")}, _OF_CANDIDATES, found)
    relevance = _read(files.relevance, {"query": ("query",), "candidate": ("candidate",)}, ("grade",), found)
    lists = None
    if files.lists is not None:
        lists = _read(files.lists, {"list": ("list",), "candidate": ("candidate",)}, (), found)
    for name, given in (("task", task), ("language", language)):
        if given is None and "query" in queries.columns:
            labels = queries.columns.get(name)
            if labels is None:
                found.refuse(str(files.queries), "missing-column", f"there is no column {name!r}; --{name} says it")
            for row, value in enumerate(labels or ()):
                if not value:
                    found.refuse(queries.where(row), f"bad-{name}", f"{name} is blank; --{name} says it for all such")
    if found.problems:
        raise InvalidDataError("tables refused, nothing was written:", limited(found.problems))
    rows = TaskRows()
    places = _add_candidates(candidates, rows, found)
    right = _relevance(relevance, set(queries.columns["query"]), places, found)
    tasks, languages = queries.get("task", task or ""), queries.get("language", language or "")
    members = _Members(queries, tasks, languages, places, found)
    members.add_candidates(candidates)
    if lists is not None:
        members.add_lists(lists)
    columns = {name: queries.get(name) for name in ("item", "embedding", "text", "image")}
    own = members.lists(rows)
    for row, query in enumerate(queries.columns["query"]):
        rows.add_query(
            query,
            task=tasks[row],
            language=languages[row],
            of_list=own[row],
            relevant=right.get(query, {}),
            **{name: column[row] for name, column in columns.items()},
        )
    if "item" not in candidates.columns:
        rows.name_candidates()
    return rows


def _read(path: Path, wanted: Mapping[str, Sequence[str]], known: Sequence[str], found: Found) -> _Table:
    """A table whose wanted columns go by the first of their names that is there, and are not blank."""
    frame = read_text(path)
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    if strange := [
        name for name in columns if name not in known and not any(name in names for names in wanted.values())
    ]:
        found.notes.append(f"{path.name}: columns that are not used: {', '.join(strange)}")
    table = _Table(path, columns, len(frame))
    for name, names in wanted.items():
        there = next((other for other in names if other in columns), None)
        if there is None:
            more = did_you_mean(name, list(columns))
            message = f"there is no column {' or '.join(map(repr, names))}. {more}".strip()
            found.refuse(str(path), "missing-column", message)
            continue
        columns[name] = columns[there]
        blank = [row for row, value in enumerate(columns[name]) if not value]
        found.problems += [Problem(table.where(row), "blank-id", f"{there} is blank") for row in blank]
    if not table.rows:
        found.refuse(str(path), "empty", "the table has no rows")
    return table


def _add_candidates(table: _Table, rows: TaskRows, found: Found) -> dict[str, int]:
    """Take in the candidates, each once; returns their places."""
    names = table.columns["candidate"]
    texts, images = table.get("text"), table.get("image")
    contents = ["\t".join(filter(None, pair)) for pair in zip(images, texts, strict=True)]
    targets = table.get("target", [content or name for content, name in zip(contents, names, strict=True)])
    described = zip(targets, table.get("embedding"), table.get("item"), texts, images, strict=True)
    places: dict[str, int] = {}
    first: dict[str, tuple[str, ...]] = {}
    for row, (name, content) in enumerate(zip(names, described, strict=True)):
        if name not in places:
            target, embedding, item, text, image = first[name] = content
            places[name] = rows.add_candidate(
                name, target=target, embedding=embedding, item=item, text=text, image=image
            )
        elif first[name] != content:
            message = f"candidate {name!r} has other columns than in a row before; its rows differ in their lists alone"
            found.refuse(table.where(row), "differing-rows", message)
    return places


def _relevance(
    table: _Table, queries: set[str], places: Mapping[str, int], found: Found
) -> dict[str, dict[int, float]]:
    """Right candidates of each query with their grades."""
    right: dict[str, dict[int, float]] = defaultdict(dict)
    cells = zip(table.columns["query"], table.columns["candidate"], table.get("grade", "1"), strict=True)
    seen: set[tuple[str, str]] = set()
    for row, (query, candidate, text) in enumerate(cells):
        where = table.where(row)
        if query not in queries:
            found.refuse(where, "unknown-query", f"no query {query!r} in the table of queries")
        if candidate not in places:
            found.refuse(where, "unknown-candidate", f"no candidate {candidate!r} in the table of candidates")
        if (query, candidate) in seen:
            found.refuse(where, "duplicate-row", f"query {query!r} and candidate {candidate!r} had a row before")
        seen.add((query, candidate))
        try:
            grade = float(text)
        except ValueError:
            grade = -1.0
        if not 0 <= grade < float("inf"):
            found.refuse(where, "bad-grade", f"a grade is a finite number, 0 or above, got {text!r}")
        elif grade == 0:
            found.leave_out("relevance with grade 0")
        elif candidate in places:
            right[query][places[candidate]] = grade
    return right


@dataclass
class _Members:
    """Which candidates belong to which query."""

    queries: _Table
    tasks: list[str]
    languages: list[str]
    places: Mapping[str, int]
    found: Found
    # ("list", name), ("query", id) or ("", task, language), blank for any -> places
    held: dict[tuple[str, ...], list[int]] = field(default_factory=lambda: defaultdict(list))

    def add_candidates(self, table: _Table) -> None:
        """Take in what the table of candidates says."""
        columns = [table.get(name) for name in ("list", "query", "task", "language")]
        lists, queries, cells = set(self.queries.get("list")), set(self.queries.columns["query"]), set()
        cells |= {(task, language) for task, language in zip(self.tasks, self.languages, strict=True)}
        cells |= {(task, "") for task in self.tasks} | {("", language) for language in self.languages} | {("", "")}
        for row, (name, *owner) in enumerate(zip(table.columns["candidate"], *columns, strict=True)):
            if owner[0]:
                self._take(("list", owner[0]), name, owner[0] in lists, table.where(row))
            elif owner[1]:
                self._take(("query", owner[1]), name, owner[1] in queries, table.where(row))
            else:
                known = (owner[2], owner[3]) in cells
                self._take(("", owner[2], owner[3]), name, known, table.where(row))

    def add_lists(self, table: _Table) -> None:
        """Take in a table of lists."""
        lists = set(self.queries.get("list"))
        pairs = zip(table.columns["list"], table.columns["candidate"], strict=True)
        for row, (name, candidate) in enumerate(pairs):
            if candidate not in self.places:
                message = f"no candidate {candidate!r} in the table of candidates"
                self.found.refuse(table.where(row), "unknown-candidate", message)
            else:
                self._take(("list", name), candidate, name in lists, table.where(row))

    def lists(self, rows: TaskRows) -> list[int]:
        """Number of each query's list, in the order of the queries."""
        numbers: dict[tuple[tuple[str, ...], ...], int] = {}
        own = []
        cells = zip(self.queries.columns["query"], self.queries.get("list"), self.tasks, self.languages, strict=True)
        for query, name, task, language in cells:
            keys: Iterable[tuple[str, ...]]
            if name:
                keys = [("list", name)]
            elif ("query", query) in self.held:
                keys = [("query", query)]
            else:
                keys = [("", task, language), ("", task, ""), ("", "", language), ("", "", "")]
            key = tuple(key for key in keys if key in self.held)
            if key not in numbers:
                numbers[key] = rows.add_list(place for part in key for place in self.held[part])
            own.append(numbers[key])
        return own

    def _take(self, key: tuple[str, ...], candidate: str, known: bool, where: str) -> None:
        if known:
            self.held[key].append(self.places[candidate])
        else:
            of = " ".join(filter(None, key))
            self.found.refuse(where, "unknown-owner", f"candidate {candidate!r} is of {of}, which no query is of")
