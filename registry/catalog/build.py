"""The catalog: a static site of everything that is published, to open from a disk or to put on any web server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from optotype.registry.artifacts.copies import flush_folders, hashed, payload_files
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.layout import ARTIFACTS
from optotype.registry.catalog.comparisons import NEWEST, compare_all
from optotype.registry.catalog.entries import Entry, read_entries
from optotype.registry.catalog.lineage_graph import build_graph, draw
from optotype.registry.catalog.pages import Pages, address
from optotype.registry.catalog.results import result_tables
from optotype.schemas.errors import ConflictError, OptotypeError, UsageError
from optotype.store.drafts import Draft

__all__ = ["DOCUMENT", "build_catalog"]

DOCUMENT = "catalog.json"
_FORMAT_VERSION = 1
_KIND = "catalog"
LARGEST_REPORT = 32 << 20  # bytes of a report that is copied into the site
_BASE = "../../../"  # from the page of a version to the root of the site


def build_catalog(
    root: Path, out: Path, *, title: str = "Published versions", source: str | None = None
) -> dict[str, Any]:
    """Write the catalog of everything published under a folder; a whole one or none.

    ``index.html`` lists all versions; ``KIND/NAME/index.html`` compares those of a name, with all that changed as
    ``diff.json`` beside it; ``KIND/NAME/VERSION/index.html`` shows one, and the pages of a report lie in ``payload/``
    below it. ``catalog.json`` is the list for programs. Every page holds its own style, script and data, so that the
    site works from a disk; nothing is loaded from elsewhere. No clock, host or absolute path is in it: the same
    published versions give the same bytes.

    What is shown of a payload has been checked against its manifest; a damaged version is listed with what is wrong
    and does not stop the rest.

    Parameters
    ----------
    root : Path
        The folder that holds ``artifacts/``.
    out : Path
        Folder of the site, made if missing; an older catalog there is replaced.
    title : str
        Heading of the front page.
    source : str, optional
        Git URL or path that others pin from, for the commands.

    Returns
    -------
    dict
        ``index`` (path of the front page), ``title``, ``versions``, ``names``, ``comparisons``, ``files``, ``bytes``
        (counts), ``notes`` (list of str: what is damaged or absent).

    Raises
    ------
    UsageError
        ``out`` lies among the published versions, or the project lies in it; a blank title.
    ConflictError
        Something other than a catalog stands at ``out``.
    """
    title = " ".join(title.split())
    if not title:
        raise UsageError("a catalog has a title", hint='--title "Suites of our group"')
    _check_place(root, out)
    registry = Registry(root)
    entries = read_entries(registry)
    files, comparisons, copies = _site(registry, entries, Pages(title, source))
    with Draft(out) as draft:
        _check_replaceable(out)
        for relative, content in files.items():
            _write(draft.path / relative, content)
        for relative, copied in copies.items():
            _write(draft.path / relative, copied.read_bytes())
        document = {
            "format_version": _FORMAT_VERSION,
            "kind": _KIND,
            "title": title,
            "versions": [{**entry.row, "page": address(entry), "notes": list(entry.notes)} for entry in entries],
        }
        _write(draft.path / DOCUMENT, _json(document))
        written = hashed(payload_files(draft.path), flush=True)
        flush_folders(draft.path)
        draft.commit(_is_catalog)
    return {
        "index": str(out / "index.html"),
        "title": title,
        "versions": len(entries),
        "names": len({(entry.row["kind"], entry.row["name"]) for entry in entries}),
        "comparisons": comparisons,
        "files": len(written),
        "bytes": sum(entry.size for entry in written),
        "notes": [f"{entry.version}: {note}" for entry in entries for note in (*_error(entry), *entry.notes)],
    }


def _error(entry: Entry) -> list[str]:
    return [] if entry.row["error"] is None else [str(entry.row["error"])]


def _site(registry: Registry, entries: Sequence[Entry], pages: Pages) -> tuple[dict[str, bytes], int, dict[str, Path]]:
    """Path in the site -> content, the number of comparisons, and path -> the file of a report that is copied there."""
    files = {"index.html": pages.index(entries).encode()}
    copies: dict[str, Path] = {}
    comparisons = 0
    by_digest = _by_digest(entries)
    for kind, name in dict.fromkeys((entry.row["kind"], entry.row["name"]) for entry in entries):
        mine = [entry for entry in entries if (entry.row["kind"], entry.row["name"]) == (kind, name)]
        found = compare_all(registry, mine)
        comparisons += len(found)
        files[f"{kind}/{name}/index.html"] = pages.name(mine, found, NEWEST).encode()
        if found:
            document = {"format_version": _FORMAT_VERSION, "kind": "diffs", "diffs": list(found.values())}
            files[f"{kind}/{name}/diff.json"] = _json(document)
        readable = [entry for entry in mine if entry.manifest is not None]
        for entry in mine:
            place = readable.index(entry) if entry in readable else len(readable)
            before = readable[place + 1] if place + 1 < len(readable) else None
            payload, no_pages = _report(entry)
            base = f"{kind}/{name}/{entry.row['version']}/payload"
            copies |= {f"{base}/{path}": file for path, file in payload.items()}
            copied = {path: f"payload/{quote(path)}" for path in payload}
            files[f"{kind}/{name}/{entry.row['version']}/index.html"] = pages.version(
                entry,
                previous=None
                if before is None
                else (before.row["version"], found[before.row["version"], entry.row["version"]]),
                instead=_instead(entry, mine),
                tables=_tables(entry),
                pages=[
                    {"path": path, "href": href, "size": payload[path].stat().st_size}
                    for path, href in copied.items()
                    if path.endswith(".html")
                ],
                no_pages=no_pages,
                copied=copied,
                graph=_graph(entry, by_digest),
                related=_related(entry, entries),
            ).encode()
    return files, comparisons, copies


def _by_digest(entries: Sequence[Entry]) -> dict[str, Entry]:
    """The version that a digest in a lineage stands for: of several with the same content the newest not yanked."""
    found: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda entry: entry.row["yanked"] is not None):
        for digest in sorted(entry.digests):
            found.setdefault(digest, entry)
    return found


def _report(entry: Entry) -> tuple[dict[str, Path], str]:
    """The files of a report by path, or none and why."""
    manifest = entry.manifest
    if entry.row["kind"] != "report" or manifest is None:
        return {}, ""
    if entry.payload is None:
        return {}, "Its pages are not here."
    if manifest.size > LARGEST_REPORT:
        return {}, f"Its pages are not copied into this site: together they exceed {LARGEST_REPORT >> 20} MiB."
    return {file.path: entry.payload / file.path for file in manifest.files}, ""


def _tables(entry: Entry) -> list[dict[str, Any]]:
    if entry.payload is None:
        return []
    try:
        return result_tables(entry.row["kind"], entry.payload)
    except OptotypeError:
        return []  # of a later format; the rest of the page does not need it


def _instead(entry: Entry, versions: Sequence[Entry]) -> Entry | None:
    if entry.row["yanked"] is None:
        return None
    return next((other for other in versions if other.row["latest"]), None)


def _graph(entry: Entry, by_digest: Mapping[str, Entry]) -> tuple[Markup, int, bool] | None:
    manifest = entry.manifest
    if manifest is None or not manifest.lineage:
        return None
    graph = build_graph((manifest.kind, manifest.name, manifest.digest), manifest.lineage)
    known = {
        node.key[2]: address(by_digest[node.key[2]], _BASE)
        for node in graph.nodes
        if node.key[2] in by_digest and by_digest[node.key[2]] is not entry
    }
    label = f"What {entry.version} was made of: {len(graph.nodes) - 1} inputs"
    drawn = draw(graph, label=label, version=manifest.version, link=lambda node: known.get(node.key[2]))
    return drawn, graph.left_out, bool(known)


def _related(entry: Entry, entries: Sequence[Entry]) -> list[tuple[str, list[Entry]]]:
    """What else to look at: versions made of this one, and reports on the same inputs."""
    if entry.manifest is None:
        return []
    others = [other for other in entries if other is not entry and other.manifest is not None]
    users = [other for other in others if entry.digests & other.made_of]
    same = []
    if entry.row["kind"] in ("ranking", "report"):
        mine = _direct(entry)
        kinds = {"ranking", "report"} - {entry.row["kind"]}
        same = [other for other in others if mine and other.row["kind"] in kinds and _direct(other) == mine]
    heading = "Reports on the same arrays" if entry.row["kind"] == "ranking" else "Rankings of the same arrays"
    return [("Made of this version", users), (heading, same)]


def _direct(entry: Entry) -> frozenset[str]:
    lineage = entry.manifest.lineage if entry.manifest is not None else ()
    return frozenset(str(node["digest"]) for node in lineage)


def _check_place(root: Path, out: Path) -> None:
    there, project = out.resolve(), root.resolve()
    if project.is_relative_to(there):
        raise UsageError(
            f"{out} holds the project itself", hint="Name a folder of its own: optotype catalog build site"
        )
    if there.is_relative_to(project / ARTIFACTS):
        raise UsageError(f"{out} lies among the published versions", hint="optotype catalog build site")
    _check_replaceable(out)


def _check_replaceable(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not (out.is_dir() and _is_catalog(out))):
        raise ConflictError(
            f"{out} is in the way: it is neither a catalog nor an empty folder",
            hint="Move it away, or choose another name.",
        )


def _is_catalog(folder: Path) -> bool:
    """Whether a folder is empty or was written by `build_catalog`."""
    if not any(folder.iterdir()):
        return True
    try:
        document = json.loads((folder / DOCUMENT).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("kind") == _KIND


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
