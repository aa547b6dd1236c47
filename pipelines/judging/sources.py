"""Predictions and outcomes out of files: results of ``optotype rank``, and tables of any kind from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.pipelines.judging.predictions import ATTRIBUTES, COUNTS, SETTINGS, Outcome, Prediction, normalised
from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem
from optotype.store.checks import limited

__all__ = ["RANKING_FORMAT", "read_outcomes", "read_predictions"]

RANKING_FORMAT = 1
_RANK = "optotype rank --features NAME --states NAME --out DIR"
_TABLE = "A table has the columns encoder and score, and perhaps model, metric or benchmark; or one column a metric."
_NUMBERS = ("k", "eps", "gamma", "n")
_MOST = 20


def read_predictions(path: Path) -> tuple[list[Prediction], list[str]]:
    """Predictions of one file.

    - ``.json``: ``ranking.json`` of ``optotype rank``, of one metric or several. A folder stands for the one in it.
    - a table (CSV, TSV, Parquet, JSON lines) ``encoder, score`` and perhaps ``model``, ``metric``, settings
      (``k, eps, gamma, n, prenorm_features, ...``) and ``flops``. Without ``metric`` the file's name is the metric's.
    - a table ``encoder``, perhaps ``model``, and one column a metric; a column without any number is left out.

    Returns
    -------
    (list of Prediction, list of str)
        In the order of the file, and what was left out.

    Raises
    ------
    NotFoundError, FormatError
        No such file, or none of these.
    InvalidDataError
        Every cell that is no finite number, every blank name.
    """
    path = _file(path)
    if path.suffix.lower() == ".json":
        return _of_ranking(path), []
    return _of_table(path)


def read_outcomes(path: Path) -> list[Outcome]:
    """Downstream scores of one file: a table ``encoder, score`` and perhaps ``model`` and ``benchmark``, or a ranking.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `read_predictions`; a ranking of several metrics or settings is refused.
    """
    path = _file(path)
    if path.suffix.lower() == ".json":
        found = _of_ranking(path)
        kinds = {
            (each.metric, tuple((name, each.settings.get(name)) for name in SETTINGS)): each.metric for each in found
        }
        if len(kinds) > 1:
            raise FormatError(
                f"{path}: {len(kinds)} results of {', '.join(sorted(set(kinds.values())))}; one is wanted as outcome",
                hint=f"Rank with one metric and one setting: {_RANK}",
            )
        return [Outcome(each.encoder, each.model, "score", each.score, each.place) for each in found]
    columns, rows = _cells(path)
    problems = _lacking(path, columns, ("encoder", "score"))
    outcomes = []
    for number, row in enumerate(rows, 1):
        where = f"{path.name}, row {number}"
        encoder, model = _name(row, "encoder", where, problems), _model(row, columns)
        benchmark = _name(row, "benchmark", where, problems) if "benchmark" in columns else "score"
        score = _number(row["score"], "score", where, problems)
        if encoder and score is not None and benchmark:
            outcomes.append(Outcome(encoder, model, benchmark, score, where))
    _settle(path, problems, bool(outcomes))
    return outcomes


def _file(path: Path) -> Path:
    if path.is_dir():
        path = path / "ranking.json"
    if not path.is_file():
        raise NotFoundError(f"no file at {path}", hint=f"Make a ranking: {_RANK}")
    return path


def _of_ranking(path: Path) -> list[Prediction]:
    document = parse_document(path.read_bytes(), kind="ranking", where=str(path), newest=RANKING_FORMAT)
    rows = document.get("rows")
    if document.get("kind") != "ranking" or not isinstance(rows, list):
        raise FormatError(
            f"{path}: its kind is {document.get('kind')!r}; a ranking is wanted", hint=f"Make it: {_RANK}. {_TABLE}"
        )
    problems: list[Problem] = []
    found = []
    for number, row in enumerate(rows, 1):
        where = f"{path.name}, row {number}"
        if not isinstance(row, dict):
            problems.append(Problem(where, "not-a-row", f"a row is a JSON object, got {type(row).__name__}"))
            continue
        encoder = _name(row, "encoder", where, problems)
        score = _number(row.get("score"), "score", where, problems)
        model = row.get("model")
        if model is not None and (not isinstance(model, str) or not model.strip()):
            problems.append(Problem(where, "blank-name", f"model is a name or null, got {model!r}"))
            continue
        try:
            told = {**row, "options": _others(row)}
            settings = {name: normalised(name, told.get(name)) for name in (*SETTINGS, *ATTRIBUTES)}
            digests = {side: str(row[f"{side}_digest"]) for side in ("features", "states") if row.get(f"{side}_digest")}
            details = dict(row.get("details") or {})
        except (TypeError, ValueError, AttributeError) as error:
            problems.append(Problem(where, "not-a-row", f"its settings cannot be read ({error})"))
            continue
        if encoder and score is not None:
            found.append(
                Prediction(
                    str(row.get("metric") or "ravel"),
                    encoder,
                    model,
                    score,
                    settings,
                    str(path),
                    where,
                    details=details,
                    digests=digests,
                )
            )
    _settle(path, problems, bool(found))
    return found


def _others(row: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a row without those that a field of its own tells, such as k."""
    options = row.get("options") or {}
    return {name: value for name, value in options.items() if row.get(name.replace("-", "_")) is None}


