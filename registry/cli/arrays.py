"""Verbs that patch features and text states have in common; each group is built of them once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

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

__all__ = ["Kind", "array_columns", "array_group"]

Kind = Literal["features", "states"]

_FILES = "an .npz, .npy, .safetensors, .pt or .pth file or a Zarr folder"
_MEMBERS = {
    "features": (
        "It holds ids (n strings) and either patches (n, M, d) or tokens (N, d) with row_size (n), "
        "the number of tokens of each image."
    ),
    "states": "It holds ids (n strings) and states (n, d).",
}


def array_columns(kind: Kind) -> list[Column]:
    """Columns of a table of arrays."""
    counts = ["images", "tokens", "channels"] if kind == "features" else ["texts", "channels"]
    return [
        Column("name", lambda row: str(row["name"])),
        *(Column(name, _counter(name), right=True) for name in counts),
        Column("dtype", lambda row: str(row["dtype"] or "-")),
        Column("size", lambda row: "-" if row["bytes"] is None else human_bytes(int(row["bytes"])), right=True),
        Column("digest", _digest),
    ]


def _digest(row: Mapping[str, Any]) -> str:
    return f"damaged: {row['error']}" if row.get("error") else short_digest(str(row["digest"]))


def _counter(name: str) -> Any:
    def text(row: Mapping[str, Any]) -> str:
        return "-" if row[name] is None else str(row[name])

    return text


def array_group(kind: Kind, *, help_text: str, name: str, file: str) -> Group:
    """The group of one kind: ``import``, ``list``, ``show``, ``export``.

    Parameters
    ----------
    kind : {"features", "states"}
    help_text : str
        What the group says it is for.
    name, file : str
        An array's name and a file's, for the examples.
    """
    group = Group(
        kind,
        help=help_text,
        examples=[f"optotype {kind} import {name} {file}", f"optotype {kind} list"],
    )
    _add_import(group, kind, name, file)
    _add_list(group, kind)
    _add_show(group, kind, name)
    _add_export(group, kind, name)
    return group


def _keep_invalid(kind: Kind) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option of states alone."""
    if kind != "states":
        return lambda command: command
    return click.option(
        "--keep-invalid",
        is_flag=True,
        help="Store rows that hold NaN or Inf, as NaN; optotype retrieve counts them as wrong, what else reads states "
        "refuses them.",
    )


def _add_import(group: Group, kind: Kind, name: str, file: str) -> None:
    @group.command(
        "import",
        help=(
            f"Import {kind} from FILE and call them NAME.\n\nFILE is {_FILES}. {_MEMBERS[kind]} "
            "The dtype it is given is the dtype it keeps. Rows are stored sorted by id. Data with anything wrong "
            "is refused with a list of all that is, and nothing is written."
        ),
        short_help=f"Import {kind} from a file.",
        examples=[
            f"optotype {kind} import {name} {file}",
            f"optotype {kind} import --no-track {name}-untracked {file}",
        ],
    )
    @click.argument("name", metavar="NAME")
    @click.argument("file", metavar="FILE")
    @click.option("--no-track", is_flag=True, help="Do not hand the array to DVC.")
    @_keep_invalid(kind)
    @as_json
    @click.pass_context
    def import_(
        ctx: click.Context, name: str, file: str, no_track: bool, as_json: bool, keep_invalid: bool = False
    ) -> None:
        from optotype.registry.arrays import import_array

        project = needed_project(ctx)
        row = import_array(project, kind, name, file, track=not no_track, keep_invalid=keep_invalid, say=note)
        if as_json:
            emit_json(row)
        else:
            emit_table(array_columns(kind), [row])


def _add_list(group: Group, kind: Kind) -> None:
    @group.command(
        "list",
        help=f"List the {kind} of the project.",
        examples=[f"optotype {kind} list", f"optotype {kind} list --json"],
    )
    @as_json
    @click.pass_context
    def list_(ctx: click.Context, as_json: bool) -> None:
        from optotype.registry.arrays import list_arrays

        rows: Sequence[Mapping[str, Any]] = list_arrays(needed_project(ctx), kind)
        if as_json:
            emit_json(rows)
        elif rows:
            emit_table(array_columns(kind), rows)
        else:
            note(f"No {kind} yet. Import some: optotype {kind} import NAME FILE")
        for row in rows:
            if row["error"]:
                note(f"{row['name']} cannot be read: {row['error']}")


def _add_show(group: Group, kind: Kind, name: str) -> None:
    @group.command(
        "show",
        help=f"Show one array of {kind}: sizes, digest, and all that it was made from.\n\nNAME may be a path or URL.",
        short_help=f"Show one array of {kind}.",
        examples=[f"optotype {kind} show {name}", f"optotype {kind} show {name} --json"],
    )
    @click.argument("name", metavar="NAME", shell_complete=complete_names(kind))
    @as_json
    @click.pass_context
    def show(ctx: click.Context, name: str, as_json: bool) -> None:
        from optotype.registry.arrays import show_array

        row = show_array(project_if_needed(ctx, [name]), kind, name)
        if as_json:
            emit_json(row)
        else:
            emit_record(row)


def _add_export(group: Group, kind: Kind, name: str) -> None:
    @group.command(
        "export",
        help=(
            f"Write {kind} to FILE for other programs.\n\nThe format is that of FILE's ending unless --format is "
            "given. A file that is there is left alone unless --force is given. NAME may be a path or URL."
        ),
        short_help=f"Write {kind} to a file.",
        examples=[
            f"optotype {kind} export {name} {name}-copy.npz",
            f"optotype {kind} export {name} {name}-copy --format zarr",
        ],
    )
    @click.argument("name", metavar="NAME", shell_complete=complete_names(kind))
    @click.argument("file", metavar="FILE")
    @click.option(
        "--format",
        "file_format",
        type=click.Choice(["npz", "npy", "safetensors", "zarr"]),
        help="Format of FILE.",
    )
    @click.option("--force", is_flag=True, help="Replace FILE if it is there.")
    @as_json
    @click.pass_context
    def export(ctx: click.Context, name: str, file: str, file_format: str | None, force: bool, as_json: bool) -> None:
        from optotype.registry.arrays import export_array

        row = export_array(project_if_needed(ctx, [name]), kind, name, file, file_format=file_format, replace=force)
        if as_json:
            emit_json(row)
        else:
            emit(f"{row['name']} -> {row['file']}")
