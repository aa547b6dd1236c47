"""What reports are made from: JSON documents and tables that other verbs have written, read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.schemas.documents import parse_document
from optotype.schemas.errors import FormatError, NotFoundError, Problem

__all__ = ["of_one_panel", "read_document", "read_rows"]


def read_document(
    path: Path, *, kind: str, newest: int, needs: Sequence[str], hint: str, others: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A versioned JSON document of one kind.

    Parameters
    ----------
    path : Path
    kind : str
        What its ``kind`` has to be.
    newest : int
        The newest ``format_version`` that is known.
    needs : sequence of str
        Keys that it has to have.
    hint : str
        The command that writes such a document.
    others : mapping of str to str, optional
        Kinds that it may be taken for, and what to say of each: what it is, and what to do with it.

    Raises
    ------
    NotFoundError
        There is no such file.
    FormatError
        Not such a document, or a newer one.
    """
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"there is no {path}", hint=f"Make it: {hint}") from error
    document = parse_document(text, kind=kind, where=str(path), newest=newest)
    found = document.get("kind")
    if found != kind:
        more = (others or {}).get(found, "") if isinstance(found, str) else ""
        raise FormatError(f"{path}: its kind is {found!r}, not {kind!r}", hint=f"{more} Make it: {hint}".strip())
    missing = [name for name in needs if name not in document]
    if missing:
        raise FormatError(f"{path}: this {kind} has no {', '.join(missing)}", hint=f"Make it again: {hint}")
    return document


def read_rows(path: Path, columns: Mapping[str, str], *, hint: str) -> list[dict[str, Any]]:
    """Rows of a CSV or Parquet table.

    Parameters
    ----------
    path : Path
    columns : mapping of str to str
        Columns that are taken, and what each is: ``str``, ``int``, ``float`` or ``bool``. Empty text is "", a missing
        number None.
    hint : str
        The command that writes such a table.

    Raises
    ------
    NotFoundError
        There is no such file.
    FormatError
        Not a table, a column is missing, or a value is not of its type.
    """
    import pandas as pd

    if not path.is_file():
        raise NotFoundError(f"there is no {path}", hint=f"Make it: {hint}")
    try:
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
        else:
            text = {name: str for name, kind in columns.items() if kind == "str"}
            table = pd.read_csv(path, dtype=text, keep_default_na=True, encoding="utf-8-sig")
        missing = [name for name in columns if name not in table]
        if missing:
            raise FormatError(f"{path}: no column {', '.join(missing)}", hint=f"Make it again: {hint}")
        return [
            {name: _value(value, columns[name]) for name, value in zip(columns, row, strict=True)}
            for row in table[list(columns)].itertuples(index=False, name=None)
        ]
    except (ValueError, OSError) as error:
        raise FormatError(
            f"{path}: not such a table ({' '.join(str(error).split())})", hint=f"Make it: {hint}"
        ) from error


def _value(value: Any, kind: str) -> Any:
    empty = value is None or value != value
    if kind == "str":
        return "" if empty else str(value)
    if empty:
        return None
    return {"int": int, "float": float, "bool": bool}[kind](value)


def of_one_panel(panel: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]]) -> list[Problem]:
    """Documents that were made from another panel, or from another state of it.

    Parameters
    ----------
    panel : mapping
        With ``name`` and ``digest``.
    found : mapping of str to mapping
        The name of each document, and the ``panel`` that it speaks of.
    """
    return [
        Problem(
            where,
            "other-panel",
            f"it is of panel {other.get('name')!r} ({other.get('digest')}), this is {panel['name']!r} "
            f"({panel['digest']})",
        )
        for where, other in found.items()
        if other.get("digest") != panel["digest"]
    ]
