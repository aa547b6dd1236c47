"""``optotype tasks``: retrieval tasks, which candidates belong to a query and which of them is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from optotype.registry.cli.commands import Group
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import (
    Column,
    emit,
    emit_json,
    emit_record,
    emit_table,
    human_bytes,
    note,
    short_digest,
)
from optotype.registry.cli.project import complete_names, needed_project, project_if_needed

__all__ = ["tasks"]


def _count(name: str) -> Column:
    def text(row: Mapping[str, Any]) -> str:
        return "-" if row[name] is None else str(row[name])

    return Column(name, text, right=True)


def _names(name: str) -> Column:
    return Column(name, lambda row: ",".join(row[name] or ()) or "-")


def _list_size(row: Mapping[str, Any]) -> str:
    least, most = row["list_size"]["min"], row["list_size"]["max"]
    return str(most) if least == most else f"{least}-{most}"


_COLUMNS = [
    Column("name", lambda row: str(row["name"])),
    _names("tasks"),
    _names("languages"),
    *(_count(name) for name in ("queries", "candidates", "lists")),
    Column("size", lambda row: "-" if row["bytes"] is None else human_bytes(int(row["bytes"])), right=True),
    Column("digest", lambda row: f"damaged: {row['error']}" if row.get("error") else short_digest(str(row["digest"]))),
]
_CELLS = [
    Column("task", lambda row: str(row["task"])),
    Column("language", lambda row: str(row["language"])),
    *(_count(name) for name in ("queries", "items", "candidates", "lists")),
    Column("a list", _list_size, right=True),
    Column("relevant", lambda row: f"{row['relevant']:.2f}", right=True),
    Column("duplicates", lambda row: f"{100 * row['duplicates']:.1f} %", right=True),
]


@click.group(
    cls=Group,
    examples=["optotype tasks import xtd xtd_it_1000_formatted_i2t.jsonl", "optotype tasks list"],
)
def tasks() -> None:
    """Retrieval tasks: import, list, show, export.

    A task set says, for each query of a task and language, which candidates belong to it and which of them are right.
    """


@tasks.command(
    "import",
    short_help="Import a task set from files.",
    examples=[
        "optotype tasks import xtd xtd_en_1000_formatted_i2t.jsonl xtd_it_1000_formatted_i2t.jsonl",
        "optotype tasks import coco mscoco_t2i_info.jsonl --task t2i --language en",
        "optotype tasks import emoji --queries q.csv --candidates c.csv --relevance r.csv",
    ],
)
@click.argument("name", metavar="NAME")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--form",
    type=click.Choice(["auto", "mmmeb", "mmeb", "tables"]),
    default="auto",
    show_default=True,
    help="What the paths are; auto looks at the first line of each.",
)
@click.option("--queries", metavar="FILE", help="Table: query, task, language [item, embedding, text, image, list].")
@click.option(
    "--candidates",
    metavar="FILE",
    help="Table: candidate [task, language or query or list; item, embedding, target, text, image]. With mmeb: JSON "
    "lines of cand_name.",
)
@click.option("--relevance", metavar="FILE", help="Table: query, candidate [grade].")
@click.option("--lists", metavar="FILE", help="Table: list, candidate; where queries name their list.")
@click.option("--task", metavar="TASK", help="Task of all queries; of tables, of those that name none.")
@click.option("--language", metavar="LANGUAGE", help="Language of all queries; of tables, of those that name none.")
@click.option("--all-candidates", is_flag=True, help="mmeb: rank against all candidates of the data set.")
@click.option("--no-track", is_flag=True, help="Do not hand the array to DVC.")
@as_json
@click.pass_context
def import_(
    ctx: click.Context, /, name: str, paths: tuple[str, ...], no_track: bool, as_json: bool, **how: Any
) -> None:
    """Import a task set and call it NAME.

    PATH is a file, or a folder of files, of one of two forms. mmmeb: JSON lines, each a query with its candidates under
    captions, images, answers, imgs or classes, the right one first; one file a data set, language and task, such as
    xtd_it_1000_formatted_i2t.jsonl. mmeb: DATASET_info.jsonl with cand_names and label_name, or rows with qry_text,
    qry_img_path, tgt_text and tgt_img_path. Plain tables are given with --queries, --candidates and --relevance.

    The order of candidates means nothing once they are in. Lines without a query are left out and counted. Files with
    anything wrong are refused with a list of all that is, and nothing is written.
    """
    from optotype.registry.tasks import import_tasks

    row = import_tasks(needed_project(ctx), name, paths, track=not no_track, say=note, **how)
    if as_json:
        emit_json(row)
    else:
        emit_table(_CELLS, row["cells"])


@tasks.command("list", examples=["optotype tasks list", "optotype tasks list --json"])
@as_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the task sets of the project."""
    from optotype.registry.tasks import tasks_rows

    rows = tasks_rows(needed_project(ctx))
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(_COLUMNS, rows)
    else:
        note("No tasks yet. Import some: optotype tasks import NAME PATH...")
    for row in rows:
        if row["error"]:
            note(f"{row['name']} cannot be read: {row['error']}")


@tasks.command(short_help="Show one task set.", examples=["optotype tasks show xtd", "optotype tasks show xtd --json"])
@click.argument("name", metavar="NAME", shell_complete=complete_names("tasks"))
@as_json
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show one task set: for each task and language its queries, candidates and lists, and what it was made from.

    relevant is the mean number of right candidates of a query; duplicates is the share of the entries of lists that are
    the same as another one, by their target. NAME may be a path or URL.
    """
    from optotype.registry.tasks import show_tasks

    row = show_tasks(project_if_needed(ctx, [name]), name)
    if as_json:
        emit_json(row)
        return
    emit_table(_CELLS, row.pop("cells"))
    emit("")
    emit_record(row)


@tasks.command(
    short_help="Write a task set as tables.",
    examples=["optotype tasks export xtd --out xtd-tables", "optotype tasks export xtd --out xtd-tables --force"],
)
@click.argument("name", metavar="NAME", shell_complete=complete_names("tasks"))
@click.option("--out", "folder", metavar="DIR", required=True, help="Folder of the tables, made when missing.")
@click.option("--force", is_flag=True, help="Replace tables that are there.")
@as_json
@click.pass_context
def export(ctx: click.Context, name: str, folder: str, force: bool, as_json: bool) -> None:
    """Write a task set as tables: what imports as the same set, and what encoders take.

    queries.csv, candidates.csv, relevance.csv and, where lists are shared or several, lists.csv import again.
    query-texts.csv and candidate-texts.csv (id, text, image, language, task) are for `optotype encode texts`,
    query-images.csv and candidate-images.csv (id, image) say which images belong to which embedding.
    """
    from optotype.registry.tasks import export_tasks

    row = export_tasks(project_if_needed(ctx, [name]), name, folder, replace=force)
    if as_json:
        emit_json(row)
        return
    for file, count in row["files"].items():
        emit(f"{folder}/{file}  {count} rows")
    note(f"To take them in again: {row['import']}")
