"""``optotype export``: suites where evaluations run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from optotype.registry.cli.commands import Command
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note
from optotype.registry.cli.project import project_if_needed

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["export", "pairs", "suite_project"]

_FORMS = ("lmms-eval", "vlmevalkit", "jsonl", "ids")


def pairs(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` options as a mapping; a name ends at the first ``=``."""
    found: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{text!r}: written {param.metavar}", ctx, param)
        if found.setdefault(name, value) != value:
            raise click.BadParameter(f"{name!r} is given twice: {found[name]} and {value}", ctx, param)
    return found


@click.command(
    cls=Command,
    short_help="Export a suite to where evaluations run.",
    examples=[
        "optotype export mini --to ids mini.txt",
        "optotype export mini --to jsonl mini.jsonl --blind",
        "optotype export mini --to vlmevalkit mini_MMVP.tsv --items items.csv --images images",
        "optotype export mini --to lmms-eval tasks-mini --base-task mmvp=mmvp/mmvp.yaml --revision mmvp=main",
    ],
)
@click.argument("suite", metavar="SUITE")
@click.option("--to", "form", required=True, type=click.Choice(_FORMS), help="What reads it.")
@click.argument("target", metavar="TARGET")
@click.option("--blind", is_flag=True, help="The run without images.")
@click.option("--panel", metavar="PANEL", help="Take item columns of this panel.  [default: the suite's own]")
@click.option(
    "--items",
    multiple=True,
    metavar="[BENCHMARK=]FILE",
    help="Table with questions, options, answers, images of the items; a VLMEvalKit .tsv serves, too.",
)
@click.option(
    "--images",
    metavar="DIR",
    help="Folder of images that are named by relative paths.  [default: that of the --items table]",
)
@click.option(
    "--base-task",
    "tasks",
    multiple=True,
    callback=pairs,
    metavar="BENCHMARK[/SUB_TASK]=TASK",
    help="The harness's own name: for lmms-eval a task, or the path of its YAML; for vlmevalkit the data set.  "
    "[default: the benchmark's name]",
)
@click.option(
    "--id-column",
    "columns",
    multiple=True,
    callback=pairs,
    metavar="BENCHMARK=COLUMN",
    help="Column of the data set that holds the ids, for lmms-eval.  [default: id, idx, index, question_id ...]",
)
@click.option(
    "--revision",
    "revisions",
    multiple=True,
    callback=pairs,
    metavar="BENCHMARK=REVISION",
    help="Revision of the data set, for lmms-eval.",
)
@as_json
@click.pass_context
def export(
    ctx: click.Context,
    suite: str,
    form: str,
    target: str,
    blind: bool,
    panel: str | None,
    items: tuple[str, ...],
    images: str | None,
    tasks: dict[str, str],
    columns: dict[str, str],
    revisions: dict[str, str],
    as_json: bool,
) -> None:
    """Export SUITE, a published suite or the folder of one, to TARGET.

    lmms-eval gets a folder for --include_path, whose tasks pick the suite's items by their ids; vlmevalkit a .tsv for
    $LMUData, one for each benchmark; jsonl one object for each item; ids lines of benchmark, tab, id. Results come back
    with `optotype place`.
    """
    from optotype.registry.exporters.exporter import export as run

    done = run(
        suite,
        form,
        target,
        project=suite_project(ctx, panel),
        blind=blind,
        panel=panel,
        items=items,
        images=images,
        tasks=tasks,
        revisions=revisions,
        columns=columns,
    )
    for line in done["notes"]:
        note(line)
    if as_json:
        emit_json(done)
    elif done["runs"]:
        emit_table(_COLUMNS, done["runs"])
    else:
        emit(f"{done['items']} items in {', '.join(done['files'])}")


_COLUMNS = (
    Column("run", lambda row: str(row["name"])),
    Column("benchmark", lambda row: str(row["benchmark"])),
    Column("items", lambda row: str(row["items"]), right=True),
)


def suite_project(ctx: click.Context, panel: str | None) -> Project | None:
    """The project; None where there is none, which will do for a folder, or a pinned suite that was pulled."""
    del panel  # may be pinned, so that its name alone needs no project
    return project_if_needed(ctx, [])