def _of_table(path: Path) -> tuple[list[Prediction], list[str]]:
    from optotype.store.importers.scores.tables import stem

    columns, rows = _cells(path)
    problems = _lacking(path, columns, ("encoder",))
    tall = "score" in columns
    metrics = ["score"] if tall else [name for name in columns if name not in ("encoder", "model", "flops")]
    notes = []
    if not tall:
        wordy = [name for name in metrics if rows and not any(_is_number(row[name]) for row in rows)]
        metrics = [name for name in metrics if name not in wordy]
        notes = [f"{path.name}: column {name!r} holds no numbers, so it is taken for no metric" for name in wordy]
        if not metrics:
            problems.append(Problem(str(path), "missing-column", f"there is no column of scores. {_TABLE}"))
    found = []
    for number, row in enumerate(rows, 1):
        where = f"{path.name}, row {number}"
        encoder, model = _name(row, "encoder", where, problems), _model(row, columns)
        named = _name(row, "metric", where, problems) if tall and "metric" in columns else stem(path)
        settings = _settings(row, where, problems) if tall else {}
        flops = None
        if row.get("flops", "").strip():
            flops = _number(row["flops"], "flops", where, problems)
        for column in metrics:
            score = _number(row[column], column, where, problems)
            if encoder and named and score is not None:
                metric = named if tall else column
                found.append(Prediction(metric, encoder, model, score, settings, str(path), where, flops))
    _settle(path, problems, bool(found))
    return found, notes


def _settings(row: Mapping[str, str], where: str, problems: list[Problem]) -> dict[str, Any]:
    """Settings that a table tells in columns of their own; an empty cell is one that is not told."""
    found: dict[str, Any] = {}
    for name in (*SETTINGS, *ATTRIBUTES):
        text = row.get(name, "").strip()
        value: Any = text or None
        if text and name in (*_NUMBERS, *COUNTS):
            value = _number(text, name, where, problems)
            if value is not None and name in COUNTS:
                value = int(value)
        found[name] = normalised(name, value)
    return found


def _cells(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of a table, all as text."""
    from optotype.store.importers.scores.tables import read_text

    table = read_text(path)
    columns = [str(name) for name in table.columns]
    rows = [dict(zip(columns, map(str, row), strict=True)) for row in table.itertuples(index=False, name=None)]
    return columns, rows


def _lacking(path: Path, columns: Sequence[str], needed: Sequence[str]) -> list[Problem]:
    there = ", ".join(map(repr, columns[:_MOST])) or "none"
    missing = [name for name in needed if name not in columns]
    problems = [Problem(str(path), "missing-column", f"no column {name!r}; there are {there}") for name in missing]
    if problems:
        raise InvalidDataError(f"{path} refused:", problems, hint=_TABLE)
    return problems


def _name(row: Mapping[str, Any], column: str, where: str, problems: list[Problem]) -> str:
    value = row.get(column)
    if isinstance(value, str) and value.strip():
        return value.strip()
    problems.append(Problem(where, "blank-name", f"{column} is a name, got {value!r}"))
    return ""


def _model(row: Mapping[str, str], columns: Sequence[str]) -> str | None:
    """A language model; none at all where the table has no such column, or this row's is empty."""
    return (row["model"].strip() or None) if "model" in columns else None


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _number(value: Any, name: str, where: str, problems: list[Problem]) -> float | None:
    number = float(value) if _is_number(value) and not isinstance(value, bool) else None
    if number is None:
        problems.append(Problem(where, "not-a-number", f"{name} is a number, got {value!r}"))
    elif not math.isfinite(number):
        problems.append(Problem(where, "not-finite", f"{name} is a finite number, got {value!r}"))
        number = None
    return number


def _settle(path: Path, problems: list[Problem], found: bool) -> None:
    if not found and not problems:
        problems.append(Problem(str(path), "empty", "there are no scores in it"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems, _MOST))
