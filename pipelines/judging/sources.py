"""Predictions and outcomes out of files: results of ``optotype rank``, and tables of any kind from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.pipelines.judging.cells import is_number, model_of, name_of, number_of, settings_of, shown, table_cells
from optotype.pipelines.judging.predictions import ATTRIBUTES, SETTINGS, Outcome, Prediction, source_name
from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem
from optotype.store.checks import limited

__all__ = ["RANKING_FORMAT", "read_outcomes", "read_predictions"]

RANKING_FORMAT = 1
_RANK = "optotype rank --features NAME --states NAME --out DIR"
_TABLE = "A table has the columns encoder and score, and perhaps model, metric or benchmark; or one column a metric."
_TOLD = ("encoder", "model", "metric", "benchmark", "flops", *SETTINGS, *ATTRIBUTES)
"""Columns of a table with ``score`` that are no further scores."""
_MOST = 20


def read_predictions(path: Path, called: str | None = None) -> tuple[list[Prediction], list[str]]:
    """Predictions of one file.

    - ``.json``: ``ranking.json`` of ``optotype rank``, of one metric or several. A folder stands for the one in it.
    - a table (CSV, TSV, Parquet, JSON lines) ``encoder, score`` and perhaps ``model``, ``metric``, settings
      (``k, eps, gamma, n, prenorm_features, ...``) and ``flops``. Without ``metric`` the file's name is the metric's.
      Without ``metric`` a further column of numbers alone is a metric, too; with it, it is left aside.
    - a table ``encoder``, perhaps ``model``, and one column a metric; a column without any number is left out.

    Parameters
    ----------
    path : Path
    called : str, optional
        What messages call the file; default its name.

    Returns
    -------
    (list of Prediction, list of str)
        In the order of the file, and what was left out, or taken for a metric beside ``score``.

    Raises
    ------
    NotFoundError, FormatError
        No such file, or none of these.
    InvalidDataError
        Every cell that is no finite number, every blank name, every setting that is none.
    """
    path = _file(path)
    called = called or source_name(path)
    if path.suffix.lower() == ".json":
        return _of_ranking(path, called), []
    return _of_table(path, called)


def read_outcomes(path: Path, called: str | None = None) -> list[Outcome]:
    """Downstream scores of one file: a table ``encoder, score`` and perhaps ``model`` and ``benchmark``, or a ranking.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `read_predictions`; a ranking of several metrics or settings is refused.
    """
    path = _file(path)
    called = called or source_name(path)
    if path.suffix.lower() == ".json":
        found = _of_ranking(path, called)
        kinds = {
            (each.metric, tuple((name, each.settings.get(name)) for name in SETTINGS)): each.metric for each in found
        }
        if len(kinds) > 1:
            raise FormatError(
                f"{path}: {len(kinds)} results of {', '.join(sorted(set(kinds.values())))}; one is wanted as outcome",
                hint=f"Rank with one metric and one setting: {_RANK}",
            )
        return [Outcome(each.encoder, each.model, "score", each.score, each.place) for each in found]
    columns, rows = table_cells(path)
    problems = _lacking(path, columns, ("encoder", "score"))
    outcomes = []
    for number, row in enumerate(rows, 1):
        where = f"{called}, row {number}"
        encoder, model = name_of(row, "encoder", where, problems), model_of(row)
        benchmark = name_of(row, "benchmark", where, problems) if "benchmark" in columns else "score"
        score = number_of(row["score"], "score", where, problems)
        if encoder and score is not None and benchmark:
            outcomes.append(Outcome(encoder, model, benchmark, score, where))
    _settle(path, problems, bool(outcomes))
    return outcomes


def _file(path: Path) -> Path:
    if path.is_dir():
        path = path / "ranking.json"
    if not path.is_file():
        raise NotFoundError(f"no file at {path}", hint=f"Make a ranking: {_RANK}; or give a table. {_TABLE}")
    return path


def _of_ranking(path: Path, called: str) -> list[Prediction]:
    document = parse_document(path.read_bytes(), kind="ranking", where=str(path), newest=RANKING_FORMAT)
    rows = document.get("rows")
    if document.get("kind") != "ranking" or not isinstance(rows, list):
        raise FormatError(
            f"{path}: its kind is {document.get('kind')!r}; a ranking is wanted", hint=f"Make it: {_RANK}. {_TABLE}"
        )
    problems: list[Problem] = []
    found = []
    for number, row in enumerate(rows, 1):
        where = f"{called}, row {number}"
        if not isinstance(row, dict):
            problems.append(Problem(where, "not-a-row", f"a row is a JSON object, got {type(row).__name__}"))
            continue
        encoder = name_of(row, "encoder", where, problems)
        score = number_of(row.get("score"), "score", where, problems)
        model = row.get("model")
        if model is not None and (not isinstance(model, str) or not model.strip()):
            problems.append(Problem(where, "blank-name", f"model is a name or null, got {shown(model)}"))
            continue
        metric = name_of(row, "metric", where, problems) if row.get("metric") is not None else "ravel"
        settings = settings_of({**row, "options": _others(row)}, where, problems)
        details = row.get("details") or {}
        if not isinstance(details, dict):
            problems.append(Problem(where, "not-an-object", f"details is a JSON object, got {shown(details)}"))
            continue
        digests = {
            side: row[f"{side}_digest"] for side in ("features", "states") if isinstance(row.get(f"{side}_digest"), str)
        }
        if encoder and metric and score is not None:
            found.append(
                Prediction(
                    metric,
                    encoder,
                    model and model.strip(),
                    score,
                    settings,
                    str(path),
                    where,
                    called,
                    details=details,
                    digests=digests,
                )
            )
    _settle(path, problems, bool(found))
    return found


def _others(row: Mapping[str, Any]) -> Any:
    """Options of a row without those that a field of its own tells, such as k."""
    options = row.get("options")
    if not isinstance(options, dict):
        return options
    return {name: value for name, value in options.items() if row.get(name.replace("-", "_")) is None}


def _of_table(path: Path, called: str) -> tuple[list[Prediction], list[str]]:
    from optotype.store.importers.scores.tables import stem

    columns, rows = table_cells(path)
    problems = _lacking(path, columns, ("encoder",))
    tall = "score" in columns
    metrics = ["score"] if tall else [name for name in columns if name not in ("encoder", "model", "flops")]
    notes: list[str] = []
    if tall:
        more, notes = _beside_score(called, columns, rows)
        metrics += more
    else:
        wordy = [name for name in metrics if rows and not any(is_number(row[name]) for row in rows)]
        metrics = [name for name in metrics if name not in wordy]
        notes = [f"{called}: column {name!r} holds no numbers, so it is taken for no metric" for name in wordy]
        if not metrics:
            problems.append(Problem(str(path), "missing-column", f"there is no column of scores. {_TABLE}"))
    found = []
    for number, row in enumerate(rows, 1):
        where = f"{called}, row {number}"
        encoder, model = name_of(row, "encoder", where, problems), model_of(row)
        named = name_of(row, "metric", where, problems) if tall and "metric" in columns else stem(path)
        settings = settings_of(row, where, problems) if tall else {}
        flops = None
        if row.get("flops", "").strip():
            flops = number_of(row["flops"], "flops", where, problems)
        for column in metrics:
            score = number_of(row[column], column, where, problems)
            if encoder and named and score is not None:
                metric = named if column == "score" else column
                found.append(Prediction(metric, encoder, model, score, settings, str(path), where, called, flops))
    _settle(path, problems, bool(found))
    return found, notes


def _beside_score(
    called: str, columns: Sequence[str], rows: Sequence[Mapping[str, str]]
) -> tuple[list[str], list[str]]:
    """Columns of scores beside ``score``, and what to say of every column that is not known."""
    others = [name for name in columns if name not in ("score", *_TOLD)]
    numbers = [name for name in others if rows and all(is_number(row[name]) for row in rows)]
    wordy = [name for name in others if name not in numbers]
    notes = []
    if "metric" in columns:
        # A row is of one metric there, so its other numbers are no scores of one.
        wordy, numbers = others, []
    if numbers:
        told = ", ".join(map(repr, numbers))
        notes.append(f"{called}: beside 'score' each of {told} is taken for a metric; choose with --metric")
    if wordy:
        notes.append(f"{called}: beside 'score' {', '.join(map(repr, wordy))} is left aside, as no column of scores")
    return numbers, notes


def _lacking(path: Path, columns: Sequence[str], needed: Sequence[str]) -> list[Problem]:
    there = ", ".join(map(repr, columns[:_MOST])) or "none"
    missing = [name for name in needed if name not in columns]
    problems = [Problem(str(path), "missing-column", f"no column {name!r}; there are {there}") for name in missing]
    if problems:
        raise InvalidDataError(f"{path} refused:", problems, hint=_TABLE)
    return problems


def _settle(path: Path, problems: list[Problem], found: bool) -> None:
    if not found and not problems:
        problems.append(Problem(str(path), "empty", "there are no scores in it"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems, _MOST))
