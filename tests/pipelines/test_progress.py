"""Progress reports: a bar on a terminal, a few plain lines elsewhere, silence when asked."""

from __future__ import annotations

import io
import sys

import pytest

from optotype.pipelines.progress import SILENT, Bar, Plain, reporter
from optotype.schemas.errors import UsageError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_about_ten_lines_for_a_long_job() -> None:
    stream, clock = io.StringIO(), Clock()
    with Plain(stream, clock=clock)("encoding", total=400, unit="images") as task:
        for _ in range(400):
            clock.now += 0.2
            task.advance()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "encoding: 40/400 images (10 %), 5 images/s"
    assert lines[-1] == "encoding: 400/400 images (100 %), done in 80.0 s"


def test_a_line_every_ten_seconds_for_a_slow_job() -> None:
    stream, clock = io.StringIO(), Clock()
    with Plain(stream, clock=clock)("encoding", total=10_000, unit="images") as task:
        for _ in range(100):
            clock.now += 1
            task.advance()
    assert len(stream.getvalue().splitlines()) == 11


def test_one_line_for_a_fast_job() -> None:
    stream, clock = io.StringIO(), Clock()
    with Plain(stream, clock=clock)("checking", total=100, unit="images") as task:
        for _ in range(100):
            clock.now += 0.001
            task.advance()
    assert stream.getvalue() == "checking: 100/100 images (100 %), done in 0.1 s\n"


def test_what_was_done_before_is_counted_but_not_timed() -> None:
    stream, clock = io.StringIO(), Clock()
    with Plain(stream, clock=clock)("encoding", total=100, unit="images", done=50) as task:
        clock.now = 10
        task.advance(20)
    assert stream.getvalue().splitlines()[0] == "encoding: 70/100 images (70 %), 2 images/s"


def test_a_job_of_unknown_size() -> None:
    stream, clock = io.StringIO(), Clock()
    with Plain(stream, clock=clock)("reading", total=None, unit="rows") as task:
        clock.now = 20
        task.advance(3)
        task.advance()
    assert stream.getvalue().splitlines() == ["reading: 3 rows, 0.15 rows/s", "reading: 4 rows, done in 20.0 s"]


def test_a_job_that_fails_says_where_it_stopped() -> None:
    stream = io.StringIO()

    def job() -> None:
        with Plain(stream, clock=Clock())("encoding", total=4) as task:
            task.advance()
            raise KeyError

    with pytest.raises(KeyError):
        job()
    assert stream.getvalue() == "encoding: 1/4 items (25 %), stopped after 0.0 s\n"


def test_plain_lines_go_to_stderr_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    report = reporter("plain")
    report.note("seven texts were cut")
    with report("work", total=1) as task:
        task.advance()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[0] == "seven texts were cut"


def test_a_bar_shows_title_and_count() -> None:
    stream = Terminal()
    report = reporter(stream=stream)
    assert isinstance(report, Bar)
    with report("encoding [vit]", total=3, unit="images", done=1) as task:
        task.advance(2)
    report.note("a [note]")
    assert "encoding [vit]" in stream.getvalue()
    assert "3/3" in stream.getvalue()
    assert "a [note]" in stream.getvalue()


def test_the_kind_follows_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(reporter(stream=io.StringIO()), Plain)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(reporter(), Bar)
    assert reporter("none") is SILENT
    with pytest.raises(UsageError, match="'loud' is not a kind of progress report"):
        reporter("loud")  # type: ignore[arg-type]


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    SILENT.note("nothing")
    with SILENT("work", total=3) as task:
        task.advance()
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
