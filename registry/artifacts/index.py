"""What is published under a folder: found by reference, listed, yanked, given other names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from optotype.registry.artifacts.layout import ARTIFACTS, PULLED, STATUS, Place
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.status import Status, change_status, read_status
from optotype.schemas.errors import (
    ConflictError,
    IntegrityError,
    NotFoundError,
    OptotypeError,
    Problem,
    UsageError,
    did_you_mean,
)
from optotype.schemas.references import (
    KINDS,
    LATEST,
    Alias,
    Digest,
    Exact,
    Range,
    Reference,
    check_alias,
    check_kind,
    check_name,
    check_version,
    sort_key,
)
from optotype.store.drafts import is_draft

if TYPE_CHECKING:
    from optotype.registry.artifacts.verify import Verified

__all__ = ["Registry", "Version", "latest"]


@dataclass(frozen=True)
class Version:
    """A published version. Made without reading anything: a damaged one does not hide the others.

    Attributes
    ----------
    place : Place
    status : Status
        Of all versions of its name.
    """

    place: Place
    status: Status

    @cached_property
    def manifest(self) -> ArtifactManifest:
        """Its manifest.

        Raises
        ------
        NotFoundError, FormatError
            There is no such version, or this version of optotype cannot read it.
        IntegrityError
            It is missing from the version's folder, contradicts itself, or is that of another version.
        """
        path = self.place.manifest
        try:
            text = path.read_bytes()
        except FileNotFoundError as error:
            if self.place.is_there:
                raise IntegrityError(
                    f"{path}: missing, and without it nothing can be said of {self}", hint=self.place.mending
                ) from error
            raise NotFoundError(f"no published version at {self.place.folder}") from error
        manifest = ArtifactManifest.parse(text, str(path))
        if (manifest.kind, manifest.name, manifest.version) != (self.kind, self.name, self.version):
            raise IntegrityError(
                f"{path}: it is the manifest of {manifest.kind}/{manifest.name}@{manifest.version}, not of {self}",
                hint="The folder was moved or copied. Take it from git again.",
            )
        return manifest

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.place.kind

    @property
    def name(self) -> str:
        """Its name."""
        return self.place.name

    @property
    def version(self) -> str:
        """Its semantic version."""
        return self.place.version

    @property
    def digest(self) -> str:
        """Digest of its payload."""
        return self.manifest.digest

    @property
    def yanked(self) -> str | None:
        """Why it was yanked; None if it was not."""
        return self.status.yanked.get(self.version)

    @property
    def aliases(self) -> list[str]:
        """Words that stand for it, sorted, without ``latest``."""
        return sorted(word for word, version in self.status.aliases.items() if version == self.version)

    def __str__(self) -> str:
        return str(self.place)


class Registry:
    """The published versions under ``root/artifacts``.

    Parameters
    ----------
    root : Path
        A project, a clone of one, or any folder with ``artifacts/`` in it.
    pins : callable, optional
        ``(kind, name)`` -> the version that a lock pins, or None; asked where a reference has no selector.
    """

    def __init__(self, root: Path, pins: Callable[[str, str], str | None] | None = None) -> None:
        self.root = Path(root)
        self._pins = pins

    def names(self, kind: str) -> list[str]:
        """Names with at least one version of a kind, sorted."""
        folder = self.root / ARTIFACTS / check_kind(kind)
        return sorted(name for name in _folders(folder) if _is_name(name) and self.versions(kind, name))

    def versions(self, kind: str, name: str) -> list[str]:
        """Versions of a name, oldest first by semantic precedence; empty if there are none.

        A folder whose manifest is missing is among them: it is a damaged version, and an older one must not pass for
        the latest on its account.
        """
        folder = self.root / ARTIFACTS / check_kind(kind) / check_name(name)
        found = [entry for entry in _folders(folder) if _is_version(entry)]
        return sorted((version for version in found if Place(self.root, kind, name, version).is_there), key=sort_key)

    def status(self, kind: str, name: str) -> Status:
        """What is yanked and which aliases there are."""
        return read_status(self._status_path(kind, name))

    def known_status(self, kind: str, name: str) -> Status:
        """As `status`; where the file cannot be read, an empty one whose ``fault`` says why."""
        try:
            return self.status(kind, name)
        except OptotypeError as error:
            return Status(fault=error.message)

    def version(self, kind: str, name: str, version: str) -> Version:
        """One version.

        Raises
        ------
        NotFoundError
            It is not there; the message lists those that are.
        """
        place = Place(self.root, kind, name, version)
        if not place.is_there:
            raise self._not_found(Reference(kind, name, Exact(version)), kind)
        return Version(place, self.status(kind, name))

    def all(self, kind: str | None = None) -> list[Version]:
        """All versions (of a kind), by kind, name and rising version; those of an unreadable status among them."""
        return [
            Version(Place(self.root, each, name, version), status)
            for each in (KINDS if kind is None else (check_kind(kind),))
            for name in self.names(each)
            for status in (self.known_status(each, name),)
            for version in self.versions(each, name)
        ]

    def resolve(self, reference: Reference | str, kind: str | None = None, *, yanked: bool = False) -> Version:
        """The version that a reference stands for.

        Parameters
        ----------
        reference : Reference or str
        kind : str, optional
            The kind that the verb implies.
        yanked : bool
            Whether an exact version or an alias may be a yanked one. Ranges and ``latest`` never are; a digest always
            may, so that what was pinned once can be read for good.

        Raises
        ------
        UsageError
            The reference does not say which: no version and no pin, or a name of several kinds.
        NotFoundError
            Nothing fits; the message lists what there is.
        ConflictError
            It was yanked (the message says why), or a digest fits several versions.
        """
        ref = Reference.parse(reference, kind) if isinstance(reference, str) else reference
        found = ref.kind or self._kind_of(ref)
        known = self.versions(found, ref.name)
        if not known:
            raise self._not_found(ref, found)
        status = self.status(found, ref.name)
        selector = ref.selector
        if selector is None:
            pinned = self._pins(found, ref.name) if self._pins is not None else None
            if pinned is None:
                raise UsageError(
                    f"{found}/{ref.name}: which version? {_listed(known, status)}",
                    hint=f"Say {found}/{ref.name}@{latest(known, status.yanked) or known[-1]}, or @latest.",
                )
            selector, yanked = Exact(pinned), True  # who pinned it keeps it
        if isinstance(selector, Digest):
            return self._by_digest(found, ref, selector, known, status)
        version = _chosen(selector, known, status)
        if version is None or version not in known:
            raise self._not_found(ref, found)
        hit = Version(Place(self.root, found, ref.name, version), status)
        if hit.yanked is not None and not yanked:
            raise ConflictError(
                f"{hit} was yanked: {hit.yanked}",
                hint=self._instead(hit, known, status),
            )
        return hit

    def despite_status(self, reference: Reference | str) -> Version | None:
        """The version that a reference names exactly, without asking the status, which may be unreadable; else None."""
        ref = Reference.parse(reference) if isinstance(reference, str) else reference
        if not isinstance(ref.selector, Exact):
            return None
        kind, version = ref.kind or self._kind_of(ref), ref.selector.version
        if version not in self.versions(kind, ref.name):
            return None
        return Version(Place(self.root, kind, ref.name, version), self.known_status(kind, ref.name))

    def contents(self) -> dict[str, Version]:
        """Digest -> version, for every digest by which others name a payload or its content; damaged ones left out."""
        found: dict[str, Version] = {}
        for version in self.all():
            try:
                manifest = version.manifest
            except OptotypeError:
                continue
            for digest in (manifest.digest, *manifest.facts.get("content_digests", ())):
                found.setdefault(str(digest), version)
        return found

    def payload(self, version: Version, *, cache: Path | None = None) -> Path:
        """A folder that holds the payload: the one in the working tree, else one put together from DVC's cache.

        Sizes are looked at, bytes are not (`verify` does that), except of what is taken from the cache.

        Parameters
        ----------
        version : Version
        cache : Path, optional
            Where payloads from DVC's cache are kept; by default ``.optotype/cache/payloads`` under the root.

        Raises
        ------
        NotFoundError
            There is no whole copy.
        IntegrityError
            What the cache holds are other bytes.
        """
        from optotype.registry.artifacts.copies import whole_copy

        return whole_copy(version, self.root / ".optotype" / "cache" / "payloads" if cache is None else cache)

    def verify(self, version: Version) -> list[Problem]:
        """Everything in which the copies of a version that are here differ from its manifest; never repairs."""
        return self.verified(version).problems

    def verified(self, version: Version) -> Verified:
        """As `verify`, and which copies were found."""
        from optotype.registry.artifacts.verify import verify_version

        # Read again, whatever was read before. Of what was pulled, the status tells of versions that are not here.
        known = None if self.root.name == PULLED else self.versions(version.kind, version.name)
        return verify_version(Version(version.place, version.status), known)

    def yank(self, reference: Reference | str, why: str) -> Version:
        """Mark a version as one that nobody should start to use; it stays readable by digest, and where it is pinned.

        Raises
        ------
        UsageError
            No reason; or a range, an alias or nothing where an exact version or a digest is wanted: what others are
            warned off is not to depend on what an alias happens to stand for.
        ConflictError
            It was yanked for another reason.
        """
        text = " ".join(why.split())
        if not text:
            raise UsageError("a version is yanked for a reason", hint='--why "the answer key of MMMU was wrong"')
        ref = Reference.parse(reference) if isinstance(reference, str) else reference
        hit = self.resolve(ref, yanked=True)
        if not isinstance(ref.selector, (Exact, Digest)):
            raise UsageError(
                f"{ref}: which version is yanked has to be said exactly, by version or digest",
                hint=f"It stands for {hit} now: optotype yank {hit} --why {shlex.quote(text)}",
            )

        def change(status: Status) -> Status:
            before = status.yanked.get(hit.version)
            if before not in (None, text):
                raise ConflictError(f"{hit} was yanked already: {before}")
            return Status({**status.yanked, hit.version: text}, status.aliases)

        status = change_status(self._status_path(hit.kind, hit.name), change)
        self._announce(hit.kind, hit.name)
        return Version(hit.place, status)

    def alias(self, reference: Reference | str, word: str) -> tuple[Version, str | None]:
        """Let a word stand for a version from now on.

        Returns
        -------
        Version, str or None
            The version that the word stood for before.
        """
        check_alias(word)
        hit = self.resolve(reference)
        before: list[str | None] = []

        def change(status: Status) -> Status:
            before.append(status.aliases.get(word))
            return Status(status.yanked, {**status.aliases, word: hit.version})

        status = change_status(self._status_path(hit.kind, hit.name), change)
        return Version(hit.place, status), before[-1]

    def _announce(self, kind: str, name: str) -> None:
        from optotype.registry.artifacts.announce import announce

        announce(self, kind, name)

    def _status_path(self, kind: str, name: str) -> Path:
        return self.root / ARTIFACTS / check_kind(kind) / check_name(name) / STATUS

    def _kind_of(self, ref: Reference) -> str:
        """The one kind that has a thing of this name."""
        kinds = [kind for kind in KINDS if self.versions(kind, ref.name)]
        if len(kinds) == 1:
            return kinds[0]
        if kinds:
            options = ", ".join(f"{kind}/{ref.name}" for kind in kinds)
            raise UsageError(
                f"{ref.name!r} is the name of {len(kinds)} things: {options}", hint=f"Say {kinds[0]}/{ref}."
            )
        raise self._not_found(ref, None)

    def _not_found(self, ref: Reference, kind: str | None) -> NotFoundError:
        known = self.versions(kind, ref.name) if kind is not None else []
        if kind is not None and known:
            status = self.status(kind, ref.name)
            return NotFoundError(f"no version of {kind}/{ref.name} is {ref.selector}: {_listed(known, status)}")
        there = {name: f"{each}/{name}" for each in ((kind,) if kind else KINDS) for name in self.names(each)}
        what = "thing" if kind is None else kind
        hint = (
            did_you_mean(ref.name, list(there))
            or "Nothing is published here yet: optotype publish KIND NAME@0.1.0 --from DIR"
        )
        return NotFoundError(f"no {what} called {ref.name!r} is published in {self.root}", hint=hint)

    def _by_digest(self, kind: str, ref: Reference, digest: Digest, known: Iterable[str], status: Status) -> Version:
        hits = []
        for version in known:
            each = Version(Place(self.root, kind, ref.name, version), status)
            try:
                fits = each.digest.startswith(digest.prefix)
            except OptotypeError:
                continue
            hits += [each] * fits
        if not hits:
            raise self._not_found(ref, kind)
        if len({hit.digest for hit in hits}) > 1:
            raise ConflictError(f"{digest} is the beginning of {len(hits)} digests: {', '.join(map(str, hits))}")
        return next((hit for hit in hits if hit.yanked is None), hits[0])

    def _instead(self, hit: Version, known: Iterable[str], status: Status) -> str:
        other = latest(known, status.yanked)
        by_digest = f"Its bytes can still be read as {hit.kind}/{hit.name}@{hit.digest[:19]}."
        return by_digest if other is None else f"Use {hit.kind}/{hit.name}@{other}. {by_digest}"


def latest(versions: Iterable[str], yanked: Iterable[str] = ()) -> str | None:
    """The highest version that is neither a pre-release nor yanked; None if there is none."""
    gone = set(yanked)
    usable = (version for version in versions if version not in gone and not sort_key(version).prerelease)
    return max(usable, key=sort_key, default=None)


def _chosen(selector: Exact | Range | Alias, known: Iterable[str], status: Status) -> str | None:
    if isinstance(selector, Exact):
        return selector.version
    if isinstance(selector, Range):
        return selector.newest(version for version in known if version not in status.yanked)
    if selector.word == LATEST:
        return latest(known, status.yanked)
    return status.aliases.get(selector.word)


def _listed(known: Iterable[str], status: Status) -> str:
    """Versions in words, newest first, with what is to be known of them."""
    words: dict[str, list[str]] = {}
    for word, version in sorted(status.aliases.items()):
        words.setdefault(version, []).append(f"@{word}")
    for version in status.yanked:
        words.setdefault(version, []).append("yanked")
    newest_first = sorted(known, key=sort_key, reverse=True)
    texts = [f"{version} ({', '.join(words[version])})" if version in words else version for version in newest_first]
    more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
    return f"there are {', '.join(texts[:10])}{more}"


def _folders(parent: Path) -> Iterator[str]:
    if not parent.is_dir():
        return
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not is_draft(entry.name):
                yield entry.name


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except UsageError:
        return False
    return True


def _is_version(text: str) -> bool:
    try:
        check_version(text)
    except UsageError:
        return False
    return True
