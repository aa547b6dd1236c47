"""``optotype evaluate``: how well selectors rank models that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from optotype.registry.cli import options, panel_options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed

__all__ = ["evaluate"]

# As optotype.pipelines.evaluation.plan has them, which is slow to import; a test compares the two.
PROTOCOLS = (
    "held-out",
    "chronological",
    "end-to-end",
    "shelf-life",
    "left-out",
    "cross-family",
    "variants",
    "intervals",
    "spectrum",
)
_LONG = ("held_out", "held_out_splits", "end_to_end", "leave_one_family_out", "variants")


def _parts(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[str]:
    """Comma-separated values, repeated or not; an option that is given names one at least."""
    for value in values:
        if not value.replace(",", "").strip():
            raise click.BadParameter(f"{value!r} names nothing; leave the option out for its default", ctx, param)
    return [part.strip() for value in values for part in value.split(",") if part.strip()]


def _names(allowed: Sequence[str]) -> Any:
    def check(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[str] | None:
        names = _parts(ctx, param, values)
        for name in names:
            if name not in (*allowed, "all"):
                raise click.BadParameter(panel_options.unknown(name, ("all", *allowed)), ctx, param)
        return None if not names or "all" in names else names

    return check


def _shares(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[float]:
    found = [panel_options.share(ctx, param, part) for part in _parts(ctx, param, values)]
    return [value for value in found if value is not None]


@click.command(
    cls=Command,
    examples=[
        "optotype evaluate panel --selectors vaw,variance,random --out reports/evaluate",
        "optotype evaluate panel --selectors vaw,random --retention 0.05,0.1 --splits 5 -k 2 --out results --json",
        "optotype evaluate panel --selectors vaw,random --protocols held-out --floor 0 --out results",
    ],
    short_help="Judge item selectors on models that they have not seen.",
)
@click.argument("panel", shell_complete=complete_names("scores"))
@click.option(
    "--selectors",
    multiple=True,
    callback=_names(panel_options.SELECTORS),
    metavar="NAMES",
    help=f"Comma-separated or repeated; all by default: {', '.join(panel_options.SELECTORS)}.",
)
@click.option(
    "--retention",
    multiple=True,
    callback=_shares,
    default=["0.01,0.02,0.05,0.1,0.2,0.5"],
    show_default="0.01,0.02,0.05,0.1,0.2,0.5",
    metavar="NUMBERS",
    help="Shares of a category's items that are kept, comma-separated or repeated.",
)
@options.number("--splits", default=20, minimum=1, text="Random halves of the models.")
@options.seed
@click.option(
    "--protocols",
    multiple=True,
    callback=_names(PROTOCOLS),
    metavar="NAMES",
    help=f"Comma-separated or repeated; by default all that the panel allows: {', '.join(PROTOCOLS)}.",
)
@panel_options.category_by
@panel_options.floor
@options.number(
    "--min-held-out", default=10, minimum=2, text="Fewest held-out models that a correlation is taken over."
)
@panel_options.tau("Items that runs without the image solve at this rate or above are dropped first; 2/3 or a decimal.")
@click.option(
    "--alpha",
    type=click.FloatRange(min=0),
    default=0.187,
    show_default=True,
    metavar="NUMBER",
    help="Weight of the vision dependence of an item beside its variance.",
)
@options.number("-k", "--k", "k", default=5, minimum=1, text="Categories that stage 3 keeps, end to end.")
@panel_options.normalise
@click.option(
    "--rho-target",
    type=click.FloatRange(min=-1, max=1),
    default=0.95,
    show_default=True,
    metavar="NUMBER",
    help="Stage 1 adds items of other benchmarks while a representative correlates less.",
)
@options.number("--resamples", default=10_000, minimum=1, maximum=1_000_000, text="Of the bootstrap over models.")
@panel_options.embeddings
@click.option(
    "--variants",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Sets of variants to rank: a CSV or Parquet table with set, model, benchmark, item_id, score.",
)
@options.number("--workers", default=None, minimum=1, text="Processes; one per CPU by default. Same bytes.")
@options.out_folder("Write evaluation.json, metrics.json and a CSV file of each table into DIR.")
@options.as_json
@click.pass_context
def evaluate(
    ctx: click.Context,
    panel: str,
    selectors: list[str] | None,
    retention: list[float],
    splits: int,
    seed: int,
    protocols: list[str] | None,
    category_by: str,
    floor: int,
    min_held_out: int,
    tau: float,
    alpha: float,
    k: int,
    normalise: Literal["none", "zscore"],
    rho_target: float,
    resamples: int,
    embeddings: str | None,
    variants: Path | None,
    workers: int | None,
    out: Path,
    as_json: bool,
) -> None:
    """Judge item selectors on the models of PANEL: select on some, rank the others.

    Held-out models of random halves and of the newest half, end to end with and without the category count, shelf life
    of a frozen choice, prediction of a benchmark that is left out, families, variants of one model, bootstrap intervals
    and the spectrum. A run that was stopped goes on where it was.

    The table shows Spearman's ρ of the held-out models, mean ± sd over the random splits; K is the number of items
    kept. With --json the tables of single splits and categories are left out; DIR/evaluation.json has them all.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import evaluations

    references = [panel] if embeddings is None else [panel, embeddings]
    document = evaluations.evaluate(
        panel,
        project=project_if_needed(ctx, references),
        selectors="all" if selectors is None else selectors,
        retention=retention,
        splits=splits,
        seed=seed,
        protocols=protocols,
        category_by=category_by,
        floor=floor,
        min_held_out=min_held_out,
        tau=tau,
        alpha=alpha,
        k=k,
        normalise=normalise,
        rho_target=rho_target,
        resamples=resamples,
        embeddings=embeddings,
        variants=variants,
        workers=workers,
        out=out,
        progress=reporter(),
    )
    tables = document["tables"]
    if as_json:
        emit_json({**document, "tables": {name: rows for name, rows in tables.items() if name not in _LONG}})
    elif any(row["protocol"] == "held-out" for row in tables.get("held_out_summary", ())):
        rows = [row for row in tables["held_out_summary"] if row["protocol"] == "held-out"]
        emit_table(*_pivot(rows, [row for row in tables["held_out_splits"] if row["protocol"] == "held-out"]))
    else:
        emit_table(
            [Column("table", lambda row: row["name"]), Column("rows", lambda row: str(row["rows"]), right=True)],
            [{"name": name, "rows": len(rows)} for name, rows in tables.items()],
        )
    for text in document["warnings"]:
        note(f"Warning: {text}")


