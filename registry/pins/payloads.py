"""Payloads that DVC keeps: each file straight from the remote, by the hash that DVC's list of the folder gives it."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.pins.cache import Cache
from optotype.registry.pins.lock import Pin
from optotype.schemas.errors import FormatError, IntegrityError
from optotype.store import dvc
from optotype.store.drafts import draft_file
from optotype.store.manifest import FileEntry

__all__ = ["LISTING", "POINTER", "from_remote", "keep_pointer", "kept_pointer"]

POINTER = "payload.dvc"
LISTING = "payload.json"


def keep_pointer(cache: Cache, pin: Pin, pointer: bytes) -> None:
    """Remember DVC's file of a pinned payload, so that no git is needed when it is read."""
    path = _notes(cache, pin) / POINTER
    if not path.is_file() or path.read_bytes() != pointer:
        with draft_file(path) as file:
            file.write(pointer)


def kept_pointer(cache: Cache, pin: Pin) -> bytes | None:
    """What `keep_pointer` remembered."""
    path = _notes(cache, pin) / POINTER
    return path.read_bytes() if path.is_file() else None


def from_remote(
    dvc_folder: Path, pointer: bytes, pin: Pin, manifest: ArtifactManifest, entry: FileEntry, cache: Cache
) -> Path:
    """Bring one file of a payload from the default remote of the publisher's project into the cache.

    Raises
    ------
    IntegrityError
        The remote holds other bytes.
    FormatError, NotFoundError, ExternalError, MissingPackageError
        As `optotype.store.dvc.fetch` does.
    """
    keep_pointer(cache, pin, pointer)
    files = _listing(dvc_folder, pin, cache)
    md5 = files.get(entry.path)
    if md5 is None:
        raise IntegrityError(
            f"{pin.relative}/{POINTER}: it stands for other files than the manifest lists (no {entry.path})"
        )
    where = f"{pin.relative}/payload/{entry.path} (object {md5} of the DVC remote)"
    return cache.take(entry, lambda file: dvc.fetch(dvc_folder, md5, file), where)


def _listing(dvc_folder: Path, pin: Pin, cache: Cache) -> dict[str, str]:
    notes = _notes(cache, pin)
    md5 = dvc.read_pointer(notes / POINTER)
    path = notes / LISTING
    for attempt in (path.is_file(), False):
        if not attempt:
            text = io.BytesIO()
            dvc.fetch(dvc_folder, md5, text)
            with draft_file(path) as file:
                file.write(text.getvalue())
        data = path.read_bytes()
        if hashlib.md5(data, usedforsecurity=False).hexdigest() == md5.removesuffix(".dir"):
            break
    else:
        path.unlink()
        raise IntegrityError(f"{pin.relative}/{POINTER}: the DVC remote holds other bytes as object {md5}")
    try:
        return dvc.folder_listing(data, f"object {md5} of the DVC remote")
    except FormatError:
        path.unlink()
        raise


def _notes(cache: Cache, pin: Pin) -> Path:
    return cache.notes(pin.manifest.removeprefix("sha256:"))
