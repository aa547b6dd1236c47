"""``optotype retrieve``: does the right candidate come first, by task and language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Command
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed

__all__ = ["retrieve"]

_POLICIES = ("expected", "optimistic", "pessimistic")
_SHOWN = 5  # of what is invalid
_MOST_RESAMPLES = 1_000_000
_MOST_K = 1_000_000


def _ranks(ctx: click.Context, param: click.Parameter, value: str) -> list[int]:
    """Comma-separated values of k."""
    try:
        ranks = [int(part) for part in value.split(",")]
    except ValueError:
        ranks = []
    if not ranks or min(ranks) < 1 or max(ranks) > _MOST_K or len(set(ranks)) < len(ranks):
        message = f"{value!r}: whole numbers from 1 to {_MOST_K:,}, each once, as in 1,5,10"
        raise click.BadParameter(message, ctx, param)
    return ranks


def _arrays(side: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        f"--{side}",
        multiple=True,
        required=True,
        metavar="NAME",
        shell_complete=complete_names("states"),
        help=f"Vectors of the {side}: name, path or URL of states, or of features; repeatable.",
    )


@click.command(
    cls=Command,
    short_help="Evaluate embeddings by retrieval: P@1.",
    examples=[
        "optotype retrieve --queries e5-queries --candidates e5-candidates --task mmmeb",
        "optotype retrieve --queries clip-images --candidates clip-names --task mmmeb:i2t:it --json",
        "optotype retrieve --queries clip --candidates clip --task mmmeb --unable vqa --unable vg --out retrieval",
    ],
)
@_arrays("queries")
@_arrays("candidates")
@click.option(
    "--task",
    required=True,
    metavar="TASKS",
    shell_complete=complete_names("tasks"),
    help="Task set: name, path or URL; NAME[:TASK[:LANGUAGE]] for a part of it.",
)
@click.option(
    "--ties",
    type=click.Choice(_POLICIES),
    default="expected",
    show_default=True,
    help="What averages and gaps go by where the truth shares its similarity; all three are told of every task.",
)
@click.option(
    "--at",
    default="1,5,10",
    show_default=True,
    callback=_ranks,
    metavar="K,K,...",
    help=f"Values of k for hit@k and nDCG@k, 1 to {_MOST_K:,}.",
)
@click.option(
    "--unable", multiple=True, metavar="TASK", help="A task that the model cannot do: null, not wrong; repeatable."
)
@options.number(
    "--bootstrap",
    default=0,
    minimum=0,
    maximum=_MOST_RESAMPLES,
    text="Resamplings of the queries for an interval of P@1; 0 for none.",
)
@options.seed
@click.option("--model", metavar="LABEL", help="What the model is called in the document.")
@options.out_folder("Also write retrieval.json, cells.csv and languages.csv into DIR.", required=False)
@options.as_json
@click.pass_context
def retrieve(
    ctx: click.Context,
    queries: tuple[str, ...],
    candidates: tuple[str, ...],
    task: str,
    ties: str,
    at: list[int],
    unable: tuple[str, ...],
    bootstrap: int,
    seed: int,
    model: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Evaluate embeddings by retrieval: how often is the right candidate the most similar one?

    P@1 is in percent, by cosine. Cosines that are equal after rounding to 12 decimals are tied; equal ones that come
    out 1e-16 apart on the two sides of a half of 1e-12 count as different. Where the truth shares the first place with
    others, expected counts its share of the tie, optimistic a hit, pessimistic a miss. Candidates with one target are
    one. A query without a usable vector (missing, NaN, zeros) is wrong and is named; a task none of whose queries or
    candidates has a vector is one that the model cannot do: null, and so is every average over it. AVG-3 is the mean of
    i2t, t2i and c, AVG that of all tasks. A gap is English less the language: positive means worse than English.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import retrievals

    name, _, _ = retrievals.task_reference(task)
    document = retrievals.retrieve(
        list(queries),
        list(candidates),
        task,
        ties=ties,
        at=at,
        unable=list(unable),
        bootstrap=bootstrap,
        seed=seed,
        model=model,
        project=project_if_needed(ctx, (*queries, *candidates, name)),
        out=out,
        progress=reporter(),
    )
    if as_json:
        emit_json(document)
    else:
        emit_table(_cell_columns(document["cells"]), document["cells"])
        emit("")
        rows = [*document["languages"], {"language": "macro", **document["macro"]}]
        emit_table(_language_columns(rows, several=len(document["languages"]) > 1), rows)
    for line in (*document["notes"], *_invalid(document["invalid"])):
        note(line)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1f}"


def _policy(name: str) -> Column:
    title = f"P@1 {name}" if name == "expected" else name
    return Column(title, lambda row: _percent(None if row["p1"] is None else row["p1"][name]), right=True)


def _cell_columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    columns = [
        Column("task", lambda row: str(row["task"])),
        Column("language", lambda row: str(row["language"])),
        Column("queries", lambda row: str(row["queries"]), right=True),
        Column("candidates", lambda row: str(row["candidates"]), right=True),
        *(_policy(name) for name in _POLICIES),
    ]
    if any(row["interval"] for row in rows):
        columns.append(Column("interval", _interval, right=True))
    columns.append(Column("chance", lambda row: _percent(row["chance"]), right=True))
    if any(row["invalid_queries"] or row["invalid_truths"] for row in rows):
        columns.append(Column("invalid queries", lambda row: _count(row["invalid_queries"]), right=True))
        columns.append(Column("invalid truths", lambda row: _count(row["invalid_truths"]), right=True))
    return columns


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _interval(row: Mapping[str, Any]) -> str:
    return "-" if row["interval"] is None else "{:.1f}-{:.1f}".format(*row["interval"])


def _language_columns(rows: Sequence[Mapping[str, Any]], *, several: bool) -> list[Column]:
    def part(title: str, field: str, name: str, show: Callable[[float | None], str]) -> Column:
        return Column(title, lambda row: show((row[field] or {}).get(name)), right=True)

    tasks = list(rows[0]["p1"])
    columns = [
        Column("language", lambda row: str(row["language"])),
        *(part(task, "p1", task, _percent) for task in tasks),
        Column("AVG-3", lambda row: _percent(row["avg3"]), right=True),
        Column("AVG", lambda row: _percent(row["avg"]), right=True),
    ]
    if several and any(row["gap_to_english"] for row in rows):
        columns += [part(f"gap {title}", "gap_to_english", name, _points) for title, name in _GAPS]
        columns += [part(f"agreement {task}", "agreement", task, _percent) for task in tasks]
    return columns


_GAPS = (("AVG-3", "avg3"), ("AVG", "avg"))


def _invalid(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The first of what has no usable vector, and how many there are."""
    lines = [f"{row['kind']} {row['id']} ({row['task']}, {row['language']}): {row['reason']}" for row in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        lines.append(f"and {len(rows) - _SHOWN} more without a usable vector; --json and --out name all")
    return lines
