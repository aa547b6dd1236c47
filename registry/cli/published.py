"""``optotype list``, ``show``, ``diff`` and ``verify``: what looks at published versions and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optotype.registry.cli.commands import Command
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
from optotype.registry.cli.project import named_project, needed_project
from optotype.schemas.errors import IntegrityError, NotFoundError

if TYPE_CHECKING:
    from optotype.registry.artifacts.index import Registry

__all__ = ["diff", "diff_lines", "list_", "show", "verify"]

_SHOWN = 20


@click.command(
    "list",
    cls=Command,
    examples=["optotype list", "optotype list --kind ranking --json"],
    short_help="List what is published.",
)
@click.option("--kind", metavar="KIND", help="Only this kind: suite, frontier, pairs, ranking, report, features ...")
@as_json
@click.pass_context
def list_(ctx: click.Context, kind: str | None, as_json: bool) -> None:
    """List the published versions of the project, newest first."""
    from optotype.registry.artifacts.listing import list_versions

    rows = list_versions(_registry(ctx), kind)
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(_COLUMNS, rows)
    else:
        note("Nothing is published yet: optotype publish KIND NAME@0.1.0 --from DIR")
    for row in rows:
        if row["error"]:
            note(f"{row['kind']}/{row['name']}@{row['version']} cannot be read: {row['error']}")


@click.command(
    cls=Command,
    examples=["optotype show ranking/emoji@0.1.0", "optotype show ranking/emoji@latest --lineage --json"],
    short_help="Show one published version.",
)
@click.argument("reference", metavar="REF")
@click.option("--lineage", is_flag=True, help="Also what it was made of, down to raw files.")
@as_json
@click.pass_context
def show(ctx: click.Context, reference: str, lineage: bool, as_json: bool) -> None:
    """Show all that is known of one published version.

    REF is [KIND/]NAME@VERSION; instead of a version a range (^1.2), an alias (latest, stable) or a digest
    (sha256:0f3c...) may stand. Without any it is the version that optotype.lock pins.
    """
    from optotype.registry.artifacts.listing import show_version

    record = show_version(_registry(ctx), reference, lineage=lineage)
    if as_json:
        emit_json(record)
        return
    nodes = record.pop("lineage", None)
    emit_record({key: value for key, value in record.items() if value not in (None, [], "")})
    if nodes is not None:
        emit("lineage:")
        emit("\n".join(_tree(nodes)) or "  its source names no inputs")


@click.command(
    cls=Command,
    examples=["optotype diff ranking/emoji@0.1.0 ranking/emoji@0.2.0"],
    short_help="Compare two published versions.",
)
@click.argument("before", metavar="REF")
@click.argument("after", metavar="REF")
@as_json
@click.pass_context
def diff(ctx: click.Context, before: str, after: str, as_json: bool) -> None:
    """Compare two published versions of one kind.

    Items added, removed and reweighted, parameters, inputs, files, and the change of every panel model's rank. With
    --json everything is listed, else the first twenty of each.
    """
    from optotype.registry.artifacts.listing import diff_versions

    found = diff_versions(_registry(ctx), before, after)
    if as_json:
        emit_json(found)
    else:
        emit("\n".join(diff_lines(found)))
        for line in found["notes"]:
            note(line)


@click.command(
    cls=Command,
    examples=["optotype verify ranking/emoji@0.1.0", "optotype verify --all --json"],
    short_help="Check published versions byte by byte.",
)
@click.argument("reference", metavar="[REF]", required=False)
@click.option("--all", "everything", is_flag=True, help="Every published version.")
@as_json
@click.pass_context
def verify(ctx: click.Context, reference: str | None, everything: bool, as_json: bool) -> None:
    """Check one published version, or all: digests of every copy that is here, schema, lineage.

    Copies are the payload in the working tree and, of what DVC keeps, in its cache. What is wrong is named by file;
    nothing is ever repaired. Exit code 7 if anything is wrong. A version whose payload is not here is said to be "not
    here": nothing is known to be wrong with it, and nothing to be right.
    """
    from optotype.registry.artifacts.listing import verify_versions

    if (reference is None) != everything:
        raise click.UsageError("give one REF, or --all", ctx)
    rows = verify_versions(_registry(ctx), reference)
    if as_json:
        emit_json(rows)
    elif rows:
        emit_table(_VERIFIED, rows)
    else:
        note("Nothing is published yet.")
    bad = [row for row in rows if row["problems"]]
    if bad:
        told = (f"  - {p['where']}: {p['message']}" for row in bad for p in row["problems"])
        lines = list(dict.fromkeys(told))  # what is wrong with a status is found with each version of the name
        raise IntegrityError(
            f"{len(lines)} problem(s) in {len(bad)} of {len(rows)} version(s):\n" + "\n".join(lines),
            hint="Take the named files from git or DVC again (git checkout, dvc checkout), or pull a pin again "
            "(optotype pull); nothing was changed.",
        )


def _registry(ctx: click.Context) -> Registry:
    """The project's own versions, with its lock; where there is no project, what was pulled by a lock."""
    from optotype.registry.pins.registry import open_registry

    try:
        project: Path | None = needed_project(ctx).root
    except NotFoundError as error:
        named = named_project(ctx)
        try:
            return open_registry(None, named)
        except NotFoundError:
            raise error from None
    return open_registry(project)


