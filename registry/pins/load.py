"""What programs use of pins: a suite's items, any payload's folder, arrays read lazily."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.pins.lock import Pin, find_folder, read_lock, select
from optotype.registry.pins.tree import check_pulled, place_of
from optotype.schemas.errors import NotFoundError, UsageError
from optotype.schemas.references import Reference

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["Loaded", "Suite", "load", "load_suite", "open_pinned"]


@dataclass(frozen=True)
class Loaded:
    """A pinned version that was pulled; all its bytes are what the lock pins.

    Attributes
    ----------
    pin : Pin
        Kind, name, version, digest, source and revision, as the lock has them.
    manifest : ArtifactManifest
        Parameters, seed, facts, lineage, files.
    path : Path
        Folder of the payload.
    """

    pin: Pin
    manifest: ArtifactManifest
    path: Path

    def __str__(self) -> str:
        return str(self.pin)


@dataclass(frozen=True)
class Suite(Loaded):
    """A compressed suite.

    Attributes
    ----------
    items : DataFrame
        One row for each item, in catalogue order: ``benchmark``, ``item_id``, ``category``, ``weight`` and others.
    """

    items: pd.DataFrame


def load_suite(name: str, *, folder: str | Path | None = None) -> Suite:
    """A pinned suite that was pulled, every byte of it checked.

    Parameters
    ----------
    name : str
        ``NAME``, ``suite/NAME``, or with a version, which has to be the pinned one.
    folder : path, optional
        Where ``optotype.lock`` lies. By default the nearest folder upward from the working directory that has one.

    Raises
    ------
    NotFoundError
        No lock, no such pin, or it was not pulled; says what to type.
    IntegrityError
        A file is not what the lock pins; names it.
    """
    from optotype.registry.artifacts.kinds.items import read_items

    loaded = _load("suite", name, folder)
    return Suite(loaded.pin, loaded.manifest, loaded.path, read_items(loaded.path))


def load(kind: str, name: str, *, folder: str | Path | None = None) -> Loaded:
    """A pinned version of any kind that was pulled, every byte of it checked. Raises what `load_suite` raises.

    The payload's folder can be given to whatever reads that kind: `optotype.open_panel`, `optotype.open_states` ...
    """
    return _load(kind, name, folder)


def open_pinned(
    reference: str, *, array: str | None = None, folder: str | Path | None = None, cache: str | Path | None = None
) -> xr.Dataset:
    """Features, states or neighbour graphs of a pinned version, lazily; it need not have been pulled.

    Files that were pulled are read where they stand, others are fetched when a read first touches them: straight from
    the publisher's DVC remote by the hashes in our manifest, without git, and kept in the user's cache. Every file is
    checked against the lock before a byte of it is used.

    Parameters
    ----------
    reference : str
        ``features/NAME`` or ``states/NAME``; with a version, which has to be the pinned one.
    array : str, optional
        Which array, where the payload has several: ``vit-l8``, or ``neighbours/lm.l2`` for a graph.
    folder : path, optional
        As for `load_suite`.
    cache : path, optional
        By default ``$OPTOTYPE_CACHE``, else ``~/.cache/optotype``.

    Returns
    -------
    Dataset
        As `optotype.open_features`, `optotype.open_states` or `optotype.open_neighbours` gives it.

    Raises
    ------
    UsageError
        Of another kind.
    NotFoundError
        No lock, no such pin or array, or it cannot be found at its source.
    IntegrityError
        Bytes are not the published ones; names the file. Also raised by later reads.
    ExternalError, MissingPackageError
        The source or its remote cannot be reached. Also raised by later reads.
    """
    from optotype.registry.pins.cache import Cache
    from optotype.registry.pins.remote import location
    from optotype.store.features import open_features
    from optotype.store.neighbours import open_neighbours
    from optotype.store.states import open_states

    where, pin = _pin(None, reference, folder)
    if pin.kind not in ("features", "states"):
        raise UsageError(f"{pin}: arrays are features or states", hint=f"optotype.load({pin.kind!r}, {pin.name!r})")
    member = (array or "").strip("/")
    store = Cache(None if cache is None else Path(cache))
    source = location(where, pin, store, member, member.rpartition("/")[2] or pin.name)
    if member.startswith("neighbours/"):
        return open_neighbours(source)
    return open_features(source) if pin.kind == "features" else open_states(source)


def _load(kind: str, name: str, folder: str | Path | None) -> Loaded:
    where, pin = _pin(kind, name, folder)
    try:
        manifest = check_pulled(where, pin)
    except FileNotFoundError:
        raise NotFoundError(
            f"{pin} is pinned in {where} and was not pulled", hint=f"optotype pull {pin.place}"
        ) from None
    return Loaded(pin, manifest, place_of(where, pin).payload)


def _pin(kind: str | None, reference: str, folder: str | Path | None) -> tuple[Path, Pin]:
    where = find_folder(None if folder is None else Path(folder))
    ref = Reference.parse(reference, kind)
    (pin,) = select(read_lock(where), [str(ref)], where)
    return where, pin
