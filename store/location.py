"""A location: a local folder or an fsspec URL that holds an array."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from optotype.schemas.errors import ExternalError, MissingPackageError, UsageError
from optotype.store.drafts import recover

__all__ = ["Location"]


@dataclass(frozen=True)
class Location:
    """A folder on this machine or behind a URL.

    Attributes
    ----------
    text : str
        Absolute path or URL, for messages.
    local : Path or None
        The folder, if it is on this machine.
    storage_options : mapping
        For fsspec.
    """

    text: str
    local: Path | None
    storage_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, source: str | Path, storage_options: Mapping[str, Any] | None = None) -> Location:
        """Parse a path or URL; an array whose replacement was cut short is restored."""
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
        """Last component of the path."""
        return self.text.rstrip("/").rsplit("/", 1)[-1]

    def read(self, relative: str) -> bytes:
        """Bytes of one file.

        Raises
        ------
        FileNotFoundError
            It is not there.
        ExternalError
            The network or the remote failed.
        """
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
