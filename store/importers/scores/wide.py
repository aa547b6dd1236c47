"""Wide tables: one row a model, one column an item."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.schemas.scores import MODALITIES
from optotype.store.importers.scores.records import Records
from optotype.store.importers.scores.tables import coded, columns_of, is_table, read_blocks, stem
from optotype.store.importers.scores.tidy import NEEDED, numbers

__all__ = ["read_wide", "recognises"]

_PREFIX = re.compile(r"<([^<>]*)>(.+)", re.DOTALL)
_MODEL_HEADS = ("", "model", "__index_level_0__")  # "": an index that pandas wrote to a CSV


def recognises(path: Path) -> bool:
    """Whether the first column (or an index written last) can be that of the models, and the table is not tidy."""
    if not is_table(path):
        return False
    names = columns_of(path)
    return len(names) > 1 and not {"item_id", "score"} & set(names) and _model_column(names) is not None


def _model_column(names: list[str]) -> str | None:
    """The column that names the models: the first if it is called so, else an index that pandas wrote."""
    if names[0].strip().lower() in _MODEL_HEADS:
        return names[0]
    return names[-1] if names[-1] == "__index_level_0__" else None


def read_wide(path: Path) -> Iterator[Records]:
    """Read a table of one row a model and one column an item.

    The benchmark is the name of the file without its endings. The first column names the models. A head such as
    ``<no_image>item`` tells the modality; those that are neither image nor blind are left out and counted. An empty
    cell is a score that is not there.

    Raises
    ------
    InvalidDataError
        Cells that are no numbers, a blank model, a table without items: all of them.
    NotFoundError, FormatError
        As `optotype.store.importers.scores.tables.read_blocks`.
    """
    names = columns_of(path)
    head = _model_column(names) or names[0]
    benchmark = stem(path)
    problems: list[Problem] = []
    heads: dict[str, tuple[str, str]] = {}
    left_out: dict[str, int] = {}
    for name in names:
        if name == head:
            continue
        match = _PREFIX.fullmatch(name)
        written, item = (match[1].strip().lower(), match[2]) if match else ("", name)
        if written in MODALITIES:
            heads[name] = ("" if not written else MODALITIES[written], item)
        else:
            left_out[written] = left_out.get(written, 0) + 1
    if not heads:
        message = "there is no column of an item beside the first, which names the models"
        problems.append(Problem(str(path), "empty", message))
    if set(NEEDED) <= set(names):
        problems.append(Problem(str(path), "not-wide", "this is a tidy table: it has the columns " + ", ".join(NEEDED)))
    for block in read_blocks(path) if not problems else ():
        models = block[head]
        if models.dtype != "category":
            problems.append(Problem(str(path), "wrong-dtype", f"the first column names models, got {models.dtype}"))
            break
        named = models.cat.codes.to_numpy() >= 0
        problems += [Problem(f"{path}, row {row}", "blank-id", "model is blank") for row in block.index[~named]]
        scores = np.stack([numbers(path, f"column {name!r}", block[name], problems) for name in heads])
        # Also where some cells are wrong: what else is wrong with the others is listed too.
        yield Records(_long(path, benchmark, models[named], heads, scores[:, named]))
    if problems:
        raise InvalidDataError(f"{path} refused:", problems)
    notes = [f"{path.name}: its name is taken for the benchmark ({benchmark}), its columns for items"]
    if left_out:
        counted = ", ".join(f"{name} ({count})" for name, count in sorted(left_out.items()))
        notes.append(f"{path.name}: columns of other modalities were left out: {counted}")
    yield Records(pd.DataFrame(), notes=notes)


def _long(
    path: Path, benchmark: str, models: pd.Series[Any], heads: dict[str, tuple[str, str]], scores: Any
) -> pd.DataFrame:
    """The cells as rows, item by item; ``scores`` is (items, models)."""
    count, rows = scores.shape
    items = pd.Index(dict.fromkeys(item for _, item in heads.values()), dtype=object)
    places = items.get_indexer(pd.Index([item for _, item in heads.values()], dtype=object))
    modality = np.array([("", "image", "blind").index(kind) for kind, _ in heads.values()], np.int8)
    zeros = np.zeros(count * rows, np.int8)
    return pd.DataFrame(
        {
            "benchmark": coded(zeros, [benchmark]),
            "item_id": coded(np.repeat(places, rows), items),
            "model": coded(np.tile(models.cat.codes.to_numpy(), count), models.cat.categories),
            "score": scores.ravel(),
            "modality": coded(np.repeat(modality, rows), ["", "image", "blind"]),
            "source": coded(zeros, [str(path)]),
            "row": np.tile(models.index.to_numpy(), count),
        }
    )
