"""``optotype judge``: how well metrics foretell what encoders reach downstream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import named_project, needed_project

__all__ = ["judge"]

# As optotype.pipelines.judging.curves has them, which is slow to import; a test compares the two.
CURVES = ("pool", "n", "k", "eps", "gamma", "layer", "flops")


def _renames(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in values:
        name, equals, other = text.partition("=")
        if not equals or not name.strip() or not other.strip():
            raise click.BadParameter(f"{text!r} is not FROM=TO", ctx, param)
        if name.strip() in found:
            raise click.BadParameter(f"{name.strip()!r} is renamed twice", ctx, param)
        found[name.strip()] = other.strip()
    return found


@click.command(
    cls=Command,
    examples=[
        "optotype judge results/ranking.json downstream.csv",
        "optotype judge results/ranking.json tokbench.csv downstream.csv --bootstrap 10000 --out results/judgement",
        "optotype judge results/ranking.json downstream.csv --metric ravel --curve k --curve eps --json",
    ],
    short_help="Judge metrics by what encoders reach downstream.",
)
@click.argument("rankings", metavar="RANKING...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.argument("downstream", metavar="DOWNSTREAM", type=click.Path(path_type=Path))
@options.number(
    "--bootstrap",
    default=1000,
    minimum=0,
    maximum=1_000_000,
    text="Resamples of the encoders for intervals; 0 for none, a million at most.",
)
@options.seed
@click.option(
    "--rename",
    multiple=True,
    callback=_renames,
    metavar="FROM=TO",
    help="Join an encoder or language model of any of the files under another name; repeatable.",
)
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="Judge this metric alone; repeatable.  [default: all]"
)
@click.option(
    "--curve",
    "curves",
    multiple=True,
    type=click.Choice(CURVES),
    help="Draw ρ by this alone; repeatable.  [default: all that varies among the results]",
)
@options.number(
    "--pool-repeats", default=100, minimum=1, maximum=100_000, text="Random orders in which the pool of encoders grows."
)
@click.option(
    "--common",
    is_flag=True,
    help="Judge over the encoders and language models that all sides have, on every benchmark; the rest is named.",
)
@click.option("--partial", is_flag=True, help="Let a metric be silent on a whole language model; it has no mean then.")
@click.option(
    "--costs",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="Table name, parameters, tokens, channels of encoders and language models, for FLOPs.",
)
@options.out_folder("Also write judgement.json, judgement.csv, curves.csv and metrics.json into DIR.", required=False)
@options.as_json
@click.pass_context
def judge(
    ctx: click.Context,
    rankings: tuple[Path, ...],
    downstream: Path,
    bootstrap: int,
    seed: int,
    rename: dict[str, str],
    metrics: tuple[str, ...],
    curves: tuple[str, ...],
    pool_repeats: int,
    common: bool,
    partial: bool,
    costs: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Correlate the scores of metrics with what encoders reach downstream.

    RANKING is ranking.json of optotype rank, of one metric or several and with sweeps or without, or any table
    encoder, model, score (CSV, TSV, Parquet, JSON lines; without model it holds for all; several columns of scores are
    several metrics). DOWNSTREAM is a table encoder, model, score, perhaps with benchmark: the mean over benchmarks
    counts.

    Both sides are joined by the names of encoder and language model. A pair that is missing, unknown or there twice and
    a side that does not vary are errors, all of them listed.

    The table shows Spearman's ρ and Pearson's r for each language model and their mean, with intervals by a bootstrap
    over encoders that resamples all metrics alike.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import judgements

    document = judgements.judge(
        rankings,
        downstream,
        project=needed_project(ctx) if named_project(ctx) is not None else None,
        metrics=metrics or None,
        curves=curves or None,
        bootstrap=bootstrap,
        pool_repeats=pool_repeats,
        seed=seed,
        rename=rename,
        common=common,
        partial=partial,
        costs=costs,
        out=out,
        progress=reporter(),
    )
    if as_json:
        emit_json(document)
    else:
        emit_table(_columns(document), _lines(document))
    for text in document["warnings"]:
        note(f"Warning: {text}")


def _lines(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A line for each result, by falling mean of ρ within main ones and within the others."""
    lines: dict[str, dict[str, Any]] = {}
    for row in document["rows"]:
        line = lines.setdefault(row["label"], {"label": row["label"], "main": row["main"], "cells": {}})
        line["cells"][row["model"]] = row
    mean = {label: line["cells"]["mean"]["rho"] for label, line in lines.items()}
    return sorted(
        lines.values(),
        key=lambda line: (not line["main"], -2 if mean[line["label"]] is None else -mean[line["label"]], line["label"]),
    )


def _columns(document: Mapping[str, Any]) -> list[Column]:
    models = document["downstream"]["models"]
    columns = [Column("metric", lambda line: str(line["label"]))]
    for model in [*models, "mean"] if len(models) > 1 else models:
        columns += [_column(model, name, sign) for name, sign in (("rho", "ρ"), ("r", "r"))]
    return columns


def _column(model: str, name: str, sign: str) -> Column:
    return Column(f"{sign} {model}", lambda line: _cell(line["cells"][model], name), right=True)


def _cell(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return "-"
    text = f"{row[name]:.3f}"
    return text if row[f"{name}_low"] is None else f"{text} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"
