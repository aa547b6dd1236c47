"""``optotype rank``: which encoder sees items as a language model describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from optotype.registry.cli import options, rank_options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed

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
        "optotype rank --features siglip --states qwen3 --metric ravel --metric cka --metric mutual-nn",
        "optotype rank --features siglip --states qwen3 --sweep k=25,50,100 --sweep gamma=0,0.5,1",
        "optotype rank --features siglip --states qwen3 --metric rsa --set rsa.correlation=spearman --post-features l2",
    ],
    short_help="Rank vision encoders by a score.",
)
@options.arrays("features", "Patch features: name, path or URL; repeatable.")
@click.option(
    "--states",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_names("states"),
    help="Text states: name, path or URL; repeatable. Metrics of vision alone need none.",
)
@rank_options.metrics
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
@rank_options.fronts
@rank_options.sources
@click.option("--common", is_flag=True, help="Use the ids that both sides share instead of refusing other sets.")
@options.scheduler
@options.out_folder("Also write ranking.json and tables of it into DIR.", required=False)
@options.as_json
@click.pass_context
def rank(
    ctx: click.Context,
    features: tuple[str, ...],
    states: tuple[str, ...],
    metrics: tuple[str, ...],
    set_options: dict[str, dict[str, str]],
    k: int,
    eps: float,
    prenorm_features: str,
    prenorm_states: str,
    all_prenorms: bool,
    null: int,
    bootstrap: int,
    seed: int,
    post_features: str,
    post_states: str,
    gamma: float,
    images: int | None,
    sweep: dict[str, list[str]],
    labels: Path | None,
    label_column: str,
    keypoints: Path | None,
    downstream: Path | None,
    captions: Path | None,
    language_models: dict[str, str],
    train: bool,
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

    Other metrics are ranked by in the same way, each in rows of its own; higher is better for all of them. What a
    metric needs beside features and states (labels, keypoints, downstream scores, captions, weights to train against)
    is given with the options of that name; without it the metric is refused, or with --metric all left out.
    -k, --eps and the prenorms are those of ravel and its ablations; other metrics have their own, set with --set.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import rankings

    chosen = [name for name in ("prenorm_features", "prenorm_states") if _was_given(ctx, name)]
    if not states and set(metrics) == {"ravel"}:  # what several metrics lack is told of all of them together
        message = "Missing option '--states'. ravel compares images with texts: give it, or another --metric."
        raise click.UsageError(message, ctx)
    if all_prenorms and chosen:
        option = f"--{chosen[0].replace('_', '-')}"
        raise click.UsageError(f"--all-prenorms includes every {option}: give one of the two", ctx)
    rows = rankings.rank(
        list(features),
        list(states),
        project=project_if_needed(ctx, (*features, *states)),
        metric=list(metrics),
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
        options=set_options,
        post_features=post_features,
        post_states=post_states,
        gamma=gamma,
        images=images,
        sweep=sweep,
        labels=labels,
        label_column=label_column,
        keypoints=keypoints,
        downstream=downstream,
        captions=captions,
        language_models=language_models,
        train=train,
        out=out,
        progress=reporter(),
    )
    if as_json:
        emit_json(rows)
    else:
        emit_table(_columns(rows, show_prenorms=all_prenorms, swept=list(sweep)), rows)
    for line in _warnings(rows):
        note(line)


def _was_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)


def _columns(rows: Sequence[Mapping[str, Any]], *, show_prenorms: bool, swept: Sequence[str] = ()) -> list[Column]:
    """Columns that say something about these rows: null and interval only where they were asked for."""
    columns = [
        Column("encoder", lambda row: str(row["encoder"])),
        Column("model", lambda row: str(row["model"] or "-")),
    ]
    if {row["metric"] for row in rows} != {"ravel"}:
        columns.insert(0, Column("metric", lambda row: str(row["metric"])))
    if show_prenorms:
        columns.append(Column("prenorms", _prenorms))
    if "eps" in swept:
        columns.append(Column("eps", lambda row: _optional(row["eps"], "g"), right=True))
    if "gamma" in swept:
        columns.append(Column("gamma", lambda row: _optional(row["gamma"], "g"), right=True))
    columns += [
        Column("score", lambda row: f"{row['score']:.4f}", right=True),
        Column("chance", lambda row: _optional(row["chance"], ".4f"), right=True),
        Column("adjusted", lambda row: _optional(row["adjusted"], ".4f"), right=True),
    ]
    if any(row.get("null") for row in rows):
        columns += [
            Column(
                "null",
                lambda row: f"{row['null']['mean']:.4f} ± {row['null']['sd']:.4f}" if row["null"] else "",
                right=True,
            ),
            Column("p", lambda row: f"{row['null']['p']:.3g}" if row["null"] else "", right=True),
        ]
    if any(row.get("interval") for row in rows):
        columns.append(
            Column("interval", lambda row: _interval(row["interval"]) if row["interval"] else "", right=True)
        )
    columns += [
        Column("n", lambda row: str(row["n"]), right=True),
        Column("k", lambda row: _optional(row["k"], "d"), right=True),
    ]
    return columns


def _prenorms(row: Mapping[str, Any]) -> str:
    """Of features and states; ``-`` for a metric that has none."""
    return "-" if row["prenorm_features"] is None else f"{row['prenorm_features']}/{row['prenorm_states']}"


def _optional(value: Any, form: str) -> str:
    """A number as text; nothing for none."""
    return "" if value is None else format(value, form)


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
            about.setdefault(str(text), []).append(_pair_of(row))
    return [f"Warning: {text} [{', '.join(dict.fromkeys(pairs))}]" for text, pairs in about.items()]


def _pair_of(row: Mapping[str, Any]) -> str:
    return str(row["encoder"]) if row["model"] is None else f"{row['encoder']} x {row['model']}"
