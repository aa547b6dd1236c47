"""What was pulled: ``optotype_pins/artifacts/<kind>/<name>/<version>/``, laid out as the publisher's."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from optotype.registry.artifacts.copies import flush_folders, hashed, payload_files
from optotype.registry.artifacts.layout import ARTIFACTS, CARD, MANIFEST, PAYLOAD, PULLED, STATUS, Place
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.status import Status
from optotype.registry.pins.cache import place_file
from optotype.registry.pins.lock import LOCK, Pin
from optotype.schemas.errors import ConflictError, IntegrityError, Problem
from optotype.store.drafts import Draft, draft_file

__all__ = ["PINS", "build", "check_manifest", "check_pulled", "place_of", "write_status"]

PINS = PULLED
"""Folder beside the lock. It is made of the lock at any time, and git leaves it out."""

_SHOWN = 10


def place_of(folder: Path, pin: Pin) -> Place:
    """Where a pinned version stands in the folder of a lock."""
    return Place(folder / PINS, pin.kind, pin.name, pin.version)


def check_manifest(data: bytes, pin: Pin, where: str) -> ArtifactManifest:
    """The manifest in ``data`` if it is the one that the lock pins.

    Raises
    ------
    IntegrityError
        It is another one; names the file.
    FormatError
        It is the pinned one, and this version of optotype cannot read it.
    """
    found = "sha256:" + hashlib.sha256(data).hexdigest()
    if found != pin.manifest:
        raise IntegrityError(
            f"{where}: not the manifest that {LOCK} pins as {pin} (its digest is {found[:19]}..., pinned is "
            f"{pin.manifest[:19]}...)",
            hint="A published version never changes: the file was edited, or the version was made anew under the same "
            f"number. If that is meant, pin it again: optotype pin {pin} --from {pin.source}",
        )
    manifest = ArtifactManifest.parse(data, where)
    if (manifest.kind, manifest.name, manifest.version, manifest.digest) != (
        pin.kind,
        pin.name,
        pin.version,
        pin.digest,
    ):
        raise IntegrityError(f"{LOCK}: the entry of {pin} does not belong to its manifest; the lock was edited")
    return manifest


def check_pulled(folder: Path, pin: Pin, *, payload: bool = True) -> ArtifactManifest:
    """The manifest of a pulled version, every byte of which is what the lock pins.

    Parameters
    ----------
    folder : Path
        The lock's.
    pin : Pin
    payload : bool
        Whether the payload is read, too.

    Raises
    ------
    IntegrityError
        Names every file that differs. Nothing is repaired.
    FileNotFoundError
        It is not pulled.
    """
    place = place_of(folder, pin)
    try:
        data = place.manifest.read_bytes()
    except FileNotFoundError:
        if place.folder.exists():
            raise IntegrityError(f"{place.manifest}: missing", hint=_again(place)) from None
        raise
    try:
        manifest = check_manifest(data, pin, str(place.manifest))
    except IntegrityError as error:
        raise IntegrityError(error.message, hint=_again(place)) from None
    problems = _problems(place, manifest) if payload else []
    if problems:
        lines = [f"  - {place.folder / problem.where}: {problem.message}" for problem in problems[:_SHOWN]]
        lines += [f"  - and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise IntegrityError(
            "\n".join([f"{pin}: what was pulled is not what {LOCK} pins:", *lines]), hint=_again(place)
        )
    return manifest


def build(
    folder: Path, pin: Pin, manifest: bytes, card: bytes, pointer: bytes | None, files: Mapping[str, Path]
) -> None:
    """Put a version together out of files of the cache; it takes its place in one step, checked once more."""
    place = place_of(folder, pin)
    _prepare(folder)
    with Draft(place.folder) as draft:
        if place.folder.exists():
            return  # another process was faster; whoever uses it checks it
        for name, data in ((MANIFEST, manifest), (CARD, card), (place.pointer.name, pointer)):
            if data is not None:
                (draft.path / name).write_bytes(data)
        for relative, source in files.items():
            place_file(source, draft.path / PAYLOAD / relative)
        parsed = check_manifest(manifest, pin, str(place.manifest))
        got = hashed(payload_files(draft.path / PAYLOAD), flush=True)
        hashed({name: draft.path / name for name in (MANIFEST, CARD)}, flush=True)
        if got != list(parsed.files):
            raise IntegrityError(f"{pin}: the cache changed while it was read; nothing was pulled", hint="Pull again.")
        flush_folders(draft.path)
        draft.commit(lambda _: False)


def write_status(folder: Path, kind: str, name: str, status: Status) -> None:
    """Keep what is yanked and which aliases there are, as the source has it now."""
    _prepare(folder)
    path = folder / PINS / ARTIFACTS / kind / name / STATUS
    data = status.to_bytes()
    if not path.is_file() or path.read_bytes() != data:
        with draft_file(path) as file:
            file.write(data)


def _prepare(folder: Path) -> None:
    pins = folder / PINS
    if pins.is_symlink() or (pins.exists() and not pins.is_dir()):
        raise ConflictError(f"{pins} is in the way: pulled versions stand in a folder of this name")
    pins.mkdir(exist_ok=True)
    rules = pins / ".gitignore"
    if not rules.exists():
        rules.write_text("*\n", encoding="utf-8")


def _problems(place: Place, manifest: ArtifactManifest) -> list[Problem]:
    listed = {f"{PAYLOAD}/{entry.path}": (entry.size, entry.sha256) for entry in manifest.files}
    listed[CARD] = (manifest.card.size, manifest.card.sha256)
    there = {f"{PAYLOAD}/{name}": path for name, path in payload_files(place.payload).items()}
    if place.card.is_file():
        there[CARD] = place.card
    plain = {name: path for name, path in there.items() if path.is_file()}
    got = {entry.path: (entry.size, entry.sha256) for entry in hashed(plain)}
    problems = []
    for name in sorted({*listed, *there}):
        if name not in listed:
            problems.append(Problem(name, "extra-file", "the manifest does not list it"))
        elif name not in got:
            problems.append(Problem(name, "missing-file", "missing"))
        elif got[name][0] != listed[name][0]:
            problems.append(Problem(name, "size", f"{got[name][0]} bytes, published were {listed[name][0]}"))
        elif got[name] != listed[name]:
            problems.append(Problem(name, "digest", f"sha256 {got[name][1]}, published was {listed[name][1]}"))
    return problems


def _again(place: Place) -> str:
    return f"Remove {place.folder} and pull it again: optotype pull"
