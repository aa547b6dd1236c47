"""``optotype embeddings``: what items say, and what they say together with their images, as vectors."""

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

__all__ = ["EMBEDDING_COLUMNS", "embeddings"]


def _count(name: str) -> Column:
    def text(row: Mapping[str, Any]) -> str:
        return "-" if row[name] is None else str(row[name])

    return Column(name, text, right=True)


EMBEDDING_COLUMNS = [
    Column("name", lambda row: str(row["name"])),
    *(_count(name) for name in ("items", "benchmarks", "text", "vision_text", "channels")),
    Column("size", lambda row: "-" if row["bytes"] is None else human_bytes(int(row["bytes"])), right=True),
    Column("digest", lambda row: f"damaged: {row['error']}" if row.get("error") else short_digest(str(row["digest"]))),
]
"""Columns of a table of embeddings; ``text`` and ``vision_text`` count the items embedded."""


@click.group(
    cls=Group,
    examples=["optotype embeddings import clip clip-items.npz", "optotype embeddings list"],
)
def embeddings() -> None:
    """Embeddings of benchmark items: import, list, show, export.

    `optotype encode items` computes them.
    """


@embeddings.command(
    "import",
    short_help="Import embeddings from a file.",
    examples=[
        "optotype embeddings import clip clip-items.npz",
        "optotype embeddings import --no-track clip-untracked clip-items.npz",
    ],
)
@click.argument("name", metavar="NAME")
@click.argument("file", metavar="FILE")
@click.option("--no-track", is_flag=True, help="Do not hand the array to DVC.")
@as_json
@click.pass_context
def import_(ctx: click.Context, name: str, file: str, no_track: bool, as_json: bool) -> None:
    """Import item embeddings from FILE and call them NAME.

    FILE is an .npz or .safetensors file or a Zarr folder. It holds benchmark and item_id (n strings each; in
    .safetensors JSON lists in the metadata) and text, vision_text or both, shape (n, d): the item's text alone, and
    text and image, by the same model. A row of NaN was not embedded. Data with anything wrong is refused with a list
    of all that is, and nothing is written.
    """
    from optotype.registry.embeddings import import_embeddings

    row = import_embeddings(needed_project(ctx), name, file, track=not no_track, say=note)
    if as_json:
        emit_json(row)
    else:
        emit_table(EMBEDDING_COLUMNS, [row])


@embeddings.command("list", examples=["optotype embeddings list", "optotype embeddings list --json"])
@as_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the embeddings of the project."""
    from optotype.registry.embeddings import list_embeddings

    rows = list_embeddings(needed_project(ctx))
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(EMBEDDING_COLUMNS, rows)
    else:
        note("No embeddings yet. Import some: optotype embeddings import NAME FILE")
    for row in rows:
        if row["error"]:
            note(f"{row['name']} cannot be read: {row['error']}")


@embeddings.command(
    short_help="Show one array of embeddings.",
    examples=["optotype embeddings show clip", "optotype embeddings show clip --json"],
)
@click.argument("name", metavar="NAME", shell_complete=complete_names("embeddings"))
@as_json
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show one array of embeddings: sizes, digest, and all that it was made from.

    NAME may be a path or URL.
    """
    from optotype.registry.embeddings import show_embeddings

    row = show_embeddings(project_if_needed(ctx, [name]), name)
    if as_json:
        emit_json(row)
    else:
        emit_record(row)


@embeddings.command(
    short_help="Write embeddings to a file.",
    examples=[
        "optotype embeddings export clip clip-copy.npz",
        "optotype embeddings export clip clip-copy --format zarr",
    ],
)
@click.argument("name", metavar="NAME", shell_complete=complete_names("embeddings"))
@click.argument("file", metavar="FILE")
@click.option("--format", "file_format", type=click.Choice(["npz", "safetensors", "zarr"]), help="Format of FILE.")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@as_json
@click.pass_context
def export(ctx: click.Context, name: str, file: str, file_format: str | None, force: bool, as_json: bool) -> None:
    """Write embeddings to FILE for other programs.

    The format is that of FILE's ending unless --format is given. A file that is there is left alone unless --force is
    given. NAME may be a path or URL.
    """
    from optotype.registry.embeddings import export_embeddings

    row = export_embeddings(project_if_needed(ctx, [name]), name, file, file_format=file_format, replace=force)
    if as_json:
        emit_json(row)
    else:
        emit(f"{row['name']} -> {row['file']}")
