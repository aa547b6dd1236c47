"""``optotype scores``: panels of scores, models x items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from optotype.registry.cli.commands import Command, Group
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import Column, emit, emit_json, emit_record, emit_table, note, short_digest
from optotype.registry.cli.project import complete_names, needed_project, project_if_needed

__all__ = ["scores"]

_FORMATS = ("auto", "lmms-eval", "vlmevalkit", "tidy", "wide")


class _ImportCommand(Command):
    """``--blind`` takes all words up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat ``--blind`` before each path behind it, as click wants it."""
        words: list[str] = []
        is_blind = False
        for place, word in enumerate(args):
            if word == "--":
                words += args[place:]
                break
            if word == "--blind":
                if is_blind and words[-1] == "--blind":
                    break  # --blind without a path: click says so
                is_blind = True
                words.append(word)
            elif word.startswith("-") and len(word) > 1:
                is_blind = False
                words.append(word)
            elif is_blind and words[-1] != "--blind":
                words += ["--blind", word]
            else:
                words.append(word)
        return super().parse_args(ctx, words)


scores = Group(
    "scores",
    help="Panels of scores, models x items: import, list, show, export.",
    examples=["optotype scores import panel scores.csv", "optotype scores list"],
)


@scores.command(
    "import",
    cls=_ImportCommand,
    short_help="Import scores into a panel.",
    examples=[
        "optotype scores import panel scores.csv",
        "optotype scores import panel scores.csv --items items.csv --models models.csv",
        "optotype scores import panel scores.csv --scale mmvp=0:1 --invalid-response '\\(Z\\)'",
    ],
)
@click.argument("panel", metavar="PANEL")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(_FORMATS),
    default="auto",
    show_default=True,
    help="What the paths are; auto looks at each.",
)
@click.option(
    "--items",
    metavar="FILE",
    help="Table of items, in catalogue order: benchmark, item_id, category ... Columns scale_min and scale_max declare "
    "the scale of a benchmark, as --scale does.",
)
@click.option("--models", metavar="FILE", help="Table of the models: model, family, vendor, release_date, axis ...")
@click.option(
    "--blind",
    multiple=True,
    metavar="PATH...",
    help="Runs without images; takes all paths up to the next option, and may be repeated.",
)
@click.option(
    "--scale",
    "scales",
    multiple=True,
    metavar="BENCHMARK=MIN:MAX",
    help="Lowest and highest score of a benchmark; repeat it for others. Must agree with scale_min and scale_max of "
    "--items, where those are given.  [default: 0:1]",
)
@click.option(
    "--invalid-response",
    metavar="REGEX",
    help="Records whose response this regular expression matches are missing.",
)
@click.option("--no-track", is_flag=True, help="Do not hand the panel to DVC.")
@as_json
@click.pass_context
def import_(
    ctx: click.Context,
    panel: str,
    paths: tuple[str, ...],
    file_format: str,
    items: str | None,
    models: str | None,
    blind: tuple[str, ...],
    scales: tuple[str, ...],
    invalid_response: str | None,
    no_track: bool,
    as_json: bool,
) -> None:
    """Import scores into PANEL: logs of lmms-eval, results of VLMEvalKit, tidy or wide tables, or folders of them.

    A tidy table has the columns benchmark, item_id, model, score, and perhaps modality (image or blind) and response. A
    wide one has a row for each model and a column for each item; its name is the benchmark's. Invalid records are
    missing, never 0, and are counted. A panel that is there gains models, items and benchmarks; nothing of it is
    rewritten. Data with anything wrong is refused with a list of all that is, and nothing is written.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.panels import import_scores
    from optotype.schemas.scores import parse_scales

    if not paths and not blind:
        raise click.UsageError("Missing argument 'PATH...' (or --blind PATH...).", ctx)
    row = import_scores(
        needed_project(ctx),
        panel,
        paths,
        format=file_format,
        items=items,
        models=models,
        blind=blind,
        scales=parse_scales(scales),
        invalid_response=invalid_response,
        track=not no_track,
        progress=reporter(),
    )
    for line in row["notes"]:
        note(line)
    if as_json:
        emit_json(row)
    else:
        emit_record({name: value for name, value in row.items() if name != "notes" and value not in ({}, None)})


