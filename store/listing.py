"""What arrays there are and what is in them, from their metadata alone: no values are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from optotype.schemas.errors import FormatError, IntegrityError, OptotypeError
from optotype.store.location import Location
from optotype.store.manifest import Manifest, read_manifest
from optotype.store.mixtures import Mixture, check_parts, is_mixture, read_mixture
from optotype.store.project import MIXTURE, Kind, Project

__all__ = ["describe", "show"]

# kind -> (name of the array of values, name of the ids)
_MEMBERS: dict[str, tuple[str, str]] = {
    "features": ("patches", "image"),
    "states": ("states", "text"),
    "neighbours": ("neighbours", "item"),
}
_COUNTS: dict[str, tuple[str, ...]] = {
    "features": ("images", "tokens", "channels"),
    "states": ("texts", "tokens", "channels"),
    "neighbours": ("items", "k"),
}
_FIELDS: dict[str, tuple[str, ...]] = {
    kind: ("name", *counts, "dtype", "digest", "key", "bytes", "path", "error") for kind, counts in _COUNTS.items()
}


def describe(kind: Kind, where: Project | str | Path) -> list[dict[str, Any]]:
    """One row for each array of a kind in a project, sorted by name, or for the one at a path or URL.

    Returns
    -------
    list of dict
        ``name``; ``images``, ``texts`` or ``items`` (int); of features and states ``tokens`` (int; None for
        states) and ``channels``, of neighbours ``k``; ``dtype``, ``digest``, ``key``, ``bytes``, ``path``
        (relative to the project), ``error`` (None). Of an array in a project that cannot be read, ``error`` is a
        str that says why, and all but ``name`` and ``path`` is None.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        The one at a path or URL cannot be read; its path is in the message.
    """
    if not isinstance(where, Project):
        return [_row(kind, where)]
    rows = []
    for folders in where.index(kind).values():
        for folder in folders:
            try:
                row = _row(kind, folder)
            except OptotypeError as error:
                row = {**dict.fromkeys(_FIELDS[kind]), "name": folder.name, "error": error.message}
            rows.append({**row, "path": folder.relative_to(where.root).as_posix()})
    return rows


def show(kind: Kind, source: str | Path) -> dict[str, Any]:
    """All that is known of one array at a path or URL.

    Returns
    -------
    dict
        The row of `describe`, and ``kind``, ``created_by``, ``files`` (int), ``shards`` (int), ``shard_rows``,
        ``chunk_rows``, ``inputs`` and ``attrs`` (dicts); of features also ``row_size`` with ``min`` and ``max``. Of a
        virtual encoder the row of `describe`, ``kind``, ``virtual`` (true) and ``inputs``, which name its parts.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `describe` does.
    """
    if kind == "features" and is_mixture(source):
        mixture = read_mixture(source)
        parts = [{"array": part.array, "digest": part.digest} for part in mixture.parts]
        return {**_row(kind, source), "kind": kind, "virtual": True, "inputs": {**mixture.recipe, "parts": parts}}
    array = _Described(kind, source)
    shard_rows, chunk_rows = array.cut()
    more: dict[str, Any] = {
        "kind": kind,
        "created_by": array.manifest.created_by,
        "files": len(array.manifest.files),
        "shards": -(-array.shape[0] // shard_rows),
        "shard_rows": shard_rows,
        "chunk_rows": chunk_rows,
        "inputs": dict(array.manifest.inputs),
        "attrs": array.attrs,
    }
    if kind == "features":
        from optotype.store.features import open_features  # slow to import: xarray, zarr

        sizes = open_features(source)["row_size"].values
        more["row_size"] = {"min": int(sizes.min()), "max": int(sizes.max())}
    return {**array.row(), **more}


def _row(kind: Kind, source: str | Path) -> dict[str, Any]:
    """The row of `describe`."""
    if kind == "features" and is_mixture(source):
        return _mixture_row(source, read_mixture(source))
    return _Described(kind, source).row()


def _mixture_row(source: str | Path, mixture: Mixture) -> dict[str, Any]:
    """The row of a virtual encoder whose parts are there as they were mixed."""
    check_parts(source, mixture)
    location = Location.of(source)
    return {
        "name": location.name,
        "images": mixture.images,
        "tokens": mixture.tokens,
        "channels": mixture.dims,
        "dtype": mixture.dtype,
        "digest": mixture.digest,
        "key": mixture.key,
        "bytes": len(location.read(MIXTURE)),
        "path": str(location),
        "error": None,
    }


class _Described:
    """The metadata of one array."""

    def __init__(self, kind: Kind, source: str | Path) -> None:
        self.kind = kind
        self.location = Location.of(source)
        self.manifest: Manifest = read_manifest(source)
        if self.manifest.kind != kind:
            raise FormatError(f"{self.location}: holds {self.manifest.kind}, {kind} were asked for")
        try:
            group = json.loads(self.location.read("zarr.json"))
            members = group["consolidated_metadata"]["metadata"]
            values, item = _MEMBERS[kind]
            self.attrs: dict[str, Any] = group["attributes"]
            self._values: dict[str, Any] = members[values]
            self.items: int = members[item]["shape"][0]
        except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise IntegrityError(
                f"{self.location}/zarr.json: missing or damaged ({error})",
                hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
            ) from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of values."""
        return tuple(self._values["shape"])

    def cut(self) -> tuple[int, int]:
        """Rows of a shard and of an inner chunk."""
        inner = self._values["codecs"][0]["configuration"]["chunk_shape"][0]
        return self._values["chunk_grid"]["configuration"]["chunk_shape"][0], inner

    def row(self) -> dict[str, Any]:
        """The row of `describe`."""
        if self.kind == "features":
            sizes: dict[str, Any] = {"images": self.items, "tokens": self.shape[0], "channels": self.shape[1]}
        elif self.kind == "states":
            sizes = {"texts": self.items, "tokens": None, "channels": self.shape[1]}
        else:
            sizes = {"items": self.items, "k": self.shape[1]}
        return {
            "name": self.location.name,
            **sizes,
            "dtype": self._values["attributes"].get("dtype", self._values["data_type"]),
            "digest": self.manifest.digest,
            "key": self.manifest.key,
            "bytes": self.manifest.size,
            "path": str(self.location),
            "error": None,
        }
