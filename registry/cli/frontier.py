"""``optotype frontier``: items that most models fail and that still tell them apart."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli import options, panel_options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import emit_json, emit_record, note
from optotype.registry.cli.project import complete_names, project_if_needed

__all__ = ["frontier"]


@click.command(
    cls=Command,
    examples=[
        "optotype frontier panel --gain 0.1 --out frontier",
        "optotype frontier panel --gain 1/20 --category-by benchmark --out frontier --json",
    ],
    short_help="Find the items that most models fail.",
)
@click.argument("panel", shell_complete=complete_names("scores"))
@click.option(
    "--gain",
    callback=panel_options.share,
    metavar="NUMBER",
    help="Share of the items in band that is kept. Default: the largest accuracy gain per step along the models' axes.",
)
@click.option("--axis", metavar="NAME", help="Take the gain of this axis of the models table.")
@panel_options.category_by
@options.scheduler
@options.out_folder("Write items.parquet and frontier.json into DIR.")
@options.as_json
@click.pass_context
def frontier(
    ctx: click.Context,
    panel: str,
    gain: float | None,
    axis: str | None,
    category_by: str,
    scheduler: str,
    out: Path,
    as_json: bool,
) -> None:
    """Find the capability frontier of PANEL: items that most models fail and that still tell models apart.

    Candidates have two valid models or more and a mean of at most 0.5 in every family; those with a panel mean between
    0.10 and 0.50 are in band. Of these the share --gain is kept, largest variance x (1 - mean) first.
    """
    from optotype.registry import frontiers

    if gain is not None and axis is not None:
        raise click.UsageError("--gain and --axis both say how many items are kept: give one of the two", ctx)
    document = frontiers.frontier(
        panel,
        project=project_if_needed(ctx, [panel]),
        gain=gain,
        axis=axis,
        category_by=category_by,
        scheduler=scheduler,
        out=out,
    )
    if as_json:
        emit_json(document)
    else:
        shown = ("candidates", "in_band", "kept", "gain", "families", "items")
        record = {name: document[name] for name in shown}
        record["axis"] = "-" if document["axis"] is None else document["axis"]["axis"]
        emit_record(record)
    for text in document["warnings"]:
        note(f"Warning: {text}")
