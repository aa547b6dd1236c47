"""``optotype compress``: fewer items and categories, the same ranking of models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed
from optotype.schemas.errors import did_you_mean

__all__ = ["category_by", "compress", "share", "unknown"]

# As optotype.pipelines.selectors.selector has them, which is slow to import; a test compares the two.
SELECTORS = (
    "vaw",
    "variance",
    "random",
    "disco",
    "datbench",
    "irt-2pl",
    "anchor-points",
    "tiny-anchors",
    "tiny-irt-anchors",
    "p-irt",
    "gp-irt",
    "dpp",
    "shares-only",
    "random-partition",
    "text-cells",
)


def unknown(name: str, allowed: Sequence[str]) -> str:
    """What to say of a name that is not allowed: the one that was meant, and all that are."""
    hint = did_you_mean(name, allowed)
    return f"{name!r} is not one of {', '.join(allowed)}." + (f" {hint}" if hint.startswith("Did") else "")


def _selector(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value not in SELECTORS:
        raise click.BadParameter(unknown(value, SELECTORS), ctx, param)
    return value


def share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A number above 0 and at most 1, written as a decimal or a fraction: 2/3 is the nearest float."""
    if value is None:
        return None
    try:
        number = float(Fraction(value.replace(" ", "")))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise click.BadParameter(f"{value!r} is not a number such as 0.05 or 2/3", ctx, param) from None
    if not 0 < number <= 1:
        raise click.BadParameter(f"{value} is not above 0 and at most 1", ctx, param)
    return number


def _finite(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise click.BadParameter(f"{value} is not a finite number of 0 or more", ctx, param)
    return value


def _correlation(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not -1 <= value <= 1:
        raise click.BadParameter(f"{value} is not between -1 and 1", ctx, param)
    return value


category_by = click.option(
    "--category-by",
    default="category",
    show_default=True,
    metavar="category|benchmark|COLUMN",
    help="What groups benchmarks: a column of the items table, or each benchmark by itself.",
)


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
@click.option(
    "--tau",
    callback=share,
    default="2/3",
    show_default=True,
    metavar="NUMBER",
    help="Stage 0 drops items that runs without the image solve at this rate or above; 2/3 or a decimal.",
)
@click.option(
    "--retention",
    callback=share,
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
@category_by
@options.number("--floor", default=100, minimum=0, text="Items that a category keeps whatever the retention says.")
@click.option(
    "--normalise",
    type=click.Choice(["none", "zscore"]),
    default="none",
    show_default=True,
    help="Category scores before they are averaged: in [0, 1], or z-scored (where models lack categories).",
)
@click.option(
    "--rho-target",
    type=float,
    callback=_correlation,
    default=0.95,
    show_default=True,
    metavar="NUMBER",
    help="Stage 1 adds items of other benchmarks while a representative correlates less.",
)
@click.option(
    "--embeddings",
    metavar="NAME",
    shell_complete=complete_names("embeddings"),
    help="Item embeddings: name, path or URL. Without them items are kept by score alone.",
)
@click.option(
    "--selector",
    callback=_selector,
    shell_complete=lambda ctx, param, text: [name for name in SELECTORS if name.startswith(text)],
    default="vaw",
    show_default=True,
    metavar="NAME",
    help=f"What stage 2 keeps items by: {', '.join(SELECTORS)}.",
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
