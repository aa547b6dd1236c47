"""The registry that a verb looks into: the project's own, what was pulled, and the lock that says which is meant."""

from __future__ import annotations

from pathlib import Path

from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.pins.lock import Lock, find_folder, read_lock, select
from optotype.registry.pins.tree import PINS, check_pulled, place_of
from optotype.schemas.errors import NotFoundError, UsageError
from optotype.schemas.references import Reference

__all__ = ["PinnedRegistry", "open_registry", "pulled_panel"]


class PinnedRegistry(Registry):
    """Published versions of a project (or what was pulled), in which a name without a version means the lock's pin.

    Parameters
    ----------
    root : Path
        Of the project; where there is none, the folder of what was pulled.
    folder : Path
        The lock's.
    lock : Lock
    """

    def __init__(self, root: Path, folder: Path, lock: Lock) -> None:
        super().__init__(root)
        self._folder = folder
        self._lock = lock
        self._pulled = Registry(folder / PINS)

    def resolve(self, reference: Reference | str, kind: str | None = None, *, yanked: bool = False) -> Version:
        """As `Registry.resolve`. A pinned version may be a yanked one, and its manifest is checked against the lock.

        Raises
        ------
        NotFoundError
            It is pinned and was not pulled.
        IntegrityError
            What was pulled is not what the lock pins.
        """
        ref = Reference.parse(reference, kind) if isinstance(reference, str) else reference
        named = [pin for pin in self._lock.pins if pin.name == ref.name and ref.kind in (None, pin.kind)]
        if not named:
            return super().resolve(ref, yanked=yanked)
        if ref.selector is None:
            (pin,) = select(self._lock, [str(ref)], self._folder)
        else:  # versions of the project's own, else the pin if it is what was asked for
            try:
                return super().resolve(ref, yanked=yanked)
            except NotFoundError as error:
                try:
                    (pin,) = select(self._lock, [str(ref)], self._folder)
                except (NotFoundError, UsageError):
                    raise error from None
        try:
            check_pulled(self._folder, pin, payload=False)
        except FileNotFoundError:
            raise NotFoundError(f"{pin} is pinned and was not pulled", hint=f"optotype pull {pin.place}") from None
        return self._pulled.version(pin.kind, pin.name, pin.version)


def open_registry(project: Path | None, start: Path | None = None) -> Registry:
    """The registry to look into.

    Parameters
    ----------
    project : Path or None
        Root of the project, if there is one.
    start : Path, optional
        Where the lock is looked for, upward; by default the working directory. A project's own lock counts first.

    Raises
    ------
    NotFoundError
        There is neither a project nor a lock.
    """
    try:
        folder = find_folder(project if project is not None and start is None else start)
    except NotFoundError:
        if project is None:
            raise
        return Registry(project)
    return PinnedRegistry(folder / PINS if project is None else project, folder, read_lock(folder))


def pulled_panel(digest: str, project: Path | None = None) -> tuple[Path | None, list[str]]:
    """The pinned and pulled panel of a digest, every byte checked, and which pins were not pulled and so not looked at.

    Parameters
    ----------
    digest : str
        Of the payload, or of the scores themselves, as lineages name it.
    project : Path, optional
        Root of the project, whose lock counts first; by default the nearest lock upward from the working directory.

    Raises
    ------
    IntegrityError
        It was pulled and is damaged; names the file.
    """
    try:
        folder = find_folder(project)
    except NotFoundError:
        return None, []
    notes = []
    for pin in read_lock(folder).pins:
        if pin.kind != "scores":
            continue
        try:
            manifest = check_pulled(folder, pin, payload=False)
        except FileNotFoundError:
            notes.append(f"{pin} is pinned and was not pulled; if it is the panel: optotype pull {pin.place}")
            continue
        if digest in (manifest.digest, *manifest.facts.get("content_digests", ())):
            check_pulled(folder, pin)
            return place_of(folder, pin).payload, []
    return None, notes
