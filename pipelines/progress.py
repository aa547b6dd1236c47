"""How a long verb says where it stands: a bar on a terminal, a few plain lines elsewhere, nothing when asked.

Everything goes to stderr. A pipeline takes ``progress: Progress | None`` (``None`` is silent) and uses it so::

    with progress("encoding vit", total=400, unit="images") as task:
        for batch in batches:
            ...
            task.advance(len(batch))
    progress.note("400 images encoded")
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

__all__ = ["SILENT", "Bar", "Plain", "Progress", "Silent", "Task", "reporter"]

Mode = Literal["auto", "bar", "plain", "none"]

_STEPS = 10  # lines that a plain report aims at
_LONGEST_SILENCE = 10.0  # seconds
_SHORTEST_SILENCE = 1.0  # seconds: a fast job is not worth ten lines


class Task(Protocol):
    """One job that is under way."""

    def advance(self, steps: int = 1) -> None:
        """``steps`` more units are done. May be called from any thread."""


class Progress(Protocol):
    """Anything that can report on jobs and pass on notes."""

    def __call__(
        self, title: str, *, total: int | None, unit: str = "items", done: int = 0
    ) -> AbstractContextManager[Task]:
        """Report on a job of ``total`` units (``None``: unknown), ``done`` of them from before, until the end."""

    def note(self, text: str) -> None:
        """Say one line that is worth reading: what was skipped, resumed, truncated."""


class _Nothing:
    def advance(self, steps: int = 1) -> None:
        pass


class Silent:
    """Reports nothing."""

    @contextmanager
    def __call__(self, title: str, *, total: int | None, unit: str = "items", done: int = 0) -> Iterator[Task]:
        yield _Nothing()

    def note(self, text: str) -> None:
        pass


SILENT: Progress = Silent()


class _PlainTask:
    def __init__(
        self,
        title: str,
        total: int | None,
        unit: str,
        done: int,
        write: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self.title, self.total, self.unit = title, total, unit
        self._write, self._clock = write, clock
        self._started = self._spoke = clock()
        self._before = self._done = self._spoken = done
        self._lock = threading.Lock()

    def advance(self, steps: int = 1) -> None:
        with self._lock:
            self._done += steps
            now = self._clock()
            quiet = now - self._spoke
            if self._done == self.total:  # the last line says it
                return
            passed_mark = bool(self.total) and self._mark(self._done) > self._mark(self._spoken)
            if quiet >= _LONGEST_SILENCE or (passed_mark and quiet >= _SHORTEST_SILENCE):
                self._speak(now)

    def finish(self, *, failed: bool) -> None:
        with self._lock:
            now = self._clock()
            took = f"{now - self._started:.1f} s"
            end = f"stopped after {took}" if failed else f"done in {took}"
            self._write(f"{self.title}: {self._count()}, {end}")

    def _mark(self, done: int) -> int:
        return done * _STEPS // self.total if self.total else 0

    def _count(self) -> str:
        if not self.total:
            return f"{self._done} {self.unit}"
        return f"{self._done}/{self.total} {self.unit} ({100 * self._done // self.total} %)"

    def _speak(self, now: float) -> None:
        elapsed = now - self._started
        rate = f", {(self._done - self._before) / elapsed:.3g} {self.unit}/s" if elapsed > 0 else ""
        self._write(f"{self.title}: {self._count()}{rate}")
        self._spoke, self._spoken = now, self._done


class Plain:
    """One line for about every tenth of a job or every ten seconds, whichever comes first, and one at its end.

    Parameters
    ----------
    stream : text stream, optional
        Where lines go; standard error, as it is when a line is written, by default.
    clock : callable
        Seconds of a monotonic clock.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock

    @contextmanager
    def __call__(self, title: str, *, total: int | None, unit: str = "items", done: int = 0) -> Iterator[Task]:
        task = _PlainTask(title, total, unit, done, self.note, self._clock)
        failed = True
        try:
            yield task
            failed = False
        finally:
            task.finish(failed=failed)

    def note(self, text: str) -> None:
        stream = self._stream if self._stream is not None else sys.stderr
        stream.write(f"{text}\n")
        stream.flush()


class _BarTask:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self._bars, self._task = bars, task

    def advance(self, steps: int = 1) -> None:
        self._bars.advance(self._task, steps)


class Bar:
    """A live bar with count, rate and remaining time (rich), for a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        from rich.console import Console

        self._console = Console(file=stream, stderr=stream is None)

    @contextmanager
    def __call__(self, title: str, *, total: int | None, unit: str = "items", done: int = 0) -> Iterator[Task]:
        from rich.markup import escape
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(escape(unit)),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with RichProgress(*columns, console=self._console) as bars:
            yield _BarTask(bars, bars.add_task(escape(title), total=total, completed=done))

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def reporter(mode: Mode = "auto", *, stream: TextIO | None = None) -> Progress:
    """The reporter that suits where the words go.

    Parameters
    ----------
    mode : {"auto", "bar", "plain", "none"}
        ``auto`` is a bar where the stream is a terminal and plain lines where it is not.
    stream : text stream, optional
        Standard error by default.

    Raises
    ------
    UsageError
        Another mode.
    """
    if mode == "auto":
        mode = "bar" if (stream or sys.stderr).isatty() else "plain"
    if mode == "bar":
        return Bar(stream)
    if mode == "plain":
        return Plain(stream)
    if mode == "none":
        return SILENT
    raise UsageError(f"{mode!r} is not a kind of progress report: auto, bar, plain or none")
