"""What tables say of items and models: texts under keys. A blank says nothing; two that differ are a contradiction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.schemas.errors import Problem
from optotype.schemas.names import id_problems
from optotype.schemas.scores import ITEM_COLUMNS, MODEL_COLUMNS, Scale, axis_fault, date_fault, scale_fault

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Labels", "member", "read_items", "read_models"]

_SCALE = ("scale_min", "scale_max")
_OWN = ("benchmark", "item_id", *_SCALE)


@dataclass
class Labels:
    """Columns of texts under keys.

    Attributes
    ----------
    places : dict of key to int
        Row of each key, in order of appearance.
    columns : dict of str to list of str
        ``""`` where nothing is said.
    repeats : int
        Rows that said again what was known.
    """

    places: dict[Any, int] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    repeats: int = 0

    def add(self, keys: Sequence[Hashable], columns: Mapping[str, Sequence[str]]) -> list[tuple[int, str, str]]:
        """Take in rows.

        Returns
        -------
        list of (int, str, str)
            Rows that say something else than is known, the column, and what is known. That stays.
        """
        rows = []
        for key in keys:
            size = len(self.places)
            row = self.places.setdefault(key, size)
            self.repeats += row != size
            rows.append(row)
        size = len(self.places)
        for name in columns:
            self.columns.setdefault(name, [])
        for values in self.columns.values():
            values.extend([""] * (size - len(values)))
        differing = []
        for name, given in columns.items():
            values = self.columns[name]
            for number, (row, value) in enumerate(zip(rows, given, strict=True)):
                if not values[row]:
                    values[row] = value
                elif value and values[row] != value:
                    differing.append((number, name, values[row]))
        return sorted(differing)

    def column(self, name: str, keys: Iterable[Hashable]) -> list[str]:
        """What a column says of some keys; ``""`` for a key that is not there."""
        values = self.columns[name]
        places = (self.places.get(key) for key in keys)
        return ["" if place is None else values[place] for place in places]


def member(column: str, kind: str) -> str:
    """Name under which a column of the items (``item``) or models table is kept: itself, or ``item_<name>``."""
    known = ITEM_COLUMNS if kind == "item" else MODEL_COLUMNS
    return column if column in known else f"{kind}_{column}"


def read_items(path: Path, problems: list[Problem]) -> tuple[Labels, dict[str, Scale]]:
    """Read an items table (``benchmark, item_id`` and more); returns its labels and the scales of benchmarks.

    Keys are (benchmark, item_id). Columns ``scale_min`` and ``scale_max`` are numbers, the same throughout a
    benchmark; ``n_choices`` is a whole number.
    """
    labels: Labels = Labels()
    frame = _read(path, ("benchmark", "item_id"), problems)
    if frame is None:
        return labels, {}
    keys = list(zip(frame["benchmark"], frame["item_id"], strict=True))
    problems += _blank(path, frame, ("benchmark", "item_id"))
    scales = _scales(path, frame, problems)
    names = [name for name in frame.columns if name not in _OWN]
    _add(path, labels, keys, frame, names, "item", problems)
    if "n_choices" in frame:
        for place, text in enumerate(frame["n_choices"]):
            if text and not (text.isdecimal() and int(text)):
                where = f"{path}, row {place + 1}"
                problems.append(Problem(where, "not-a-count", f"n_choices is a whole number from 1, got {text!r}"))
    return labels, scales


def read_models(path: Path, problems: list[Problem]) -> Labels:
    """Read a models table (``model`` and more); keys are names. Dates and axes are checked."""
    labels: Labels = Labels()
    frame = _read(path, ("model",), problems)
    if frame is None:
        return labels
    problems += _blank(path, frame, ("model",))
    _add(
        path,
        labels,
        list(frame["model"]),
        frame,
        [name for name in frame.columns if name != "model"],
        "model",
        problems,
    )
    checks: dict[str, Callable[[str], str | None]] = {"release_date": date_fault, "axis": axis_fault}
    for name, fault in checks.items():
        for place, text in enumerate(frame.get(name, ())):
            if text and (message := fault(text)):
                kind = "bad-date" if name == "release_date" else "bad-axis"
                problems.append(Problem(f"{path}, row {place + 1}", kind, f"{frame['model'][place]}: {message}"))
    return labels


def _read(path: Path, needed: tuple[str, ...], problems: list[Problem]) -> pd.DataFrame | None:
    from optotype.store.importers.scores.tables import read_text
    from optotype.store.importers.scores.tidy import missing_columns

    missing = missing_columns(path, needed)
    problems += missing
    return None if missing else read_text(path)


def _blank(path: Path, frame: pd.DataFrame, names: Sequence[str]) -> list[Problem]:
    """Keys that are blank, padded or hold control characters."""
    found: list[Problem] = []
    for name in names:
        first = {text: place + 1 for place, text in reversed(list(enumerate(frame[name])))}
        texts = list(dict.fromkeys(frame[name]))
        found += [
            Problem(f"{path}, {_row(problem, texts, first, name)}", problem.kind, problem.message)
            for problem in id_problems(texts, name)
        ]
    return found


def _row(problem: Problem, texts: list[str], first: Mapping[str, int], name: str) -> str:
    place = problem.where.removeprefix(f"{name}[").removesuffix("]")
    return f"row {first[texts[int(place)]]}, {name}" if place.isdecimal() else name


def _add(
    path: Path,
    labels: Labels,
    keys: Sequence[Hashable],
    frame: pd.DataFrame,
    names: Sequence[str],
    kind: str,
    problems: list[Problem],
) -> None:
    columns = {member(name, kind): frame[name].tolist() for name in names}
    for number, name, known in labels.add(keys, columns):
        key = keys[number]
        label = "/".join(key) if isinstance(key, tuple) else str(key)
        message = f"{label} has {name.removeprefix(f'{kind}_')} {columns[name][number]!r}, an earlier row {known!r}"
        problems.append(Problem(f"{path}, row {number + 1}", f"conflicting-{kind}", message))


def _scales(path: Path, frame: pd.DataFrame, problems: list[Problem]) -> dict[str, Scale]:
    """The scale of each benchmark that the table gives one."""
    there = [name for name in _SCALE if name in frame]
    if len(there) == 1:
        problems.append(Problem(str(path), "missing-column", f"{there[0]} needs {' and '.join(_SCALE)} beside it"))
    if len(there) != len(_SCALE):
        return {}
    scales: dict[str, Scale] = {}
    told = frame[["benchmark", *_SCALE]].drop_duplicates()
    for place, benchmark, low, high in told.itertuples(name=None):
        if not low and not high:
            continue
        where = f"{path}, row {place + 1}"
        try:
            scale = (float(low), float(high))
        except ValueError:
            problems.append(
                Problem(where, "bad-scale", f"{benchmark}: a scale is two numbers, got {low!r} and {high!r}")
            )
            continue
        if fault := scale_fault(scale):
            problems.append(Problem(where, "bad-scale", f"{benchmark}: {fault}"))
        elif scales.setdefault(benchmark, scale) != scale:
            known = "{:g}:{:g}".format(*scales[benchmark])
            message = f"{benchmark} has scale {scale[0]:g}:{scale[1]:g}, an earlier row {known}"
            problems.append(Problem(where, "conflicting-scale", message))
    return scales
