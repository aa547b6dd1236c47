"""Drafts: folders and files that are written out of sight and take their place in one step.

A draft is a hidden sibling of its target, ``.NAME.<8 hex>.draft``, on the same file system. Its writer holds a
``flock`` on it, which the kernel drops when the process dies; a draft that nobody holds is left over and is
removed by the next writer in that folder. One target has one writer at a time: `writing` holds a lock file of
the same pattern, ``.NAME.00000000.draft``.

A finished draft takes the place of its target by ``renameat2(RENAME_EXCHANGE)``: one system call, so that a
process killed at any moment leaves the old array or the new one. Where the system call or the file system
lacks it, three renames do (draft -> ``.NAME.next``, target -> a draft name, ``.NAME.next`` -> target), and
whoever opens or writes the array next finishes an exchange that was cut short (`recover`).

Needs a POSIX system. Light to import: standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from optotype.schemas.errors import ConflictError

__all__ = ["Draft", "draft_file", "flush", "is_draft", "recover", "recover_all", "remove_leftovers", "writing"]

_DRAFT = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.draft")
_NEXT = re.compile(r"\.(?P<name>.+)\.next")
_LOCK = "00000000"  # in the place of a draft's random digits
_PATIENCE = 0.5  # seconds; `remove_leftovers` holds what it looks at for an instant
_held = threading.local()  # targets that this thread writes
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def is_draft(name: str) -> bool:
    """Whether a file or folder of this name is a draft or a replacement that waits for its place."""
    return _DRAFT.fullmatch(name) is not None or _NEXT.fullmatch(name) is not None


class Draft:
    """A folder that is being written and will become ``target``; a context manager that keeps other writers off.

    Leaving the ``with`` block without `commit` removes the draft, so an error leaves nothing behind.

    Parameters
    ----------
    target : Path
        Where the folder is to stand. Its parents are made.
    """

    def __init__(self, target: Path) -> None:
        self.target = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow a link at the target
        self.path = self.target
        self._lock = -1
        self._writing = contextlib.ExitStack()

    def __enter__(self) -> Draft:
        with contextlib.ExitStack() as stack:
            stack.enter_context(writing(self.target, wait=True))
            try:
                self._make()
            except BaseException:  # an interrupt, too
                self.__exit__()
                raise
            self._writing = stack.pop_all()
        return self

    def _make(self) -> None:
        parent = self.target.parent
        recover(self.target)
        remove_leftovers(parent)
        while True:
            self.path = _draft_name(self.target)
            self.path.mkdir()
            # Between mkdir and flock another writer may have taken the folder for a leftover, and removed it.
            try:
                self._lock = os.open(self.path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if _same_file(self._lock, self.path):
                return
            os.close(self._lock)
            self._lock = -1

    def __exit__(self, *_: object) -> None:
        with self._writing:
            if self.path != self.target:
                _remove(self.path)
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def commit(self, replaceable: Callable[[Path], bool]) -> None:
        """Put the draft in the place of the target. Its files must be flushed to disk already.

        Parameters
        ----------
        replaceable : callable
            Says whether the folder that stands at the target may be replaced.

        Raises
        ------
        ConflictError
            Something that may not be replaced stands at the target.
        """
        flush(self.path)
        with _folder_lock(self.target.parent):
            if not os.path.lexists(self.target):
                self.path.rename(self.target)
                old = None
            else:
                if self.target.is_symlink() or not self.target.is_dir() or not replaceable(self.target):
                    raise ConflictError(
                        f"{self.target} is in the way: it is not an array written by optotype",
                        hint="Move it away, or choose another name.",
                    )
                old = self.path
                if not _exchange(self.path, self.target):
                    old = _replace_in_steps(self.path, self.target)
            self.path = self.target
            flush(self.target.parent)
        if old is not None:
            _remove(old)


@contextmanager
def writing(target: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes and threads from writing ``target``; what the same thread holds it may take again.

    The parents of ``target`` are made. The kernel lets go of the lock when the process dies.

    Parameters
    ----------
    target : Path
    wait : bool
        Wait for another writer instead of refusing. `Draft` does: a single write is soon over, and two that put the
        same graph into a cache are no conflict.

    Raises
    ------
    ConflictError
        Another one is writing it, and ``wait`` is false.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 - as in `Draft`
    mine: set[Path] = _held.__dict__.setdefault("targets", set())
    if target in mine:
        yield
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.parent / f".{target.name}.{_LOCK}.draft"
    descriptor = _take_lock(path, target, wait=wait)
    mine.add(target)
    try:
        yield
    finally:
        mine.remove(target)
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _take_lock(path: Path, target: Path, *, wait: bool) -> int:
    until = time.monotonic() + _PATIENCE
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            if not wait and time.monotonic() > until:
                raise ConflictError(
                    f"another process is writing {target}", hint="Try again when it is done, or choose another name."
                ) from error
            time.sleep(_PATIENCE / 10)
            continue
        if _same_file(descriptor, path):
            return descriptor
        os.close(descriptor)  # its holder finished and removed it meanwhile


@contextmanager
def draft_file(target: Path) -> Iterator[IO[bytes]]:
    """A binary file that becomes ``target`` when the block ends without an error, else is removed."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target.parent)
    path, opened = _open_draft(target)
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            path.replace(target)
        flush(target.parent)
    finally:
        path.unlink(missing_ok=True)


def _open_draft(target: Path) -> tuple[Path, IO[bytes]]:
    """A new draft of a file, and its lock: before it is locked another writer may take it for a leftover."""
    while True:
        path = _draft_name(target)
        file = path.open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if _same_file(file.fileno(), path):
            return path, file
        file.close()


def recover(target: Path) -> None:
    """Finish the replacement of ``target`` if a process was killed in the middle of it.

    Only needed where folders cannot be exchanged in one step. Does nothing on a read-only file system.
    """
    waiting = _next_name(target)
    if not os.path.lexists(waiting):
        return
    with contextlib.suppress(PermissionError), _folder_lock(target.parent):
        if os.path.lexists(waiting):
            if os.path.lexists(target):  # killed before the old array was moved away: the old one stays
                _remove(waiting)
            else:
                waiting.rename(target)


def recover_all(parent: Path) -> None:
    """`recover` every array in the folder ``parent``."""
    for entry in os.scandir(parent):
        match = _NEXT.fullmatch(entry.name)
        if match is not None:
            recover(parent / match["name"])


def remove_leftovers(parent: Path) -> None:
    """Remove the drafts in ``parent`` whose writers are dead."""
    for entry in os.scandir(parent):
        if _DRAFT.fullmatch(entry.name) is None:
            continue
        try:
            descriptor = os.open(entry.path, os.O_RDONLY)
        except OSError:
            continue  # gone meanwhile, or another user's
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(descriptor, Path(entry.path)):
                _remove(Path(entry.path))
        except OSError:
            continue  # its writer is alive
        finally:
            os.close(descriptor)


def flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draft_name(target: Path) -> Path:
    return target.parent / f".{target.name}.{secrets.token_hex(4)}.draft"


def _next_name(target: Path) -> Path:
    return target.parent / f".{target.name}.next"


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    """Remove a file or folder; what another process removes at the same time is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Keep other writers from committing into ``folder``."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where that cannot be done."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return False
    if library.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))


def _replace_in_steps(draft: Path, target: Path) -> Path:
    """Replace ``target`` by ``draft`` in renames that `recover` can finish; returns where the old one is."""
    waiting, old = _next_name(target), _draft_name(target)
    draft.rename(waiting)
    flush(target.parent)
    target.rename(old)
    waiting.rename(target)
    return old
