"""VLMEvalKit result files: ``<work>/<model>/T<date>.../{model}_{dataset}[_{judge}_result].xlsx``, .tsv, .csv, .json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited
from optotype.store.importers.scores.records import COLUMNS, Records
from optotype.store.importers.scores.vlmevalkit_rows import Judgement, choices_of, grouped, judge, verdict_of
from optotype.store.importers.scores.vlmevalkit_tables import SUFFIXES, Table, columns_of, read_table

__all__ = ["read_vlmevalkit", "recognises"]

_RUN = re.compile(r"T\d{8}(?:[-_].+)?")
_STAGE = re.compile(r"_(?:results?|score|extract)$")
_JUDGE = re.compile(r"_(?:exact_matching|extract_matching|[^_]+)$")
_KNOWN_JUDGE = re.compile(
    r"_(?:exact_matching|extract_matching|(?:openai|chatgpt|gpt|qwen|llama|deepseek|claude|gemini)[^_]*)$",
    re.IGNORECASE,
)
_CIRCULAR_SETS = ("mmbench", "ccbench")
# How the logs of groups begin. Of other sets a first rotation alone says nothing: old versions judged all sets so.
_GROUP_LOG = re.compile(r"\A(?:Failed in (?:Prefetching )?)?Rolling \d+\b|\ASucceed During Pre-fetching")
_LATER_ROTATION = re.compile(r"^(?:Failed in (?:Prefetching )?)?Rolling [1-9]", re.MULTILINE)
# Rotations of question i have the indices i, i + 1000000, i + 2000000, ...
_ROTATION = 10**6
_MOST_OPTIONS = 26
_SHOWN = 5


def recognises(path: Path) -> bool:
    """Whether ``path`` is a table with ``index`` and ``prediction`` or ``eval_score``, or a folder that holds one."""
    return any(_is_result(columns_of(file)) for file in _files(path))


def _is_result(columns: Sequence[str]) -> bool:
    """Whether the columns are those of a file of this harness; one of scores may come without the predictions."""
    return "index" in columns and ("prediction" in columns or "eval_score" in columns)


def read_vlmevalkit(paths: Sequence[Path]) -> Records:
    """Read result files; folders are searched for them.

    The model is the name of its folder (of the folder above a run's, ``T20250101...``), which a file's name begins
    with; the dataset is what the predictions' file has behind it. Links one level up lead to the same file and count
    once. Of a model and dataset the files with verdicts (``hit``, ``eval_score``, ``score`` beside a log) are taken,
    else those with extracted answers (``res``), else the predictions, of which an option's letter that stands alone is
    compared with ``answer``. Missing, never 0: `optotype.store.importers.scores.vlmevalkit_rows.judge` says what is. A
    file of which no row has a score is left out with a note. The item's id is ``index``, as text.

    Rotations (``index % 1000000``) become one row, right only if all of them are (`grouped`). Benchmarks scored so, and
    those whose judged file holds one row a group, as its logs or the predictions beside it show, are in ``circular``.
    Every other file is vanilla, of whatever set.

    Parameters
    ----------
    paths : sequence of Path
        Files or folders. ``.pkl`` is never opened; files of means (no ``index``) are left aside.

    Returns
    -------
    Records
        Modality ``image`` throughout; ``source`` is ``FILE:ROW``.

    Raises
    ------
    InvalidDataError
        Every problem of every file: tables that cannot be read, rows without an index, names that do not say which
        model it is, differing rows for one item, circular and vanilla scores of one benchmark.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    chosen = _best(_tables(_found(paths, problems), problems), notes)
    table: list[dict[str, Any]] = []
    items: dict[tuple[str, str], dict[str, str | None]] = {}
    circular: dict[str, dict[bool, list[str]]] = {}
    seen: dict[tuple[str, str, str], tuple[str, Judgement]] = {}
    for file in chosen:
        told = f"{file.model} ({file.table.path})"
        circular.setdefault(file.dataset, {}).setdefault(file.is_circular, []).append(told)
        for line, item, judgement, row in _rows(file, problems):
            where = f"{file.table.path}:{line}"
            first, known = seen.setdefault((file.dataset, item, file.model), (where, judgement))
            if known != judgement:
                message = f"another row for item {item!r} of {file.model} than at {first}; equal repeats are accepted"
                problems.append(Problem(where, "differing-rows", message))
            own = _item(row)
            columns = items.setdefault((file.dataset, item), dict(own))
            for column in [name for name, value in own.items() if columns.setdefault(name, value) != value]:
                columns[column] = None
            cells = (file.dataset, item, file.model, judgement.score, "image", judgement.response, judgement.invalid)
            table.append(dict(zip(COLUMNS, (*cells, where), strict=True)))
    for dataset, kinds in circular.items():
        if len(kinds) > 1:
            message = (
                f"circular: {', '.join(kinds[True])}; vanilla: {', '.join(kinds[False])}; the two are not comparable"
            )
            problems.append(Problem(dataset, "mixed-circular", message))
    if not table and not problems:
        problems.append(Problem("vlmevalkit", "empty", "no row with a score in any file"))
    if problems:
        hint = "Of several runs or judges of a model on a dataset give one; models lie in folders of their names."
        raise InvalidDataError("VLMEvalKit files refused:", limited(problems), hint=hint)
    import pandas as pd

    frame = pd.DataFrame(table, columns=list(COLUMNS), dtype=object)  # None stays None
    frame["score"] = frame["score"].astype("float64")
    harvested = [{"benchmark": name, "item_id": item, **columns} for (name, item), columns in items.items()]
    rotated = frozenset(dataset for dataset, kinds in circular.items() if True in kinds)
    notes += [f"{dataset}: scored circularly, one row for each group of rotations" for dataset in sorted(rotated)]
    return Records(frame, pd.DataFrame(harvested, dtype=object), notes, rotated)


@dataclass(frozen=True)
class _File:
    """A table with what its name and columns say."""

    table: Table
    model: str
    rest: str  # of the name, behind the model
    rank: int  # 0: verdicts, 1: extracted answers, 2: predictions
    dataset: str = ""
    beside_rotated: bool = False  # the predictions that it judges hold rotations

    @cached_property
    def verdict(self) -> str | None:
        return verdict_of(self.table.columns)

    @cached_property
    def is_rotated(self) -> bool:
        """Whether it holds rotations: each index of a million and more has its question in the table too.

        Else such numbers are ids of their own.
        """
        if "g_index" in self.table.columns:
            return True
        whole = {int(row["index"]) for _, row in self.table.rows if row.get("index", "").isdecimal()}
        large = [index for index in whole if index >= _ROTATION]
        fits = (index % _ROTATION in whole and index < _MOST_OPTIONS * _ROTATION for index in large)
        return bool(large) and all(fits)

    @cached_property
    def is_circular(self) -> bool:
        """Whether it is scored circularly: it holds rotations, or verdicts on groups of them."""
        if self.is_rotated:
            return True
        logs = [row.get("log", "") for _, row in self.table.rows]
        if self.rank == 2 or any(log.startswith("Match Log") for log in logs):  # of single matches
            return False
        is_set = any(name in self.dataset.lower() for name in _CIRCULAR_SETS)
        pattern = _GROUP_LOG if is_set else _LATER_ROTATION
        return self.beside_rotated or any(pattern.search(log) for log in logs)

    def judge(self, row: dict[str, str]) -> Judgement:
        return judge(row, self.verdict)


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(child for child in path.rglob("*") if child.suffix.lower() in SUFFIXES and child.is_file())
    elif path.suffix.lower() in SUFFIXES and path.is_file():
        yield path


def _found(paths: Sequence[Path], problems: list[Problem]) -> list[Path]:
    """The files, each once, however many links lead to it; a run's own folder before what links to it."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        here = list(_files(path))
        if not here:
            is_pickle = path.suffix.lower() in (".pkl", ".pickle")
            wanted = f"{', '.join(SUFFIXES)} or a folder with such files"
            message = "a pickle, which is never opened" if is_pickle else f"nothing to read: {wanted}"
            problems.append(Problem(str(path), "pickle" if is_pickle else "not-a-table", message))
        for file in here:
            found.setdefault(file.resolve(), file)
    return list(found.values())


def _tables(paths: Sequence[Path], problems: list[Problem]) -> list[_File]:
    files: list[_File] = []
    for path in paths:
        if not _is_result(columns_of(path)):
            continue  # means, a status file, a judge's cache
        table = read_table(path, problems)
        if table is None:
            continue
        folder = path.absolute().parent
        model = folder.parent.name if _RUN.fullmatch(folder.name) else folder.name
        if not path.stem.startswith(f"{model}_"):
            message = f"its name does not begin with {model}_, so where the model's name ends is unknown"
            problems.append(Problem(str(path), "unknown-model", message))
            continue
        held = set(table.columns)
        rank = 0 if verdict_of(held) else 1 if "res" in held else 2
        files.append(_File(table, model, path.stem.removeprefix(f"{model}_"), rank))
    return files


def _best(files: Sequence[_File], notes: list[str]) -> list[_File]:
    """Of each model and dataset the files that say most, and of those the ones with a score at all."""
    known = {file.rest for file in files if file.rank == 2 and not _STAGE.search(file.rest)}
    known -= {rest for rest in known if _KNOWN_JUDGE.search(rest)}
    groups: dict[tuple[str, str], list[_File]] = {}
    for file in files:
        named = replace(file, dataset=_dataset(file, known))
        groups.setdefault((named.model, named.dataset), []).append(named)
    chosen: list[_File] = []
    for (model, dataset), some in groups.items():
        best = min(file.rank for file in some)
        rotated = any(file.is_rotated for file in some if file.rank > best)
        for file in (replace(file, beside_rotated=rotated) for file in some if file.rank == best):
            judged = [file.judge(row) for _, row in file.table.rows]
            if any(judgement.score is not None for judgement in judged):
                chosen.append(file)
            else:
                reasons = ", ".join(sorted({judgement.invalid or "" for judgement in judged})) or "no rows"
                notes.append(f"{file.table.path}: {model} on {dataset} has no score in any row ({reasons}); left out")
    return chosen


def _dataset(file: _File, known: set[str]) -> str:
    """The dataset in a file's name: one that a predictions' file has, else the name without stage and judge."""
    fitting = [name for name in known if file.rest == name or file.rest.startswith(f"{name}_")]
    if fitting:
        return max(fitting, key=len)
    rest = _STAGE.sub("", file.rest)
    pattern = _JUDGE if file.rest.endswith(("_result", "_results")) else _KNOWN_JUDGE
    shorter = pattern.sub("", rest)
    return shorter or rest


def _rows(file: _File, problems: list[Problem]) -> Iterator[tuple[int, str, Judgement, dict[str, str]]]:
    """Row number, item, judgement and cells: one for each question; repeats of a row come again."""
    nameless = [number for number, row in file.table.rows if "index" not in row]
    if nameless:
        shown = ", ".join(map(str, nameless[:_SHOWN])) + (", …" if len(nameless) > _SHOWN else "")
        message = f"{len(nameless)} rows have no index (rows {shown})"
        problems.append(Problem(str(file.table.path), "no-id", message))
    rows = [(number, row) for number, row in file.table.rows if "index" in row]
    if not file.is_rotated:
        for number, row in rows:
            yield number, row["index"], file.judge(row), row
        return
    groups: dict[str, dict[str, tuple[int, dict[str, str]]]] = {}
    for number, row in rows:
        index = row["index"]
        name = row.get("g_index") or (str(int(index) % _ROTATION) if index.isdecimal() else index)
        first = groups.setdefault(name, {}).setdefault(index, (number, row))
        if file.judge(first[1]) != file.judge(row):
            message = f"another row for index {index} than at row {first[0]}; equal repeats are accepted"
            problems.append(Problem(f"{file.table.path}:{number}", "differing-rows", message))
    for item, group in groups.items():
        ordered = sorted(group.values(), key=lambda entry: (len(entry[1]["index"]), entry[1]["index"]))
        number, main = ordered[0]
        verdicts = [file.judge(row) for _, row in ordered]
        yield number, item, grouped(verdicts, len(choices_of(main)) or None), main


def _item(row: dict[str, str]) -> dict[str, str]:
    """What the row tells of its item."""
    told: dict[str, str] = {column: row[column] for column in ("category", "question", "answer") if column in row}
    if "l2-category" in row:
        told["sub_task"] = row["l2-category"]
    choices = choices_of(row)
    if choices:
        told["n_choices"] = str(len(choices))
    return told
