"""Where published versions come from: a git repository, or a folder on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from optotype.registry.artifacts import git
from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.layout import ARTIFACTS
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.status import Status
from optotype.registry.pins.cache import Cache
from optotype.registry.pins.lock import Pin
from optotype.schemas.errors import NotFoundError, UsageError
from optotype.store.manifest import FileEntry

__all__ = ["Offer", "Source", "is_git_url", "normalised", "open_source"]

_SCP = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9_.-]+:[^:].*")  # git@host:path
_SCHEMES = ("https", "http", "ssh", "git", "file", "git+ssh")


@dataclass(frozen=True)
class Offer:
    """What a source has of one version, without its payload.

    Attributes
    ----------
    manifest : bytes
        Of ``manifest.json``.
    card : bytes or None
        Of ``CARD.md``.
    pointer : bytes or None
        Of ``payload.dvc``, where DVC keeps the payload.
    revision : str or None
        The commit that holds it.
    tag : str or None
        The tag that stands there.
    notes : tuple of str
        What the user should know.
    """

    manifest: bytes
    card: bytes | None
    pointer: bytes | None
    revision: str | None = None
    tag: str | None = None
    notes: tuple[str, ...] = ()


class Source(Protocol):
    """A place that published versions come from."""

    text: str
    """As it stands in the lock."""
    unreachable: str | None
    """Why what it has now is not known, where an older copy of it serves instead."""

    def registry(self, kind: str | None, name: str) -> AbstractContextManager[Registry]:
        """The manifests and states of a name, to resolve a reference by; valid inside the block."""

    def offer(self, kind: str, name: str, version: str) -> Offer:
        """What a new pin takes.

        Raises
        ------
        NotFoundError
            It is not there.
        IntegrityError
            The version's tag stands at a commit with another manifest.
        """

    def pinned(self, pin: Pin) -> Offer | None:
        """What the lock pins: of its commit, else (of a folder) as it stands there; None if that is gone."""

    def current(self, pin: Pin) -> bytes | None:
        """The manifest of the version as the source has it now; None if it is gone."""

    def at_revision(self, pin: Pin) -> tuple[bool, bytes | None]:
        """Whether the source has the pinned commit, and the version's manifest there."""

    def tag(self, pin: Pin) -> tuple[str | None, bytes | None]:
        """The commit of the version's tag now, and the manifest there; None and None without a tag."""

    def status(self, kind: str, name: str) -> Status:
        """What is yanked now."""

    def fetch(self, pin: Pin, manifest: ArtifactManifest, entry: FileEntry, cache: Cache) -> Path:
        """Bring one file of a payload into the cache, its bytes checked.

        Raises
        ------
        IntegrityError
            Other bytes are there; the message names the file.
        NotFoundError, ExternalError, MissingPackageError
            It is not there, or cannot be reached.
        """


def open_source(text: str, folder: Path, cache: Cache, *, refresh: bool) -> Source:
    """The source that a text of the lock stands for.

    Parameters
    ----------
    text : str
        Git URL or path; a relative path counts from `folder`.
    folder : Path
        The lock's.
    cache : Cache
        Holds clones.
    refresh : bool
        Whether a clone that is there is brought up to date; if that fails, ``unreachable`` says why.

    Raises
    ------
    UsageError
        Neither a git URL nor a path.
    NotFoundError
        There is no such folder, or nothing is published in it.
    ExternalError
        A repository that was never cloned cannot be reached.
    """
    from optotype.registry.pins.folders import FolderSource
    from optotype.registry.pins.repositories import GitSource

    if is_git_url(text):
        parts = urlsplit(text)
        local = Path(unquote(parts.path)) if parts.scheme == "file" else None
        return GitSource(text, text, cache, local=local, refresh=refresh)
    path = Path(os.path.abspath(folder / Path(text).expanduser()))  # noqa: PTH100 - links stay links
    if (path / ARTIFACTS).is_dir():
        return FolderSource(text, path)
    if path.is_dir() and git.ever_had(path, ARTIFACTS):
        return FolderSource(text, path)  # all of it was deleted; commits that are pinned still hold it
    if git.is_bare(path):
        return GitSource(text, str(path), cache, local=path, refresh=refresh)
    if not path.exists():
        raise NotFoundError(f"{path}: no such folder; a source is a git URL or the folder of a project")
    raise NotFoundError(
        f"{path}: nothing is published there (no folder {ARTIFACTS})", hint="Name the folder that holds artifacts/."
    )


def is_git_url(text: str) -> bool:
    """Whether a source is a git URL rather than a path.

    Raises
    ------
    UsageError
        A URL that git would not clone, or one with a password, which has no place in a lock.
    """
    if "::" in text or not text.isprintable() or text.startswith("-") or not text:
        raise UsageError(f"{text!r} is neither a git URL nor a path")
    if "://" not in text:
        return _SCP.fullmatch(text) is not None
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES:
        raise UsageError(
            f"{text!r}: a git URL starts with {', '.join(f'{s}://' for s in _SCHEMES)}, or is git@HOST:PATH"
        )
    if parts.password is not None:
        raise UsageError(
            "the URL holds a password, and the lock is for everyone to read",
            hint="Leave it out of the URL and let git ask a credential helper (git config credential.helper).",
        )
    return True


def normalised(text: str, folder: Path) -> str:
    """A source as the lock keeps it: URLs as they are, relative paths from the lock's folder instead of from here."""
    if is_git_url(text) or Path(text).expanduser().is_absolute():
        return text
    return Path(os.path.relpath(Path(text).absolute(), folder)).as_posix()


@contextmanager
def opened(registry: Registry) -> Iterator[Registry]:
    """A registry that needs no tidying up."""
    yield registry
