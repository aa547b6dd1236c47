"""Rows of the files that others keep retrieval tasks in: JSON lines and Parquet, one after another."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from optotype.schemas.errors import FormatError, NotFoundError, Problem

__all__ = ["Found", "Line", "candidate_name", "first_row", "is_lines", "read_rows", "spelt", "stem"]

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
    faults : list of str
        Files that cannot be read (to their end), and why; one for each.
    implied : set of (str, str)
        Place (``""``: any) and kind of what is wrong only because of something that is listed already.
    left_out : dict of str to int
        Reason -> lines; kept with the data.
    notes : list of str
        For the reader.
    """

    problems: list[Problem] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    implied: set[tuple[str, str]] = field(default_factory=set)
    left_out: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def refuse(self, where: str, kind: str, message: str) -> None:
        """Add a problem, unless what it follows from is there."""
        if ("", kind) not in self.implied:
            self.problems.append(Problem(where, kind, message))

    def number(self) -> int:
        """How much is wrong so far."""
        return len(self.problems) + len(self.faults)

    def leave_out(self, reason: str, number: int = 1) -> None:
        """Count what is not taken in."""
        if number:
            self.left_out[reason] = self.left_out.get(reason, 0) + number


def read_rows(path: Path, found: Found) -> Iterator[Line]:
    """The objects of a file of JSON lines (perhaps gzipped) or the rows of a Parquet file, one after another.

    A line that is no JSON object, holds a key twice, or a number that is not finite is a problem; a blank one is
    skipped. A file that is neither, or cannot be read on, is a fault; the lines before that come.

    Raises
    ------
    NotFoundError
        No such file.
    """
    if not path.is_file():
        raise NotFoundError(f"no file at {path}")
    try:
        yield from _rows(path, found)
    except FormatError as error:
        found.faults.append(error.message)


def is_lines(path: Path) -> bool:
    """Whether the name is that of JSON lines."""
    return _suffix(path) in _JSON


def first_row(path: Path) -> dict[str, Any]:
    """The first sound object of a file.

    Raises
    ------
    FormatError
        There is none, and why.
    """
    if path.stat().st_size == 0:
        raise FormatError(f"{path}: the file is empty")
    found = Found()
    for line in _rows(path, found):
        return line.values
    if found.problems:
        raise FormatError(str(found.problems[0]))
    raise FormatError(f"{path}: the file is empty: there is nothing but blank lines in it")


def _rows(path: Path, found: Found) -> Iterator[Line]:
    suffix = _suffix(path)
    if suffix in _PARQUET:
        yield from _parquet(path, found)
    elif suffix in _JSON:
        yield from _json(path, found)
    else:
        raise FormatError(f"{path}: rows of tasks come as .jsonl (perhaps with .gz) or .parquet")


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


def spelt(text: str, image: str) -> str:
    """A name that only this pair of text and image has: ``["<image>", "<text>"]`` in JSON.

    For those that would share a shorter one, such as a text and an image of the same string.
    """
    return json.dumps([image, text], ensure_ascii=False)


def _json(path: Path, found: Found) -> Iterator[Line]:
    with ExitStack() as stack:
        raw: IO[bytes] = stack.enter_context(path.open("rb"))
        packed = raw.read(2) == b"\x1f\x8b"  # its first bytes say so, not its name
        raw.seek(0)
        file: Any = stack.enter_context(gzip.open(raw)) if packed else raw
        for number, line in enumerate(_raw_lines(path, file), 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                utf16 = number == 1 and line[:2] in (b"\xff\xfe", b"\xfe\xff")
                why = "the byte-order mark of UTF-16" if utf16 else f"byte 0x{line[error.start]:02x} at {error.start}"
                raise FormatError(f"{path}: the file is not UTF-8: line {number} ({why})") from error
            if text.strip():
                values = _object(text, f"{path}:{number}", number, found)
                if values is not None:
                    yield Line(f"{path}:{number}", number, values)


def _raw_lines(path: Path, file: Any) -> Iterator[bytes]:
    try:
        yield from file
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: cannot be read as gzip ({' '.join(str(error).split())})") from error


def _object(text: str, where: str, number: int, found: Found) -> dict[str, Any] | None:
    """The object on a line; None, and problems, where it is none that is sound."""
    twice: list[str] = []
    odd: list[float] = []

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(members)
        if len(values) < len(members):
            twice.extend(name for name, times in Counter(name for name, _ in members).items() if times > 1)
        return values

    def real(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            odd.append(value)
        return value

    try:
        values = json.loads(text, object_pairs_hook=pairs, parse_float=real, parse_constant=real)
    except (ValueError, RecursionError) as error:
        words = " ".join(str(error).split())
        found.refuse(where, "not-json", f"line {number} is no JSON: {words}; a line is one JSON object")
        return None
    if not isinstance(values, dict):
        found.refuse(where, "not-json", f"a line is one JSON object, got {type(values).__name__}")
        return None
    for name in twice:
        found.refuse(where, "duplicate-key", f"the key {name!r} is there twice; which one is meant?")
    if odd:
        try:
            _refuse_odd(values, "", where, found)
        except RecursionError:
            found.refuse(where, "not-finite", f"{odd[0]}, deep inside; numbers are finite, null = not given")
    return None if twice or odd else values


def _refuse_odd(value: Any, name: str, where: str, found: Found) -> None:
    """Add a problem for each number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        found.refuse(where, "not-finite", f"{name} is {value}; numbers are finite, null = not given")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_odd(inner, f"{name}.{key}" if name else str(key), where, found)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            _refuse_odd(inner, f"{name}[{at}]", where, found)


def _parquet(path: Path, found: Found) -> Iterator[Line]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(_BLOCK_ROWS, use_threads=False):
                for values in batch.to_pylist():
                    number += 1
                    before = len(found.problems)
                    _refuse_odd(values, "", f"{path}:{number}", found)
                    if before == len(found.problems):
                        yield Line(f"{path}:{number}", number, values)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: cannot be read as Parquet ({' '.join(str(error).split())})") from error


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _GZIP:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
