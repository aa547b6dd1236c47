"""The user's cache: files of published versions by their SHA-256, shared by all folders, and bare clones of sources."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from optotype.schemas.errors import IntegrityError, UsageError
from optotype.store.drafts import draft_file, writing
from optotype.store.manifest import FileEntry

__all__ = ["VARIABLE", "Cache", "checked", "place_file"]

VARIABLE = "OPTOTYPE_CACHE"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOCK = 1 << 20
_LINKED = 1 << 20  # bytes from which a file is linked out of the cache rather than copied
_seen: dict[str, tuple[tuple[int, ...], str]] = {}  # files hashed by this process, as they were then
_seen_lock = threading.Lock()


class Cache:
    """The cache at a folder; everything in it can be removed at any time.

    Parameters
    ----------
    root : Path, optional
        By default ``$OPTOTYPE_CACHE``, else ``~/.cache/optotype``.
    """

    def __init__(self, root: Path | None = None) -> None:
        if root is None:
            given = os.environ.get(VARIABLE)
            root = Path(given) if given else Path.home() / ".cache" / "optotype"
        self.root = root.expanduser().absolute()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cache) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def path(self, sha256: str) -> Path:
        """Where the file with a digest lies, there or not."""
        if _SHA256.fullmatch(sha256) is None:
            raise ValueError(f"{sha256!r} is not a SHA-256")
        return self.root / "objects" / sha256[:2] / sha256[2:]

    def found(self, sha256: str) -> Path | None:
        """The file with a digest, its bytes checked; None if it is not there.

        One that is damaged counts as not there, and stays until `take` puts a good one in its place.
        """
        path = self.path(sha256)
        with contextlib.suppress(FileNotFoundError):
            if self._checked(path) == sha256:
                return path
        return None

    def damaged(self, *sha256: str) -> list[Path]:
        """Files of these digests that are there with other bytes."""
        found = []
        for digest in sha256:
            with contextlib.suppress(FileNotFoundError):
                if self._checked(self.path(digest)) != digest:
                    found.append(self.path(digest))
        return found

    def trouble(self) -> str | None:
        """Why nothing can be put into the cache, made if it is not there; None if it can."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"the cache {self.root} cannot be made: {error.strerror}"
        return None if os.access(self.root, os.W_OK | os.X_OK) else f"the cache {self.root} cannot be written to"

    def check_writable(self) -> None:
        """Raise UsageError where nothing can be put into the cache."""
        why = self.trouble()
        if why is not None:
            raise UsageError(why, hint=f"Set ${VARIABLE} to a folder that you may write to.")

    def _checked(self, path: Path) -> str:
        try:
            return checked(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(str(path)) from error
        except OSError as error:
            raise UsageError(
                f"the cache {self.root} cannot be read: {path}: {error.strerror}",
                hint=f"Set ${VARIABLE} to a folder that you may read and write.",
            ) from error

    def take(self, entry: FileEntry, fill: Callable[[IO[bytes]], None], where: str) -> Path:
        """The file of an entry; fetched by ``fill`` if it is not there, and kept only if its bytes are the right ones.

        Raises
        ------
        IntegrityError
            Other bytes came; ``where`` says whence.
        """
        path = self.path(entry.sha256)
        there = self.found(entry.sha256)
        if there is not None:
            return there
        self.check_writable()
        with writing(path, wait=True):
            found = self.found(entry.sha256)
            if found is not None:
                return found
            with draft_file(path) as file:
                fill(file)
                file.flush()
                size = file.tell()
                sha256 = _sha256(Path(file.name))
                if (size, sha256) != (entry.size, entry.sha256):
                    got = f"{size} bytes" if size != entry.size else f"sha256 {sha256}"
                    wanted = f"{entry.size} bytes" if size != entry.size else entry.sha256
                    raise IntegrityError(
                        f"{where}: {got}, the manifest says {wanted}",
                        hint="These are not the published bytes, and nothing was taken. Tell the publisher; "
                        "optotype verify names what is damaged there.",
                    )
                os.fchmod(file.fileno(), 0o444)
        return path

    def keep(self, data: bytes) -> str:
        """Put bytes into the cache; their SHA-256."""
        sha256 = hashlib.sha256(data).hexdigest()
        self.take(FileEntry("", len(data), sha256), lambda file: _write(file, data), "cache")
        return sha256

    def notes(self, manifest: str) -> Path:
        """A folder for what helps to find a version's files again: nothing in it is trusted.

        Parameters
        ----------
        manifest : str
            SHA-256 of the version's manifest.
        """
        self.path(manifest)  # checks it
        return self.root / "versions" / manifest

    def clone(self, url: str) -> Path:
        """Where the bare clone of a URL lies, there or not."""
        return self.root / "repositories" / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.git"


def checked(path: Path) -> str:
    """SHA-256 of a file, read once by this process unless size, times or place have changed since.

    Raises
    ------
    FileNotFoundError
        It is not there.
    """
    stat = path.stat()
    state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    with _seen_lock:
        before = _seen.get(str(path))
    if before is not None and before[0] == state:
        return before[1]
    sha256 = _sha256(path)
    with _seen_lock:
        _seen[str(path)] = (state, sha256)
    return sha256


def place_file(source: Path, target: Path) -> None:
    """Put a file of the cache somewhere: large ones as a link where that can be done (read-only), else a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.stat().st_size >= _LINKED:
        with contextlib.suppress(OSError):
            target.hardlink_to(source)
            return
    shutil.copyfile(source, target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)
