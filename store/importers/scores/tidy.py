"""Tidy tables: one row for each score."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.schemas.scores import MODALITIES
from optotype.store.importers.scores.records import Records
from optotype.store.importers.scores.tables import coded, columns_of, is_table, read_blocks

__all__ = ["NEEDED", "missing_columns", "numbers", "read_tidy", "recognises"]

NEEDED = ("benchmark", "item_id", "model", "score")
_OPTIONAL = ("modality", "response", "response_digest", "invalid")
_BLANK = frozenset({"", "nan", "na", "n/a", "none", "null"})
_WORDS = {"true": 1.0, "false": 0.0}
_SHOWN = 200  # of each kind in a block; the others are counted


def recognises(path: Path) -> bool:
    """Whether the file has the columns of a tidy table."""
    return is_table(path) and set(NEEDED) <= set(columns_of(path))


def read_tidy(path: Path) -> Iterator[Records]:
    """Read ``benchmark, item_id, model, score[, modality, response]`` in blocks of about a million rows.

    ``score`` is taken as it stands: a number, or true and false; blank, NaN, NA and null are missing. ``response``
    never changes it. ``invalid`` says why a score is missing and ``response_digest`` (8 hex digits) stands for a
    response; both are what `optotype scores export` writes. Modalities:
    ``image`` (also a blank) and ``blind`` (also ``no_image``); others are left out and counted. Other columns are not
    read.

    Parameters
    ----------
    path : Path
        ``.csv``, ``.tsv``, ``.parquet`` or ``.jsonl``, perhaps gzipped.

    Raises
    ------
    NotFoundError, FormatError
        As `optotype.store.importers.scores.tables.read_blocks`.
    InvalidDataError
        Columns are missing; scores are no numbers; ids are floats or blank. Raised after the last row, with all of it;
        the rows that can be read are yielded before, so that what else is wrong with them is found too.
    """
    problems = missing_columns(path, NEEDED)
    if problems:
        raise InvalidDataError(f"{path} refused:", problems)
    left_out: dict[str, int] = {}
    for block in read_blocks(path, (*NEEDED, *_OPTIONAL)):
        table = pd.DataFrame({name: _ids(path, name, block[name], problems) for name in NEEDED[:3]})
        table["score"] = numbers(path, "score", block["score"], problems)
        table["source"] = coded(np.zeros(len(block), np.int8), [str(path)])
        table["row"] = block.index
        for name in _OPTIONAL[1:]:
            if name in block:
                table[name] = _text(block[name])
        keep, modality = _modality(block, left_out)
        for name in NEEDED[:3]:
            keep = keep & table[name].notna().to_numpy()
        table["modality"] = modality
        if not keep.all():
            table = table.loc[keep]
        if any(problem.kind == "wrong-dtype" for problem in problems):
            break  # every id of the file is in doubt
        yield Records(table)
    if problems:
        raise InvalidDataError(f"{path} refused:", problems)
    if left_out:
        counted = ", ".join(f"{name} ({count})" for name, count in sorted(left_out.items()))
        yield Records(pd.DataFrame(), notes=[f"{path.name}: rows of other modalities were left out: {counted}"])


def missing_columns(path: Path, needed: tuple[str, ...]) -> list[Problem]:
    """A problem for each needed column that the table does not have."""
    names = columns_of(path)
    there = ", ".join(map(repr, names[:12]))
    return [
        Problem(str(path), "missing-column", f"there is no column {name!r}; there are {there}")
        for name in needed
        if name not in names
    ]


def _ids(path: Path, name: str, column: pd.Series[Any], problems: list[Problem]) -> pd.Series[Any]:
    """A column of ids: text."""
    if column.dtype != "category":
        message = f"{name} is text, got {column.dtype}; ids are never numbers with a point"
        if not any(problem.message == message for problem in problems):
            problems.append(Problem(str(path), "wrong-dtype", message))
        return column.astype(str).astype("category")
    codes = column.cat.codes.to_numpy()
    blank = column.index[codes < 0]
    problems += [Problem(f"{path}, row {row}", "blank-id", f"{name} is blank") for row in blank[:_SHOWN]]
    _count_rest(path, "blank-id", f"blank cells of {name}", len(blank), problems)
    return column


def _count_rest(path: Path, kind: str, what: str, found: int, problems: list[Problem]) -> None:
    """A problem that counts those which are not told one by one."""
    if found > _SHOWN:
        problems.append(Problem(str(path), kind, f"and {found - _SHOWN} more {what}"))


def _text(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of text, whatever it is stored as."""
    if column.dtype == "category":
        return column
    return column.map(lambda value: None if value != value else f"{value:g}").astype("category")


def numbers(path: Path, name: str, column: pd.Series[Any], problems: list[Problem]) -> Any:
    """A column of scores as float64; NaN for blanks; what is no number becomes a problem."""
    if column.dtype != "category":
        return column.to_numpy(dtype=np.float64)
    words = [str(word) for word in column.cat.categories]
    values = np.full(len(words) + 1, np.nan)
    bad = np.zeros(len(words) + 1, dtype=bool)
    for place, word in enumerate(words):
        value = _value(word)
        bad[place] = value is None
        values[place] = math.nan if value is None else value
    codes = column.cat.codes.to_numpy()
    wrong = np.flatnonzero(bad[codes])
    for place in wrong[:_SHOWN].tolist():
        where = f"{path}, row {column.index[place]}"
        problems.append(Problem(where, "not-a-number", f"{name} is a number, got {words[codes[place]]!r}"))
    _count_rest(path, "not-a-number", f"cells of {name} that are no numbers", len(wrong), problems)
    return values[codes]


def _value(word: str) -> float | None:
    """A cell as a number; None if it is none."""
    text = word.strip().lower()
    if text in _BLANK:
        return math.nan
    if text in _WORDS:
        return _WORDS[text]
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


def _modality(block: pd.DataFrame, left_out: dict[str, int]) -> tuple[Any, Any]:
    """Rows that are kept, and the modality of every row (a blank where none is written)."""
    if "modality" not in block:
        return np.ones(len(block), dtype=bool), coded(np.zeros(len(block), np.int8), [""])
    column = _text(block["modality"])
    words = [str(word).strip().lower() for word in column.cat.categories]
    kept = np.array([word in MODALITIES for word in words] + [True])
    codes = column.cat.codes.to_numpy()
    for place, count in enumerate(np.bincount(codes[codes >= 0], minlength=len(words)).tolist()):
        if count and not kept[place]:
            left_out[words[place]] = left_out.get(words[place], 0) + count
    names = ["", "image", "blind"]
    target = np.array([names.index(MODALITIES.get(word, "image")) if word else 0 for word in words] + [0], np.int8)
    return kept[codes], coded(target[codes], names)
