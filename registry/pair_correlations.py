"""Correlates what encoders and models score on patterns, from the results of matching and scoring."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.registry.pair_scores import FORMAT, MATCH, SCORE
from optotype.registry.results import check_out, write_csv, write_json
from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem, UsageError
from optotype.store.checks import limited

__all__ = ["KIND", "correlate_pairs", "read_accuracies"]

KIND = "pair-correlation"
_COLUMNS = ("encoder", "model", "r", "low", "high", "n", "level", "reason")
_NAMES = ("encoder", "model", "name")
_ACCURACIES = ("accuracy", "pair_accuracy")


def correlate_pairs(
    encoders: str | Path, models: str | Path, *, level: float = 0.95, out: str | Path | None = None
) -> dict[str, Any]:
    """Pearson's r over patterns of every encoder with every model.

    Parameters
    ----------
    encoders, models : path
        What `optotype pairs match` and `optotype pairs score` wrote (their JSON, or the folder of ``--out``), or a
        table with the columns ``encoder`` or ``model`` (or ``name``), ``pattern`` and ``accuracy``.
    level : float
        Of the intervals.
    out : path, optional
        Folder for ``pair-correlation.json`` (what this function returns) and ``pair-correlation.csv``.

    Returns
    -------
    dict
        ``format_version, kind, level, rows``; rows as `optotype.pipelines.pairs.correlation.correlate_all` gives them.

    Raises
    ------
    NotFoundError, FormatError
        No such file, or none of these.
    InvalidDataError
        Every cell of a table that is no accuracy, and patterns that are named twice.
    UsageError
        ``level`` is not between 0 and 1.
    """
    from optotype.pipelines.pairs.correlation import correlate_all

    folder = None if out is None else check_out(out)
    if not 0 < level < 1:
        raise UsageError(f"level is between 0 and 1, got {level}")
    rows = correlate_all(read_accuracies(encoders, MATCH), read_accuracies(models, SCORE), level)
    document = {"format_version": FORMAT, "kind": KIND, "level": level, "rows": rows}
    if folder is not None:
        write_json(document, folder / f"{KIND}.json")
        write_csv(rows, _COLUMNS, folder / f"{KIND}.csv")
    return document


def read_accuracies(path: str | Path, preferred: str) -> dict[str, dict[str, float]]:
    """Accuracy by name and pattern, out of a result of matching or scoring, or a table.

    Parameters
    ----------
    path : path
    preferred : str
        Which of the two results is taken out of a folder that holds both.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `correlate_pairs` says.
    """
    path = Path(path)
    if path.is_dir():
        names = (preferred, *(name for name in (MATCH, SCORE) if name != preferred))
        there = [path / f"{name}.json" for name in names if (path / f"{name}.json").is_file()]
        if not there:
            raise NotFoundError(f"{path}: neither {MATCH}.json nor {SCORE}.json is in it")
        path = there[0]
    if not path.is_file():
        raise NotFoundError(f"no file at {path}")
    if path.suffix.lower() != ".json":
        return _of_table(path)
    document = parse_document(path.read_bytes(), kind="result of a pair suite", where=str(path), newest=FORMAT)
    kind = document.get("kind")
    if kind not in (MATCH, SCORE) or not isinstance(document.get("rows"), list):
        raise FormatError(f"{path}: its kind is {kind!r}; {MATCH} and {SCORE} are wanted")
    try:
        return _of_rows(document["rows"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{path}: not the rows of a {kind} ({error!r})") from error


def _of_rows(rows: list[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """A row's name, with what tells it from others of the same name."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        name, kind = ("encoder", "direction") if "encoder" in row else ("model", "variant")
        label = _label(row[name], row[kind])
        scored = [each for each in row["patterns"] if each["pair_accuracy"] is not None]
        patterns = {str(each["pattern"]): float(each["pair_accuracy"]) for each in scored}
        while label in found:  # one encoder with two text towers
            label += f" x {row['text_encoder']}"
        found[label] = patterns
    return found


def _label(name: str, kind: str | None) -> str:
    """A name, with the direction or variant of its run where that is not the usual one."""
    return name if kind in (None, "", "text-to-image", "original") else f"{name} ({kind})"


def _of_table(path: Path) -> dict[str, dict[str, float]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not a CSV ({error})") from error
    reader = csv.DictReader(io.StringIO(text), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    columns = list(reader.fieldnames or [])
    name = next((each for each in _NAMES if each in columns), None)
    accuracy = next((each for each in _ACCURACIES if each in columns), None)
    if name is None or accuracy is None or "pattern" not in columns:
        raise FormatError(
            f"{path}: a table names encoder or model, pattern and accuracy in its columns; got "
            f"{json.dumps(columns, ensure_ascii=False)}"
        )
    found: dict[str, dict[str, float]] = {}
    problems = []
    for number, row in enumerate(reader, 1):
        where = f"{path}:{number}"
        pattern = (row["pattern"] or "").strip()
        if not pattern or not (row[accuracy] or "").strip():
            continue  # the row of all patterns; a pattern of which no pair counts
        value = _number(row[accuracy])
        if value is None:
            problems.append(Problem(where, "not-a-number", f"{accuracy} is a number, got {row[accuracy]!r}"))
            continue
        if not (row[name] or "").strip():
            problems.append(Problem(where, "blank-name", f"{name} is blank"))
            continue
        if not 0 <= value <= 100:
            problems.append(
                Problem(where, "not-an-accuracy", f"{accuracy} is 0 to 1, or 0 to 100 percent; got {value:g}")
            )
            continue
        label = _label(str(row[name]), row.get("direction") or row.get("variant"))
        if found.setdefault(label, {}).setdefault(pattern, value) != value:
            problems.append(Problem(where, "duplicate", f"{label} has two accuracies on {pattern!r}"))
    for label, patterns in found.items():
        if max(patterns.values()) > 1 and any(0 < value < 1 for value in patterns.values()):
            problems.append(
                Problem(
                    str(path), "mixed-units", f"{label} has accuracies above 1 and fractions: percent or fractions?"
                )
            )
    if not found and not problems:
        problems.append(Problem(str(path), "empty", "no accuracies of patterns"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
