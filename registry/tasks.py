"""Task sets of retrieval of a project: take them in, list, show and give them out again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.arrays import import_under_name, place_in
from optotype.registry.references import resolved
from optotype.schemas.errors import OptotypeError

if TYPE_CHECKING:
    from optotype.store.manifest import Manifest
    from optotype.store.project import Project

__all__ = ["export_tasks", "import_tasks", "show_tasks", "tasks_rows"]

_FIELDS = ("name", "tasks", "languages", "queries", "candidates", "lists", "form", "left_out", "digest", "key", "bytes")


def import_tasks(
    project: Project | str | Path | None,
    name: str,
    paths: Sequence[str | Path] = (),
    *,
    form: str = "auto",
    queries: str | Path | None = None,
    candidates: str | Path | None = None,
    relevance: str | Path | None = None,
    lists: str | Path | None = None,
    task: str | None = None,
    language: str | None = None,
    all_candidates: bool = False,
    track: bool = True,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Import a task set into the project under a name; one that is so called is replaced in one step.

    Parameters
    ----------
    project : Project or path, optional
        By default the one that the working directory lies in.
    name : str
        The array becomes ``data/tasks/<name>``.
    paths, form, queries, candidates, relevance, lists, task, language, all_candidates
        As `optotype.store.importers.tasks.import_tasks` takes them.
    track : bool
        Whether DVC tracks the array, where the project is one of DVC's.
    say : callable, optional
        Takes lines for the reader: what was left out, what was replaced.

    Returns
    -------
    dict
        The row that `tasks_rows` has for it, and ``cells`` as `show_tasks` gives them.

    Raises
    ------
    UsageError, NotFoundError, FormatError, InvalidDataError
        Not a name, or of the importer; nothing was written.
    ConflictError
        Something that is no array is in the way, or another process is writing the same.
    """
    from optotype.store.importers import tasks as importer
    from optotype.store.project import Project

    found = project if isinstance(project, Project) else Project.find(None if project is None else Path(project))

    def take(target: Path, _: str) -> Manifest:
        return importer.import_tasks(
            target,
            paths,
            form=form,
            queries=queries,
            candidates=candidates,
            relevance=relevance,
            lists=lists,
            task=task,
            language=language,
            all_candidates=all_candidates,
            say=say,
        )

    row = functools.partial(_row, found, whole=True)
    return import_under_name(found, "tasks", name, "", take, row, track=track, say=say)


def tasks_rows(project: Project) -> list[dict[str, Any]]:
    """What the project holds, sorted by name: one row for each task set, ``error`` saying if it is damaged.

    Returns
    -------
    list of dict
        As `optotype.store.tasks.describe_tasks` gives them; ``path`` relative to the project.
    """
    rows = []
    for folders in project.index("tasks").values():
        for folder in folders:
            try:
                row = _row(project, folder)
            except OptotypeError as error:
                row = {**dict.fromkeys(_FIELDS), "name": folder.name, "path": place_in(project, folder)}
                row["error"] = error.message
            rows.append(row)
    return rows


def show_tasks(project: Project | None, reference: str) -> dict[str, Any]:
    """All that is known of one task set, given by name, path or URL; reads it.

    Returns
    -------
    dict
        The row of `tasks_rows`; ``cells``, for each task and language ``queries``, ``items``, ``candidates``,
        ``lists``, ``list_size``, ``relevant`` (mean number of right candidates of a query), ``duplicates`` (share of
        the entries of lists whose target another entry before them has), ``texts``, ``images``; ``kind``,
        ``created_by``, ``files``, ``inputs``.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, UsageError
        No such task set, or a damaged one.
    """
    from optotype.store.tasks import describe_tasks

    source = resolved(project, "tasks", reference)
    row = describe_tasks(source, whole=True)
    return {**row, "path": place_in(project, source)} if project is not None and isinstance(source, Path) else row


def export_tasks(
    project: Project | None, reference: str, folder: str | Path, *, replace: bool = False
) -> dict[str, Any]:
    """Write a task set as tables that import as the same set, and as tables that encoders take.

    Parameters
    ----------
    reference : str
        Name, path or URL.
    folder : path
        Made when missing; see `optotype.store.tasks.export.export_tasks` for the files in it.
    replace : bool
        Whether files that are there may be replaced.

    Returns
    -------
    dict
        ``name``, ``folder``, ``files`` (name -> rows), ``import`` (the command that takes them in again).

    Raises
    ------
    ConflictError
        A file is there.
    """
    import shlex

    from optotype.store.tasks.export import export_tasks as write

    target = Path(folder)
    files = write(resolved(project, "tasks", reference), target, replace=replace)
    names = ("queries", "candidates", "relevance", "lists")
    tables = [f"--{name} {shlex.quote(str(target / f'{name}.csv'))}" for name in names if f"{name}.csv" in files]
    command = " ".join(["optotype tasks import NAME", *tables])
    return {"name": reference, "folder": str(target), "files": files, "import": command}


def _row(project: Project, folder: Path, *, whole: bool = False) -> dict[str, Any]:
    from optotype.store.tasks import describe_tasks, open_tasks, task_cells

    row = {**describe_tasks(folder), "path": place_in(project, folder)}
    return {**row, "cells": task_cells(open_tasks(folder))} if whole else row
