"""What is wrong with a published version as it stands here: bytes, schema, lineage. Names the file, repairs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from optotype.registry.artifacts import git
from optotype.registry.artifacts.copies import cached_files, hashed, payload_files
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.layout import CARD, MANIFEST, PAYLOAD, STATUS, without_path
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.schemas.errors import OptotypeError, Problem
from optotype.store import dvc
from optotype.store.manifest import FileEntry

if TYPE_CHECKING:
    from optotype.registry.artifacts.index import Version

__all__ = ["Verified", "verify_version"]

WHOLE, ABSENT, PARTIAL, DAMAGED = "whole", "absent", "partial", "damaged"


@dataclass
class Verified:
    """What was found of one version.

    Attributes
    ----------
    version : Version
    copies : dict of str to str
        ``workspace`` and, of a payload that DVC holds, ``cache``: ``whole``, ``absent``, ``partial`` or ``damaged``.
    problems : list of Problem
        Empty if every copy that is here is right. ``where`` is a path from the root.
    """

    version: Version
    copies: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def state(self) -> str:
        """``bad``, ``good``, ``partly here`` or ``not here``: good is what could be read byte by byte."""
        if self.problems:
            return "bad"
        if WHOLE in self.copies.values():
            return "good"
        return "partly here" if PARTIAL in self.copies.values() else "not here"


def verify_version(version: Version, known: Sequence[str] | None = None) -> Verified:
    """Check every copy of a version that is here against its manifest; reads every byte, changes nothing.

    Parameters
    ----------
    version : Version
    known : sequence of str, optional
        All versions of its name; given, the status may speak of no others.
    """
    found = Verified(version)
    place = version.place
    found.problems += _status(version, known)
    try:
        manifest = version.manifest
    except OptotypeError as error:
        found.problems.append(
            Problem(f"{place.relative}/{MANIFEST}", "manifest", without_path(error.message, place.manifest))
        )
        return found
    found.problems += _card(version, manifest)
    found.problems += _committed(version)
    found.copies["workspace"] = _workspace(version, manifest, found.problems)
    if manifest.storage == "dvc":
        found.copies["cache"] = _cache(version, manifest, found.problems)
    if found.copies["workspace"] == WHOLE:
        found.problems += _content(version, manifest, place.payload)
    return found


def _status(version: Version, known: Sequence[str] | None) -> list[Problem]:
    """What is wrong with the status of the version's name."""
    path = version.place.folder.parent / STATUS
    where, status = _from(version.place.root, path), version.status
    if status.fault is not None:
        return [Problem(where, "status", without_path(status.fault, path))]
    if known is None:
        return []
    lost = [f"it yanks {each}" for each in status.yanked if each not in known]
    lost += [f"the alias {word} stands for {each}" for word, each in status.aliases.items() if each not in known]
    return [Problem(where, "status", f"{what}, which is not published") for what in sorted(lost)]


def _card(version: Version, manifest: ArtifactManifest) -> list[Problem]:
    where = f"{version.place.relative}/{CARD}"
    if not version.place.card.is_file():
        return [Problem(where, "missing-file", "every version has a card")]
    (entry,) = hashed({CARD: version.place.card})
    return [] if entry == manifest.card else [_other(where, manifest.card, entry)]


def _committed(version: Version) -> list[Problem]:
    """Files that git holds in other bytes: published versions never change, not even with a new digest."""
    place = version.place
    if git.head(place.root) is None:
        return []
    return [
        Problem(name, "changed-since-commit", "differs from what git holds; published versions never change")
        for name in git.changed(place.root, place.relative)
    ]


