"""The manifest of an array: its files with sizes and digests, and the inputs it was made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from optotype import __version__
from optotype.schemas.documents import cache_key, canonical_json, parse_document
from optotype.schemas.errors import FormatError, IntegrityError, NotFoundError, Problem
from optotype.store.location import Location
from optotype.store.project import MIXTURE

__all__ = ["MANIFEST", "FileEntry", "Manifest", "read_manifest", "verify"]

MANIFEST = "manifest.json"
_FORMAT_VERSION = 1
_KINDS = ("features", "states", "neighbours", "embeddings", "scores", "tasks")
_HASHERS = 4


@dataclass(frozen=True, order=True)
class FileEntry:
    """One file of an array.

    Attributes
    ----------
    path : str
        Relative to the array's folder, with ``/``.
    size : int
        Bytes.
    sha256 : str
        64 hex digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an array consists of and what it was made of.

    Attributes
    ----------
    kind : str
        ``features``, ``states`` or ``neighbours``.
    digest : str
        ``sha256:`` and the SHA-256 of the canonical JSON of `files`: equal data, equal digest.
    files : tuple of FileEntry
        Every file but the manifest, sorted by path.
    inputs : mapping
        All inputs of the array, JSON values.
    key : str
        `cache_key` of `inputs`.
    created_by : str
        Program and version. No clock: the same run writes the same bytes.
    """

    kind: str
    digest: str
    files: tuple[FileEntry, ...]
    inputs: Mapping[str, Any]
    key: str
    created_by: str

    @classmethod
    def of(cls, kind: str, files: Iterable[FileEntry], inputs: Mapping[str, Any]) -> Manifest:
        """The manifest of ``files`` made of ``inputs``."""
        entries = tuple(sorted(files))
        inputs = json.loads(canonical_json(dict(inputs)))  # what a reader gets: tuples are lists, and so on
        return cls(kind, files_digest(entries), entries, inputs, cache_key(inputs), f"optotype {__version__}")

    @classmethod
    def parse(cls, text: bytes, where: str) -> Manifest:
        """Read a manifest and check that it agrees with itself.

        Raises
        ------
        FormatError
            Not a manifest, a newer one, or one with a path that leaves the array's folder.
        IntegrityError
            Digest or key do not belong to the files or inputs.
        """
        document = parse_document(text, kind="array manifest", where=where, newest=_FORMAT_VERSION)
        try:
            files = tuple(FileEntry(str(f["path"]), int(f["size"]), str(f["sha256"])) for f in document["files"])
            manifest = cls(
                kind=document["kind"],
                digest=document["digest"],
                files=files,
                inputs=dict(document["inputs"]),
                key=document["key"],
                created_by=document["created_by"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{where}: this array manifest lacks a field or has one of another type: {error}"
            ) from error
        if manifest.kind not in _KINDS:
            raise FormatError(f"{where}: kind is {manifest.kind!r}; this optotype reads {', '.join(_KINDS)}")
        for entry in files:
            if not _is_inside(entry.path):
                raise FormatError(f"{where}: {entry.path!r} is not a path inside the array")
        if manifest.digest != files_digest(files) or manifest.key != cache_key(manifest.inputs):
            raise IntegrityError(
                f"{where}: digest or key do not belong to the files or inputs listed; the manifest was changed",
                hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
            )
        return manifest

    def to_bytes(self) -> bytes:
        """The manifest as JSON, the same bytes for the same content."""
        document = {"format_version": _FORMAT_VERSION, **asdict(self)}
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for entry in self.files)


def files_digest(files: Iterable[FileEntry]) -> str:
    """Digest of a list of files: SHA-256 over its canonical JSON, sorted by path."""
    return "sha256:" + hashlib.sha256(canonical_json([asdict(entry) for entry in sorted(files)])).hexdigest()


def hash_folder(folder: Path, *, flush: bool = False) -> list[FileEntry]:
    """Entries of all files in ``folder`` except the manifest; with ``flush`` they are forced to disk on the way."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)

    def entry(path: Path) -> FileEntry:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if flush:
                os.fsync(file.fileno())
            return FileEntry(path.relative_to(folder).as_posix(), os.fstat(file.fileno()).st_size, sha256)

    with ThreadPoolExecutor(_HASHERS) as pool:  # hashlib lets go of the interpreter lock
        return list(pool.map(entry, paths))


def read_manifest(path_or_url: str | Path | Location, *, storage_options: Mapping[str, Any] | None = None) -> Manifest:
    """The manifest of the array at a path or fsspec URL.

    Raises
    ------
    NotFoundError
        There is no array.
    FormatError
        There is a Zarr group that optotype did not write, or the manifest is newer than this version.
    IntegrityError
        The manifest contradicts itself.
    """
    location = Location.of(path_or_url, storage_options)
    try:
        text = location.read(MANIFEST)
    except FileNotFoundError as error:
        if location.local is not None and (location.local / MIXTURE).is_file():
            raise FormatError(
                f"{location}: a mixture of features, which holds no values of its own",
                hint="optotype rank and optotype neighbours build take it as it is; to have the values of an additive "
                "one as an array: optotype features mix additive A B --store --as NAME",
            ) from error
        if location.exists("zarr.json"):
            raise FormatError(
                f"{location}: a Zarr group without {MANIFEST}, so not an array of optotype",
                hint="Import it: optotype features import NAME PATH (or: optotype states import NAME PATH)",
            ) from error
        raise NotFoundError(
            f"no array at {location}",
            hint="optotype features list and optotype states list show what the project holds; "
            "an array that DVC tracks may have to be fetched: dvc pull",
        ) from error
    return Manifest.parse(text, f"{location}/{MANIFEST}")


def verify(path: str | Path) -> list[Problem]:
    """Everything in which a local array differs from its manifest; empty when it is whole.

    Reads every byte. Raises what `read_manifest` raises.
    """
    folder = Path(path)
    listed = {entry.path: entry for entry in read_manifest(folder).files}
    present = {entry.path: entry for entry in hash_folder(folder)}
    problems = []
    for name in sorted({*listed, *present}):
        want, got = listed.get(name), present.get(name)
        if got is None:
            problems.append(Problem(name, "missing-file", "listed in the manifest, not there"))
        elif want is None:
            problems.append(Problem(name, "extra-file", "there, not listed in the manifest"))
        elif want.size != got.size:
            problems.append(Problem(name, "size", f"{got.size} bytes, the manifest says {want.size}"))
        elif want.sha256 != got.sha256:
            problems.append(Problem(name, "digest", f"sha256 {got.sha256}, the manifest says {want.sha256}"))
    return problems


def _is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path
