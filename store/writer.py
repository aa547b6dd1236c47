"""Writes one array: a Zarr v3 group with a manifest, whole or not at all.

Deterministic bytes: shards depend on shape and dtype alone, are written whole by one task each, attributes are
sorted, ids are variable-length strings (the width of ``<U`` depends on the data), metadata documents are
rewritten in canonical form. The index stands at the start of a shard, so that readers of remotes need no suffix
range. Empty chunks are written too: a missing file is always an error, never zeros.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, ZstdCodec
from zarr.core.sync import sync
from zarr.storage import LocalStore

from optotype.schemas.errors import ConflictError
from optotype.store.drafts import Draft, flush
from optotype.store.manifest import MANIFEST, Manifest, hash_folder, verify
from optotype.store.project import MIXTURE, holds_arrays
from optotype.store.shards import plan

__all__ = ["ArrayWriter", "is_replaceable"]

_IDS_CHUNK = 1 << 16  # ids in one file
_ZSTD_LEVEL = 3


class ArrayWriter:
    """A group that is being written; a context manager. Nothing is seen at the target before `commit`.

    Parameters
    ----------
    target : Path
        Folder of the array; its last component is the array's name.
    kind : str
        ``features``, ``states``, ``neighbours``, ``embeddings`` or ``scores``.
    attrs : mapping, optional
        Attributes of the group; JSON values without NaN, part of the digest.
    compressed : bool
        zstd instead of no compression.
    """

    def __init__(
        self, target: Path, kind: str, attrs: Mapping[str, Any] | None = None, *, compressed: bool = False
    ) -> None:
        self._draft = Draft(target)
        self._kind = kind
        self._attrs = _plain(attrs or {})
        self._compressed = compressed
        self._files: dict[str, tuple[int, int]] = {}  # of each member: number, and the axis along which it is cut
        self._group: Any = None

    def __enter__(self) -> ArrayWriter:
        self._draft.__enter__()
        try:
            parent = self._draft.target.parent
            if (parent / "zarr.json").exists():
                raise ConflictError(
                    f"{parent} is an array; {self._draft.target.name!r} cannot be written inside it",
                    hint="Remove that array first, or choose another name.",
                )
            if self._draft.target.exists() and not is_replaceable(self._draft.target):
                raise ConflictError(
                    f"{self._draft.target} is in the way: it is not an array written by optotype",
                    hint="Move it away, or choose another name.",
                )
            self._group = zarr.create_group(LocalStore(self._draft.path), zarr_format=3, attributes=self._attrs)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error and error[0] is not None:
                # An interrupt ends the wait for Zarr's threads, not their writing: files made from here on would
                # bring the folder back after it is removed.
                sync(_others_done())
        finally:
            self._draft.__exit__(*error)

    def add_rows(
        self,
        name: str,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        blocks: Iterable[Any],
        attrs: Mapping[str, Any] | None = None,
        *,
        along: int = 0,
    ) -> None:
        """Write a numeric array from blocks that follow each other along one axis, the only one that is cut.

        Parameters
        ----------
        name, dims, shape, dtype
            Of the whole array.
        blocks : iterable of ndarray, shape (rows, the other axes in order)
            The axis ``along`` comes first, so (items, models) for an array (models, items) along 1. Together exactly
            ``shape[along]`` rows; no more than a shard of them is held.
        along : int
            The axis.

        Raises
        ------
        ValueError
            The blocks have more or fewer rows than ``shape`` says.
        """
        others = shape[:along] + shape[along + 1 :]
        rows = shape[along]
        cut = plan(rows, max(1, int(np.prod(others, dtype=np.int64)) * dtype.itemsize))
        bytes_codecs = [BytesCodec(endian="little" if dtype.itemsize > 1 else None)]
        packers = [ZstdCodec(level=_ZSTD_LEVEL)] if self._compressed else []
        array = self._group.create_array(
            name,
            shape=shape,
            chunks=(*shape[:along], cut.shard_rows, *shape[along + 1 :]),
            dtype=dtype,
            serializer=ShardingCodec(
                chunk_shape=(*shape[:along], cut.inner_rows, *shape[along + 1 :]),
                codecs=[*bytes_codecs, *packers, Crc32cCodec()],
                index_codecs=[BytesCodec(), Crc32cCodec()],
                index_location="start",
            ),
            filters=None,
            compressors=None,
            fill_value=float("nan") if dtype.kind == "f" else 0,
            dimension_names=dims,
            attributes=_plain(attrs or {}),
            config={"write_empty_chunks": True},
        )
        row = 0
        for shard in regrouped(blocks, cut.shard_rows, (rows, *others), dtype):
            array[(*(slice(None) for _ in range(along)), slice(row, row + len(shard)))] = np.moveaxis(shard, 0, along)
            row += len(shard)
        if row != rows:
            raise ValueError(f"{name}: blocks hold {row} rows, {rows} were announced")
        self._files[name] = (cut.count(rows), along)

    def add_strings(self, name: str, dims: tuple[str, ...], values: Sequence[str]) -> None:
        """Write strings as a variable-length array, not sharded."""
        array = self._group.create_array(
            name,
            shape=(len(values),),
            chunks=(min(len(values), _IDS_CHUNK),),
            dtype="string",
            filters=None,
            compressors=(Crc32cCodec(),),
            fill_value="",
            dimension_names=dims,
            attributes={},
            config={"write_empty_chunks": True},
        )
        array[:] = np.array(values, dtype=object)
        self._files[name] = (-(-len(values) // _IDS_CHUNK), 0)

    def commit(self, inputs: Mapping[str, Any] | Callable[[str], Mapping[str, Any]]) -> Manifest:
        """Verify what was written, add the manifest and take the target's place.

        Parameters
        ----------
        inputs : mapping or callable
            All inputs of the array, or a function that makes them of the digest.

        Returns
        -------
        Manifest
            If the same bytes made of the same inputs stand at the target already, they are left alone.
        """
        folder = self._draft.path
        self._finish_metadata(folder)
        entries = hash_folder(folder, flush=True)
        self._check_files({entry.path for entry in entries})
        manifest = Manifest.of(self._kind, entries, {})
        manifest = Manifest.of(self._kind, entries, inputs(manifest.digest) if callable(inputs) else inputs)
        text = manifest.to_bytes()
        current = self._draft.target / MANIFEST
        if current.is_file() and current.read_bytes() == text and not verify(self._draft.target):
            return manifest
        with (folder / MANIFEST).open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        for child in folder.rglob("*"):
            if child.is_dir():
                flush(child)
        self._draft.commit(is_replaceable)
        return manifest

    def _finish_metadata(self, folder: Path) -> None:
        """Rewrite every ``zarr.json`` in one form and gather them in the group's.

        Gathered (consolidated), so that any reader opens the group over HTTP, where nothing can be listed.
        """
        members = {}
        for name in sorted(self._files):
            path = folder / name / "zarr.json"
            members[name] = json.loads(path.read_bytes())
            path.write_bytes(_document(members[name]))
        group = json.loads((folder / "zarr.json").read_bytes())
        group["consolidated_metadata"] = {"kind": "inline", "must_understand": False, "metadata": members}
        (folder / "zarr.json").write_bytes(_document(group))

    def _check_files(self, present: set[str]) -> None:
        """Every chunk file must be there, and nothing else."""
        expected = {"zarr.json"}
        for name, (count, along) in self._files.items():
            after = len(self._group[name].shape) - 1 - along
            expected.add(f"{name}/zarr.json")
            expected.update(f"{name}/c/" + "0/" * along + str(i) + "/0" * after for i in range(count))
        if present != expected:
            raise RuntimeError(f"wrote other files than planned: {sorted(present ^ expected)[:5]}")


async def _others_done() -> None:
    """Wait for what Zarr is writing at this moment, whether it succeeds or not."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others)


