"""``optotype rank``: which encoder sees items as a language model describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from optotype.registry.cli import options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import project_if_needed

__all__ = ["rank"]

_PRENORMS = ("none", "l2")
_MOST_REPEATS = 1_000_000  # as optotype.pipelines.ravel has it, which is slow to import


@click.command(
    cls=Command,
    examples=[
        "optotype rank --features siglip --states qwen3",
        "optotype rank --features siglip --features dinov2 --states qwen3 --null 100 --json",
        "optotype rank --features siglip --states qwen3 -k 50 --all-prenorms --out results",
        "optotype rank --features @params.yaml:encoders --states @params.yaml:language_models",
    ],
    short_help="Rank vision encoders by a score.",
)
@options.arrays("features", "Patch features: name, path or URL; repeatable.")
@options.arrays("states", "Text states: name, path or URL; repeatable.")
@click.option("--metric", type=click.Choice(["ravel"]), default="ravel", show_default=True, help="What is counted.")
@options.neighbours
@options.eps
@click.option(
    "--prenorm-features",
    type=click.Choice(_PRENORMS),
    default="none",
    show_default=True,
    help="Patch tokens before whitening: as they are, or each L2-normalised.",
)
@click.option(
    "--prenorm-states",
    type=click.Choice(_PRENORMS),
    default="l2",
    show_default=True,
    help="Text states before whitening: as they are, or each L2-normalised.",
)
@click.option("--all-prenorms", is_flag=True, help="All four combinations of the two prenorms, each in its own row.")
@options.number(
    "--null",
    default=0,
    minimum=0,
    maximum=_MOST_REPEATS,
    text="Shuffles of the pairing for the permutation null: mean, sd, p; 0 for none, a million at most.",
)
@options.number(
    "--bootstrap",
    default=0,
    minimum=0,
    maximum=_MOST_REPEATS,
    text="Resamplings of the items for an interval; 0 for none, a million at most.",
)
@options.seed
@click.option("--common", is_flag=True, help="Use the ids that both sides share instead of refusing other sets.")
@options.scheduler
@options.out_folder("Also write ranking.json and tables of it into DIR.", required=False)
@options.as_json
@click.pass_context
def rank(
    ctx: click.Context,
    features: tuple[str, ...],
    states: tuple[str, ...],
    metric: str,
    k: int,
    eps: float,
    prenorm_features: str,
    prenorm_states: str,
    all_prenorms: bool,
    null: int,
    bootstrap: int,
    seed: int,
    common: bool,
    scheduler: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Rank vision encoders by how well their neighbourhoods of images match those of the texts.

    Every FEATURES is scored against every STATES; items are joined by id. The score is the mean share of an item's k
    nearest images that are also among its k nearest texts; chance is k / (n - 1), and adjusted is
    (score - chance) / (1 - chance). Warnings tell where a side says nothing, and what mends it.

    The name of a bundle (one run that encoded several layers) stands for all its arrays, and @FILE:KEY for the names in
    a YAML file: a list, or the keys of a mapping.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import rankings

    chosen = [name for name in ("prenorm_features", "prenorm_states") if _was_given(ctx, name)]
    if all_prenorms and chosen:
        option = f"--{chosen[0].replace('_', '-')}"
        raise click.UsageError(f"--all-prenorms includes every {option}: give one of the two", ctx)
    rows = rankings.rank(
        list(features),
        list(states),
        project=project_if_needed(ctx, (*features, *states)),
        metric=metric,
        k=k,
        eps=eps,
        prenorm_features=prenorm_features,
        prenorm_states=prenorm_states,
        all_prenorms=all_prenorms,
        null=null,
        seed=seed,
        bootstrap=bootstrap,
        common=common,
        scheduler=scheduler,
        out=out,
        progress=reporter(),
    )
    if as_json:
        emit_json(rows)
    else:
        emit_table(_columns(rows, show_prenorms=all_prenorms), rows)
    for line in _warnings(rows):
        note(line)


def _was_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)


def _columns(rows: Sequence[Mapping[str, Any]], *, show_prenorms: bool) -> list[Column]:
    """Columns that say something about these rows: null and interval only where they were asked for."""
    columns = [Column("encoder", lambda row: str(row["encoder"])), Column("model", lambda row: str(row["model"]))]
    if show_prenorms:
        columns.append(Column("prenorms", lambda row: f"{row['prenorm_features']}/{row['prenorm_states']}"))
    columns += [
        Column("score", lambda row: f"{row['score']:.4f}", right=True),
        Column("chance", lambda row: f"{row['chance']:.4f}", right=True),
        Column("adjusted", lambda row: f"{row['adjusted']:.4f}", right=True),
    ]
    if any(row.get("null") for row in rows):
        columns += [
            Column("null", lambda row: f"{row['null']['mean']:.4f} ± {row['null']['sd']:.4f}", right=True),
            Column("p", lambda row: f"{row['null']['p']:.3g}", right=True),
        ]
    if any(row.get("interval") for row in rows):
        columns.append(Column("interval", lambda row: _interval(row["interval"]), right=True))
    columns += [
        Column("n", lambda row: str(row["n"]), right=True),
        Column("k", lambda row: str(row["k"]), right=True),
    ]
    return columns


def _interval(interval: Any) -> str:
    """``[low, high]`` or ``{"low": ..., "high": ...}`` as text."""
    if isinstance(interval, Mapping):
        interval = (interval["low"], interval["high"])
    return f"{interval[0]:.4f}-{interval[1]:.4f}"


def _warnings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each warning once, with the rows that it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        for text in row.get("warnings") or ():
            about.setdefault(str(text), []).append(f"{row['encoder']} x {row['model']}")
    return [f"Warning: {text} [{', '.join(dict.fromkeys(pairs))}]" for text, pairs in about.items()]
