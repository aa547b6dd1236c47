"""lmms-eval sample logs: ``<out>/<model>/<date>_samples_<task>.jsonl``, one JSON object a line.

Read as the harness writes them (0.7): lines of several ranks interleave and files are appended to, so rows are sorted
by ``doc_id``, equal repeats are accepted and differing ones refused; ids come from the metrics' dicts or a digest.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited
from optotype.store.importers.scores import lmms_eval_samples as samples
from optotype.store.importers.scores.records import COLUMNS, Records

__all__ = ["read_lmms_eval", "recognises"]

_NAME = re.compile(
    r"(?:(?P<date>\d{8}_\d{6}|\d{4}-\d\d-\d\dT[\d.-]+)_)?samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.-]+)?\.jsonl(?:\.gz)?"
)
_RESULTS = re.compile(r"(?:.+_)?results(?:_.+)?\.json")
_SHOWN = 3
# Not part of what a sample says: bookkeeping, which may differ between two logs of the same answer.
_BOOKKEEPING = frozenset(("doc_id", "doc_hash", "prompt_hash", "target_hash", "token_counts"))


def recognises(path: Path) -> bool:
    """Whether ``path`` is a sample log by its name, or a folder with one somewhere in it."""
    return next(_logs(path), None) is not None


def read_lmms_eval(paths: Sequence[Path]) -> Records:
    """Read sample logs; folders are searched for them.

    Model and task are the names of a log's folder and file. A task's item id is the first of ``id``, ``idx``,
    ``index``, ``question_id`` that every row of its logs has, in a metric's dict or beside the metrics, and that no two
    ``doc_id`` of a log share; else the first 32 hex digits of the SHA-256 of ``input`` and ``target``. ``doc_hash`` is
    never an id: it is the same for every row. ``doc_id`` never is either: it changes when a task is filtered.

    Of several metrics that hold a score the one used is, row by row, the first called ``acc``, ``exact_match`` or
    ``correct`` something, else ``score`` something, else the first; the notes name it and what was left out. A row
    without any is missing (``no-score``), as is one of which the task parsed nothing (``unparsed``, ``option-z``) or
    whose parser drew an option at random, where that can be told (``random-option``).
    ``response`` is the answer as the task parsed it, else the model's words.

    Parameters
    ----------
    paths : sequence of Path
        Logs (``.jsonl``, ``.jsonl.gz``) or folders. The ``*_results.json`` beside a log holds means: it is not read for
        scores, but its count of samples is compared and a metric that is better when lower is refused.

    Returns
    -------
    Records
        Modality ``image`` throughout; ``source`` is ``FILE:LINE``.

    Raises
    ------
    InvalidDataError
        Every problem of every log: lines that are no JSON objects, rows without an id, two samples that share the only
        id there is, differing rows for one id, no logs at all.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    tasks: dict[str, list[Path]] = {}
    for path in _found(paths, problems):
        tasks.setdefault(_task(path), []).append(path)
    table: list[dict[str, Any]] = []
    items: dict[tuple[str, str], dict[str, str | None]] = {}
    for task, some in tasks.items():  # one by one: the logs of a task are held whole
        logs = [_read_log(path, problems) for path in some]
        notes += [f"{log.path}: holds no samples; left out" for log in logs if not log.rows and not log.failed]
        _add_task(task, [log for log in logs if log.rows], table, items, notes, problems)
    if not table and not problems:
        problems.append(Problem("lmms-eval", "empty", "no sample with a score in any log"))
    if problems:
        raise InvalidDataError(
            "lmms-eval logs refused:",
            limited(problems),
            hint="Of several runs of a model on a task give one; a log that was damaged is best made again.",
        )
    import pandas as pd

    harvested = [{"benchmark": task, "item_id": item, **columns} for (task, item), columns in items.items()]
    frame = pd.DataFrame(table, columns=list(COLUMNS), dtype=object)  # None stays None
    frame["score"] = frame["score"].astype("float64")
    return Records(frame, pd.DataFrame(harvested, dtype=object), notes)


