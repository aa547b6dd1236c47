"""Writes task sets: all of one, or nothing; equal data, equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.schemas.errors import InvalidDataError
from optotype.store.rows import Inputs
from optotype.store.tasks.rows import CANDIDATE_TEXTS, QUERY_TEXTS, TaskRows
from optotype.store.writer import ArrayWriter

if TYPE_CHECKING:
    import xarray as xr

    from optotype.store.manifest import Manifest

__all__ = ["TASKS", "write_tasks"]

TASKS = "tasks"


def write_tasks(
    target: Path, rows: TaskRows | xr.Dataset, *, inputs: Inputs, attrs: Mapping[str, Any] | None = None
) -> Manifest:
    """Write a task set as an array folder: all of it, or nothing.

    Parameters
    ----------
    target : Path
        Folder of the array; replaced in one step if there is one. The same data made of the same inputs is left alone.
    rows : TaskRows or Dataset
        In any order, or a Dataset as `open_tasks` gives it. Queries are stored sorted by (task, language, query),
        candidates by id, lists by their first use, the candidates of a list ascending. Candidates in no list are
        dropped.
    inputs, attrs
        As for `optotype.store.features.write_features`. ``form``, ``left_out`` (reason -> number) and ``sources`` of
        the inputs are shown as attributes by `open_tasks`; they are no part of the digest. The attributes ``tasks``
        and ``languages`` (sorted names) are added.

    Returns
    -------
    Manifest
        Its digest depends on the data alone, not on their order or on the format that they came in.

    Raises
    ------
    InvalidDataError
        Every problem: ids, labels, lists, relevance.
    ConflictError
        Something that is not an array stands at the target.
    """
    given = rows if isinstance(rows, TaskRows) else TaskRows.of(rows)
    problems = given.problems()
    if problems:
        raise InvalidDataError(f"tasks for {target} refused, nothing was written:", problems)
    stored = given.in_order()
    right = [place for truth in stored.relevant for place in truth]
    grades = [grade for truth in stored.relevant for grade in truth.values()]
    labels = {f"{name}s": sorted(set(stored.queries[name])) for name in ("task", "language")}
    with ArrayWriter(Path(target), TASKS, {**(attrs or {}), **labels}) as writer:
        for name in QUERY_TEXTS:
            writer.add_strings(name, ("query",), stored.queries[name])
        for name in CANDIDATE_TEXTS:
            writer.add_strings(name, ("candidate",), stored.candidates[name])
        _add(writer, "query_list", "query", stored.query_list)
        _add(writer, "list_size", "list", [len(held) for held in stored.lists], samples="entry")
        entries = int(sum(len(held) for held in stored.lists))
        writer.add_rows("list_candidate", ("entry",), (entries,), np.dtype("<i8"), stored.lists)
        _add(writer, "relevance_size", "query", [len(truth) for truth in stored.relevant], samples="relevance")
        _add(writer, "relevant", "relevance", right)
        writer.add_rows("grade", ("relevance",), (len(grades),), np.dtype("<f4"), [np.array(grades, "<f4")])
        return writer.commit(inputs)


def _add(writer: ArrayWriter, name: str, dim: str, values: Sequence[int], samples: str | None = None) -> None:
    """Write integers; of counts, ``samples`` is the dimension that they cut (CF, contiguous ragged arrays)."""
    attrs = {} if samples is None else {"sample_dimension": samples}
    writer.add_rows(name, (dim,), (len(values),), np.dtype("<i8"), [np.array(values, "<i8")], attrs)
