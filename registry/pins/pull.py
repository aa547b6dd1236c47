"""Bring what the lock pins, and nothing else: every byte is checked, from the source or from the cache."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from optotype.registry.artifacts.layout import MANIFEST, STATUS
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.pins.cache import Cache
from optotype.registry.pins.lock import LOCK, Pin, find_folder, read_lock, select
from optotype.registry.pins.payloads import keep_pointer, kept_pointer
from optotype.registry.pins.source import Source, open_source
from optotype.registry.pins.tree import build, check_manifest, check_pulled, place_of, write_status
from optotype.schemas.errors import ConflictError, ExternalError, IntegrityError, NotFoundError, UsageError
from optotype.store.manifest import FileEntry

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress

__all__ = ["Pulled", "manifest_of", "pull"]

_FETCHERS = 4
_SHOWN = 5


@dataclass(frozen=True)
class Pulled:
    """One pinned version after a pull.

    Attributes
    ----------
    pin : Pin
    path : Path
        Its payload.
    state : {"pulled", "present"}
        Whether it was brought now, or was there and whole.
    notes : tuple of str
        Warnings: yanked, without revision, source out of reach.
    """

    pin: Pin
    path: Path
    state: Literal["pulled", "present"]
    notes: tuple[str, ...] = ()


@dataclass
class _Sources:
    """The sources of a lock, each opened once."""

    folder: Path
    cache: Cache
    opened: dict[str, Source | str] = field(default_factory=dict)

    def of(self, pin: Pin) -> Source | str:
        """The source of a pin, or why there is none."""
        if pin.source not in self.opened:
            try:
                self.opened[pin.source] = open_source(pin.source, self.folder, self.cache, refresh=True)
            except (ExternalError, NotFoundError) as error:
                self.opened[pin.source] = error.message
        return self.opened[pin.source]


def pull(
    references: Sequence[str] = (),
    *,
    locked: bool = False,
    folder: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> list[Pulled]:
    """Bring the versions that ``optotype.lock`` pins into ``optotype_pins/`` beside it.

    The lock is never changed. Where the source can be reached, it is asked whether the version's tag, its manifest and
    its state are still what they were; where it cannot, what the cache holds is taken and a note says so. All bytes
    are checked against the lock, those that were pulled before, too.

    Parameters
    ----------
    references : sequence of str
        Names of pins; all pins by default.
    locked : bool
        For unattended runs: a version that was yanked or has no git revision is an error, not a note.
    folder : Path, optional
        The lock's. By default the nearest upward from the working directory.
    cache : Path, optional
        By default ``$OPTOTYPE_CACHE``, else ``~/.cache/optotype``.
    progress : Progress, optional

    Raises
    ------
    IntegrityError
        A byte, a manifest or a tag is not what the lock pins; names the file.
    ConflictError
        With ``locked``: yanked.
    UsageError
        With ``locked``: no revision. A reference means another version than the lock.
    NotFoundError, ExternalError, MissingPackageError
        No lock, no such pin, or bytes that the cache lacks cannot be fetched.
    """
    from optotype.pipelines.progress import SILENT

    where = find_folder() if folder is None else folder.resolve()
    lock = read_lock(where)
    if not lock.pins:
        raise NotFoundError(
            f"{where / LOCK}: nothing is pinned", hint="optotype pin KIND/NAME@^1.2 --from GIT_URL_OR_PATH"
        )
    sources = _Sources(where, Cache(cache))
    chosen = select(lock, references, where)
    if locked:
        for pin in chosen:
            if pin.revision is None:
                raise UsageError(
                    f"--locked: {LOCK} has no git revision for {pin}, so nobody else can bring it",
                    hint=f"Once it is committed there: optotype pin {pin} --from {pin.source}",
                )
    return [_pull(where, pin, sources, locked=locked, progress=progress or SILENT) for pin in chosen]


def _pull(folder: Path, pin: Pin, sources: _Sources, *, locked: bool, progress: Progress) -> Pulled:
    source = sources.of(pin)
    notes = _changes(folder, pin, source, locked=locked)
    place = place_of(folder, pin)
    try:
        check_pulled(folder, pin)
    except FileNotFoundError:
        _bring(folder, pin, source, sources.cache, progress)
        return Pulled(pin, place.payload, "pulled", notes)
    return Pulled(pin, place.payload, "present", notes)


def _changes(folder: Path, pin: Pin, source: Source | str, *, locked: bool) -> tuple[str, ...]:
    """What became of a version since it was pinned: notes, or an error."""
    notes = []
    if pin.revision is None:
        notes.append(f"{pin} has no git revision: it is known by its digests alone")
    why = source if isinstance(source, str) else source.unreachable
    if why is not None or isinstance(source, str):
        return (*notes, f"{pin}: {pin.source} cannot be reached, so tags and yanks are as they were ({why})")
    _check_tag(pin, source)
    notes += _check_revision(pin, source)
    now = source.current(pin)
    if now is not None:
        check_manifest(now, pin, f"{pin.source}: {pin.relative}/{MANIFEST}")
    else:
        kept = "" if pin.revision is None else f"; it is read from commit {pin.revision[:12]} or the cache"
        notes.append(f"{pin} is no longer in {pin.source}{kept}")
    status = source.status(pin.kind, pin.name)
    write_status(folder, pin.kind, pin.name, status)
    why = status.yanked.get(pin.version)
    if why is not None:
        text = f"{pin.source}: artifacts/{pin.kind}/{pin.name}/{STATUS}: {pin} was yanked: {why}"
        if locked:
            raise ConflictError(text, hint=f"optotype update {pin.place}")
        notes.append(f"{text} (optotype update {pin.place} moves on)")
    return tuple(notes)


def _check_tag(pin: Pin, source: Source) -> None:
    commit, manifest = source.tag(pin)
    name = f"{pin.place}@v{pin.version}"
    path = f"{pin.relative}/{MANIFEST}"
    if pin.tag is not None and commit != pin.revision:
        now = "is gone" if commit is None else f"stands at commit {commit[:12]} now"
        raise IntegrityError(
            f"{pin.source}: the tag {name} {now}; {LOCK} has {str(pin.revision)[:12]} for {path}",
            hint="A tag of a published version is never moved. Ask the publisher; if it is right so, pin again: "
            f"optotype pin {pin} --from {pin.source}",
        )
    if pin.tag is None and commit is not None:
        check_manifest(manifest or b"", pin, f"{pin.source}: {path} at the tag {name}")


def _check_revision(pin: Pin, source: Source) -> list[str]:
    """The pinned commit has to hold the pinned manifest; a commit that is gone is a note, the digests still count."""
    if pin.revision is None:
        return []
    there, manifest = source.at_revision(pin)
    if not there:
        return [
            f"{pin.source} has no commit {pin.revision[:12]}, which {LOCK} names for {pin}; only digests are checked"
        ]
    where = f"{pin.source}: {pin.relative}/{MANIFEST} at commit {pin.revision[:12]}"
    if manifest is None:
        raise IntegrityError(
            f"{where}: not there, although {LOCK} names that commit for {pin}",
            hint=f"Was the lock edited? Pin it again: optotype pin {pin} --from {pin.source}",
        )
    check_manifest(manifest, pin, where)
    return []


def manifest_of(pin: Pin, source: Source | str, cache: Cache) -> tuple[bytes, ArtifactManifest]:
    """The pinned manifest, out of the cache or from the source.

    Raises
    ------
    IntegrityError
        The source has another one.
    ExternalError
        It is not in the cache, and there is no source.
    """
    path = cache.found(pin.manifest.removeprefix("sha256:"))
    where = f"{pin.source}: {pin.relative}/{MANIFEST}"
    if path is not None:
        data = path.read_bytes()
    else:
        if isinstance(source, str):
            bad = _damaged(cache, [pin.manifest.removeprefix("sha256:")])
            raise ExternalError(f"{pin} is not in the cache{bad}, and its source cannot be reached: {source}")
        offer = source.pinned(pin)
        if offer is None:
            raise IntegrityError(
                f"{where}: gone, and so is commit {str(pin.revision)[:12]} that {LOCK} names",
                hint="The history was rewritten. Ask the publisher, or pin another version.",
            )
        data = offer.manifest
        check_manifest(data, pin, where)
        cache.keep(data)
        if offer.pointer is not None:
            keep_pointer(cache, pin, offer.pointer)
    return data, check_manifest(data, pin, where)


def _bring(folder: Path, pin: Pin, source: Source | str, cache: Cache, progress: Progress) -> None:
    data, manifest = manifest_of(pin, source, cache)
    found = {entry.path: cache.found(entry.sha256) for entry in manifest.files}
    files = {name: path for name, path in found.items() if path is not None}
    missing = [entry for entry in manifest.files if entry.path not in files]
    card = cache.found(manifest.card.sha256)
    if isinstance(source, str):
        if missing or card is None:
            raise ExternalError(
                f"{pin}: {_lacking(missing, manifest, card)} not in the cache"
                f"{_damaged(cache, [*(entry.sha256 for entry in missing), manifest.card.sha256])}, and its source "
                f"cannot be reached: {source}"
            )
        text = card.read_bytes()
    else:
        text = _card(pin, manifest, source, cache) if card is None else card.read_bytes()
        reachable = source
        with (
            progress(f"pulling {pin}", total=len(missing), unit="files") as task,
            ThreadPoolExecutor(_FETCHERS) as pool,
        ):
            jobs = {entry.path: pool.submit(reachable.fetch, pin, manifest, entry, cache) for entry in missing}
            try:
                for name, job in jobs.items():
                    files[name] = job.result()
                    task.advance()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    build(folder, pin, data, text, kept_pointer(cache, pin), files)


def _lacking(missing: Sequence[FileEntry], manifest: ArtifactManifest, card: Path | None) -> str:
    files = f"{len(missing)} of its {len(manifest.files)} files" if missing else ""
    return " and ".join(filter(None, (files, "" if card is not None else manifest.card.path))) + (
        " are" if missing else " is"
    )


def _damaged(cache: Cache, digests: Sequence[str]) -> str:
    """Which files of the cache are there and damaged, in brackets."""
    bad = [str(path) for path in cache.damaged(*digests)]
    more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return f" (damaged there: {', '.join(bad[:_SHOWN])}{more})" if bad else ""


def _card(pin: Pin, manifest: ArtifactManifest, source: Source, cache: Cache) -> bytes:
    offer = source.pinned(pin)
    text = b"" if offer is None or offer.card is None else offer.card
    cache.take(manifest.card, lambda file: _write(file, text), f"{pin.source}: {pin.relative}/{manifest.card.path}")
    return text


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)
