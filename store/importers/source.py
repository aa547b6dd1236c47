"""What a file of arrays holds, whatever its format: named members that are read in slices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from optotype.schemas.errors import FormatError, NotFoundError, Problem, UsageError

__all__ = ["BARE", "Member", "Members", "open_members"]

BARE = ""  # name of the only array of a file that names none (.npy, a .pt of one tensor)

# suffix -> module with ``members(path) -> context manager of Members``
_READERS = {
    ".npz": "npz",
    ".npy": "npy",
    ".safetensors": "safetensors",
    ".pt": "pt",
    ".pth": "pt",
    ".zarr": "zarr",
}


@dataclass(frozen=True)
class Member:
    """An array in a file, not read yet.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
        Name of the dtype; ``bfloat16`` is given as its bits in uint16.
    read : callable from (start, stop) to ndarray
        Reads a slice along the first axis.
    random_access : bool
        Whether slices in any order cost no more than in order.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[int, int], Any]
    random_access: bool = True

    @classmethod
    def of(cls, array: Any, dtype: str | None = None) -> Member:
        """A member from an array in memory or mapped into it."""
        return cls(tuple(array.shape), dtype or array.dtype.name, lambda start, stop: array[start:stop])

    def all(self) -> Any:
        """The whole array, as an ndarray."""
        if not self.shape:
            return np.asarray(self.read(0, 1))
        return np.asarray(self.read(0, self.shape[0]))


@dataclass
class Members:
    """The members of a file.

    Attributes
    ----------
    where : str
        The file, for messages.
    arrays : dict of str to Member
    ids : list or None
        Ids, if the format holds them outside of its arrays or they were found beside the file.
    problems : list of Problem
        Members that cannot be read (pickles).
    """

    where: str
    arrays: dict[str, Member]
    ids: list[Any] | None = None
    problems: list[Problem] = field(default_factory=list)


@contextmanager
def open_members(file: str | Path) -> Iterator[Members]:
    """The members of ``file``, readable inside the block.

    Raises
    ------
    NotFoundError
        There is no such file.
    UsageError
        The suffix is of no known format.
    FormatError
        The file is not what its suffix says, is cut short, or is no file at all (a pipe, a device).
    """
    text = str(file)
    if text.startswith("file://") and "::" not in text:
        text = unquote(urlsplit(text).path)
    is_url = "://" in text or "::" in text
    path = Path(text)
    if not is_url and not path.exists():
        raise NotFoundError(f"no file at {text}")
    if not is_url and not path.is_file() and not path.is_dir():
        raise FormatError(f"{text}: neither a file nor a folder", hint="A pipe or device has to be written to a file.")
    suffix = Path(text.rstrip("/")).suffix.lower()
    if is_url or path.is_dir():
        marks = ("zarr.json", ".zgroup")
        if (
            not is_url
            and suffix in _READERS
            and suffix != ".zarr"
            and not any((path / mark).exists() for mark in marks)
        ):
            raise FormatError(f"{text}: a folder, and not a Zarr group; {suffix} is a file")
        suffix = ".zarr"
    reader = _READERS.get(suffix)
    if reader is None:
        raise UsageError(f"{text}: arrays are read from {', '.join(_READERS)}; got {suffix or 'no suffix'}")
    module = import_module(f"optotype.store.importers.{reader}")
    opened: AbstractContextManager[Members] = module.members(text)
    with opened as members:
        if not is_url:
            _add_sidecars(members, path)
        yield members


def _add_sidecars(members: Members, path: Path) -> None:
    """Take ids and row_size from files beside ``path`` where the file itself holds none."""
    bases = [path.with_suffix(""), path]
    if members.ids is None and "ids" not in members.arrays:
        found = [Path(f"{base}.ids{end}") for base in bases for end in (".txt", ".json")]
        found = [candidate for candidate in found if candidate.is_file()]
        if len(found) > 1:
            names = ", ".join(candidate.name for candidate in found)
            members.problems.append(Problem("ids", "ambiguous", f"several files with ids: {names}"))
        elif found:
            members.ids = _read_ids(found[0])
    if "row_size" not in members.arrays:
        for base in bases:
            candidate = Path(f"{base}.row_size.npy")
            if candidate.is_file():
                try:
                    members.arrays["row_size"] = Member.of(np.load(candidate, allow_pickle=False))
                except (ValueError, OSError, EOFError) as error:
                    raise FormatError(f"{candidate}: not a readable .npy file ({error})") from error
                break


def _read_ids(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".txt":
            return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
        ids = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not readable ({error})") from error
    if not isinstance(ids, list):
        raise FormatError(f"{path}: a JSON list of ids is wanted, got {type(ids).__name__}")
    return ids
