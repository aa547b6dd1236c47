"""``optotype unlock``."""

from __future__ import annotations

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import emit, emit_json
from optotype.registry.cli.project import needed_project

__all__ = ["unlock"]


@click.command(cls=Command, examples=["optotype unlock"], short_help="Release what killed runs held.")
@as_json
@click.pass_context
def unlock(ctx: click.Context, as_json: bool) -> None:
    """Release the locks that killed runs of DVC left behind.

    Those of running processes stay. `make repro` does this first, so that a run that was killed can be started again at
    once.
    """
    from optotype.store.dvc import release

    gone = release(needed_project(ctx).root)
    if as_json:
        emit_json({"released": gone})
    elif gone:
        emit(f"Released the locks of {len(gone)} process(es) that no longer run: {', '.join(map(str, gone))}")
    else:
        emit("No locks of processes that no longer run")
