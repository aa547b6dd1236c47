"""Cells of tables and fields of JSON rows: names, numbers and settings, strict about what each may be."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.pipelines.judging.predictions import ATTRIBUTES, COUNTS, SETTINGS, normalised
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["is_number", "model_of", "name_of", "number_of", "parsed", "settings_of", "shown", "table_cells"]

_NUMBERS = ("k", "eps", "gamma", "n")
_LAYERS = ("states_layer", "features_layer")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_LARGEST = 2.0**53  # of n and k, whose powers FLOPs are made of
_MOST = 60  # characters of a value in a message


def shown(value: Any) -> str:
    """A value as Python writes it, cut if long."""
    text = repr(value)
    return text if len(text) <= _MOST else f"{text[: _MOST - 20]}… ({len(text):,} characters)"


def parsed(value: Any) -> float | None:
    """A number, or text of one in plain ASCII digits, as float; None for all else.

    ``1_000``, digits of other scripts and booleans are no numbers. What is beyond the largest float is infinite.
    """
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_number(value: Any) -> bool:
    """Whether a cell holds a number, be it not a finite one."""
    return parsed(value) is not None


def number_of(value: Any, name: str, where: str, problems: list[Problem]) -> float | None:
    """A finite number; None and a problem for all else."""
    number = parsed(value)
    if number is None:
        problems.append(Problem(where, "not-a-number", f"{name} is a number, got {shown(value)}"))
    elif not math.isfinite(number):
        problems.append(Problem(where, "not-finite", f"{name} is a finite number, got {shown(value)}"))
        number = None
    return number


def name_of(row: Mapping[str, Any], column: str, where: str, problems: list[Problem]) -> str:
    """A name without blanks around it; ``""`` and a problem for all else."""
    value = row.get(column)
    if isinstance(value, str) and value.strip():
        return value.strip()
    problems.append(Problem(where, "blank-name", f"{column} is a name, got {shown(value)}"))
    return ""


def model_of(row: Mapping[str, str]) -> str | None:
    """A language model; none at all where the table has no such column, or this row's is empty."""
    return row.get("model", "").strip() or None


def settings_of(row: Mapping[str, Any], where: str, problems: list[Problem]) -> dict[str, Any]:
    """Settings of a row, as `optotype.pipelines.judging.predictions.normalised` gives them.

    Counts are whole numbers, post and prenorm are text, options are a JSON object, as text in a table. An empty cell,
    null, and a layer that is a word (``final``) are settings that are not told.
    """
    found: dict[str, Any] = {}
    for name in (*SETTINGS, *ATTRIBUTES):
        value: Any = row.get(name)
        value = (value.strip() or None) if isinstance(value, str) else value
        if value is not None:
            value = _setting(name, value, where, problems)
        found[name] = normalised(name, value)
    return found


def _setting(name: str, value: Any, where: str, problems: list[Problem]) -> Any:
    """A setting that is told, in the type that it has; None and a problem for another."""
    if name == "options":
        return _object(value, where, problems)
    if name in _LAYERS and isinstance(value, str) and parsed(value) is None:
        return None  # "final", or a name of the model's own: there is no place for it on an axis of layers
    if name not in (*_NUMBERS, *COUNTS):
        if isinstance(value, str):
            return value
        problems.append(Problem(where, "not-a-text", f"{name} is text, got {shown(value)}"))
        return None
    number = number_of(value, name, where, problems)
    if number is None or name not in COUNTS:
        return number
    if not number.is_integer():
        problems.append(Problem(where, "not-whole", f"{name} is a whole number, got {shown(value)}"))
        return None
    if name in _NUMBERS and abs(number) > _LARGEST:
        problems.append(Problem(where, "too-large", f"{name} is at most 2^53, got {shown(value)}"))
        return None
    return value if isinstance(value, int) else int(number)


def _object(value: Any, where: str, problems: list[Problem]) -> dict[str, Any] | None:
    try:
        made = json.loads(value) if isinstance(value, str) else value
        if isinstance(made, dict):
            json.dumps(made, allow_nan=False)
            return made
    except (ValueError, RecursionError):
        pass
    problems.append(Problem(where, "not-an-object", f"options is a JSON object, got {shown(value)}"))
    return None


def table_cells(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of a table, all as text; names of columns without blanks around them.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `optotype.store.importers.scores.tables.read_text`; a column that is there twice once blanks are off.
    """
    from optotype.store.importers.scores.tables import read_text

    try:
        table = read_text(path)
    except RecursionError as error:  # a line of JSON of brackets nested too deep
        raise InvalidDataError(f"{path} refused:", [Problem(str(path), "not-json", f"not JSON ({error})")]) from error
    columns = [str(name).strip() for name in table.columns]
    twice = [name for name, times in Counter(columns).items() if times > 1]
    if twice:
        problems = [Problem(str(path), "duplicate-column", f"column {name!r} is there twice") for name in twice]
        raise InvalidDataError(f"{path} refused:", problems)
    rows = [dict(zip(columns, map(str, row), strict=True)) for row in table.itertuples(index=False, name=None)]
    return columns, rows
