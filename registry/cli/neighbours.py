"""``optotype neighbours``: the top-k graphs that scores are counted on."""

from __future__ import annotations

import click

from optotype.registry.cli import options
from optotype.registry.cli.arrays import Kind
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import Column, emit_json, emit_table, short_digest
from optotype.registry.cli.project import needed_project

__all__ = ["neighbours"]


@click.group(
    cls=Group, examples=["optotype neighbours build siglip --of features --array siglip --prenorm none --prenorm l2"]
)
def neighbours() -> None:
    """Neighbour graphs: each item's k most similar items, as one encoder or language model sees them."""


@neighbours.command(
    examples=[
        "optotype neighbours build siglip --of features --array siglip",
        "optotype neighbours build qwen3 --of states --array qwen3 --prenorm none --prenorm l2 -k 50",
    ],
    short_help="Build and keep neighbour graphs.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--of",
    "kind",
    type=click.Choice(["features", "states"]),
    required=True,
    help="What the arrays are: patch features (Chamfer similarity) or text states (cosine).",
)
@click.option(
    "--array", "arrays", multiple=True, required=True, metavar="ARRAY", help="Name, path or URL. May be repeated."
)
@click.option(
    "--prenorm",
    "prenorms",
    type=click.Choice(["none", "l2"]),
    multiple=True,
    help="Rows before whitening: as they are or L2-normalised. May be repeated.  "
    "[default: none for features, l2 for states]",
)
@options.neighbours
@options.eps
@options.scheduler
@options.as_json
@click.pass_context
def build(
    ctx: click.Context,
    name: str,
    kind: Kind,
    arrays: tuple[str, ...],
    prenorms: tuple[str, ...],
    k: int,
    eps: float,
    scheduler: str,
    as_json: bool,
) -> None:
    """Build the graphs of one or more arrays and keep them in data/neighbours/NAME/ARRAY.PRENORM.

    An ARRAY may be a bundle or @FILE:KEY, as for optotype rank. Ranking looks for the graphs there: with its graph at
    hand an encoder is scored against a new language model in seconds.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.graphs import build_graphs

    rows = build_graphs(
        needed_project(ctx),
        name,
        kind,
        list(arrays),
        prenorms=list(dict.fromkeys(prenorms)) or ["none" if kind == "features" else "l2"],
        k=k,
        eps=eps,
        scheduler=scheduler,
        progress=reporter(),
    )
    if as_json:
        emit_json(rows)
        return
    columns = [
        Column("array", lambda row: str(row["array"])),
        Column("prenorm", lambda row: str(row["prenorm"])),
        Column("n", lambda row: str(row["n"]), right=True),
        Column("k", lambda row: str(row["k"]), right=True),
        Column("digest", lambda row: short_digest(str(row["digest"]))),
    ]
    emit_table(columns, rows)