def is_replaceable(folder: Path) -> bool:
    """Whether a folder is an array of optotype, a virtual encoder or empty, and may be replaced by an array.

    Among a project's arrays also one whose manifest is lost; elsewhere that may be a Zarr group of someone else's.
    """
    if not folder.is_dir():
        return False
    if (folder / MANIFEST).is_file() or (folder / MIXTURE).is_file() or not any(folder.iterdir()):
        return True
    return (folder / "zarr.json").is_file() and holds_arrays(folder.parent)


def regrouped(blocks: Iterable[Any], rows: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Any]:
    """The same rows in blocks of exactly ``rows`` (the last may be shorter), whatever blocks they came in."""
    buffer = np.empty((min(rows, shape[0]), *shape[1:]), dtype=dtype)
    filled = 0
    for block in blocks:
        at = 0
        while at < len(block):
            take = min(len(buffer) - filled, len(block) - at)
            buffer[filled : filled + take] = block[at : at + take]
            filled += take
            at += take
            if filled == len(buffer):
                yield buffer
                filled = 0
    if filled:
        yield buffer[:filled]


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as plain JSON values, sorted; NumPy scalars become Python's."""

    def value(item: Any) -> Any:
        if isinstance(item, np.generic):
            return item.item()
        if isinstance(item, np.ndarray):
            return item.tolist()
        if isinstance(item, Mapping):
            return {str(k): value(v) for k, v in sorted(item.items())}
        if isinstance(item, list | tuple):
            return [value(v) for v in item]
        return item

    plain = {str(name): value(item) for name, item in sorted(attrs.items())}
    json.dumps(plain, allow_nan=False)  # ValueError for what JSON cannot hold
    return plain


def _document(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
