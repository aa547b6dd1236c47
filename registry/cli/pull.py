"""``optotype pull``: bring what the lock pins."""

from __future__ import annotations

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import Column, emit_json, emit_table, human_bytes, note, short_digest
from optotype.registry.cli.project import named_project

__all__ = ["pull"]


@click.command(
    cls=Command,
    examples=["optotype pull", "optotype pull suite/prime --locked --json"],
    short_help="Bring what optotype.lock pins.",
)
@click.argument("references", metavar="[REF]...", nargs=-1)
@click.option("--locked", is_flag=True, help="Fail where a version was yanked or has no git revision; for CI.")
@as_json
@click.pass_context
def pull(ctx: click.Context, references: tuple[str, ...], locked: bool, as_json: bool) -> None:
    """Bring the pinned versions, all or those named, into optotype_pins beside the lock, and check every byte.

    The lock is never changed. What was fetched once comes from the cache ($OPTOTYPE_CACHE, else ~/.cache/optotype) and
    needs no network. A byte, manifest or tag that is not what the lock pins is an error that names the file (exit code
    7); nothing is repaired. A version that was yanked since it was pinned is still brought, with a warning.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.pins.pull import pull as pull_pins

    done = pull_pins(references, locked=locked, folder=named_project(ctx), progress=reporter())
    rows = [
        {
            "reference": str(each.pin),
            "state": each.state,
            "digest": each.pin.digest,
            "files": each.pin.files,
            "bytes": each.pin.bytes,
            "path": str(each.path),
            "notes": list(each.notes),
        }
        for each in done
    ]
    if as_json:
        emit_json(rows)
    else:
        emit_table(_COLUMNS, rows)
    for line in dict.fromkeys(line for each in done for line in each.notes):
        note(f"Warning: {line}")


_COLUMNS = (
    Column("pinned", lambda row: str(row["reference"])),
    Column("state", lambda row: str(row["state"])),
    Column("digest", lambda row: short_digest(row["digest"])),
    Column("size", lambda row: human_bytes(row["bytes"]), right=True),
    Column("path", lambda row: str(row["path"])),
)