def _workspace(version: Version, manifest: ArtifactManifest, problems: list[Problem]) -> str:
    place = version.place
    if not place.payload.is_dir():
        if manifest.storage == "git":
            problems.append(
                Problem(f"{place.relative}/{PAYLOAD}", "missing-folder", "git holds it and it is not there")
            )
        return ABSENT
    listed = {entry.path: entry for entry in manifest.files}
    there = payload_files(place.payload)
    plain = {name: path for name, path in there.items() if path.is_file()}
    got = {entry.path: entry for entry in hashed(plain)}
    before = len(problems)
    for name in sorted({*listed, *there}):
        where = f"{place.relative}/{PAYLOAD}/{name}"
        if name not in listed:
            problems.append(Problem(where, "extra-file", "the manifest does not list it"))
        elif name not in got:
            problems.append(Problem(where, "missing-file", "the manifest lists it and it is not there"))
        elif got[name] != listed[name]:
            problems.append(_other(where, listed[name], got[name]))
    return WHOLE if len(problems) == before else DAMAGED


def _cache(version: Version, manifest: ArtifactManifest, problems: list[Problem]) -> str:
    place = version.place
    pointer = f"{place.relative}/{place.pointer.name}"
    if not place.pointer.is_file():
        problems.append(Problem(pointer, "missing-file", "without it DVC does not know the payload"))
        return ABSENT
    try:
        dvc.read_pointer(place.pointer)
        files = cached_files(version)
    except OptotypeError as error:
        problems.append(Problem(pointer, "pointer", error.message))
        return DAMAGED
    listed = {entry.path: entry for entry in manifest.files}
    if files and set(files) != set(listed):
        names = ", ".join(sorted(set(files) ^ set(listed))[:3])
        problems.append(Problem(pointer, "other-files", f"it stands for other files than the manifest lists: {names}"))
        return DAMAGED
    there = {name: path for name, path in files.items() if path.is_file()}
    before = len(problems)
    problems += [
        _other(_from(place.root, there[entry.path]), listed[entry.path], entry, f" ({entry.path})")
        for entry in hashed(there)
        if entry != listed[entry.path]
    ]
    if len(problems) > before:
        return DAMAGED
    return ABSENT if not there else (WHOLE if len(there) == len(listed) else PARTIAL)


def _content(version: Version, manifest: ArtifactManifest, payload: Path) -> list[Problem]:
    """Whether the payload still passes the checks of its kind, and names the inputs that the manifest names."""
    kind = adapter(version.kind)
    base = f"{version.place.relative}/{PAYLOAD}"
    problems = [Problem(f"{base}/{p.where}", p.kind, p.message) for p in kind.problems(payload)]
    if problems:
        return problems
    named = {(each.role, each.digest) for each in kind.describe(payload).inputs}
    listed = {(str(node["role"]), str(node["digest"])) for node in manifest.lineage}
    where = f"{version.place.relative}/{MANIFEST}"
    problems += [
        Problem(where, "lineage", f"the payload was made of {role} {digest}, which the lineage does not name")
        for role, digest in sorted(named - listed)
    ]
    problems += [
        Problem(where, "lineage", f"the lineage names {role} {digest}, which the payload does not")
        for role, digest in sorted(listed - named)
    ]
    return [*problems, *_circles(manifest.lineage, where)]


def _circles(nodes: tuple[Mapping[str, object], ...], where: str, above: frozenset[str] = frozenset()) -> list[Problem]:
    """Lineage that leads back to itself."""
    problems: list[Problem] = []
    for node in nodes:
        digest, inputs = str(node["digest"]), node["inputs"]
        if digest in above and inputs:
            problems.append(Problem(where, "lineage", f"{node['kind']}/{node['name']} was made of itself"))
        elif isinstance(inputs, list):
            problems += _circles(tuple(inputs), where, above | {digest})
    return problems


def _other(where: str, wanted: FileEntry, got: FileEntry, more: str = "") -> Problem:
    if wanted.size != got.size:
        return Problem(where, "size", f"{got.size} bytes, the manifest says {wanted.size}{more}")
    return Problem(where, "digest", f"sha256 {got.sha256}, the manifest says {wanted.sha256}{more}")


def _from(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
