"""``CARD.md``: what a person should know of a published version, filled from its data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description
from optotype.registry.artifacts.lineage import lines
from optotype.store.manifest import FileEntry

__all__ = ["card"]

_STARTS = re.compile(r"^([0-9]*)([#>+=~.)-])")  # headings, quotes, lists, rules
_HIDDEN = ("content_digests",)
_FILES_SHOWN = 30
_LINEAGE_SHOWN = 60


def card(
    place: str,
    *,
    what: str,
    load: str,
    description: Description,
    title: str,
    digest: str,
    files: Sequence[FileEntry],
    storage: str,
    lineage: Sequence[Mapping[str, Any]],
    licences: Sequence[str],
    message: str,
) -> str:
    """The card as Markdown; the same text for the same version.

    Parameters
    ----------
    place : str
        ``kind/name@version``.
    what, load
        Of the kind's adapter.
    """
    _, _, rest = place.partition("/")
    name, _, version = rest.partition("@")
    sections = [
        f"# {_plain(title)}",
        f"`{place}` · `{digest}`",
        *([_plain(message)] if message else []),
        f"{what}",
        "## What is in it",
        _table([(_words(key), _shown(value)) for key, value in description.facts.items() if key not in _HIDDEN]),
        "## How to use it",
        _use(place, load.format(name=name, version=version, page=_first_page(files)), storage),
        "## What it was made of",
        _lineage(lineage),
        "## How it was made",
        _table(
            [(f"`{key}`", _shown(value)) for key, value in sorted(description.parameters.items())]
            + ([] if description.seed is None else [("seed", str(description.seed))])
        )
        or "Its source records no parameters.",
        "## Known limits",
        "\n".join(f"- {_plain(limit)}" for limit in description.limits),
        "## Licence of the sources",
        "\n".join(f"- {_plain(licence)}" for licence in licences)
        or "The sources state none that was recorded here. Ask their owners before you redistribute the payload.",
        "## Files",
        _files(files, storage),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _use(place: str, load: str, storage: str) -> str:
    where = "git itself" if storage == "git" else "DVC (the repository's remote or cache)"
    return (
        f"The payload is kept by {where}. Pin it from another folder, then bring exactly these bytes:\n\n"
        f"```sh\noptotype pin {place} --from GIT_URL_OR_PATH\noptotype pull\n```\n\n"
        f"Without optotype: `dvc get GIT_URL {_folder(place)}/payload`.\n\n"
        f"```python\n{load}\n```"
    )


def _folder(place: str) -> str:
    kind, _, rest = place.partition("/")
    name, _, version = rest.partition("@")
    return f"artifacts/{kind}/{name}/{version}"


def _lineage(nodes: Sequence[Mapping[str, Any]]) -> str:
    if not nodes:
        return "Its source names no inputs."
    all_lines = [
        f"{'  ' * depth}- {node['role']}: `{_code(node)}` (`{node['digest'][:19]}`)" for depth, node in lines(nodes)
    ]
    more = [f"- and {len(all_lines) - _LINEAGE_SHOWN} more: see `manifest.json`"]
    return "\n".join(all_lines[:_LINEAGE_SHOWN] + (more if len(all_lines) > _LINEAGE_SHOWN else []))


def _code(node: Mapping[str, Any]) -> str:
    """What a node is, for a code span."""
    return " ".join(f"{node['kind']}/{node['name']}".replace("`", "'").split())


def _files(files: Sequence[FileEntry], storage: str) -> str:
    total = sum(entry.size for entry in files)
    rows = [(f"`{entry.path}`", f"{entry.size:,}") for entry in files[:_FILES_SHOWN]]
    if len(files) > _FILES_SHOWN:
        rest = sum(entry.size for entry in files[_FILES_SHOWN:])
        rows.append((f"{len(files) - _FILES_SHOWN} more", f"{rest:,}"))
    return f"{len(files):,} files, {total:,} bytes, kept by {storage}.\n\n" + _table(rows, ("file", "bytes"))


def _table(rows: Sequence[tuple[str, str]], head: tuple[str, str] = ("", "")) -> str:
    if not rows:
        return ""
    return "\n".join([f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows)])


def _words(key: str) -> str:
    return key.replace("_", " ")


def _shown(value: Any) -> str:
    """A JSON value in a cell."""
    if isinstance(value, bool) or value is None:
        return "-" if value is None else ("yes" if value else "no")
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _plain(text if len(text) <= 200 else f"{text[:197]}...")


def _plain(text: str) -> str:
    """Text of others, on one line, in which Markdown and HTML mean nothing."""
    line = " ".join(text.split())
    for sign in ("\\", "|", "<", "[", "]", "`", "*"):
        line = line.replace(sign, f"\\{sign}")
    return _STARTS.sub(r"\1\\\2", line)


def _first_page(files: Sequence[FileEntry]) -> str:
    return next((entry.path for entry in files if entry.path.endswith(".html")), "")
