"""Tables of items, ``items.parquet``: what suites and frontiers consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.artifacts.kinds.adapter import Rows, limited, missing_files
from optotype.schemas.errors import Problem

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FILE", "item_problems", "item_rows", "read_items", "read_models"]

FILE = "items.parquet"
_KEY = ("benchmark", "item_id")


def read_items(payload: Path) -> pd.DataFrame:
    """The items of a payload, texts as Python strings."""
    import pandas as pd
    import pyarrow.parquet as pq

    table = pq.read_table(payload / FILE, use_threads=False)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            frame[name] = frame[name].astype(object)
    return frame


def item_problems(payload: Path, numbers: Sequence[str], *, positive: Sequence[str] = ()) -> list[Problem]:
    """Everything that is wrong with ``items.parquet``.

    Parameters
    ----------
    payload : Path
    numbers : sequence of str
        Columns of numbers beside ``benchmark``, ``item_id`` and ``category``; they may be empty.
    positive : sequence of str
        Those whose numbers are above 0.
    """
    import pandera.pandas as pa
    from pandera.config import ValidationDepth, config_context
    from pandera.errors import SchemaErrors

    problems = missing_files(payload, [FILE])
    if problems:
        return problems
    try:
        frame = read_items(payload)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        return [Problem(FILE, "unreadable", f"not a Parquet table ({error})")]
    if frame.empty:
        return [Problem(FILE, "empty", "no items")]
    text = pa.Check(_is_text, element_wise=True, name="text", error="a text that is not blank is wanted")
    finite = pa.Check(_is_finite, element_wise=True, name="finite", error="a finite number is wanted")
    above = pa.Check.gt(0)
    columns = {name: pa.Column(object, checks=text) for name in (*_KEY, "category")}
    columns |= {
        name: pa.Column(float, checks=[finite, *([above] if name in positive else [])], nullable=True, coerce=True)
        for name in numbers
    }
    schema = pa.DataFrameSchema(columns, unique=list(_KEY), name=FILE)
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        try:
            schema.validate(frame, lazy=True)
        except SchemaErrors as errors:
            problems = [_problem(case) for case in errors.failure_cases.to_dict("records")]
    return limited(sorted(set(problems)))


def item_rows(payload: Path, *, weight: str | None) -> Rows:
    """The items by benchmark and id."""
    frame = read_items(payload)
    others = [name for name in frame.columns if name not in _KEY]
    rows: dict[tuple[str, ...], dict[str, Any]] = {
        (str(row["benchmark"]), str(row["item_id"])): {name: _plain(row[name]) for name in others}
        for row in frame.to_dict("records")
    }
    return Rows(_KEY, "items", rows, weight if weight in frame.columns else None)


def read_models(payload: Path, rank: Sequence[str], score: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """Ranks of the panel's models out of ``models.csv``, if it is there and holds any.

    Parameters
    ----------
    rank, score : sequence of str
        Names of columns, the first that is there counts.
    """
    import csv

    path = payload / "models.csv"
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    there = set(rows[0]) if rows else set()
    ranked = next((name for name in rank if name in there), None)
    scored = next((name for name in score if name in there), None)
    if "model" not in there or ranked is None:
        return None
    return {
        row["model"]: {"rank": _number(row[ranked]), "score": None if scored is None else _number(row[scored])}
        for row in rows
    }


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_finite(value: float) -> bool:
    return value - value == 0


def _problem(case: Mapping[str, Any]) -> Problem:
    column, check, index = case["column"], str(case["check"]), case["index"]
    if check == "column_in_dataframe":
        return Problem(f"{FILE}: {case['failure_case']}", "missing-column", "the table lacks this column")
    if check == "multiple_fields_uniqueness":
        return Problem(FILE, "duplicate-item", f"row {index} repeats an item: {case['failure_case']!r}")
    place = f" in row {int(index)}" if index == index and index is not None else ""
    wanted = "a number is wanted" if check.startswith(("dtype", "coerce")) else check
    return Problem(f"{FILE}: {column}", "value", f"{case['failure_case']!r}{place}: {wanted}")


def _plain(value: Any) -> Any:
    if value is None or value != value:
        return None
    return value.item() if hasattr(value, "item") else value


def _number(text: str) -> float | None:
    return float(text) if text not in ("", None) else None
