"""Folders of plain files, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from optotype.store.drafts import Draft, flush

__all__ = ["SOURCE", "new_folder", "write_json", "write_text"]

SOURCE = "SOURCE.json"  # where a folder's content comes from; its presence marks the folder as made here


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which takes the place of ``target`` when the block ends without an error.

    An older folder at the target is replaced if it holds a ``SOURCE.json`` or nothing at all.

    Raises
    ------
    ConflictError
        Something else stands at the target.
    """
    with Draft(target) as draft:
        yield draft.path
        for path in sorted(draft.path.rglob("*")):
            if path.is_file():
                flush(path)
        draft.commit(_ours)


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """``document`` as readable JSON whose bytes depend on its value alone (sorted keys, UTF-8, LF)."""
    write_text(path, json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """``text`` as UTF-8, line ends as they are."""
    path.write_bytes(text.encode())


def _ours(folder: Path) -> bool:
    return (folder / SOURCE).is_file() or not any(folder.iterdir())
