"""The ``artifacts:`` section of ``dvc.yaml``, which gto, ``dvc artifacts get`` and DVC Studio read."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.schemas.errors import FormatError
from optotype.store import dvc
from optotype.store.drafts import draft_file, writing

__all__ = ["entry_path", "set_entry", "without_artifacts"]

FILE = "dvc.yaml"
_SECTION = "artifacts"
_LABEL = "optotype"
_OFFSET_LIST = re.compile(r"^(?P<outer> *)[^\s#-][^\n]*:\s*\n(?P<inner> *)- ", re.MULTILINE)


def set_entry(root: Path, name: str, entry: Mapping[str, Any] | None) -> bool:
    """Put an entry into ``dvc.yaml`` of the project at ``root``, or take it out; comments and order stay.

    Written in one step, and only if something changes. Labels that are there are kept, ours is added.

    Parameters
    ----------
    root : Path
    name : str
        ``<kind>/<name>``.
    entry : mapping or None
        ``path``, ``type``, ``desc``, ``meta``.

    Returns
    -------
    bool
        Whether there is a ``dvc.yaml``. One is made where there is something to say in a DVC project; elsewhere nothing
        is done without one.

    Raises
    ------
    FormatError
        The file is not YAML of a mapping.
    """
    path = root / FILE
    if not path.is_file() and (entry is None or not dvc.is_dvc_project(root)):
        return False
    with writing(path, wait=True):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        after = _edited(text, name, entry, str(path))
        if after != text:
            with draft_file(path) as file:
                file.write(after.encode())
    return True


def entry_path(text: str | bytes, name: str) -> str | None:
    """The path that the ``dvc.yaml`` of this text gives for an entry; None if it has none."""
    entries = _plain(text).get(_SECTION)
    entry = entries.get(name) if isinstance(entries, dict) else None
    path = entry.get("path") if isinstance(entry, dict) else None
    return path if isinstance(path, str) else None


def without_artifacts(text: str | bytes) -> dict[str, Any]:
    """The rest of a ``dvc.yaml``: what a computation depends on."""
    return {key: value for key, value in _plain(text).items() if key != _SECTION}


def _plain(text: str | bytes) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise FormatError(f"{FILE}: not YAML ({' '.join(str(error).split())})") from error
    return document if isinstance(document, dict) else {}


def _edited(text: str, name: str, entry: Mapping[str, Any] | None, where: str) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError

    yaml = YAML()  # round trip, as DVC itself edits the file
    yaml.preserve_quotes = True
    yaml.width = 1 << 16
    yaml.indent(mapping=2, **_list_indent(text))
    try:
        document = yaml.load(text)
    except YAMLError as error:
        raise FormatError(f"{where}: not YAML ({' '.join(str(error).split())})") from error
    if document is None:
        document = CommentedMap()
    if not isinstance(document, CommentedMap) or not isinstance(document.get(_SECTION, CommentedMap()), CommentedMap):
        raise FormatError(f"{where}: it and its {_SECTION} section have to be mappings")
    before = document.get(_SECTION)
    if entry is None:
        if before is None or name not in before:
            return text
        del before[name]
        if not before:
            del document[_SECTION]
    else:
        if before is None:
            document[_SECTION] = before = CommentedMap()
            if text.strip():
                document.yaml_set_comment_before_after_key(_SECTION, before="\n")
        standing = before.get(name)
        old = standing if isinstance(standing, CommentedMap) else CommentedMap()
        labels = list(old.get("labels") or [])
        wanted = {**entry, "labels": labels if _LABEL in labels else [*labels, _LABEL]}
        if {key: old.get(key) for key in wanted} == wanted:
            return text
        for key, value in wanted.items():
            if old.get(key) != value:
                old[key] = value
        before[name] = old
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _list_indent(text: str) -> dict[str, int]:
    """How the file indents lists, so that what is not edited keeps its bytes."""
    match = _OFFSET_LIST.search(text)
    offset = len(match["inner"]) - len(match["outer"]) if match else 2
    return {"sequence": offset + 2, "offset": offset} if offset >= 0 else {"sequence": 4, "offset": 2}
