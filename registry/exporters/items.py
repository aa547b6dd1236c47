"""The items of a suite with what they ask: columns of the panel, and of tables beside it."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.exporters.suite import OpenSuite
from optotype.schemas.errors import InvalidDataError, Problem, UsageError, did_you_mean
from optotype.schemas.scores import ITEM_COLUMNS
from optotype.store.checks import limited

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Item", "suite_items"]

_IDS = ("item_id", "index", "id")
_LINK = 64  # an image of so few characters is the id of another row, as VLMEvalKit has it
_NUMBERS = ("scale_min", "scale_max")


@dataclass(frozen=True)
class Item:
    """One item of a suite.

    Attributes
    ----------
    benchmark, item_id, category : str
    weight : float
    columns : mapping
        ``question``, ``answer``, ``image``, ``sub_task`` and others by the names that their tables gave them; blank
        ones left out.
    folder : Path or None
        Of the table that named the image.
    """

    benchmark: str
    item_id: str
    category: str
    weight: float
    columns: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def options(self) -> dict[str, str]:
        """The texts of the options by their letters."""
        return {letter: self.columns[letter] for letter in string.ascii_uppercase if letter in self.columns}


def suite_items(suite: OpenSuite, panel: xr.Dataset | None, tables: Sequence[str] = ()) -> list[Item]:
    """The items of a suite, in its order.

    Parameters
    ----------
    suite : OpenSuite
    panel : Dataset, optional
        Its columns of items are taken.
    tables : sequence of str
        ``FILE`` or ``BENCHMARK=FILE``: CSV, TSV, Parquet or JSON lines with ``item_id``, ``index`` or ``id``, and
        ``benchmark`` unless one is named. What they say goes before the panel, later ones before earlier ones. Rows of
        other items are passed over; an ``image`` that is the id of another row becomes that row's image.

    Raises
    ------
    UsageError, NotFoundError, FormatError
        A table without ids or benchmarks, or that cannot be read.
    InvalidDataError
        Rows for one item that differ, images of rows that are not there.
    """
    wanted = set(suite.keys)
    columns: dict[tuple[str, str], dict[str, str]] = {key: {} for key in wanted}
    folders: dict[tuple[str, str], Path] = {}
    if panel is not None:
        _of_panel(panel, columns)
    for text in tables:
        _of_table(text, suite, columns, folders)
    return [
        Item(str(name), str(item), str(category), float(weight), columns[name, item], folders.get((name, item)))
        for name, item, category, weight in zip(
            *(suite.items[column].tolist() for column in ("benchmark", "item_id", "category", "weight")), strict=True
        )
    ]


def _of_panel(panel: xr.Dataset, columns: dict[tuple[str, str], dict[str, str]]) -> None:
    keys = list(zip(panel["benchmark"].to_numpy().tolist(), panel["item"].to_numpy().tolist(), strict=True))
    for name, coordinate in panel.coords.items():
        column = str(name).removeprefix("item_")
        known = str(name).startswith("item_") or column in ITEM_COLUMNS
        if coordinate.dims != ("item",) or not known or column in _NUMBERS:
            continue
        for key, value in zip(keys, coordinate.to_numpy().tolist(), strict=True):
            if key in columns and value not in ("", None) and value == value:
                columns[key][column] = str(value)


def _of_table(
    text: str,
    suite: OpenSuite,
    columns: dict[tuple[str, str], dict[str, str]],
    folders: dict[tuple[str, str], Path],
) -> None:
    from optotype.store.importers.scores.tables import read_text

    name, equals, file = text.partition("=")
    path = Path(file if equals and name in suite.benchmarks else text)
    benchmark = name if equals and name in suite.benchmarks else None
    if equals and benchmark is None and not path.is_file():
        hint = did_you_mean(name, suite.benchmarks)
        raise UsageError(f"--items {text}: the suite has no benchmark {name!r}", hint=hint)
    frame = read_text(path)
    ids = next((each for each in _IDS if each in frame), None)
    if ids is None:
        raise UsageError(f"{path}: a table of items has a column {', '.join(_IDS[:-1])} or {_IDS[-1]}")
    if benchmark is None and "benchmark" not in frame:
        if len(suite.benchmarks) > 1:
            raise UsageError(
                f"{path}: it has no column benchmark, and the suite has {len(suite.benchmarks)} benchmarks",
                hint=f"Say which: --items {suite.benchmarks[0]}={path}",
            )
        benchmark = suite.benchmarks[0]
    if benchmark is not None:
        frame["benchmark"] = benchmark
    _merge(path, frame, ids, columns, folders)


def _merge(
    path: Path,
    frame: pd.DataFrame,
    ids: str,
    columns: dict[tuple[str, str], dict[str, str]],
    folders: dict[tuple[str, str], Path],
) -> None:
    records: list[dict[Any, Any]] = frame.to_dict("records")
    pictures = {(row["benchmark"], row[ids]): row["image"] for row in records if row.get("image")}
    problems: list[Problem] = []
    seen: dict[tuple[str, str], dict[str, str]] = {}
    for number, row in enumerate(records, 1):
        key = (str(row["benchmark"]), str(row[ids]))
        if key not in columns:
            continue
        own = {str(each): str(value) for each, value in row.items() if value and each not in (ids, "benchmark")}
        image = own.get("image", "")
        where = f"{path}, row {number}"
        if image and len(image) <= _LINK and (key[0], image) in pictures:
            target = str(pictures[key[0], image])
            own["image"] = target
            if len(target) <= _LINK and (key[0], target) in pictures:
                problems.append(Problem(where, "image", f"{key[1]!r} has the image of {image!r}, which is no image"))
        if seen.setdefault(key, own) != own:
            problems.append(Problem(where, "differing-rows", f"another row for {key[1]!r} of {key[0]}"))
        columns[key].update(own)
        if image:
            folders[key] = path.parent
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
