"""``optotype report``: results as pages that a person can read."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import emit, emit_json
from optotype.registry.cli.project import needed_project

__all__ = ["report"]

_EXAMPLE = "optotype report ranking --ranking results/ranking.json --pairs pairs.csv --out reports"


@click.group(cls=Group, examples=[_EXAMPLE])
def report() -> None:
    """Pages that show a result: one file each, to open in a browser without a network."""


@report.command(examples=[_EXAMPLE], short_help="Write the page of a ranking.")
@click.option(
    "--ranking",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="ranking.json, as optotype rank --out writes it.",
)
@click.option(
    "--pairs", type=click.Path(path_type=Path), required=True, metavar="TABLE", help="Table of ids, images and texts."
)
@options.out_folder("Folder for ranking.html and ranking.json.")
@click.option("--title", default="Vision encoders ranked by RAVEL", show_default=True, metavar="TEXT", help="Heading.")
@options.number("--examples", default=3, minimum=1, text="Items whose neighbours are shown.")
@options.number("--shown", default=5, minimum=1, text="Neighbours shown of each.")
@options.seed
@options.scheduler
@options.as_json
@click.pass_context
def ranking(
    ctx: click.Context,
    ranking: Path,
    pairs: Path,
    out: Path,
    title: str,
    examples: int,
    shown: int,
    seed: int,
    scheduler: str,
    as_json: bool,
) -> None:
    """Write ranking.html and the same numbers as ranking.json.

    The page holds the table, scores against chance, warnings, examples of neighbours, spectra, and a map of matched
    patches.
    """
    from optotype.registry.report.ranking.report import write_ranking_report

    written = write_ranking_report(
        ranking=ranking,
        project=needed_project(ctx),
        pairs=pairs,
        out=out,
        title=title,
        examples=examples,
        shown=shown,
        seed=seed,
        scheduler=scheduler,
    )
    if as_json:
        emit_json(written)
    else:
        emit(f"{written['html']}\n{written['json']}")
