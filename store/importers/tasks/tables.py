"""Tasks as plain tables: queries, candidates, and which candidate is right for which query."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from optotype.schemas.errors import FormatError, InvalidDataError, Problem, did_you_mean
from optotype.store.importers.scores.tables import read_text
from optotype.store.importers.tasks.lines import Found, is_lines, read_rows, spelt
from optotype.store.tasks.rows import LABELS, TaskRows

__all__ = ["TableFiles", "read_tables"]

_OF_QUERIES = ("task", "language", "item", "embedding", "text", "image", "list")
_OF_CANDIDATES = (*_OF_QUERIES, "target", "query")


_OF_LISTS = {("", "no-candidates"), ("", "not-in-list")}


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
    ``<image>\\t<text>``, or ``["<image>", "<text>"]`` where two contents would share that, such as a text and an image
    of the same string; its id where it has neither. Without a column ``item`` a candidate has the item of the query
    that it is right for, the smallest where several are.

    Parameters
    ----------
    files : TableFiles
    task, language : str, optional
        Of queries whose table has no such column, or a blank cell in it.
    found : Found
        Takes what is wrong, without what only follows from it. Rows of relevance with grade 0 are left out and
        counted.

    Raises
    ------
    NotFoundError
        Of a table.
    """
    queries = _read(files.queries, {"query": ("query", "id")}, _OF_QUERIES, found)
    candidates = _read(files.candidates, {"candidate": ("candidate", "id")}, _OF_CANDIDATES, found)
    relevance = _read(files.relevance, {"query": ("query",), "candidate": ("candidate",)}, ("grade",), found)
    lists = None
    if files.lists is not None:
        lists = _read(files.lists, {"list": ("list",), "candidate": ("candidate",)}, (), found)
    given = {"task": task, "language": language}
    for name, (pattern, words) in LABELS.items():
        value = given[name]
        if value is not None and pattern.fullmatch(value) is None:
            found.refuse(f"--{name}", f"bad-{name}", f"{words}, got {value!r}")
    # What is wrong with the lists or the truth says nothing where a table that makes them is not sound.
    if queries is None or candidates is None or (lists is None and files.lists is not None):
        found.implied |= {*_OF_LISTS, ("", "no-relevant")}
    if relevance is None:
        found.implied.add(("", "no-relevant"))
    sound = None if queries is None else _labels(queries, given, found)
    rows = TaskRows()
    places = None if candidates is None else _add_candidates(candidates, rows, found)
    known = None if queries is None or "" in queries.columns["query"] else set(queries.columns["query"])
    if candidates is not None and "" in candidates.columns["candidate"]:
        found.implied |= {*_OF_LISTS, ("", "unknown-candidate")}
    right = {} if relevance is None else _relevance(relevance, known, places, found)
    if queries is None or sound is None:
        return rows
    tasks, languages = queries.get("task", task or ""), queries.get("language", language or "")
    members = _Members(queries, tasks, languages, places or {}, found)
    if candidates is not None:
        members.add_candidates(candidates)
    if lists is not None and candidates is not None:
        members.add_lists(lists)
    columns = {name: queries.get(name) for name in ("item", "embedding", "text", "image")}
    own = members.lists(rows)
    for row, query in enumerate(queries.columns["query"]):
        if not query:
            continue
        if not sound[row]:
            found.implied |= {(f"query {query!r}", kind) for kind in ("no-candidates", "not-in-list")}
        rows.add_query(
            query,
            task=tasks[row],
            language=languages[row],
            of_list=own[row],
            relevant=right.get(query, {}),
            **{name: column[row] for name, column in columns.items()},
        )
    if candidates is not None and "item" not in candidates.columns:
        rows.name_candidates()
    return rows


def _labels(queries: _Table, given: Mapping[str, str | None], found: Found) -> list[bool]:
    """Whether task and language of each query are sound; a problem for each cell that is not.

    The owners of candidates are not looked for where a query may be of any task or language.
    """
    sound = [True] * queries.rows
    for name, (pattern, words) in LABELS.items():
        found.implied.add((name, f"bad-{name}"))  # each is told with its row, or as that of an option
        labels = queries.columns.get(name)
        if labels is None and given[name] is None:
            message = f"there is no column {name!r}; --{name} says it. {_columns_told(name, list(queries.columns))}"
            found.refuse(str(queries.path), "missing-column", message)
            sound = [False] * queries.rows
        for row, value in enumerate(labels or ()):
            if value and pattern.fullmatch(value) is None:
                found.refuse(queries.where(row), f"bad-{name}", f"{words}, got {value!r}")
                sound[row] = False
            elif not value and given[name] is None:
                found.refuse(queries.where(row), f"bad-{name}", f"{name} is blank; --{name} says it for all such")
                sound[row] = False
    if not all(sound) or "" in queries.columns["query"]:
        found.implied.add(("", "unknown-owner"))
    return sound


