"""What is published, as rows to print; one function for each verb that looks."""

from __future__ import annotations

from typing import Any

from optotype.registry.artifacts.index import Registry, Version, latest
from optotype.registry.artifacts.lineage import lines
from optotype.registry.artifacts.verify import Verified
from optotype.schemas.errors import FormatError, IntegrityError, OptotypeError

__all__ = ["diff_versions", "list_versions", "show_version", "verify_versions"]


def list_versions(registry: Registry, kind: str | None = None) -> list[dict[str, Any]]:
    """One row for each published version, by kind and name, newest first.

    Returns
    -------
    list of dict
        ``kind``, ``name``, ``version``, ``title``, ``digest``, ``bytes``, ``files`` (int), ``storage``, ``latest``
        (bool), ``aliases`` (list), ``yanked`` (the reason or None), ``path``, ``error`` (None, or why it cannot be
        read; then what the manifest says is None).
    """
    rows = []
    for version in reversed(registry.all(kind)):
        try:
            rows.append({**_row(registry, version), "error": version.status.fault})
        except OptotypeError as error:
            rows.append({**_bare(registry, version), "error": error.message})
    return sorted(rows, key=lambda row: (row["kind"], row["name"]))


def show_version(registry: Registry, reference: str, *, lineage: bool = False) -> dict[str, Any]:
    """All that is known of one version.

    Returns
    -------
    dict
        The row of `list_versions`, and ``message``, ``facts``, ``parameters``, ``seed``, ``code``, ``licences``; with
        ``lineage`` the tree under ``lineage``.

    Raises
    ------
    UsageError, NotFoundError, ConflictError, FormatError, IntegrityError
        As `Registry.resolve` and the manifest do; a yanked version is shown.
    """
    version = registry.resolve(reference, yanked=True)
    manifest = version.manifest
    more: dict[str, Any] = {
        "message": manifest.message,
        "facts": {key: value for key, value in manifest.facts.items() if key != "content_digests"},
        "parameters": dict(manifest.parameters),
        "seed": manifest.seed,
        "code": {
            "version": manifest.code.version,
            "git_commit": manifest.code.git_commit,
            "dirty": manifest.code.dirty,
        },
        "licences": list(manifest.licences),
    }
    if lineage:
        more["lineage"] = [dict(node) for node in manifest.lineage]
    else:
        more["made_of"] = sum(1 for _ in lines(manifest.lineage))
    return {**_row(registry, version), **more}


def diff_versions(registry: Registry, before: str, after: str) -> dict[str, Any]:
    """What changed from one version to another: see `optotype.registry.artifacts.diff.compare`."""
    from optotype.registry.artifacts.diff import compare
    from optotype.registry.artifacts.panel_ranks import find_panel

    versions = [registry.resolve(reference, yanked=True) for reference in (before, after)]
    return compare(
        versions[0], versions[1], registry.payload, lambda version: find_panel(registry, version.manifest.lineage)
    )


def verify_versions(registry: Registry, reference: str | None = None) -> list[dict[str, Any]]:
    """Check one version, or all: every copy that is here, schema, lineage. Reads every byte, repairs nothing.

    Returns
    -------
    list of dict
        ``reference``, ``state`` (good, bad, partly here, or not here: no byte of the payload could be read),
        ``copies`` (``workspace``, ``cache``: whole, absent, partial or damaged), ``problems`` (list of
        ``where``, ``kind``, ``message``), ``yanked``.
    """
    versions = registry.all() if reference is None else [_to_verify(registry, reference)]
    return [_verified(registry.verified(version)) for version in versions]


def _to_verify(registry: Registry, reference: str) -> Version:
    try:
        return registry.resolve(reference, yanked=True)
    except FormatError as error:  # such as the status: here that is something found, and not in the way
        version = registry.despite_status(reference)
        if version is None:
            raise IntegrityError(error.message, hint=error.hint) from error
        return version


def _verified(found: Verified) -> dict[str, Any]:
    problems = [{"where": p.where, "kind": p.kind, "message": p.message} for p in found.problems]
    return {
        "reference": str(found.version),
        "state": found.state,
        "copies": dict(found.copies),
        "problems": problems,
        "yanked": found.version.yanked,
    }


def _row(registry: Registry, version: Version) -> dict[str, Any]:
    manifest = version.manifest
    return {
        **_bare(registry, version),
        "title": manifest.title,
        "digest": manifest.digest,
        "bytes": manifest.size,
        "files": len(manifest.files),
        "storage": manifest.storage,
    }


def _bare(registry: Registry, version: Version) -> dict[str, Any]:
    """What is known without the manifest."""
    newest = latest(registry.versions(version.kind, version.name), version.status.yanked)
    return {
        "kind": version.kind,
        "name": version.name,
        "version": version.version,
        "title": None,
        "digest": None,
        "bytes": None,
        "files": None,
        "storage": None,
        "latest": version.version == newest and version.status.fault is None,
        "aliases": version.aliases,
        "yanked": version.yanked,
        "path": version.place.relative,
        "error": None,
    }
