"""Move pins to what their request comes to now, after showing what changes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.artifacts.diff import compare
from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.artifacts.layout import PAYLOAD, Place
from optotype.registry.artifacts.status import Status
from optotype.registry.pins.cache import Cache, place_file
from optotype.registry.pins.lock import LOCK, Pin, find_folder, read_lock, select, write_lock
from optotype.registry.pins.pin import resolve
from optotype.registry.pins.pull import manifest_of
from optotype.registry.pins.source import Source, open_source
from optotype.registry.pins.tree import PINS
from optotype.schemas.errors import ConflictError, ExternalError, NotFoundError, OptotypeError
from optotype.schemas.references import Reference
from optotype.store.drafts import writing

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress

__all__ = ["Moved", "update"]

_COMPARED = 64 << 20  # bytes of a payload that is fetched only to be compared


@dataclass(frozen=True)
class Moved:
    """What an update of one pin comes to.

    Attributes
    ----------
    before, after : Pin
        Equal where there is nothing newer.
    diff : mapping or None
        See `optotype.registry.artifacts.diff.compare`; None where version and bytes stay the same.
    moved : bool
        Whether the lock has `after` now.
    notes : tuple of str
    """

    before: Pin
    after: Pin
    diff: dict[str, Any] | None
    moved: bool
    notes: tuple[str, ...] = field(default=())


def update(
    references: Sequence[str] = (),
    *,
    agree: Callable[[Moved], bool],
    folder: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> list[Moved]:
    """Resolve pins again and move those that come to another version, one by one, where ``agree`` says so.

    Parameters
    ----------
    references : sequence of str
        Pins by name, all by default. ``name@^2`` asks for something else from now on.
    agree : callable
        Shown the move with its diff before anything is written.
    folder, cache, progress
        As for `optotype.registry.pins.pull.pull`.

    Raises
    ------
    NotFoundError, UsageError
        No lock, no such pin, or nothing that fits.
    ExternalError
        A source cannot be reached.
    ConflictError
        All that fits was yanked; or the lock was changed meanwhile.
    IntegrityError
        Bytes that were fetched for the diff are damaged.
    """
    from optotype.pipelines.progress import SILENT

    where = find_folder() if folder is None else folder.resolve()
    store = Cache(cache)
    lock = read_lock(where)
    if not lock.pins:
        raise NotFoundError(f"{where / LOCK}: nothing is pinned")
    asked = {ref.name: ref for ref in map(Reference.parse, references)}
    names = [ref.place for ref in asked.values()]
    found: list[Moved] = []
    for pin in select(lock, names, where):
        source = open_source(pin.source, where, store, refresh=True)
        if source.unreachable is not None:
            raise ExternalError(f"{pin.source} cannot be reached: {source.unreachable}")
        ref = asked.get(pin.name)
        selector = f"@{pin.requested}" if ref is None or ref.selector is None else f"@{ref.selector}"
        after, notes = resolve(source, Reference.parse(f"{pin.place}{selector}"), store)
        known = pin.revision is not None or after.revision is None
        if known and after.tag is None and replace(after, revision=pin.revision) == pin:
            after = pin  # a later commit of the same bytes is no news
        diff = None
        if (after.version, after.manifest) != (pin.version, pin.manifest):
            diff = _diff(where, pin, after, source, store, progress or SILENT)
        move = Moved(pin, after, diff, after != pin, notes)
        if move.moved and (diff is None or agree(move)):
            _replace(where, pin, after)
        elif move.moved:
            move = Moved(pin, after, diff, False, notes)
        found.append(move)
    return found


def _replace(folder: Path, before: Pin, after: Pin) -> None:
    with writing(folder / LOCK, wait=True):
        lock = read_lock(folder)
        if lock.get(before.kind, before.name) != before:
            raise ConflictError(
                f"{folder / LOCK}: the pin of {before.place} was changed meanwhile", hint="Run it again."
            )
        write_lock(folder, lock.with_pin(after))


def _diff(folder: Path, before: Pin, after: Pin, source: Source, cache: Cache, progress: Progress) -> dict[str, Any]:
    """What changes, from manifests and, of small payloads, from the bytes. The old version may be out of reach."""
    from optotype.registry.artifacts.panel_ranks import find_panel

    with tempfile.TemporaryDirectory(prefix="optotype-") as scratch:
        pins = {}
        for side, pin in (("before", before), ("after", after)):
            place = Place(Path(scratch) / side, pin.kind, pin.name, pin.version)
            place.folder.mkdir(parents=True)
            place.manifest.write_bytes(manifest_of(pin, source, cache)[0])
            pins[place] = pin

        def payload(version: Version) -> Path:
            pin = pins[version.place]
            if pin.bytes > _COMPARED:
                raise NotFoundError(f"{pin} has {pin.bytes:,} bytes, which are not fetched to be compared")
            with progress(f"fetching {pin}", total=pin.files, unit="files") as task:
                for entry in version.manifest.files:
                    try:
                        path = cache.found(entry.sha256) or source.fetch(pin, version.manifest, entry, cache)
                    except ExternalError as error:
                        raise NotFoundError(error.message) from error
                    place_file(path, version.place.folder / PAYLOAD / entry.path)
                    task.advance()
            return version.place.payload

        pulled = Registry(folder / PINS)

        def panel(version: Version) -> Path | None:
            try:
                return find_panel(pulled, version.manifest.lineage)
            except OptotypeError:
                return None

        old, new = (Version(place, Status()) for place in pins)
        return compare(old, new, payload, panel)
