"""VLMEvalKit's tables as rows: ``.xlsx``, ``.tsv``, ``.csv``, ``.json``, every cell as text. Nothing is unpickled."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optotype.schemas.errors import Problem

__all__ = ["SUFFIXES", "Table", "columns_of", "read_table"]

SUFFIXES = (".xlsx", ".tsv", ".csv", ".json")
_HEAD = 1 << 16  # characters of a JSON file in which its first record's names stand


@dataclass(frozen=True)
class Table:
    """One file.

    Attributes
    ----------
    path : Path
    columns : tuple of str
    rows : list of (int, dict of str to str)
        Number of the row in the file (the header is 1; of JSON the first record is 1) and its cells; blank cells are
        left out.
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[int, dict[str, str]]]


def columns_of(path: Path) -> tuple[str, ...]:
    """Names of the columns, from the head of the file; empty where it cannot be read as a table."""
    suffix = path.suffix.lower()
    try:
        if suffix == ".xlsx":
            return tuple(_text(cell) for cell in next(_cells(path), []))
        if suffix == ".json":
            with path.open(encoding="utf-8-sig") as file:
                head = file.read(_HEAD)
            return tuple(name for name in ("index", "prediction", "eval_score") if f'"{name}"' in head)
        if suffix in SUFFIXES:
            with path.open(encoding="utf-8-sig") as file:
                return tuple(file.readline().rstrip("\r\n").split("\t" if suffix == ".tsv" else ","))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError, RecursionError):
        pass
    return ()


def read_table(path: Path, problems: list[Problem]) -> Table | None:
    """The table in ``path``; None, and a problem more, if it is none."""
    try:
        numbered = list(_records(path))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, RecursionError) as error:
        problems.append(Problem(str(path), "unreadable", f"not a readable {path.suffix[1:]} table ({error})"))
        return None
    columns = dict.fromkeys(name for _, record in numbered for name in record)
    rows = [(number, {k: text for k, v in record.items() if (text := _text(v))}) for number, record in numbered]
    return Table(path, tuple(columns), [(number, row) for number, row in rows if row])


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    suffix = path.suffix.lower()
    if suffix == ".json":
        found = json.loads(path.read_text(encoding="utf-8-sig"))
        if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
            raise ValueError("a list of objects is wanted")
        yield from enumerate(found, 1)
        return
    if suffix == ".xlsx":
        lines = _cells(path)
        names = [_text(cell) for cell in next(lines, [])]
        for number, cells in enumerate(lines, 2):
            yield number, {name: cell for name, cell in zip(names, cells, strict=False) if name}
        return
    import pandas as pd

    # Everything as text: `001` stays `001`, and an answer `None` or `NA` is an answer.
    separator = "\t" if suffix == ".tsv" else ","
    try:
        frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(str(error)) from error
    for number, record in enumerate(frame.to_dict("records"), 2):
        yield number, {str(name): cell for name, cell in record.items()}


def _cells(path: Path) -> Iterator[list[Any]]:
    """Rows of the first sheet. Formulas come as their text: a prediction may begin with ``=``."""
    import openpyxl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # styles and extensions that openpyxl does not know
        book = openpyxl.load_workbook(path, read_only=True)
    try:
        sheet = book.worksheets[0]
        for row in sheet.iter_rows(values_only=True):
            yield list(row)
    finally:
        book.close()


def _text(value: Any) -> str:
    """A cell as text without white space around it: ``12.0`` of a spreadsheet is ``12``, nothing and NaN are ''."""
    if value is None or value != value:  # NaN is what differs from itself
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return str(value).strip()
