"""Two published versions compared: items, parameters, lineage, files, and what it does to every model's rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.artifacts.copies import check_bytes
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.kinds.adapter import Rows
from optotype.registry.artifacts.lineage import lines
from optotype.schemas.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from optotype.registry.artifacts.index import Version

__all__ = ["compare"]


def compare(
    before: Version,
    after: Version,
    payload: Callable[[Version], Path],
    panel: Callable[[Version], Path | None] | None = None,
) -> dict[str, Any]:
    """What changed from one version to another of the same kind.

    Parameters
    ----------
    before, after : Version
    payload : callable
        Gives the folder of a version's payload, as `Registry.payload` does. Where there is none, what needs the bytes
        is None and ``notes`` says why; the rest comes from the manifests.
    panel : callable, optional
        Gives the folder of the panel of scores that a version was made of, or None: where payloads hold no ranks, they
        are those of the mean score over the items.

    Returns
    -------
    dict
        ``kind``, ``from``, ``to``, ``same`` (bool: equal payloads);
        ``files``: ``added``, ``removed``, ``changed`` (lists of paths);
        ``parameters``: ``{name: {"from", "to"}}`` of those that differ, ``seed`` among them;
        ``lineage``: ``added``, ``removed`` (lists of nodes without inputs);
        ``items``: ``noun``, ``key`` (names of the columns that tell rows apart), ``kept`` (int), ``added``, ``removed``
        (lists of keys), ``reweighted`` (``{"key", "from", "to"}``), ``changed`` (``{"key", "values"}``); or None;
        ``models``: list of ``{"model", "from", "to", "change"}`` with ranks, 1 = best, biggest change first (None for a
        model that only one of them ranks); or None;
        ``notes``: list of str.

    Raises
    ------
    UsageError
        The versions are of different kinds.
    IntegrityError
        A payload that would be read does not hold the published bytes; names the files.
    """
    if before.kind != after.kind:
        raise UsageError(f"{before} and {after} are of different kinds; versions of one kind can be compared")
    old, new = before.manifest, after.manifest
    result: dict[str, Any] = {
        "kind": before.kind,
        "from": str(before),
        "to": str(after),
        "same": old.digest == new.digest,
        "files": _files(
            {entry.path: entry.sha256 for entry in old.files}, {entry.path: entry.sha256 for entry in new.files}
        ),
        "parameters": _changes({**old.parameters, "seed": old.seed}, {**new.parameters, "seed": new.seed}),
        "lineage": _lineage(old.lineage, new.lineage),
        "items": None,
        "models": None,
        "notes": [],
    }
    try:
        folders = payload(before), payload(after)
    except NotFoundError as error:
        result["notes"].append(f"items and ranks are not compared: {error.message}")
        return result
    for version, folder in {
        str(each): (each, there) for each, there in zip((before, after), folders, strict=True)
    }.values():
        check_bytes(version, folder)
    reader = adapter(before.kind)
    rows = [reader.rows(folder) for folder in folders]
    if rows[0] is not None and rows[1] is not None:
        result["items"] = _rows(rows[0], rows[1])
    ranks = [reader.ranks(folder) for folder in folders]
    if ranks == [None, None] and rows[0] is not None and rows[1] is not None and panel is not None:
        ranks = [_on_panel(panel(version), there) for version, there in zip((before, after), rows, strict=True)]
    if ranks[0] is not None and ranks[1] is not None:
        result["models"] = _ranks(ranks[0], ranks[1])
        if not set(ranks[0]) & set(ranks[1]):
            result["notes"].append("no model is ranked by both")
    return result


def _on_panel(panel: Path | None, rows: Rows | None) -> dict[str, dict[str, Any]] | None:
    from optotype.registry.artifacts.panel_ranks import ranks_on

    if panel is None or rows is None or rows.key != ("benchmark", "item_id"):
        return None
    return ranks_on(panel, [(key[0], key[1]) for key in rows.rows])


def _files(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, list[str]]:
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] != new[name]),
    }


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    names = sorted({*old, *new})
    return {
        name: {"from": old.get(name), "to": new.get(name)}
        for name in names
        if old.get(name) != new.get(name) or (name in old) != (name in new)
    }


def _lineage(old: Any, new: Any) -> dict[str, list[dict[str, Any]]]:
    there = [
        {
            (node["role"], node["digest"]): {key: node[key] for key in ("role", "kind", "name", "digest")}
            for _, node in lines(nodes)
        }
        for nodes in (old, new)
    ]
    return {
        "added": [there[1][key] for key in sorted(there[1].keys() - there[0].keys())],
        "removed": [there[0][key] for key in sorted(there[0].keys() - there[1].keys())],
    }


def _rows(old: Rows, new: Rows) -> dict[str, Any]:
    both = sorted(old.rows.keys() & new.rows.keys())
    weight = new.weight or old.weight
    reweighted, changed = [], []
    for key in both:
        one, other = old.rows[key], new.rows[key]
        if weight is not None and one.get(weight) != other.get(weight):
            reweighted.append({"key": list(key), "from": one.get(weight), "to": other.get(weight)})
        values = _changes(*({name: row[name] for name in row if name != weight} for row in (one, other)))
        if values:
            changed.append({"key": list(key), "values": values})
    return {
        "noun": new.noun,
        "key": list(new.key),
        "kept": len(both),
        "added": [list(key) for key in sorted(new.rows.keys() - old.rows.keys())],
        "removed": [list(key) for key in sorted(old.rows.keys() - new.rows.keys())],
        "reweighted": reweighted,
        "changed": changed,
    }


def _ranks(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for model in sorted({*old, *new}):
        before, after = (ranks.get(model, {}).get("rank") for ranks in (old, new))
        change = None if before is None or after is None else after - before
        rows.append({"model": model, "from": before, "to": after, "change": change})
    return sorted(rows, key=lambda row: (row["change"] is not None, -abs(row["change"] or 0), row["model"]))
