"""What may change about published versions: what is yanked, and which words stand for one. ``status.json``, in git."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, UsageError
from optotype.schemas.references import check_alias, check_version
from optotype.store.drafts import draft_file, writing

__all__ = ["Status", "change_status", "read_status"]

_FORMAT_VERSION = 1


@dataclass(frozen=True)
class Status:
    """The state of all versions of one name.

    Attributes
    ----------
    yanked : mapping of str to str
        Version -> why it should no longer be used.
    aliases : mapping of str to str
        Word -> version.
    fault : str or None
        Why the file cannot be read; then nothing is known of the name but its versions.
    """

    yanked: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    fault: str | None = None

    def to_bytes(self) -> bytes:
        """As JSON, the same bytes for the same state."""
        document = {
            "format_version": _FORMAT_VERSION,
            "kind": "status",
            "yanked": dict(self.yanked),
            "aliases": dict(self.aliases),
        }
        return (json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()

    @classmethod
    def parse(cls, text: bytes, where: str) -> Status:
        """Read a status.

        Raises
        ------
        FormatError
            Not a status document, or a newer one.
        """
        document = parse_document(text, kind="status", where=where, newest=_FORMAT_VERSION)
        try:
            yanked = {check_version(version): str(why) for version, why in _object(document["yanked"]).items()}
            aliases = {
                check_alias(word): check_version(version) for word, version in _object(document["aliases"]).items()
            }
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise FormatError(f"{where}: yanked and aliases are objects of versions ({error})") from error
        return cls(yanked, aliases)


def read_status(path: Path) -> Status:
    """The status at ``path``; nothing yanked and no alias where there is no file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Status()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from error
    return Status.parse(text, str(path))


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"an object is wanted, got {type(value).__name__}")
    return value


def change_status(path: Path, change: Callable[[Status], Status]) -> Status:
    """Replace the status in one step; of two changes at once, none is lost."""
    with writing(path, wait=True):
        before = read_status(path)
        after = change(before)
        if after != before:
            with draft_file(path) as file:
                file.write(after.to_bytes())
        return after