def _state(row: Mapping[str, Any]) -> str:
    words = ["latest"] * bool(row["latest"]) + [*row["aliases"]]
    return ", ".join([*words, *(["yanked"] if row["yanked"] else []), *(["damaged"] if row["error"] else [])])


_COLUMNS = (
    Column("published", lambda row: f"{row['kind']}/{row['name']}"),
    Column("version", lambda row: str(row["version"])),
    Column("state", _state),
    Column("digest", lambda row: short_digest(row["digest"]) if row["digest"] else "?"),
    Column("size", lambda row: "?" if row["bytes"] is None else human_bytes(row["bytes"]), right=True),
    Column("title", lambda row: row["title"] or ""),
)
_VERIFIED = (
    Column("published", lambda row: str(row["reference"])),
    Column("result", lambda row: str(row["state"])),
    Column("copies", lambda row: ", ".join(f"{name} {state}" for name, state in row["copies"].items())),
)


def _tree(nodes: Sequence[Mapping[str, Any]], depth: int = 1) -> list[str]:
    """A lineage, one line a node, indented by depth."""
    lines = []
    for node in nodes:
        what = f"{node['role']}: {node['kind']}/{node['name']}  {short_digest(node['digest'])}"
        lines += [f"{'':{2 * depth}}{what}", *_tree(node["inputs"], depth + 1)]
    return lines


def diff_lines(found: Mapping[str, Any]) -> list[str]:
    """The result of a comparison in lines to print, the first twenty of each."""
    lines = [f"{found['from']} -> {found['to']}"]
    if found["same"]:
        lines.append("the payloads are the same, byte for byte")
    items = found["items"]
    if items is not None:
        noun = items["noun"]
        lines.append(f"{noun}: {items['kept']} in both")
        for word in ("added", "removed"):
            lines += _some(f"{noun} {word}", ["/".join(key) for key in items[word]])
        reweighted = [f"{'/'.join(row['key'])}: {row['from']} -> {row['to']}" for row in items["reweighted"]]
        lines += _some(f"{noun} reweighted", reweighted)
        changed = [f"{'/'.join(row['key'])}: {', '.join(row['values'])}" for row in items["changed"]]
        lines += _some(f"{noun} with other values", changed)
    changes = [f"{name}: {value['from']!r} -> {value['to']!r}" for name, value in found["parameters"].items()]
    lines += _some("parameters", changes)
    for word in ("added", "removed"):
        nodes = [f"{node['role']}: {node['kind']}/{node['name']}" for node in found["lineage"][word]]
        lines += _some(f"inputs {word}", nodes)
    for word, names in found["files"].items():
        lines += _some(f"files {word}", names)
    if found["models"] is not None:
        moved = [_move(row) for row in found["models"] if row["change"] != 0]
        lines += _some(f"ranks of {len(found['models'])} models, of which other", moved)
    return lines


def _move(row: Mapping[str, Any]) -> str:
    before, after = ("-" if row[key] is None else f"{row[key]:g}" for key in ("from", "to"))
    return f"{row['model']}: {before} -> {after}"


def _some(title: str, entries: Sequence[str]) -> list[str]:
    """A title with the number of entries, and the first twenty below it; nothing where there are none."""
    if not entries:
        return []
    more = [f"  and {len(entries) - _SHOWN} more (--json lists all)"] if len(entries) > _SHOWN else []
    return [f"{title}: {len(entries)}", *(f"  {entry}" for entry in entries[:_SHOWN]), *more]