def _pivot(
    rows: Sequence[Mapping[str, Any]], splits: Sequence[Mapping[str, Any]]
) -> tuple[list[Column], list[Mapping[str, Any]]]:
    """Selectors down, retentions across; ``splits`` tell where every category was kept whole."""
    reduced = {row["retention"] for row in splits if row["whole"] < row["categories"]}
    cells = {(row["selector"], row["retention"]): row for row in rows}
    lines: list[Mapping[str, Any]] = [
        {"selector": selector} for selector in dict.fromkeys(row["selector"] for row in rows)
    ]
    columns = [Column("selector", lambda line: str(line["selector"]))]
    for retention in sorted({row["retention"] for row in rows}):
        kept = next((row["K"] for row in rows if row["retention"] == retention and row["K"] is not None), None)
        size = "whole" if retention not in reduced else "" if kept is None else f"K {kept:g}"
        title = f"{100 * retention:g} %" + (f" ({size})" if size else "")

        def cell(line: Mapping[str, Any], retention: float = retention) -> str:
            row = cells[line["selector"], retention]
            if row["mean"] is None:
                return "-"
            return f"{row['mean']:.3f}" + ("" if row["sd"] is None else f" ± {row['sd']:.3f}")

        columns.append(Column(title, cell, right=True))
    return columns, lines
