"""A location: a local folder, an fsspec URL, or files that are fetched when they are read; it holds an array."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from optotype.schemas.errors import ExternalError, MissingPackageError, UsageError
from optotype.store.drafts import recover

__all__ = ["Files", "Location"]


class Files(Protocol):
    """The files of an array, each brought to this machine and checked when it is first asked for."""

    def path(self, relative: str) -> Path:
        """Where the whole file lies on this machine now.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        OptotypeError
            It cannot be fetched, or has other bytes than it should.
        """


@dataclass(frozen=True)
class Location:
    """A folder on this machine, behind a URL, or whose files are fetched one by one.

    Attributes
    ----------
    text : str
        Absolute path, URL or reference, for messages.
    local : Path or None
        The folder, if it is on this machine.
    storage_options : mapping
        For fsspec.
    files : Files or None
        Who fetches the files; then ``local`` is None and there is no URL.
    """

    text: str
    local: Path | None
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    files: Files | None = None

    @classmethod
    def of(cls, source: str | Path | Location, storage_options: Mapping[str, Any] | None = None) -> Location:
        """Parse a path or URL; an array whose replacement was cut short is restored. A location stays as it is."""
        if isinstance(source, Location):
            return source
        text = os.fspath(source)
        if isinstance(source, str) and ("://" in source or "::" in source):
            parts = urlsplit(text)
            if parts.scheme != "file" or "::" in text:
                return cls(text.rstrip("/"), None, dict(storage_options or {}))
            text = unquote(parts.path)
        folder = Path(text).expanduser().absolute()
        recover(folder)
        return cls(str(folder), folder)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        """Last component of the path; of a published payload, ``artifacts/KIND/NAME/VERSION/payload``, the name."""
        parts = self.text.rstrip("/").split("/")
        published = len(parts) > 4 and parts[-1] == "payload" and parts[-5] == "artifacts"
        return parts[-3] if published else parts[-1]

    def read(self, relative: str) -> bytes:
        """Bytes of one file.

        Raises
        ------
        FileNotFoundError
            It is not there.
        ExternalError
            The network or the remote failed.
        """
        if self.files is not None:
            return self.files.path(relative).read_bytes()
        if self.local is not None:
            path = self.local / relative
            if not path.is_file():
                raise FileNotFoundError(str(path))
            return path.read_bytes()
        fs, root = self.filesystem()
        try:
            return bytes(fs.cat_file(f"{root}/{relative}"))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, _client_error()) as error:
            raise ExternalError(f"{self}/{relative}: cannot be read ({type(error).__name__}: {error})") from error

    def exists(self, relative: str) -> bool:
        """Whether one file is there."""
        try:
            self.read(relative)
        except FileNotFoundError:
            return False
        return True

    def filesystem(self, *, asynchronous: bool = False) -> tuple[Any, str]:
        """The fsspec file system and the path in it.

        Raises
        ------
        UsageError
            No such protocol.
        MissingPackageError
            The protocol needs a package that is not installed.
        """
        from fsspec.core import url_to_fs

        options = {**self.storage_options, **({"asynchronous": True} if asynchronous else {})}
        try:
            fs, root = url_to_fs(self.text, **options)
        except ImportError as error:
            raise MissingPackageError(f"{self}: {error}") from error
        except ValueError as error:
            raise UsageError(f"{self}: {error}") from error
        return fs, str(root).rstrip("/")


def _client_error() -> type[Exception]:
    """The base of the errors that HTTP file systems raise beside OSError."""
    try:
        from aiohttp import ClientError
    except ImportError:
        return OSError
    return ClientError
