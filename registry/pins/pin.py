"""Pin a published version: find it, and write down which one it is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from optotype.registry.artifacts.index import Version
from optotype.registry.artifacts.layout import STATUS
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.pins.cache import Cache
from optotype.registry.pins.lock import LOCK, Pin, find_folder, read_lock, write_lock
from optotype.registry.pins.payloads import keep_pointer
from optotype.registry.pins.source import Source, normalised, open_source
from optotype.schemas.errors import ConflictError, ExternalError, IntegrityError, NotFoundError, UsageError
from optotype.schemas.references import Reference
from optotype.store.drafts import writing

__all__ = ["Pinned", "pin", "resolve"]


@dataclass(frozen=True)
class Pinned:
    """What was pinned.

    Attributes
    ----------
    pin : Pin
    before : Pin or None
        The pin of this name that stood in the lock.
    folder : Path
        The lock's.
    notes : tuple of str
        What the user should know.
    """

    pin: Pin
    before: Pin | None
    folder: Path
    notes: tuple[str, ...] = ()


def pin(
    reference: str, source: str | Path | None = None, *, folder: Path | None = None, cache: Path | None = None
) -> Pinned:
    """Pin a published version of somebody else's in ``optotype.lock``. Nothing of its payload is fetched.

    Parameters
    ----------
    reference : str
        ``[kind/]name@selector``: an exact version, a range, an alias or a digest.
    source : str or Path, optional
        Git URL, or the folder that holds ``artifacts/``. By default the source of the pin that the name has already.
    folder : Path, optional
        Where the lock is or is to be. By default the nearest folder upward that has one, else the working directory.
    cache : Path, optional
        By default ``$OPTOTYPE_CACHE``, else ``~/.cache/optotype``.

    Raises
    ------
    UsageError
        No selector, or no source.
    NotFoundError
        Nothing fits; the message lists what there is.
    ConflictError
        The version was yanked; the message says why.
    IntegrityError
        Its manifest is damaged, or its tag holds another one.
    ExternalError
        The repository cannot be reached.
    """
    where = _folder(folder)
    ref = Reference.parse(reference)
    text = _source(ref, source, where)
    store = Cache(cache)
    opened = open_source(text, where, store, refresh=True)
    if opened.unreachable is not None:
        raise ExternalError(f"{text} cannot be reached: {opened.unreachable}", hint="A new pin needs its source.")
    made, notes = resolve(opened, ref, store)
    with writing(where / LOCK, wait=True):
        lock = read_lock(where)
        before = lock.get(made.kind, made.name)
        if before != made:
            write_lock(where, lock.with_pin(made))
    return Pinned(made, before, where, notes)


def resolve(source: Source, ref: Reference, cache: Cache) -> tuple[Pin, tuple[str, ...]]:
    """The pin that a reference comes to in a source, and what the user should know; raises what `pin` raises."""
    with source.registry(ref.kind, ref.name) as registry:
        hit = registry.resolve(ref, yanked=True)
        if hit.yanked is not None:
            raise _yanked(source, hit, registry.versions(hit.kind, hit.name))
        requested = str(ref.selector)
        offer = source.offer(hit.kind, hit.name, hit.version)
    where = f"{source.text}: {hit.place.relative}/manifest.json"
    manifest = ArtifactManifest.parse(offer.manifest, where)
    if (manifest.kind, manifest.name, manifest.version) != (hit.kind, hit.name, hit.version):
        raise IntegrityError(f"{where}: it is the manifest of {manifest.kind}/{manifest.name}@{manifest.version}")
    made = Pin(
        kind=hit.kind,
        name=hit.name,
        requested=requested,
        version=hit.version,
        digest=manifest.digest,
        manifest="sha256:" + hashlib.sha256(offer.manifest).hexdigest(),
        source=source.text,
        revision=offer.revision,
        tag=offer.tag,
        files=len(manifest.files),
        bytes=manifest.size,
    )
    cache.keep(offer.manifest)
    if offer.pointer is not None:
        keep_pointer(cache, made, offer.pointer)
    return made, offer.notes


def _folder(folder: Path | None) -> Path:
    if folder is not None:
        if not folder.is_dir():
            raise NotFoundError(f"{folder}: no such folder")
        return folder.resolve()
    try:
        return find_folder()
    except NotFoundError:
        return Path.cwd().resolve()


def _source(ref: Reference, source: str | Path | None, folder: Path) -> str:
    if source is not None:
        return normalised(str(source), folder)
    known = [pin for pin in read_lock(folder).pins if pin.name == ref.name and ref.kind in (None, pin.kind)]
    if len({pin.source for pin in known}) == 1:
        return known[0].source
    raise UsageError(f"{ref}: from where?", hint=f"optotype pin {ref} --from GIT_URL_OR_PATH")


def _yanked(source: Source, hit: Version, known: list[str]) -> ConflictError:
    usable = [version for version in known if version not in hit.status.yanked]
    return ConflictError(
        f"{source.text}: artifacts/{hit.kind}/{hit.name}/{STATUS}: {hit} was yanked: {hit.yanked}",
        hint=f"Pin another version: {', '.join(usable[::-1][:10])}." if usable else "There is no other version.",
    )