@scores.command("list", examples=["optotype scores list", "optotype scores list --json"])
@as_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the panels of the project."""
    from optotype.registry.panels import list_panels

    rows: Sequence[Mapping[str, Any]] = list_panels(needed_project(ctx))
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(_list_columns(), rows)
    else:
        note("No panels yet. Import scores: optotype scores import PANEL PATH")
    for row in rows:
        if row["error"]:
            note(f"{row['name']} cannot be read: {row['error']}")


@scores.command("show", examples=["optotype scores show panel", "optotype scores show panel --json"])
@click.argument("panel", metavar="PANEL", shell_complete=complete_names("scores"))
@as_json
@click.pass_context
def show(ctx: click.Context, panel: str, as_json: bool) -> None:
    """Show a panel, benchmark by benchmark: items, models, coverage, blind runs, mean, invalid records.

    PANEL may be a path or URL. Means are over all scores, scaled to 0..1.
    """
    from optotype.registry.panels import show_panel

    row = show_panel(project_if_needed(ctx, [panel]), panel)
    if as_json:
        emit_json(row)
        return
    tables = ("benchmarks", "item_columns", "model_columns")
    emit_record({name: value for name, value in row.items() if name not in tables})
    emit("")
    emit_table(_benchmark_columns(), row["benchmarks"])


@scores.command(
    "export",
    short_help="Write a panel to files.",
    examples=["optotype scores export panel panel-copy.parquet", "optotype scores export panel panel-copy.zarr"],
)
@click.argument("panel", metavar="PANEL", shell_complete=complete_names("scores"))
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "csv", "zarr"]),
    help="Format of FILE.",
)
@click.option("--force", is_flag=True, help="Replace files that are there.")
@as_json
@click.pass_context
def export(ctx: click.Context, panel: str, file: str, file_format: str | None, force: bool, as_json: bool) -> None:
    """Write a panel to FILE for other programs.

    The format is that of FILE's ending (.parquet, .csv, .zarr) unless --format is given. Tables are tidy, with
    FILE.items and FILE.models beside them, and import as the same panel. PANEL may be a path or URL.
    """
    from optotype.registry.panels import export_panel

    row = export_panel(project_if_needed(ctx, [panel]), panel, file, file_format=file_format, replace=force)
    if as_json:
        emit_json(row)
    else:
        emit(f"{row['name']} -> {', '.join(row['files'])}")


def _list_columns() -> list[Column]:
    names = ("models", "benchmarks", "items", "scores", "blind_models")
    return [
        Column("name", lambda row: str(row["name"])),
        *(Column(name.replace("_", " "), _count(name), right=True) for name in names),
        Column("digest", lambda row: f"damaged: {row['error']}" if row["error"] else short_digest(str(row["digest"]))),
    ]


def _benchmark_columns() -> list[Column]:
    return [
        Column("benchmark", lambda row: str(row["name"]) + (" (circular)" if row["circular"] else "")),
        Column("items", _count("items"), right=True),
        Column("models", _count("models"), right=True),
        Column("coverage", _share("coverage"), right=True),
        Column("mean", _share("mean"), right=True),
        Column("blind runs", _count("blind_models"), right=True),
        Column("blind mean", _share("blind_mean"), right=True),
        Column("scale", lambda row: "{:g}:{:g}".format(*row["scale"])),
        Column("invalid", lambda row: str(_invalid(row)), right=True),
    ]


def _count(name: str) -> Any:
    return lambda row: "-" if row[name] is None else str(row[name])


def _share(name: str) -> Any:
    return lambda row: "-" if row[name] is None else f"{row[name]:.3f}"


def _invalid(row: Mapping[str, Any]) -> int:
    """Invalid records, with images and without."""
    return sum(sum(told.values()) for name in ("invalid", "invalid_blind") for told in row[name].values())
