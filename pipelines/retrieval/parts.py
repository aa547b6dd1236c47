"""A part of a task set: one task, or one task in one language."""

from __future__ import annotations

import numpy as np
import xarray as xr

from optotype.schemas.errors import NotFoundError, did_you_mean

__all__ = ["part_of"]


def part_of(tasks: xr.Dataset, task: str | None, language: str | None = None) -> xr.Dataset:
    """The queries of one task, and of one language; lists and candidates stay as they are.

    Parameters
    ----------
    tasks : Dataset
        As `optotype.store.tasks.open_tasks` gives it.
    task, language : str, optional
        All by default.

    Raises
    ------
    NotFoundError
        There is none such.
    """
    kept = np.ones(tasks.sizes["query"], bool)
    for name, wanted in (("task", task), ("language", language)):
        if wanted is None:
            continue
        there = sorted({str(value) for value in tasks[name].values[kept].tolist()})
        if wanted not in there:
            where = "the task set" if name == "task" else f"task {task}"
            hint = did_you_mean(wanted, there) or f"There are: {', '.join(there)}."
            raise NotFoundError(f"{where} has no {name} {wanted!r}", hint=hint)
        kept &= tasks[name].values == wanted
    of = np.repeat(kept, tasks["relevance_size"].values)
    return tasks.isel(query=np.flatnonzero(kept), relevance=np.flatnonzero(of))
