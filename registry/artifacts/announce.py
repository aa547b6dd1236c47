"""What others see of a name in ``dvc.yaml``: the entry that gto and ``dvc artifacts get`` read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optotype.registry.artifacts import dvcyaml
from optotype.registry.artifacts.layout import PAYLOAD, Place
from optotype.schemas.errors import OptotypeError
from optotype.store import dvc
from optotype.store.drafts import writing

if TYPE_CHECKING:
    from optotype.registry.artifacts.index import Registry

__all__ = ["announce", "announced"]


def announce(registry: Registry, kind: str, name: str, version: str | None = None) -> bool:
    """Let the entry ``<kind>/<name>`` of ``dvc.yaml`` point to a version, made whole from what is published now.

    Parameters
    ----------
    version : str, optional
        By default the latest; where all are pre-releases or yanked, the highest of those that are not yanked.

    Returns
    -------
    bool
        Whether there is a ``dvc.yaml``; in a DVC project one is made.
    """
    from optotype.registry.artifacts.index import latest

    path = registry.root / dvcyaml.FILE
    if not path.is_file() and not dvc.is_dvc_project(registry.root):
        return False
    with writing(path, wait=True):  # of two publishers at once, the second sees the version of the first
        gone = registry.status(kind, name).yanked
        known = [each for each in registry.versions(kind, name) if each not in gone]
        chosen = version or latest(known) or (known[-1] if known else None)
        return dvcyaml.set_entry(registry.root, f"{kind}/{name}", _entry(registry, kind, name, chosen))


def announced(text: str | bytes, place: Place) -> bool:
    """Whether the ``dvc.yaml`` of this text points to the version."""
    return dvcyaml.entry_path(text, f"{place.kind}/{place.name}") == f"{place.relative}/{PAYLOAD}"


def _entry(registry: Registry, kind: str, name: str, version: str | None) -> dict[str, Any] | None:
    if version is None:
        return None
    place = Place(registry.root, kind, name, version)
    entry: dict[str, Any] = {"path": f"{place.relative}/{PAYLOAD}", "type": kind}
    try:
        manifest = registry.version(kind, name, version).manifest
    except OptotypeError:
        return entry  # damaged: `verify` says so
    return {**entry, "desc": manifest.title, "meta": {"version": version, "digest": manifest.digest}}
