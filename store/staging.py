"""Parts of an encoding that is not finished yet: what was computed survives a killed process.

A part holds the next items of the run, for each of its outputs (one, or one a layer): files
``part-000000.<output>.npy`` with the values of all its items, one behind the other, and ``part-000000.json`` with
the rows of each item and the digests of the values. Each file is written as a draft and renamed, the ``.json``
last: a part counts from the moment its ``.json`` is there. Parts are numbered without gaps.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import ConflictError, FormatError
from optotype.store.drafts import draft_file, remove_leftovers

__all__ = ["Staging"]

_FORMAT_VERSION = 1
_KEY = re.compile(r"[0-9a-f]{64}")


class Staging:
    """The finished parts of one run; a context manager that keeps other processes off.

    Used without ``with``, it holds the run from its first method call to `close`, `discard` or the end of the
    process.

    Parameters
    ----------
    root : Path
        Folder of all staged runs, ``Project.staging``.
    key : str
        Key of the run, 64 hex digits: all of its inputs.

    Raises
    ------
    ConflictError
        On `open`: another process works on the same run. A lock goes with its process, so one that was left by a
        killed process does not count.
    """

    def __init__(self, root: Path, key: str) -> None:
        if _KEY.fullmatch(key) is None:
            raise ValueError(f"a key is 64 hex digits, got {key!r}")
        self.path = Path(root) / key
        self._root = Path(root)
        self._lock = -1
        self._parts: list[dict[str, Any]] = []

    def __enter__(self) -> Staging:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Staging:
        """Take the lock and read what is finished; the methods do so at their first use."""
        if self._lock >= 0:
            return self
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = self._take_lock()
        self.path.mkdir(exist_ok=True)
        remove_leftovers(self.path)
        self._parts = self._read_parts()
        return self

    def close(self) -> None:
        """Give the lock back; the parts stay. Of a run without parts nothing stays."""
        if self._lock >= 0:
            if not self._parts and self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()
                self._lock_path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def done(self) -> int:
        """Number of items that are finished."""
        self.open()
        return sum(len(part["row_size"][0]) for part in self._parts)

    @property
    def outputs(self) -> int | None:
        """Number of outputs of the run; None before the first part."""
        self.open()
        return len(self._parts[0]["row_size"]) if self._parts else None

    def add(self, part: Sequence[Any], row_size: Any, notes: Mapping[str, Any] | None = None) -> None:
        """Keep the next items.

        Parameters
        ----------
        part : sequence of ndarray, shape (rows, d)
            For each output, the rows of all items of the part, one behind the other.
        row_size : ndarray of int, shape (items,), or a sequence of one for each output
            Rows of each item.
        notes : mapping, optional
            JSON values that come back by `notes` (counts, for instance).

        Raises
        ------
        ValueError
            Rows and counts do not match, or another number of outputs than before.
        """
        self.open()
        counts = _counts(row_size, len(part))
        if self.outputs not in (None, len(part)) or not part:
            raise ValueError(f"{len(part)} outputs in this part, {self.outputs} before")
        if len({len(c) for c in counts}) != 1 or any(len(v) != sum(c) for v, c in zip(part, counts, strict=True)):
            raise ValueError("rows of a part do not match its row_size")
        number = len(self._parts)
        digests = []
        for output, values in enumerate(part):
            with draft_file(self._values(number, output)) as file:
                np.save(file, np.ascontiguousarray(values), allow_pickle=False)
            digests.append(_sha256(self._values(number, output)))
        document = {
            "format_version": _FORMAT_VERSION,
            "row_size": counts,
            "sha256": digests,
            "notes": dict(notes or {}),
        }
        text = json.dumps(document, sort_keys=True, allow_nan=False)
        with draft_file(self.path / f"part-{number:06d}.json") as file:
            file.write(text.encode())
        self._parts.append(json.loads(text))

    def blocks(self, output: int = 0) -> Iterator[Any]:
        """The values of one output, a memory-mapped block (rows, d) for each part, in order."""
        self.open()
        for number in range(len(self._parts)):
            yield np.load(self._values(number, output), mmap_mode="r", allow_pickle=False)

    def row_sizes(self, output: int = 0) -> Any:
        """Rows of each finished item of one output, int64, shape (done,)."""
        self.open()
        counts = [count for part in self._parts for count in part["row_size"][output]]
        return np.array(counts, dtype=np.int64)

    def notes(self) -> list[dict[str, Any]]:
        """The notes of each part, in order."""
        self.open()
        return [dict(part["notes"]) for part in self._parts]

    def discard(self) -> None:
        """Remove all parts, once they are in an array."""
        self.open()
        self._parts = []
        # Without its .json a part does not count: killed in here, nothing half is left.
        for path in sorted(self.path.glob("part-*.json"), reverse=True):
            path.unlink()
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock_path.unlink(missing_ok=True)
        self.close()

    def _values(self, number: int, output: int) -> Path:
        return self.path / f"part-{number:06d}.{output}.npy"

    @property
    def _lock_path(self) -> Path:
        return self._root / f"{self.path.name}.lock"

    def _take_lock(self) -> int:
        # The lock stands beside the folder, which `discard` removes.
        path = self._lock_path
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(lock, 64, 0).decode(errors="replace").strip()
                os.close(lock)
                raise ConflictError(
                    f"another process{f' ({holder})' if holder else ''} is encoding the same: {self.path.name}",
                    hint="Wait for it, or stop it; what it finished is kept.",
                ) from error
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"pid {os.getpid()}".encode(), 0)
                return lock
            os.close(lock)  # its holder finished and removed it meanwhile

    def _read_parts(self) -> list[dict[str, Any]]:
        """The parts that are whole; what comes after a part that is not is removed."""
        parts: list[dict[str, Any]] = []
        while (path := self.path / f"part-{len(parts):06d}.json").is_file():
            document = self._read_part(path, len(parts))
            if document is None:
                break
            parts.append(document)
        for path in self.path.glob("part-*"):
            if int(path.name[5:].split(".", 1)[0]) >= len(parts):
                path.unlink()
        return parts

    def _read_part(self, path: Path, number: int) -> dict[str, Any] | None:
        try:
            document = parse_document(path.read_bytes(), kind="staged part", where=str(path), newest=_FORMAT_VERSION)
        except FormatError:
            return None  # not ours, or of another version: encoded again
        for output, digest in enumerate(document["sha256"]):
            values = self._values(number, output)
            if not values.is_file() or _sha256(values) != digest:
                return None
        return document


def _counts(row_size: Any, outputs: int) -> list[list[int]]:
    """Row counts of each output as lists; one array stands for all outputs."""
    if isinstance(row_size, np.ndarray) or not len(row_size) or np.ndim(row_size[0]) == 0:
        return [np.asarray(row_size, dtype=np.int64).tolist()] * outputs
    if len(row_size) != outputs:
        raise ValueError(f"{len(row_size)} row_size arrays for {outputs} outputs")
    return [np.asarray(sizes, dtype=np.int64).tolist() for sizes in row_size]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