@dataclass
class _Row:
    """What is kept of one line."""

    line: int
    doc_id: Any
    ids: dict[str, str]  # by the key they were found under
    digest: str | None
    metric: str | None
    others: tuple[str, ...]
    score: float | None
    invalid: str | None
    response: str | None
    item: dict[str, str]
    said: str  # digest of all but the bookkeeping, to tell repeats from contradictions


@dataclass
class _Log:
    """One file."""

    path: Path
    model: str
    task: str
    rows: list[_Row] = field(default_factory=list)
    failed: bool = False


def _logs(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(child for child in path.rglob("*.jsonl*") if child.is_file() and _NAME.fullmatch(child.name))
    elif _NAME.fullmatch(path.name):
        yield path


def _found(paths: Sequence[Path], problems: list[Problem]) -> list[Path]:
    """The logs among ``paths``, each file once, however many ways lead to it."""
    logs: dict[Path, Path] = {}
    for path in paths:
        here = list(_logs(Path(path)))
        if not here and not _RESULTS.fullmatch(Path(path).name):
            wanted = "a file called <date>_samples_<task>.jsonl, or a folder with such files"
            problems.append(Problem(str(path), "not-a-log", f"not an lmms-eval sample log: {wanted}"))
        for log in here:
            logs.setdefault(log.resolve(), log)
    return list(logs.values())


def _task(path: Path) -> str:
    match = _NAME.fullmatch(path.name)
    return match["task"] if match else path.stem


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _read_log(path: Path, problems: list[Problem]) -> _Log:
    log = _Log(path, path.resolve().parent.name, _task(path))
    before = len(problems)
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    problems.append(Problem(f"{path}:{number}", "not-json", f"not JSON ({error}); cut short?"))
                    continue
                if not isinstance(row, dict):
                    message = f"a sample is a JSON object, got {type(row).__name__}"
                    problems.append(Problem(f"{path}:{number}", "not-an-object", message))
                    continue
                log.rows.append(_parse(row, number))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        problems.append(Problem(str(path), "unreadable", f"cannot be read ({error})"))
    log.failed = len(problems) > before
    # Ranks interleave. Rows without a doc_id stay where they are, behind the others.
    log.rows.sort(key=lambda row: (row.doc_id is None, row.doc_id if isinstance(row.doc_id, int) else 0, row.line))
    return log


def _parse(row: dict[str, Any], line: int) -> _Row:
    metrics = samples.metrics_of(row)
    readable = {name: samples.score_of(metric) for name, metric in metrics.items()}
    ranked = sorted((name for name, (score, _) in readable.items() if score is not None), key=_rank)
    chosen = ranked[0] if ranked else None
    score, parsed = readable[chosen] if chosen is not None else (None, None)
    invalid = None if chosen is not None else "no-score"
    if chosen is not None and (reason := samples.unparsed(row, metrics[chosen])) is not None:
        score, invalid = None, reason
    elif chosen is not None and samples.drawn_at_random(row, metrics[chosen]):
        score, invalid = None, "random-option"
    return _Row(
        line=line,
        doc_id=row.get("doc_id"),
        ids={key: value for key in samples.ID_KEYS if (value := samples.id_of(row, key)) is not None},
        digest=samples.digest_id(row),
        metric=chosen,
        others=tuple(name for name in metrics if name != chosen),
        score=score,
        invalid=invalid,
        response=parsed if parsed is not None else samples.answer_of(row),
        item=samples.harvest(row, metrics.values()),
        said=hashlib.sha256(_canonical({k: v for k, v in row.items() if k not in _BOOKKEEPING})).hexdigest(),
    )


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()  # NaN is let through, unlike in our own documents


def _rank(metric: str) -> int:
    """Metrics of rightness first; equal ones keep the order of the log, since sorting is stable."""
    name = metric.lower()
    if any(word in name for word in ("acc", "exact_match", "correct")):
        return 0
    return 1 if "score" in name else 2


def _add_task(
    task: str,
    logs: list[_Log],
    table: list[dict[str, Any]],
    items: dict[tuple[str, str], dict[str, str | None]],
    notes: list[str],
    problems: list[Problem],
) -> None:
    """Rows and items of one task, all its logs together, so that one kind of id serves them all."""
    scored = [log for log in logs if any(row.metric is not None for row in log.rows)]
    for log in logs:
        if log not in scored:
            held = ", ".join(dict.fromkeys(name for row in log.rows for name in row.others)) or "none"
            notes.append(f"{log.path}: {len(log.rows)} samples without a score (metrics: {held}); left out")
        else:
            _compare_results(log, notes, problems)
    if not scored:
        return
    key = next((key for key in samples.ID_KEYS if all(_serves(log, key) for log in scored)), None)
    said = f"the metrics' {key!r}" if key else "a digest of input and target (no id in the metrics that would serve)"
    notes.append(f"{task}: item ids are {said}")
    used = list(dict.fromkeys(row.metric for log in scored for row in log.rows if row.metric is not None))
    rest = [n for n in dict.fromkeys(n for log in scored for row in log.rows for n in row.others) if n not in used]
    left = f"; left out: {', '.join(rest)}" if rest else ""
    notes.append(f"{task}: scores are the metric {' or '.join(used)}{left}")

    seen: dict[tuple[str, str], tuple[str, str]] = {}  # (model, item) -> where it was first, what it said
    for log in scored:
        for row, item in _identified(log, key, problems):
            where = f"{log.path}:{row.line}"
            first, said = seen.setdefault((log.model, item), (where, row.said))
            if said != row.said:
                message = f"another row for item {item!r} of {log.model} than at {first}; equal repeats are accepted"
                problems.append(Problem(where, "differing-rows", message))
            known = items.setdefault((task, item), dict(row.item))
            for column in [name for name, value in row.item.items() if known.setdefault(name, value) != value]:
                known[column] = None  # prompts differ between models: such a text is not the item's own
            cells = (task, item, log.model, row.score, "image", row.response, row.invalid, where)
            table.append(dict(zip(COLUMNS, cells, strict=True)))


def _serves(log: _Log, key: str) -> bool:
    """Whether every row has the id ``key`` and no two samples share one."""
    if any(key not in row.ids for row in log.rows):
        return False
    samples_of: dict[str, set[Any]] = {}
    for row in log.rows:
        samples_of.setdefault(row.ids[key], set()).add(row.doc_id)
    return all(len(found) == 1 for found in samples_of.values())


def _identified(log: _Log, key: str | None, problems: list[Problem]) -> Iterator[tuple[_Row, str]]:
    shared: dict[str, set[Any]] = {}
    nameless: Counter[str] = Counter()
    for row in log.rows:
        item = row.ids[key] if key is not None else row.digest
        if item is None:
            nameless[str(row.line)] += 1
            continue
        shared.setdefault(item, set()).add(row.doc_id)
        yield row, item
    if nameless:
        lines = ", ".join(list(nameless)[:_SHOWN]) + (", …" if len(nameless) > _SHOWN else "")
        message = f"{len(nameless)} rows have no id in their metrics and no input to make one of (lines {lines})"
        problems.append(Problem(str(log.path), "no-id", message))
    for item, found in shared.items():
        if len(found) > 1:
            named = ", ".join(str(doc) for doc in sorted(found, key=str)[:_SHOWN])
            message = f"{len(found)} samples (doc_id {named}) share input and target and have no other id ({item})"
            problems.append(Problem(str(log.path), "ambiguous-id", message))


def _compare_results(log: _Log, notes: list[str], problems: list[Problem]) -> None:
    """Look into the ``*_results.json`` of the same run, if it lies beside the log and can be read."""
    match = _NAME.fullmatch(log.path.name)
    beside = log.path.with_name(f"{match['date']}_results.json" if match and match["date"] else "results.json")
    try:
        results = json.loads(beside.read_text(encoding="utf-8-sig"))
        announced = results.get("n-samples", {}).get(log.task, {}).get("effective")
        better = results.get("higher_is_better", {}).get(log.task, {})
    except (OSError, ValueError, AttributeError, RecursionError):
        return
    there = len({row.doc_id for row in log.rows})
    if isinstance(announced, int) and announced != there:
        notes.append(f"{log.path}: holds {there} samples, {beside.name} speaks of {announced}")
    lower = [name for name in dict.fromkeys(row.metric for row in log.rows) if name and better.get(name) is False]
    for name in lower:
        message = f"the metric {name} is better when it is lower; a panel holds scores that are better when higher"
        problems.append(Problem(str(log.path), "lower-is-better", message))