def _columns_told(name: str, columns: Sequence[str]) -> str:
    """A column of nearly that name, if there is one, and all that there are."""
    close = did_you_mean(name, columns)
    whole = f"There are: {', '.join(columns)}." if columns else "There are none."
    return f"{close} {whole}" if close.startswith("Did") else whole


def _read(path: Path, wanted: Mapping[str, Sequence[str]], known: Sequence[str], found: Found) -> _Table | None:
    """A table whose wanted columns go by the first of their names that is there; None, and what is wrong, if not.

    Blank cells in them are problems, but no reason not to look at the rest.
    """
    before = found.number()
    if is_lines(path):
        for _ in read_rows(path, found):  # for keys that are there twice, numbers that are not finite, all bad lines
            pass
    if before < found.number():
        return None
    try:
        frame = read_text(path)
    except FormatError as error:
        found.faults.append(error.message)
        return None
    except InvalidDataError as error:
        found.problems += error.problems
        return None
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    if strange := [
        name for name in columns if name not in known and not any(name in names for names in wanted.values())
    ]:
        found.notes.append(f"{path.name}: columns that are not used: {', '.join(strange)}")
    table = _Table(path, dict(columns), len(frame))
    for name, names in wanted.items():
        there = next((other for other in names if other in columns), None)
        if there is None:
            message = f"there is no column {' or '.join(map(repr, names))}. {_columns_told(name, list(columns))}"
            found.refuse(str(path), "missing-column", message)
            continue
        table.columns[name] = columns[there]
        blank = [row for row, value in enumerate(columns[there]) if not value]
        found.problems += [Problem(table.where(row), "blank-id", f"{there} is blank") for row in blank]
    if not table.rows:
        found.refuse(str(path), "empty", "the table has no rows")
        return None
    return table if all(name in table.columns for name in wanted) else None


def _add_candidates(table: _Table, rows: TaskRows, found: Found) -> dict[str, int]:
    """Take in the candidates, each once; returns their places."""
    names = table.columns["candidate"]
    texts, images = table.get("text"), table.get("image")
    shared = {pair: "\t".join(filter(None, pair)) for pair in zip(images, texts, strict=True)}
    times = Counter(shared.values())
    contents = [
        spelt(text, image) if times[shared[image, text]] > 1 else shared[image, text]
        for image, text in zip(images, texts, strict=True)
    ]
    targets = table.get("target", [content or name for content, name in zip(contents, names, strict=True)])
    described = zip(targets, table.get("embedding"), table.get("item"), texts, images, strict=True)
    places: dict[str, int] = {}
    first: dict[str, tuple[str, ...]] = {}
    for row, (name, content) in enumerate(zip(names, described, strict=True)):
        if not name:
            continue
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
    table: _Table, queries: set[str] | None, places: Mapping[str, int] | None, found: Found
) -> dict[str, dict[int, float]]:
    """Right candidates of each query with their grades; None: a table that is not sound, so that any may be in it."""
    right: dict[str, dict[int, float]] = defaultdict(dict)
    cells = zip(table.columns["query"], table.columns["candidate"], table.get("grade", "1"), strict=True)
    seen: set[tuple[str, str]] = set()
    for row, (query, candidate, text) in enumerate(cells):
        where, before = table.where(row), len(found.problems)
        lost = places is not None and candidate not in places
        if query and queries is not None and query not in queries:
            found.refuse(where, "unknown-query", f"no query {query!r} in the table of queries")
        if candidate and lost:
            found.refuse(where, "unknown-candidate", f"no candidate {candidate!r} in the table of candidates")
        if query and candidate and (query, candidate) in seen:
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
        elif places is not None and candidate in places:
            right[query][places[candidate]] = grade
        if not query:
            found.implied.add(("", "no-relevant"))
        elif lost or before < len(found.problems):
            found.implied.add((f"query {query!r}", "no-relevant"))
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
            if not name:
                continue
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
            if not name or not candidate:
                self.found.implied |= _OF_LISTS
            elif candidate not in self.places:
                self.found.implied |= _OF_LISTS
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
            self.found.implied |= _OF_LISTS  # it may be meant for any of them
            of = " ".join(filter(None, key))
            if key[0] == "list" or ("", "unknown-owner") not in self.found.implied:
                message = f"candidate {candidate!r} is of {of}, which no query is of"
                self.found.problems.append(Problem(where, "unknown-owner", message))
