"""Rows of the files that others keep retrieval tasks in: JSON lines and Parquet, one after another."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optotype.schemas.errors import FormatError, NotFoundError, Problem

__all__ = ["Found", "Line", "candidate_name", "first_row", "read_rows", "stem"]

_JSON = (".jsonl", ".ndjson", ".json")
_PARQUET = (".parquet", ".pq")
_GZIP = (".gz", ".gzip")
_BLOCK_ROWS = 64  # of Parquet: a row may hold a thousand candidates
_LONGEST = 120  # characters of a candidate's name that go into its id as they are


@dataclass(frozen=True)
class Line:
    """One row of a file.

    Attributes
    ----------
    where : str
        ``FILE:NUMBER``, for messages; rows of Parquet count from 1, too.
    number : int
    values : dict
    """

    where: str
    number: int
    values: dict[str, Any]


@dataclass
class Found:
    """What an importer says besides the rows: everything that is wrong, and what it left out or read its own way.

    Attributes
    ----------
    problems : list of Problem
    left_out : dict of str to int
        Reason -> lines; kept with the data.
    notes : list of str
        For the reader.
    """

    problems: list[Problem] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def refuse(self, where: str, kind: str, message: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(where, kind, message))

    def leave_out(self, reason: str, number: int = 1) -> None:
        """Count what is not taken in."""
        if number:
            self.left_out[reason] = self.left_out.get(reason, 0) + number


def read_rows(path: Path, found: Found) -> Iterator[Line]:
    """The objects of a file of JSON lines (perhaps gzipped) or the rows of a Parquet file, one after another.

    A line that is no JSON object is a problem; a blank one is skipped.

    Raises
    ------
    NotFoundError, FormatError
        No such file; it is neither, or cannot be read.
    """
    if not path.is_file():
        raise NotFoundError(f"no file at {path}")
    suffix = _suffix(path)
    if suffix in _PARQUET:
        yield from _parquet(path)
    elif suffix in _JSON:
        yield from _json(path, found)
    else:
        raise FormatError(f"{path}: rows of tasks come as .jsonl (perhaps with .gz) or .parquet")


def first_row(path: Path) -> dict[str, Any]:
    """The first object of a file; empty where there is none or the file is of another kind."""
    try:
        return next((line.values for line in read_rows(path, Found())), {})
    except FormatError:
        return {}


def stem(path: Path) -> str:
    """Name of the file without ``.jsonl``, ``.jsonl.gz`` and the like."""
    name = path.name
    for endings in (_GZIP, (*_JSON, *_PARQUET)):
        for ending in endings:
            if name.lower().endswith(ending):
                name = name[: -len(ending)]
                break
    return name


def candidate_name(text: str) -> str:
    """How a candidate's string stands in its id.

    As it is if it is short, printable ASCII without white space at its ends; else ``sha256-`` and 16 hex digits of its
    SHA-256: ids cannot hold every string, and strings that differ in Unicode form alone are two candidates here.
    """
    if 0 < len(text) <= _LONGEST and text.isascii() and text.isprintable() and text == text.strip():
        return text
    return "sha256-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _json(path: Path, found: Found) -> Iterator[Line]:
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("rb"))
        packed = raw.read(2) == b"\x1f\x8b"  # its first bytes say so, not its name
        raw.seek(0)
        raw = stack.enter_context(gzip.open(raw)) if packed else raw
        text = stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n"))
        try:
            for number, line in enumerate(text, 1):
                if not line.strip():
                    continue
                where = f"{path}:{number}"
                try:
                    values = json.loads(line)
                except (ValueError, RecursionError) as error:
                    found.refuse(where, "not-json", f"a line is one JSON object; {' '.join(str(error).split())}")
                    continue
                if isinstance(values, dict):
                    yield Line(where, number, values)
                else:
                    found.refuse(where, "not-json", f"a line is one JSON object, got {type(values).__name__}")
        except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
            raise FormatError(f"{path}: cannot be read as JSON lines ({' '.join(str(error).split())})") from error


def _parquet(path: Path) -> Iterator[Line]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_BLOCK_ROWS, use_threads=False):
                for values in batch.to_pylist():
                    number += 1
                    yield Line(f"{path}:{number}", number, values)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: cannot be read as Parquet ({' '.join(str(error).split())})") from error


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _GZIP:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
