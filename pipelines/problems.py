"""Errors of one array among several: named, in one line, or several errors as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from optotype.schemas.errors import InvalidDataError, OptotypeError, UsageError

__all__ = ["naming", "reason", "together"]

_SHOWN = 3


@contextmanager
def naming(metric: str, what: str) -> Iterator[None]:
    """Whatever cannot be scored in here is said to be so by ``metric`` on ``what``; other errors pass as they are."""
    place = f"metric {metric}, {what}: "
    try:
        yield
    except InvalidDataError as error:
        raise InvalidDataError(place + _bare(error.summary, metric), error.problems, hint=error.hint) from error
    except UsageError as error:
        raise UsageError(place + _bare(error.message, metric), hint=error.hint) from error


def reason(error: OptotypeError, metric: str) -> str:
    """What an error of ``metric`` says, in one line and without its name."""
    if not isinstance(error, InvalidDataError):
        return _bare(error.message, metric)
    told = [str(problem) for problem in error.problems[:_SHOWN]]
    if len(error.problems) > _SHOWN:
        told.append(f"and {len(error.problems) - _SHOWN} more")
    summary = _bare(error.summary, metric)
    return f"{summary} ({'; '.join(told)})" if told else summary


def together(errors: Sequence[UsageError]) -> UsageError:
    """One error that says what each of ``errors`` does, each once; itself if there is one."""
    messages = list(dict.fromkeys(error.message for error in errors))
    hints = list(dict.fromkeys(error.hint for error in errors if error.hint))
    if len(messages) == 1:
        return errors[0]
    lines = [f"{len(messages)} things do not fit:", *(f"  - {message}" for message in messages)]
    return UsageError("\n".join(lines), hint="\n".join(hints) or None)


def _bare(message: str, metric: str) -> str:
    for start in (f"metric {metric}: ", f"metric {metric} ", f"{metric}: "):
        if message.startswith(start):
            return message.removeprefix(start)
    return message
