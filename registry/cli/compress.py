"""``optotype compress``: fewer items and categories, the same ranking of models."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import click

from optotype.registry.cli import options, panel_options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed

__all__ = ["compress"]


def _selector(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value not in panel_options.SELECTORS:
        raise click.BadParameter(panel_options.unknown(value, panel_options.SELECTORS), ctx, param)
    return value


def _finite(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise click.BadParameter(f"{value} is not a finite number of 0 or more", ctx, param)
    return value


def _correlation(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not -1 <= value <= 1:
        raise click.BadParameter(f"{value} is not between -1 and 1", ctx, param)
    return value


@click.command(
    cls=Command,
    examples=[
        "optotype compress panel --out suite",
        "optotype compress panel --stop-after 0 --tau 2/3 --out cleaned --json",
        "optotype compress panel --retention 0.1 -k 3 --category-by benchmark --normalise zscore --out suite",
    ],
    short_help="Compress benchmarks and keep the ranking of models.",
)
@click.argument("panel", shell_complete=complete_names("scores"))
@click.option(
    "--stop-after",
    type=click.Choice(["0", "1", "2", "3"]),
    default="3",
    show_default=True,
    help="Last stage: 0 cleaning, 1 representatives, 2 item pruning, 3 category count.",
)
@panel_options.tau("Stage 0 drops items that runs without the image solve at this rate or above; 2/3 or a decimal.")
@click.option(
    "--retention",
    callback=panel_options.share,
    default="0.05",
    show_default=True,
    metavar="NUMBER",
    help="Share of a category's items that stage 2 keeps.",
)
@options.number("-k", "--k", "k", default=5, minimum=1, text="Categories that stage 3 keeps.")
@click.option(
    "--alpha",
    type=float,
    callback=_finite,
    default=0.187,
    show_default=True,
    metavar="NUMBER",
    help="Weight of the vision dependence of an item beside its variance.",
)
@options.seed
@panel_options.category_by
@panel_options.floor
@panel_options.normalise
@click.option(
    "--rho-target",
    type=float,
    callback=_correlation,
    default=0.95,
    show_default=True,
    metavar="NUMBER",
    help="Stage 1 adds items of other benchmarks while a representative correlates less.",
)
@panel_options.embeddings
@click.option(
    "--selector",
    callback=_selector,
    shell_complete=lambda ctx, param, text: [name for name in panel_options.SELECTORS if name.startswith(text)],
    default="vaw",
    show_default=True,
    metavar="NAME",
    help=f"What stage 2 keeps items by: {', '.join(panel_options.SELECTORS)}.",
)
@click.option("--greedy", is_flag=True, help="Stage 3 adds one category after another instead of trying all subsets.")
@options.scheduler
@options.out_folder("Write items.parquet, compression.json, models.csv and metrics.json into DIR.")
@options.as_json
@click.pass_context
def compress(
    ctx: click.Context,
    panel: str,
    stop_after: str,
    tau: float,
    retention: float,
    k: int,
    alpha: float,
    seed: int,
    category_by: str,
    floor: int,
    normalise: Literal["none", "zscore"],
    rho_target: float,
    embeddings: str | None,
    selector: str,
    greedy: bool,
    scheduler: str,
    out: Path,
    as_json: bool,
) -> None:
    """Compress the benchmarks of PANEL: fewer items and categories, the same ranking of models.

    Stage 0 drops items that every model solves, or that are solved without the image. Stage 1 lets one benchmark stand
    for each category, with items of the others where its ranking is off. Stage 2 keeps the items of each category that
    tell models apart. Stage 3 keeps the k categories that rank models as all of them do. DIR/items.parquet lists the
    items that are left after the last stage.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import compressions

    references = [panel] if embeddings is None else [panel, embeddings]
    document = compressions.compress(
        panel,
        project=project_if_needed(ctx, references),
        stop_after=int(stop_after),
        tau=tau,
        retention=retention,
        k=k,
        alpha=alpha,
        seed=seed,
        category_by=category_by,
        floor=floor,
        normalise=normalise,
        rho_target=rho_target,
        embeddings=embeddings,
        selector=selector,
        greedy=greedy,
        scheduler=scheduler,
        out=out,
        progress=reporter(),
    )
    if as_json:
        emit_json(document)
    else:
        emit_table(_COLUMNS, document["stages"])
    for text in document["warnings"]:
        note(f"Warning: {text}")


def _arrow(stage: Any, what: str) -> str:
    return f"{stage[f'{what}_in']} -> {stage[f'{what}_out']}"


def _rho(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


_COLUMNS = [
    Column("stage", lambda stage: f"{stage['stage']} {stage['name']}"),
    Column("items", lambda stage: _arrow(stage, "items"), right=True),
    Column("benchmarks", lambda stage: _arrow(stage, "benchmarks"), right=True),
    Column("categories", lambda stage: _arrow(stage, "categories"), right=True),
    Column("ρ", lambda stage: _rho(stage["rho"]), right=True),
    Column("ρ to stage 0", lambda stage: _rho(stage["rho_to_reference"]), right=True),
]
