"""``optotype init``."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import emit, emit_json
from optotype.registry.cli.project import named_project

__all__ = ["init"]


@click.command(cls=Command, examples=["optotype init", "optotype init my-project", "optotype init --no-scm my-project"])
@click.argument("folder", required=False, type=click.Path(path_type=Path, file_okay=False), metavar="[DIR]")
@click.option("--no-scm", is_flag=True, help="Do without git, also where there is a repository.")
@as_json
@click.pass_context
def init(ctx: click.Context, folder: Path | None, no_scm: bool, as_json: bool) -> None:
    """Make an empty project in DIR (default: here).

    In a git repository its arrays are versioned by DVC beside the code; without one DVC keeps them all the same.
    What is there already stays as it is.
    """
    from optotype.store.project import Project

    named = named_project(ctx)
    if folder is not None and named is not None:
        raise click.UsageError(f"-C {named} and {folder} both name the folder: give it once", ctx)
    project = Project.init(folder or named or Path(), scm=False if no_scm else None)
    if as_json:
        emit_json({"root": project.root})
    else:
        emit(f"Project in {project.root}")
