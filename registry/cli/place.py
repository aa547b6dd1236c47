"""``optotype place``: results on a suite, and what they say of the full benchmarks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.export import pairs, suite_project
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note

__all__ = ["place"]

_FORMATS = ("auto", "lmms-eval", "vlmevalkit", "tidy", "wide")


@click.command(
    cls=Command,
    short_help="Place models that were evaluated on a suite alone.",
    examples=[
        "optotype place mini results.csv",
        "optotype place mini results.csv --level 0.8 --benchmark MMVP=mmvp --json",
    ],
)
@click.argument("suite", metavar="SUITE")
@click.argument("results", metavar="RESULTS...", nargs=-1, required=True)
@click.option("--panel", metavar="PANEL", help="Place among the models of this panel.  [default: the suite's]")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(_FORMATS),
    default="auto",
    show_default=True,
    help="What the results are; auto looks at each.",
)
@click.option(
    "--benchmark",
    "benchmarks",
    multiple=True,
    callback=pairs,
    metavar="NAME=BENCHMARK",
    help="A benchmark that the results call otherwise than the suite.",
)
@click.option(
    "--invalid-response",
    metavar="REGEX",
    help="Scores whose response this regular expression matches are missing.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    metavar="NUMBER",
    help="Of the intervals, between 0 and 1.",
)
@click.option(
    "--refit",
    is_flag=True,
    help="Make the suite anew without each model of the panel, for intervals that hold for models it was not chosen "
    "on; takes as many compressions.",
)
@as_json
@click.pass_context
def place(
    ctx: click.Context,
    suite: str,
    results: tuple[str, ...],
    panel: str | None,
    file_format: str,
    benchmarks: dict[str, str],
    invalid_response: str | None,
    level: float,
    refit: bool,
    as_json: bool,
) -> None:
    """Place models by their RESULTS on SUITE, a published suite or the folder of one.

    Each gets its score on the suite, an estimate of its score on the full benchmarks with an interval, and its place
    among the panel that the suite was chosen on. RESULTS are files or folders as `optotype scores import` reads them:
    logs of lmms-eval, results of VLMEvalKit, tables. Items without a score are counted, items that the suite does not
    have are an error. The models of the panel are those that the suite was chosen on, so that intervals made of them
    are somewhat too narrow; --refit mends that.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.placement import place as run

    document = run(
        suite,
        results,
        panel=panel,
        project=suite_project(ctx, panel),
        format=file_format,
        benchmarks=benchmarks,
        invalid_response=invalid_response,
        level=level,
        refit=refit,
        progress=reporter(),
    )
    for line in document["notes"]:
        note(line)
    if as_json:
        emit_json(document)
        return
    emit_table(_COLUMNS, document["models"])
    for row in document["models"]:
        if row["reason"] is not None:
            note(f"{row['model']}: no estimate, {row['reason']}")
        categories = [each for each in row["categories"] if each["items"]]
        emit(f"\n{row['model']}, by category:")
        emit_table(_CATEGORIES, categories)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _estimate(row: Mapping[str, Any]) -> str:
    found = row["estimate"]
    return "-" if found is None else f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _rank(row: Mapping[str, Any]) -> str:
    if row["full_ranks"] is None:
        return "-"
    best, worst = row["full_ranks"]
    return f"{row['full_rank']:g} [{best}, {worst}] of {row['among']}"


_ANSWERED = Column("answered", lambda row: f"{row['answered']} of {row['items']}", right=True)
_SCORE = Column("suite score", lambda row: _number(row["score"]), right=True)
_FULL = Column("full score, estimated", _estimate, right=True)
_COLUMNS = (
    Column("model", lambda row: str(row["model"])),
    _ANSWERED,
    _SCORE,
    Column("suite rank", lambda row: "-" if row["rank"] is None else f"{row['rank']:g}", right=True),
    _FULL,
    Column("full rank", _rank, right=True),
)
_CATEGORIES = (Column("category", lambda row: str(row["category"])), _ANSWERED, _SCORE, _FULL)
