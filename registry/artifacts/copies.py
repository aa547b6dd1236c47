"""Copies of a payload: in the working tree, in DVC's cache, and the one that is put together from the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from optotype.schemas.errors import IntegrityError, NotFoundError
from optotype.store import dvc
from optotype.store.drafts import Draft, flush
from optotype.store.manifest import FileEntry

if TYPE_CHECKING:
    from optotype.registry.artifacts.index import Version

__all__ = ["cached_files", "check_bytes", "copied", "flush_folders", "hashed", "payload_files", "whole_copy"]

_BLOCK = 1 << 20
_SHOWN = 10


def whole_copy(version: Version, cache: Path) -> Path:
    """A folder with the whole payload: see `Registry.payload`."""
    manifest = version.manifest
    if _has_sizes(version.place.payload, manifest.files):
        return version.place.payload
    target = cache / manifest.digest.removeprefix("sha256:")
    if _has_sizes(target, manifest.files):
        return target
    cached = cached_files(version)
    missing = [entry.path for entry in manifest.files if entry.path not in cached or not cached[entry.path].is_file()]
    if missing:
        _refuse_other_sizes(version, manifest.files)
        how = "dvc pull" if manifest.storage == "dvc" else "git checkout"
        raise NotFoundError(
            f"{version}: its payload is not here: {missing[0]}"
            + (f" and {len(missing) - 1} more files" if len(missing) > 1 else ""),
            hint=f"{how} {version.place.pointer if manifest.storage == 'dvc' else version.place.payload}",
        )
    with Draft(target) as draft:
        if _has_sizes(target, manifest.files):
            return target
        copied({entry.path: cached[entry.path] for entry in manifest.files}, draft.path)
        got = hashed(payload_files(draft.path), flush=True)
        flush_folders(draft.path)
        for entry, found in zip(manifest.files, got, strict=True):
            if entry != found:
                raise IntegrityError(
                    f"{cached[entry.path]}: DVC's cache holds other bytes than {version} has as {entry.path}",
                    hint="Remove that file and fetch it again: dvc pull",
                )
        if target.exists():
            shutil.rmtree(target)
        draft.commit(lambda _: False)
    return target


def _refuse_other_sizes(version: Version, files: tuple[FileEntry, ...]) -> None:
    """A payload that is here in other bytes is damaged, not absent."""
    for entry in files:
        path = version.place.payload / entry.path
        if path.is_file() and path.stat().st_size != entry.size:
            raise IntegrityError(
                f"{path}: {path.stat().st_size} bytes, {version} has {entry.size}; it was changed after it was "
                "published",
                hint=_again(version),
            )


def check_bytes(version: Version, folder: Path) -> None:
    """Read every file of a payload and compare it with the manifest.

    Raises
    ------
    IntegrityError
        Names the files whose bytes are other than published, or that are missing.
    """
    there = {entry.path: folder / entry.path for entry in version.manifest.files}
    got = {entry.path: entry for entry in hashed({name: path for name, path in there.items() if path.is_file()})}
    wrong = [entry.path for entry in version.manifest.files if got.get(entry.path) != entry]
    if wrong:
        lines = [f"  - {folder / name}" for name in wrong[:_SHOWN]]
        lines += [f"  - and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise IntegrityError(
            f"{version}: {len(wrong)} file(s) do not hold the bytes that were published:\n" + "\n".join(lines),
            hint=_again(version),
        )


def _again(version: Version) -> str:
    place = version.place
    if place.is_pulled:
        return f"Pull it again: optotype pull {place.kind}/{place.name}"
    if version.manifest.storage == "dvc":
        return f"Take the payload from DVC again: dvc checkout {place.relative}/{place.pointer.name}"
    return f"Take it from git again: git checkout -- {place.relative}"


def cached_files(version: Version) -> dict[str, Path]:
    """Path in the payload -> where DVC's cache keeps it, there or not; empty where the cache knows nothing of it.

    Raises
    ------
    FormatError
        The ``.dvc`` file or the cache's list of the folder cannot be read.
    """
    place = version.place
    cache = dvc.cache_folder(place.root) if version.manifest.storage == "dvc" else None
    if cache is None or not place.pointer.is_file():
        return {}
    folder = dvc.cached_folder(place.pointer, cache)
    return {} if folder is None else folder.files


def copied(files: Mapping[str, Path], target: Path) -> list[FileEntry]:
    """Copy files into ``target``; what was read, sorted by path. Nothing is forced to disk: `hashed` does."""
    entries = []
    for relative, source in sorted(files.items()):
        path = target / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        sha256, size = hashlib.sha256(), 0
        with source.open("rb") as reading, path.open("xb") as writing:
            for block in _blocks(reading):
                sha256.update(block)
                size += len(block)
                writing.write(block)
        entries.append(FileEntry(relative, size, sha256.hexdigest()))
    return entries


def hashed(files: Mapping[str, Path], *, flush: bool = False) -> list[FileEntry]:
    """Entries of files, sorted by path; with ``flush`` they are forced to disk on the way."""
    entries = []
    for relative, path in sorted(files.items()):
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if flush:
                os.fsync(file.fileno())
            entries.append(FileEntry(relative, os.fstat(file.fileno()).st_size, sha256))
    return entries


def payload_files(folder: Path) -> dict[str, Path]:
    """Every file in a payload's folder, hidden ones too, by path."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }


def flush_folders(folder: Path) -> None:
    """Force the entries of a folder and of all folders in it to disk."""
    for path in [*folder.rglob("*"), folder]:
        if path.is_dir():
            flush(path)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


def _has_sizes(folder: Path, files: tuple[FileEntry, ...]) -> bool:
    """Whether a folder has every file of the payload in its size; cheap, says nothing of the bytes."""
    try:
        return all((folder / entry.path).stat().st_size == entry.size for entry in files)
    except OSError:
        return False
