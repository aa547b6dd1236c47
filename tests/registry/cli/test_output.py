"""Tables keep every cell whole, on a terminal, a narrow one and in a pipe; JSON is JSON."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest

from optotype.registry.cli.output import Column, emit_json, emit_record, emit_table, human_bytes, plain, short_digest

_NAME = "a-very-long-name-of-an-encoder-with-patch-size-and-resolution-vit-l-14-336"
_COLUMNS = [
    Column("encoder", lambda row: str(row["encoder"])),
    Column("score", lambda row: f"{row['score']:.4f}", right=True),
]
_ROWS = [{"encoder": _NAME, "score": 0.25}, {"encoder": "b", "score": 10}]


def test_piped_table_is_aligned_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    emit_table(_COLUMNS, _ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head == "encoder".ljust(len(_NAME)) + "    score"
    assert first == f"{_NAME}   0.2500"
    assert second == "b".ljust(len(_NAME)) + "  10.0000"


_SHOW = f"""
from optotype.registry.cli.output import Column, emit_table
columns = [Column("encoder", lambda row: row[0]), Column("score", lambda row: row[1], right=True)]
emit_table(columns, [({_NAME!r}, "0.2500"), ("[bold]b[/bold]", "10.0000")])
"""


@pytest.mark.parametrize("width", [40, 80, 81, 100])
def test_no_terminal_cuts_a_cell(width: int) -> None:
    """A real pseudo-terminal of that width: wide ones get rules, narrow ones a block per row."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    done = subprocess.run([sys.executable, "-c", _SHOW], stdout=theirs, check=True, timeout=60, env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert done.returncode == 0
    shown = text.decode()
    assert _NAME in shown
    assert "[bold]b[/bold]" in shown
    assert "10.0000" in shown
    assert ("encoder  " + _NAME in shown) == (width < 90)


def test_json_is_one_document_of_plain_values(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "score": np.float64(0.1),
        "n": np.int64(3),
        "flag": np.bool_(True),
        "half": np.float16(0.5),
        "list": np.arange(2),
        "none": float("nan"),
        "infinite": np.float32("inf"),
        "path": Path("a/b"),
        "nested": [{"x": (1, 2)}],
    }
    emit_json(value)
    assert json.loads(capsys.readouterr().out) == {
        "score": 0.1,
        "n": 3,
        "flag": True,
        "half": 0.5,
        "list": [0, 1],
        "none": None,
        "infinite": None,
        "path": "a/b",
        "nested": [{"x": [1, 2]}],
    }


def test_json_keeps_every_bit_of_a_score() -> None:
    for value in (1 / 3, 0.1 + 0.2, np.nextafter(0.5, 1)):
        assert json.loads(json.dumps(plain(value))) == float(value)


def test_record_indents_what_is_nested(capsys: pytest.CaptureFixture[str]) -> None:
    emit_record({"name": "a", "row_size": {"min": 1, "max": 20}, "attrs": {}, "dtype": "float16"})
    assert capsys.readouterr().out.splitlines() == [
        "name   a",
        "row_size:",
        "  min  1",
        "  max  20",
        "attrs  {}",
        "dtype  float16",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_500_000, "1.5 MB"),
        (2 * 10**9, "2.0 GB"),
        (3 * 10**12, "3.0 TB"),
    ],
)
def test_sizes(size: float, text: str) -> None:
    assert human_bytes(int(size)) == text


def test_short_digest() -> None:
    assert short_digest("sha256:" + "ab" * 32) == "abababababab"
