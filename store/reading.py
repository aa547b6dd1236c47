"""Reads one array through its manifest: lazily, from a folder or an fsspec URL.

The manifest says which files there are, so nothing is listed or probed, a missing file is an error (Zarr alone
would read it as fill values), and an array that was replaced while it was open is noticed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

from optotype.schemas.errors import ConflictError, ExternalError, FormatError, IntegrityError
from optotype.store.location import Files, Location
from optotype.store.manifest import MANIFEST, FileEntry, Manifest, read_manifest

__all__ = ["BFLOAT16", "ManifestStore", "StoredArray", "StoredGroup"]

BFLOAT16 = "bfloat16"
DTYPE_ATTRIBUTE = "dtype"  # of an array whose bits are stored in another dtype


class FetchedStore(MemoryStore):
    """A read-only Zarr store whose files are fetched whole, and checked, when a read first touches them."""

    def __init__(self, files: Files) -> None:
        super().__init__(read_only=True)
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FetchedStore) and self._files == other._files

    __hash__ = None  # type: ignore[assignment]

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Bytes of a file or of a range of it; None for a file that is not there."""
        try:
            path = self._files.path(key)
        except FileNotFoundError:
            return None
        with path.open("rb") as file:
            start, stop = _span(byte_range, path.stat().st_size)
            file.seek(start)
            data = file.read(stop - start)
        return (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """As `get_sync`, beside whatever else is going on."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)


class ManifestStore(WrapperStore[Any]):
    """A read-only Zarr store over the files that a manifest lists.

    Parameters
    ----------
    store : zarr.abc.store.Store
        Holds the files.
    files : mapping of str to FileEntry
        By relative path.
    where : str
        The array, for messages.
    """

    def __init__(self, store: Any, files: Mapping[str, FileEntry] | None = None, where: str = "") -> None:
        super().__init__(store)
        self._files = dict(files or {})
        self._where = where

    def _with_store(self, store: Any) -> ManifestStore:
        return ManifestStore(store, self._files, self._where)

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Bytes of a file or of a range of it; None for a file that the manifest does not list."""
        entry = self._files.get(key)
        if entry is None:
            return None
        try:
            buffer = await self._store.get(key, prototype, byte_range)
        except OSError as error:
            raise ExternalError(f"{self._where}/{key}: cannot be read ({type(error).__name__}: {error})") from error
        if buffer is None:
            raise IntegrityError(
                f"{self._where}/{key}: missing, although the manifest lists it",
                hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
            )
        start, stop = _span(byte_range, entry.size)
        if len(buffer) == entry.size != stop - start:
            buffer = buffer[start:stop]  # an HTTP server without ranges sends the whole file
        if len(buffer) != stop - start:
            raise IntegrityError(
                f"{self._where}/{key}: {len(buffer)} bytes of the {stop - start} asked for; cut short?"
            )
        if key.endswith("zarr.json") and hashlib.sha256(buffer.to_bytes()).hexdigest() != entry.sha256:
            raise IntegrityError(f"{self._where}/{key}: its bytes do not have the digest in the manifest")
        return buffer

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> list[Any]:
        """Several of `get`."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether the manifest lists the file."""
        return key in self._files


class StoredArray:
    """A numeric array on disk that reads what is asked for; what dask slices.

    Attributes
    ----------
    shape : tuple of int
    dtype : dtype
        What reading gives: float32 for stored bfloat16.
    shards : tuple of int
        Shape of a shard, the unit in which to read it all.
    """

    def __init__(self, array: Any, guard: Guard) -> None:
        self._array = array
        self._guard = guard
        self.shape: tuple[int, ...] = array.shape
        self.ndim = len(array.shape)
        self.is_bfloat16 = array.attrs.get(DTYPE_ATTRIBUTE) == BFLOAT16
        self.dtype: np.dtype[Any] = np.dtype("float32") if self.is_bfloat16 else array.dtype
        self.stored_dtype = BFLOAT16 if self.is_bfloat16 else array.dtype.name
        self.shards: tuple[int, ...] = array.shards or array.chunks
        self.chunks: tuple[int, ...] = array.chunks

    def __getitem__(self, key: Any) -> Any:
        values = self.raw(key)
        return (values.astype(np.uint32) << 16).view(np.float32) if self.is_bfloat16 else values

    def raw(self, key: Any) -> Any:
        """Values as they are on disk: the bits, for bfloat16."""
        try:
            with _checksums(self._guard.where):
                return self._array[key]
        finally:
            self._guard.check()


@contextmanager
def _checksums(where: str) -> Iterator[None]:
    """A chunk without its checksum is an error of the data, not of the program."""
    try:
        yield
    except ValueError as error:
        if "checksum" not in str(error):
            raise
        raise IntegrityError(
            f"{where}: a chunk does not have its checksum; the file is damaged",
            hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
        ) from error


class Guard:
    """Notices that a local array was replaced after it was opened."""

    def __init__(self, location: Location, digest: str) -> None:
        self.where = str(location)
        self._path = None if location.local is None else location.local / MANIFEST
        self._digest = digest
        self._seen = self._state()

    def check(self) -> None:
        """Raise `ConflictError` if the array at the path is another one by now."""
        if self._path is None or self._state() == self._seen:
            return
        if not self._path.is_file() or Manifest.parse(self._path.read_bytes(), str(self._path)).digest != self._digest:
            raise ConflictError(f"{self.where}: replaced or removed while it was being read", hint="Run it again.")

    def _state(self) -> tuple[int, ...] | None:
        if self._path is None or not self._path.exists():
            return None
        stat = self._path.stat()
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


class StoredGroup:
    """An open array: its manifest, attributes and members.

    Attributes
    ----------
    manifest : Manifest
    location : Location
    attrs : dict
        Attributes of the group.
    """

    def __init__(
        self, source: str | Path | Location, kind: str, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self.location = Location.of(source, storage_options)
        self.manifest = read_manifest(source, storage_options=storage_options)
        if self.manifest.kind != kind:
            raise FormatError(f"{self.location}: holds {self.manifest.kind}, {kind} were asked for")
        self._guard = Guard(self.location, self.manifest.digest)
        if self.location.files is not None:
            inner: Any = FetchedStore(self.location.files)
        elif self.location.local is not None:
            for entry in self.manifest.files:
                path = self.location.local / entry.path
                if not path.is_file() or path.stat().st_size != entry.size:
                    raise IntegrityError(
                        f"{path}: missing or of another size than the manifest says",
                        hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
                    )
            inner = LocalStore(self.location.local, read_only=True)
        else:
            fs, root = self.location.filesystem(asynchronous=True)
            inner = FsspecStore(_as_async(fs), path=root, read_only=True)
        store = ManifestStore(inner, {f.path: f for f in self.manifest.files}, str(self.location))
        self._group: Any = zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=False)
        self.attrs: dict[str, Any] = dict(self._group.attrs)

    @property
    def name(self) -> str:
        """Name of the array: the last component of its path."""
        return self.location.name

    def array(self, name: str) -> StoredArray:
        """A numeric member, not read yet."""
        return StoredArray(self._group[name], self._guard)

    def attributes(self, name: str) -> dict[str, Any]:
        """Attributes of a member."""
        return dict(self._group[name].attrs)

    def strings(self, name: str) -> Any:
        """A string member, read: object array of str."""
        try:
            with _checksums(f"{self.location}/{name}"):
                return np.array([str(value) for value in self._group[name][:]], dtype=object)
        finally:
            self._guard.check()

    def lazy(self, name: str) -> Any:
        """A numeric member as a dask array with one chunk for each shard.

        Not the inner chunks: a task for each of those would be slow, and writing them elsewhere unsafe.
        """
        import dask.array as da

        array = self.array(name)
        token = hashlib.sha256(f"{self.location}|{self.manifest.digest}|{name}".encode()).hexdigest()[:32]
        meta = np.empty((0,) * array.ndim, dtype=array.dtype)
        return da.from_array(array, chunks=array.shards, name=f"{name}-{token}", asarray=False, meta=meta)


def _as_async(fs: Any) -> Any:
    """The file system in the asynchronous form that Zarr takes."""
    if fs.async_impl:
        return fs
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    return AsyncFileSystemWrapper(fs, asynchronous=True)


def _span(byte_range: Any, size: int) -> tuple[int, int]:
    """First byte and end of a range in a file of ``size`` bytes."""
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, min(byte_range.end, size)
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, size
    if isinstance(byte_range, SuffixByteRequest):
        return max(0, size - byte_range.suffix), size
    return 0, size
