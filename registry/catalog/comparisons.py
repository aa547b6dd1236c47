"""Versions of one name compared with each other, as many as a page can hold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.diff import compare
from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.artifacts.panel_ranks import find_panel
from optotype.registry.catalog.entries import Entry, without_root
from optotype.schemas.errors import NotFoundError, OptotypeError
from optotype.schemas.references import sort_key

__all__ = ["NEWEST", "compare_all", "compared_pairs"]

NEWEST = 8  # versions of a name of which any two are compared: 28 pairs


def compared_pairs(versions: Sequence[str]) -> list[tuple[str, str]]:
    """Which versions are compared: any two of the newest `NEWEST`, and of older ones each with the next.

    Returns
    -------
    list of (str, str)
        Older and newer, the newest pair first.
    """
    ordered = sorted(versions, key=sort_key)
    pairs = {*combinations(ordered[-NEWEST:], 2), *pairwise(ordered)}
    place = {version: i for i, version in enumerate(ordered)}
    return sorted(pairs, key=lambda pair: (-place[pair[1]], -place[pair[0]]))


def compare_all(registry: Registry, entries: Sequence[Entry]) -> dict[tuple[str, str], dict[str, Any]]:
    """What changed between the versions of one name, older to newer, in the order of `compared_pairs`.

    Returns
    -------
    dict
        As `optotype.registry.artifacts.diff.compare` gives them; of two that cannot be compared ``{"from", "to",
        "error"}``. Payloads whose bytes are wrong or absent are compared by their manifests, and ``notes`` says so.
    """
    readable = {entry.version.version: entry for entry in entries if entry.manifest is not None}

    def payload(version: Version) -> Path:
        entry = readable[version.version]
        if entry.payload is None:
            raise NotFoundError(f"{version}: {'; '.join(entry.notes)}")
        return entry.payload

    @cache
    def panel(version: str) -> Path | None:
        manifest = readable[version].manifest
        return None if manifest is None else find_panel(registry, manifest.lineage)

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for before, after in compared_pairs(list(readable)):
        old, new = readable[before].version, readable[after].version
        try:
            found[before, after] = compare(old, new, payload, lambda version: panel(version.version))
        except OptotypeError as error:
            found[before, after] = {"from": str(old), "to": str(new), "error": without_root(registry, error.message)}
    return found
