"""Arrays of pinned versions, read file by file: what was pulled, else the cache, else the source; each file checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.pins.cache import Cache, checked
from optotype.registry.pins.lock import LOCK, Pin
from optotype.registry.pins.payloads import keep_pointer
from optotype.registry.pins.pull import manifest_of
from optotype.registry.pins.source import Source, open_source
from optotype.registry.pins.tree import check_manifest, place_of
from optotype.schemas.errors import ExternalError, IntegrityError, NotFoundError
from optotype.store.location import Location
from optotype.store.manifest import MANIFEST, FileEntry

__all__ = ["PinnedFiles", "location", "pinned_manifest"]


@dataclass(frozen=True)
class PinnedFiles:
    """The files of one array in a pinned payload. Can be sent to other processes.

    A file is fetched whole, the first time a read touches it, and kept in the cache; what is never touched is never
    fetched. A shard is a file, so a read of some rows fetches the shards that hold them.

    Attributes
    ----------
    folder : Path
        The lock's.
    cache : Path
    pin : Pin
    manifest : ArtifactManifest
    member : str
        Folder of the array in the payload with ``/`` at its end; "" for the payload itself.
    """

    folder: Path
    cache: Path
    pin: Pin
    manifest: ArtifactManifest = field(repr=False)
    member: str = ""

    def path(self, relative: str) -> Path:
        """See `optotype.store.location.Files`.

        Raises
        ------
        FileNotFoundError
            The payload has no such file.
        IntegrityError
            The bytes that were pulled, or that the source has, are not the published ones; names the file.
        NotFoundError, ExternalError, MissingPackageError
            It cannot be fetched.
        """
        entry = _entries(self.manifest).get(f"{self.member}{relative}")
        if entry is None:
            raise FileNotFoundError(f"{self.pin}: {self.member}{relative}")
        here = place_of(self.folder, self.pin).payload / entry.path
        try:
            sha256 = checked(here)
        except FileNotFoundError:
            pass
        else:
            if sha256 != entry.sha256:
                raise IntegrityError(
                    f"{here}: sha256 {sha256}, published was {entry.sha256}; not what {LOCK} pins",
                    hint=f"Remove {place_of(self.folder, self.pin).folder} and pull it again: optotype pull",
                )
            return here
        cache = Cache(self.cache)
        found = cache.found(entry.sha256)
        if found is not None:
            return found
        try:
            return _source(self.pin.source, self.folder, self.cache).fetch(self.pin, self.manifest, entry, cache)
        except (ExternalError, NotFoundError) as error:
            bad = cache.damaged(entry.sha256)
            if not bad:
                raise
            raise type(error)(f"{error.message}; the cache's copy is damaged: {bad[0]}", hint=error.hint) from error


def location(folder: Path, pin: Pin, cache: Cache, member: str, called: str) -> Location:
    """Where an array of a pinned payload is read from.

    Raises
    ------
    NotFoundError
        The payload has no such array.
    """
    manifest = pinned_manifest(folder, pin, cache)
    prefix = f"{member}/" if member else ""
    listed = _entries(manifest)
    folders = [path.removesuffix(MANIFEST) for path in listed if f"/{path}".endswith(f"/{MANIFEST}")]
    arrays = sorted(each.rstrip("/") for each in folders if f"{each}zarr.json" in listed)
    if member not in arrays:
        single = [name for name in arrays if "/" not in name]
        if not member and len(single) == 1:
            return location(folder, pin, cache, single[0], single[0])
        what = f"no array {member!r}" if member else "several arrays"
        raise NotFoundError(f"{pin} has {what}; there are {', '.join(arrays)}", hint="Say which with array=NAME.")
    files = PinnedFiles(folder, cache.root, pin, manifest, prefix)
    return Location(f"{pin.kind}/{called}", None, files=files)


def pinned_manifest(folder: Path, pin: Pin, cache: Cache) -> ArtifactManifest:
    """The manifest of a pin, as it was pulled, else from the cache, else from the source; checked against the lock."""
    place = place_of(folder, pin)
    if place.manifest.is_file():
        return check_manifest(place.manifest.read_bytes(), pin, str(place.manifest))
    path = cache.found(pin.manifest.removeprefix("sha256:"))
    if path is not None:
        return check_manifest(path.read_bytes(), pin, str(path))
    try:
        source: Source | str = _source(pin.source, folder, cache.root)
    except (ExternalError, NotFoundError) as error:
        source = error.message
    manifest = manifest_of(pin, source, cache)[1]
    if not isinstance(source, str):
        offer = source.pinned(pin)
        if offer is not None and offer.pointer is not None:
            keep_pointer(cache, pin, offer.pointer)
    return manifest


@lru_cache(maxsize=16)
def _source(text: str, folder: Path, cache: Path) -> Source:
    return open_source(text, folder, Cache(cache), refresh=False)


@lru_cache(maxsize=16)
def _by_path(files: tuple[FileEntry, ...]) -> dict[str, FileEntry]:
    return {entry.path: entry for entry in files}


def _entries(manifest: ArtifactManifest) -> dict[str, FileEntry]:
    return _by_path(manifest.files)
