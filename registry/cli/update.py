"""``optotype update``: move pins to newer versions, after showing what changes."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import emit, emit_json, note
from optotype.registry.cli.project import named_project
from optotype.registry.cli.published import diff_lines
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    from optotype.registry.pins.update import Moved

__all__ = ["update"]


@click.command(
    cls=Command,
    examples=["optotype update --yes", "optotype update suite/prime --yes --json"],
    short_help="Move pins to newer versions.",
)
@click.argument("references", metavar="[REF]...", nargs=-1)
@click.option("--yes", is_flag=True, help="Move without asking; needed where there is no terminal to ask on.")
@as_json
@click.pass_context
def update(ctx: click.Context, references: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Resolve pins again, all or those named, and show what the newer version changes before the lock is.

    NAME@^2 asks for something else from now on. Without --yes each move is asked about; where nobody can be asked (a
    pipe, --json), the changes are shown, nothing moves, and the exit code is 2. Next: optotype pull
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.pins.update import update as update_pins

    asking = asked(as_json=as_json)

    def agree(move: Moved) -> bool:
        if not as_json and move.diff is not None:
            emit("\n".join(diff_lines(move.diff)))
            for line in move.diff["notes"]:
                note(line)
        return yes or (asking and click.confirm(f"Move {move.before} to {move.after.version}?", err=True))

    done = update_pins(references, agree=agree, folder=named_project(ctx), progress=reporter())
    if as_json:
        emit_json(
            [
                {
                    "before": asdict(each.before),
                    "after": asdict(each.after),
                    "moved": each.moved,
                    "diff": each.diff,
                    "notes": list(each.notes),
                }
                for each in done
            ]
        )
    else:
        for each in done:
            emit(_line(each))
    for text in dict.fromkeys(text for each in done for text in each.notes):
        note(f"Warning: {text}")
    waiting = [each for each in done if each.after != each.before and not each.moved]
    if waiting and not asking:
        names = ", ".join(f"{each.before} to {each.after.version}" for each in waiting)
        raise UsageError(f"nothing was moved: {names}", hint="Say --yes to move.")


def asked(*, as_json: bool) -> bool:
    """Whether somebody sits at a terminal and can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty() and not as_json


def _line(each: Moved) -> str:
    if each.after == each.before:
        return f"{each.before}  up to date"
    if each.diff is None:
        return f"{each.before}  the same bytes; request, source or revision written anew"
    return f"{each.before} -> {each.after.version}  {'moved' if each.moved else 'left as it was'}"
