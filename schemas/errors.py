"""The one exception tree of optotype.

Every error a user can cause is one of these; anything else that escapes is a bug::

    OptotypeError            1  (the base; never raised itself)
    ├── UsageError           2  options or arguments that do not fit together
    ├── NotFoundError        3  a project, array, file or model that is not there
    ├── InvalidDataError     4  data that breaks its schema; lists every problem
    ├── FormatError          5  a document or array that this version cannot read
    ├── ConflictError        6  something is in the way (another writer, other bytes)
    ├── IntegrityError       7  bytes that do not have the digest they should have
    ├── ModelError           8  a model that cannot be loaded or run as asked
    ├── MissingPackageError  9  an optional package that is not installed
    └── ExternalError       10  another program or the network failed

The number is the exit code of the command line (130 is kept for Ctrl-C). A message says what came,
what is allowed, and what to type next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "ConflictError",
    "ExternalError",
    "FormatError",
    "IntegrityError",
    "InvalidDataError",
    "MissingPackageError",
    "ModelError",
    "NotFoundError",
    "OptotypeError",
    "Problem",
    "UsageError",
    "did_you_mean",
]


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong: where it was found, of what kind, in words.

    Attributes
    ----------
    where : str
        The place: a file, an array, a column, an id (``"tokens"``, ``"ids[3]"``).
    kind : str
        A stable, hyphenated word that a program can match (``"duplicate-id"``).
    message : str
        What came and what is allowed.
    """

    where: str
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class OptotypeError(Exception):
    """Base of all errors that optotype raises on purpose.

    Parameters
    ----------
    message : str
        What came and what is allowed.
    hint : str, optional
        What to do or type next; printed on a line of its own.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message,), {"hint": self.hint}

    def as_dict(self) -> dict[str, object]:
        """The error as a JSON-ready mapping (``error``, ``message``, ``hint``)."""
        return {"error": type(self).__name__, "message": self.message, "hint": self.hint}


class UsageError(OptotypeError):
    """Options or arguments that do not fit together."""

    exit_code = 2


class NotFoundError(OptotypeError):
    """A project, array, file or model that is not there."""

    exit_code = 3


class InvalidDataError(OptotypeError):
    """Data that breaks its schema. Holds *every* problem found, not the first.

    Parameters
    ----------
    summary : str
        One line that says what was refused.
    problems : iterable of Problem
        All of them, in the order in which they should be read.
    hint : str, optional
        What to do or type next.
    """

    exit_code = 4

    def __init__(self, summary: str, problems: Iterable[Problem], *, hint: str | None = None) -> None:
        self.summary = summary
        self.problems: tuple[Problem, ...] = tuple(problems)
        lines = [summary, *(f"  - {problem}" for problem in self.problems)]
        super().__init__("\n".join(lines), hint=hint)

    def __reduce__(self) -> tuple[object, ...]:
        # Workers of a process pool or cluster hand errors back pickled.
        return _again, (type(self), self.summary, self.problems, self.hint)

    def as_dict(self) -> dict[str, object]:
        """The error as a JSON-ready mapping, with ``problems`` as a list of objects."""
        problems = [{"where": p.where, "kind": p.kind, "message": p.message} for p in self.problems]
        return {**super().as_dict(), "message": self.summary, "problems": problems}


def _again(kind: type[InvalidDataError], summary: str, problems: tuple[Problem, ...], hint: str | None) -> object:
    return kind(summary, problems, hint=hint)


class FormatError(OptotypeError):
    """A document or array that this version of optotype cannot read."""

    exit_code = 5


class ConflictError(OptotypeError):
    """Something is in the way: another writer, or other bytes under the same name."""

    exit_code = 6


class IntegrityError(OptotypeError):
    """Bytes that do not have the digest they should have."""

    exit_code = 7


class ModelError(OptotypeError):
    """A model that cannot be loaded or run as asked."""

    exit_code = 8


class MissingPackageError(OptotypeError):
    """An optional package that is not installed."""

    exit_code = 9


class ExternalError(OptotypeError):
    """Another program or the network failed."""

    exit_code = 10


def did_you_mean(name: str, options: Sequence[str]) -> str:
    """A sentence that suggests the closest of ``options``, or lists them; empty if there are none."""
    if not options:
        return ""
    close = difflib.get_close_matches(name, options, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    shown = ", ".join(sorted(options)[:10])
    more = f" and {len(options) - 10} more" if len(options) > 10 else ""
    return f"There are: {shown}{more}."
