"""A folder on this machine as a source: its working tree, else DVC's cache there, else the project's remote."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from optotype.registry.artifacts import git
from optotype.registry.artifacts.copies import cached_files
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.layout import CARD, MANIFEST, PAYLOAD, Place
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.status import Status
from optotype.registry.pins.cache import Cache
from optotype.registry.pins.lock import Pin
from optotype.registry.pins.payloads import POINTER, from_remote
from optotype.registry.pins.source import Offer, opened
from optotype.schemas.errors import IntegrityError, NotFoundError
from optotype.store.manifest import FileEntry

__all__ = ["FolderSource"]


class FolderSource:
    """The folder of a project, or a copy of one.

    Parameters
    ----------
    text : str
        As the lock has it.
    root : Path
        The folder that holds ``artifacts/``.
    """

    def __init__(self, text: str, root: Path) -> None:
        self.text = text
        self.unreachable: str | None = None
        self._root = root

    def registry(self, kind: str | None, name: str) -> AbstractContextManager[Registry]:
        """See `Source`."""
        return opened(Registry(self._root))

    def offer(self, kind: str, name: str, version: str) -> Offer:
        """See `Source`; without git, or uncommitted, there is no revision and a note says so."""
        place = Place(self._root, kind, name, version)
        here = self._read(place)
        if here is None:
            raise NotFoundError(f"no published version at {place.folder}")
        head = git.head(self._root)
        if head is None:
            return self._without(here, f"{self._root} is not under git")
        changed = git.differs_from_head(self._root, place.relative)
        tagged = git.tags(self._root, kind, name).get(version)
        if not changed and tagged is None:
            return Offer(here.manifest, here.card, here.pointer, head)
        if tagged is not None:
            there = git.read_file(self._root, tagged, f"./{place.relative}/{MANIFEST}")
            tag = git.tag_name(kind, name, version)
            if there != here.manifest:
                raise IntegrityError(
                    f"{place.manifest}: not the file that the tag {tag} holds (commit {tagged[:12]})",
                    hint="A published version never changes. Let the publisher find out which of the two is right.",
                )
            return Offer(here.manifest, here.card, here.pointer, tagged, tag)
        return self._without(here, f"{place.folder} is not committed ({changed[0]})")

    def pinned(self, pin: Pin) -> Offer | None:
        """See `Source`. As it stands in the folder; where it was deleted, as the pinned commit has it."""
        found = self._read(self._place(pin))
        if found is not None or not self.at_revision(pin)[0]:
            return found
        manifest, card, pointer = (self._committed(pin, name) for name in (MANIFEST, CARD, POINTER))
        return None if manifest is None else Offer(manifest, card, pointer, pin.revision)

    def at_revision(self, pin: Pin) -> tuple[bool, bytes | None]:
        """See `Source`."""
        if pin.revision is None or not git.is_repository(self._root):
            return False, None
        try:
            git.commit_of(self._root, pin.revision)
        except NotFoundError:
            return False, None
        return True, self._committed(pin, MANIFEST)

    def current(self, pin: Pin) -> bytes | None:
        """See `Source`."""
        found = self._read(self._place(pin))
        return None if found is None else found.manifest

    def tag(self, pin: Pin) -> tuple[str | None, bytes | None]:
        """See `Source`."""
        if not git.is_repository(self._root):
            return None, None
        commit = git.tags(self._root, pin.kind, pin.name).get(pin.version)
        if commit is None:
            return None, None
        return commit, git.read_file(self._root, commit, f"./{pin.relative}/{MANIFEST}")

    def status(self, kind: str, name: str) -> Status:
        """See `Source`."""
        return Registry(self._root).status(kind, name)

    def fetch(self, pin: Pin, manifest: ArtifactManifest, entry: FileEntry, cache: Cache) -> Path:
        """See `Source`."""
        place = self._place(pin)
        path = place.payload / entry.path
        gone = not place.manifest.is_file()
        if not path.is_file() and manifest.storage == "dvc" and not gone:
            version = Registry(self._root).version(pin.kind, pin.name, pin.version)
            path = cached_files(version).get(entry.path, path)
        if path.is_file():
            return cache.take(entry, lambda file: _copy(path, file), str(path))
        if manifest.storage != "dvc":
            data = self._committed(pin, f"{PAYLOAD}/{entry.path}") if gone and self.at_revision(pin)[0] else None
            if data is not None:
                where = f"{path} in commit {str(pin.revision)[:12]}"
                return cache.take(entry, lambda file: _write(file, data), where)
        dvc_folder = self._root / ".dvc"
        offer = self.pinned(pin) if manifest.storage == "dvc" and dvc_folder.is_dir() else None
        if offer is not None and offer.pointer is not None:
            try:
                return from_remote(dvc_folder, offer.pointer, pin, manifest, entry, cache)
            except NotFoundError as error:
                raise NotFoundError(
                    f"{path}: not there, nor in DVC's cache, nor in a remote ({error.message})", hint=error.hint
                ) from error
        raise NotFoundError(f"{path}: not there, although {place.manifest} lists it")

    def _committed(self, pin: Pin, relative: str) -> bytes | None:
        """A file of the version at the pinned commit."""
        return git.read_file(self._root, str(pin.revision), f"./{pin.relative}/{relative}")

    def _place(self, pin: Pin) -> Place:
        return Place(self._root, pin.kind, pin.name, pin.version)

    @staticmethod
    def _read(place: Place) -> Offer | None:
        if not place.manifest.is_file():
            return None
        files = (place.card, place.folder / POINTER)
        card, pointer = (path.read_bytes() if path.is_file() else None for path in files)
        return Offer(place.manifest.read_bytes(), card, pointer)

    @staticmethod
    def _without(here: Offer, why: str) -> Offer:
        note = f"{why}: the pin has no git revision, and only the digests say what it means"
        return Offer(here.manifest, here.card, here.pointer, notes=(note,))


def _copy(path: Path, file: IO[bytes]) -> None:
    with path.open("rb") as reading:
        shutil.copyfileobj(reading, file, 1 << 20)


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)
