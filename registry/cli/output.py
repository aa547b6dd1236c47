"""What goes to stdout: one JSON document, or a table for people. Everything else goes to stderr."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

__all__ = ["Column", "emit", "emit_json", "emit_record", "emit_table", "human_bytes", "note", "plain", "short_digest"]

_STDOUT_CLOSED = 141  # 128 + SIGPIPE, as shells report it


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    title : str
        Its heading.
    value : callable
        Row -> text of the cell.
    right : bool
        Whether it is aligned right, as numbers are.
    """

    title: str
    value: Callable[[Mapping[str, Any]], str]
    right: bool = False


def emit(text: str) -> None:
    """Write ``text`` and a line end to stdout; a reader that has left (``| head``) ends the run without a word."""
    try:
        click.echo(text)
    except OSError as error:
        # Python flushes once more when it exits and would complain about the same pipe or disk again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise click.exceptions.Exit(_STDOUT_CLOSED) from error
        raise


def note(text: str) -> None:
    """A line for the reader, on stderr."""
    click.echo(text, err=True)


def plain(value: object) -> Any:
    """``value`` as JSON knows it: NumPy scalars and arrays unpacked, paths as text, NaN and infinity as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    unpack = getattr(value, "tolist", None)
    return str(value) if unpack is None else plain(unpack())


def emit_json(value: object) -> None:
    """Print ``value`` as one JSON document."""
    unicode_safe = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    emit(json.dumps(plain(value), indent=2, ensure_ascii=not unicode_safe, allow_nan=False))


def emit_table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows, each cell whole: a drawn table on a terminal wide enough, aligned text in a pipe.

    On a terminal too narrow for either, every row becomes a block of its own; nothing is cut off.
    """
    cells = [[column.value(row) for column in columns] for row in rows]
    widths = [max([len(column.title), *(len(line[i]) for line in cells)]) for i, column in enumerate(columns)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if room is not None and sum(widths) + 3 * len(widths) <= room:
        _emit_drawn(columns, cells)
    elif room is None or sum(widths) + 2 * len(widths) <= room:
        emit("\n".join(_aligned(columns, [[c.title for c in columns], *cells], widths)))
    else:
        emit("\n\n".join(_block([column.title for column in columns], line) for line in cells))


def _aligned(columns: Sequence[Column], lines: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Lines of a table without rules: two spaces between columns."""
    return [
        "  ".join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def _block(titles: Sequence[str], cells: Sequence[str]) -> str:
    """One row as lines ``title  value``."""
    width = max(len(title) for title in titles)
    return "\n".join(f"{title.ljust(width)}  {cell}".rstrip() for title, cell in zip(titles, cells, strict=True))


def _emit_drawn(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    """A table with rules and a bold head, by rich."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(table)
    emit(capture.get().strip("\n"))


def emit_record(record: Mapping[str, Any], indent: int = 0) -> None:
    """Print a mapping as aligned ``name  value`` lines; nested mappings are indented below their name."""
    emit("\n".join(_record_lines(plain(record), indent)))


def _record_lines(record: Mapping[str, Any], indent: int) -> list[str]:
    width = max((len(key) for key, value in record.items() if not isinstance(value, dict) or not value), default=0)
    lines: list[str] = []
    for key, value in record.items():
        if isinstance(value, dict) and value:
            lines += [f"{'':{indent}}{key}:", *_record_lines(value, indent + 2)]
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{'':{indent}}{key.ljust(width)}  {text}")
    return lines


def human_bytes(size: int) -> str:
    """``size`` in bytes, kB, MB or GB (powers of 1000)."""
    if size < 1000:
        return f"{size} B"
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1000
        if amount < 1000:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} TB"


def short_digest(digest: str) -> str:
    """The first twelve hex digits; the whole digest is in ``show`` and in ``--json``."""
    return digest.removeprefix("sha256:")[:12]
