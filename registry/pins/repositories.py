"""A git repository as a source: a bare clone in the cache; what DVC keeps comes from the project's remote."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from optotype.registry.artifacts import git
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.layout import ARTIFACTS, CARD, MANIFEST, PAYLOAD, STATUS
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.status import Status
from optotype.registry.pins.cache import Cache
from optotype.registry.pins.lock import Pin
from optotype.registry.pins.payloads import POINTER, from_remote, kept_pointer
from optotype.registry.pins.source import Offer
from optotype.schemas.errors import ConflictError, ExternalError, IntegrityError, NotFoundError
from optotype.schemas.references import KINDS
from optotype.store.drafts import Draft, draft_file, writing
from optotype.store.manifest import FileEntry

__all__ = ["GitSource"]


class GitSource:
    """A repository whose clone lies in the cache. The whole history: old revisions stay readable without a network.

    Parameters
    ----------
    text : str
        As the lock has it.
    url : str
        For git.
    cache : Cache
    local : Path, optional
        The folder, where the URL is one of this machine.
    refresh : bool
        Whether a clone that is there is brought up to date.

    Raises
    ------
    ExternalError
        It was never cloned and cannot be reached.
    """

    def __init__(self, text: str, url: str, cache: Cache, *, local: Path | None, refresh: bool) -> None:
        self.text = text
        self.unreachable: str | None = None
        self._cache = cache
        self._local = local
        self._clone = cache.clone(url)
        self._names: dict[str, list[str]] = {}
        why = cache.trouble()
        if why is not None and self._clone.exists():
            self.unreachable = why
            return
        cache.check_writable()
        with writing(self._clone, wait=True):
            if not self._clone.exists():
                with Draft(self._clone) as draft:
                    git.clone(url, draft.path)
                    draft.commit(lambda _: False)
            elif refresh:
                try:
                    git.refresh(self._clone, url)
                except ExternalError as error:
                    self.unreachable = error.message

    @contextmanager
    def registry(self, kind: str | None, name: str) -> Iterator[Registry]:
        """See `Source`."""
        head = self._head()
        base = self._base(head, kind, name)
        files = rf"{STATUS}|[^/]+/{MANIFEST}"
        wanted = re.compile(rf"{re.escape(base)}{ARTIFACTS}/({kind or '|'.join(KINDS)})/{re.escape(name)}/({files})")
        with tempfile.TemporaryDirectory(prefix="optotype-") as folder:
            for path in filter(wanted.fullmatch, self._list(head)):
                target = Path(folder) / path.removeprefix(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(git.read_file(self._clone, head, path) or b"")
            yield Registry(Path(folder))

    def offer(self, kind: str, name: str, version: str) -> Offer:
        """See `Source`."""
        head = self._head()
        relative = f"{self._base(head, kind, name)}{ARTIFACTS}/{kind}/{name}/{version}"
        here = self._read(head, relative)
        if here is None:
            raise NotFoundError(f"{self.text}: HEAD has no {relative}/{MANIFEST}")
        commit = git.tags(self._clone, kind, name).get(version)
        if commit is None:
            return Offer(here.manifest, here.card, here.pointer, head)
        tag = git.tag_name(kind, name, version)
        if git.read_file(self._clone, commit, f"{relative}/{MANIFEST}") != here.manifest:
            raise IntegrityError(
                f"{self.text}: {relative}/{MANIFEST} of HEAD is not the file that the tag {tag} holds (commit "
                f"{commit[:12]})",
                hint="A published version never changes. Let the publisher find out which of the two is right.",
            )
        return Offer(here.manifest, here.card, here.pointer, commit, tag)

    def pinned(self, pin: Pin) -> Offer | None:
        """See `Source`. A commit that is gone is no loss where HEAD has the same manifest."""
        for revision in self._revisions(pin):
            base = self._base(revision, pin.kind, pin.name, missing="")
            found = self._read(revision, f"{base}{pin.relative}")
            if found is not None and (revision == pin.revision or _is(found.manifest, pin)):
                return found
        return None

    def current(self, pin: Pin) -> bytes | None:
        """See `Source`."""
        head = self._head()
        base = self._base(head, pin.kind, pin.name, missing="")
        return git.read_file(self._clone, head, f"{base}{pin.relative}/{MANIFEST}")

    def at_revision(self, pin: Pin) -> tuple[bool, bytes | None]:
        """See `Source`."""
        try:
            commit = git.commit_of(self._clone, str(pin.revision))
        except NotFoundError:
            return False, None
        base = self._base(commit, pin.kind, pin.name, missing="")
        return True, git.read_file(self._clone, commit, f"{base}{pin.relative}/{MANIFEST}")

    def tag(self, pin: Pin) -> tuple[str | None, bytes | None]:
        """See `Source`."""
        commit = git.tags(self._clone, pin.kind, pin.name).get(pin.version)
        if commit is None:
            return None, None
        base = self._base(commit, pin.kind, pin.name, missing="")
        return commit, git.read_file(self._clone, commit, f"{base}{pin.relative}/{MANIFEST}")

    def status(self, kind: str, name: str) -> Status:
        """See `Source`."""
        head = self._head()
        path = f"{self._base(head, kind, name, missing='')}{ARTIFACTS}/{kind}/{name}/{STATUS}"
        text = git.read_file(self._clone, head, path)
        return Status() if text is None else Status.parse(text, f"{self.text}: {path}")

    def fetch(self, pin: Pin, manifest: ArtifactManifest, entry: FileEntry, cache: Cache) -> Path:
        """See `Source`."""
        if manifest.storage == "dvc":
            pointer = kept_pointer(cache, pin)
            if pointer is None:
                offer = self.pinned(pin)
                pointer = None if offer is None else offer.pointer
            if pointer is None:
                raise NotFoundError(
                    f"{self.text}: there is no {pin.relative}/{POINTER}, without which DVC knows nothing"
                )
            return from_remote(self._dvc_folder(pin), pointer, pin, manifest, entry, cache)
        for revision in self._revisions(pin):
            path = f"{self._base(revision, pin.kind, pin.name, missing='')}{pin.relative}/{PAYLOAD}/{entry.path}"
            data = git.read_file(self._clone, revision, path)
            if data is not None:
                break
        else:
            raise NotFoundError(
                f"{self.text}: git has no {pin.relative}/{PAYLOAD}/{entry.path}, which the manifest lists"
            )
        found = data

        return cache.take(entry, lambda file: _write(file, found), f"{self.text}: {path} in {revision[:12]}")

    def _head(self) -> str:
        return git.commit_of(self._clone, "HEAD")

    def _revisions(self, pin: Pin) -> Iterator[str]:
        """The pinned commit, if the clone has it, and HEAD."""
        if pin.revision is not None:
            with suppress(NotFoundError):
                yield git.commit_of(self._clone, pin.revision)
        yield self._head()

    def _list(self, revision: str) -> list[str]:
        if revision not in self._names:
            listing = git.git(self._clone, "ls-tree", "-r", "-z", "--name-only", revision)
            self._names[revision] = [os.fsdecode(name) for name in listing.split(b"\0") if name]
        return self._names[revision]

    def _base(self, revision: str, kind: str | None, name: str, *, missing: str | None = None) -> str:
        """Where ``artifacts/`` lies in the repository: "" or a folder with ``/`` at its end.

        Raises
        ------
        NotFoundError, ConflictError
            Nothing of this name is published there, or in several folders.
        """
        pattern = re.compile(
            rf"(?P<base>(.+/)?){ARTIFACTS}/({kind or '|'.join(KINDS)})/{re.escape(name)}/[^/]+/{MANIFEST}"
        )
        bases = {match["base"] for match in map(pattern.fullmatch, self._list(revision)) if match is not None}
        bases = {base for base in bases if f"/{ARTIFACTS}/" not in f"/{base}"}  # a payload may hold anything
        if "" in bases:
            return ""
        if len(bases) > 1:
            raise ConflictError(f"{self.text}: {name} is published in several folders: {', '.join(sorted(bases))}")
        if bases:
            return bases.pop()
        if missing is not None:
            return missing
        known = sorted({match[1] for match in map(_published, self._list(revision)) if match is not None})
        what = f"{kind}/{name}" if kind else name
        hint = f"There are: {', '.join(known[:10])}." if known else "Nothing is published there."
        raise NotFoundError(f"{self.text}: no {what} is published there", hint=hint)

    def _read(self, revision: str, relative: str) -> Offer | None:
        manifest = git.read_file(self._clone, revision, f"{relative}/{MANIFEST}")
        if manifest is None:
            return None
        card, pointer = (git.read_file(self._clone, revision, f"{relative}/{name}") for name in (CARD, POINTER))
        return Offer(manifest, card, pointer)

    def _dvc_folder(self, pin: Pin) -> Path:
        """A folder with the publisher's DVC settings: those of HEAD, since a remote may have moved."""
        head = self._head()
        base = self._base(head, pin.kind, pin.name, missing="")
        if self._local is not None and (self._local / base / ".dvc" / "config").is_file():
            return self._local / base / ".dvc"
        text = git.read_file(self._clone, head, f"{base}.dvc/config") or b""
        folder = self._cache.root / "settings" / hashlib.sha256(text).hexdigest()[:32]
        if not (folder / "config").is_file():
            with draft_file(folder / "config") as file:
                file.write(text)
        return folder


def _published(path: str) -> re.Match[str] | None:
    return re.fullmatch(rf"(?:.+/)?{ARTIFACTS}/([^/]+/[^/]+)/[^/]+/{MANIFEST}", path)


def _is(manifest: bytes, pin: Pin) -> bool:
    return "sha256:" + hashlib.sha256(manifest).hexdigest() == pin.manifest


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)
