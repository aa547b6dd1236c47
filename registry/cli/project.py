"""Which project a verb works on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from optotype.registry.references import needs_project
from optotype.schemas.errors import NotFoundError, OptotypeError

if TYPE_CHECKING:
    from optotype.store.project import Kind, Project

__all__ = ["complete_names", "named_project", "needed_project", "project_if_needed"]


def named_project(ctx: click.Context) -> Path | None:
    """The folder given with ``-C``, if one was."""
    folder = ctx.find_root().params.get("project")
    return folder if isinstance(folder, Path) else None


def needed_project(ctx: click.Context) -> Project:
    """The project of ``-C``, which is that very folder, or the nearest one upward from the working directory.

    Raises
    ------
    NotFoundError
        There is none, or the folder of ``-C`` is not the root of one.
    """
    from optotype.store.project import Project

    folder = named_project(ctx)
    if folder is None:
        return Project.find()
    found: Project | None = None
    with contextlib.suppress(NotFoundError):
        found = Project.find(folder)
    if found is None or found.root.resolve() != folder.resolve():
        # A project further up is not meant: working on it instead would be a silent guess.
        hint = f"optotype init {folder}" if found is None else f"optotype -C {found.root} ..."
        what = "is not the folder of a project" if folder.exists() else "does not exist"
        raise NotFoundError(f"-C {folder}: {what} (it has no .optotype/project.json)", hint=hint)
    return found


def project_if_needed(ctx: click.Context, references: Iterable[str]) -> Project | None:
    """The project, or None where there is none and every reference is a path or URL that needs none."""
    try:
        return needed_project(ctx)
    except NotFoundError:
        if named_project(ctx) is not None or any(needs_project(reference) for reference in references):
            raise
        return None


def complete_names(kind: Kind) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Shell completion: names of the project's arrays of one kind."""

    def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        with contextlib.suppress(OptotypeError, OSError):  # a shell that completes is no place for messages
            return [name for name in needed_project(ctx).names(kind) if name.startswith(incomplete)]
        return []

    return names
