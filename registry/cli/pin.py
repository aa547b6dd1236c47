"""``optotype pin``: which published version a folder uses from now on."""

from __future__ import annotations

from dataclasses import asdict

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import emit, emit_json, note, short_digest
from optotype.registry.cli.project import named_project

__all__ = ["pin"]


@click.command(
    cls=Command,
    examples=[
        "optotype pin suite/prime@^1.0 --from ../publisher",
        "optotype pin suite/prime@latest --from ../publisher --json",
    ],
    short_help="Pin a published version of somebody else's.",
)
@click.argument("reference", metavar="REF")
@click.option(
    "--from",
    "source",
    metavar="GIT_URL_OR_PATH",
    help="Repository, or folder that holds artifacts/. Default: where the present pin of this name comes from.",
)
@as_json
@click.pass_context
def pin(ctx: click.Context, reference: str, source: str | None, as_json: bool) -> None:
    """Pin a published version in optotype.lock, which belongs into git; any folder will do, a project is not needed.

    REF is KIND/NAME@VERSION; instead of a version a range (^1.2, ~1.2, >=1.0,<2), an alias (latest, stable) or a digest
    (sha256:0f3c...) may stand. The lock keeps the exact version, the digests of payload and manifest, the source and
    its git commit. A version that was yanked is refused.

    From a git URL, what HEAD has counts, and the payload comes from git or the project's DVC remote. From a path, the
    working tree counts, and the payload comes from there or from DVC's cache.

    The lock is the nearest one from the working directory upward, else it is made here. Next: optotype pull
    """
    from optotype.registry.pins.pin import pin as pin_version

    done = pin_version(reference, source, folder=named_project(ctx))
    made = done.pin
    if as_json:
        before = None if done.before is None else asdict(done.before)
        emit_json({**asdict(made), "before": before, "lock": done.folder / "optotype.lock", "notes": list(done.notes)})
    else:
        at = made.tag or (f"commit {made.revision[:12]}" if made.revision else "no revision")
        was = "" if done.before is None or done.before.version == made.version else f" (was {done.before.version})"
        emit(f"{made}  {short_digest(made.digest)}  {at}  from {made.source}{was}")
    for line in done.notes:
        note(f"Warning: {line}")
