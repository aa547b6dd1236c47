"""Exceptions as messages and exit codes: what went wrong and what to type next, never a traceback."""

from __future__ import annotations

import errno
import os
import traceback

import click

from optotype.schemas.errors import ExternalError, MissingPackageError, NotFoundError, OptotypeError

__all__ = ["INTERNAL_ERROR", "INTERRUPTED", "REPORT_AT", "Failure", "as_failure"]

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells report it
REPORT_AT = "https://github.com/optotype/optotype/issues"


class Failure(click.ClickException):
    """A message for people and a code for programs."""

    def __init__(self, message: str, exit_code: int, *, debug: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click holds it per class, we per error class of ours
        self.debug = debug

    def show(self, file: object = None) -> None:
        """Print to stderr, always: with ``--json`` too, stdout then holds nothing."""
        if self.debug:
            click.echo(self.debug, err=True)
        click.echo(self.format_message(), err=True)


def as_failure(error: BaseException) -> Failure:
    """The failure that ``error`` is reported as.

    The traceback comes along only where the environment sets ``OPTOTYPE_DEBUG``.
    """
    debug = "".join(traceback.format_exception(error)) if os.environ.get("OPTOTYPE_DEBUG", "0") not in ("", "0") else ""
    if isinstance(error, KeyboardInterrupt):
        return Failure("Interrupted.", INTERRUPTED, debug=debug)
    known = _known(error)
    if known is not None:
        hint = "" if known.hint is None else f"\nHint: {known.hint}"
        return Failure(f"Error: {known.message}{hint}", known.exit_code, debug=debug)
    first_line = next(iter(str(error).splitlines()), "")
    what = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    more = "" if debug else " OPTOTYPE_DEBUG=1 shows where it happened."
    return Failure(f"Internal error: {what}. Please report it: {REPORT_AT}{more}", INTERNAL_ERROR, debug=debug)


def _known(error: BaseException) -> OptotypeError | None:
    """``error`` as one of ours if it tells something about the user's data or machine, None if it tells of a bug."""
    if isinstance(error, OptotypeError):
        return error
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in ("", "optotype"):
            return None
        return MissingPackageError(f"the package {package!r} is not installed", hint=f"pip install {package}")
    if isinstance(error, MemoryError):
        return ExternalError(f"not enough memory{f' ({error})' if str(error) else ''}")
    if isinstance(error, OSError):
        return _operating_system(error)
    return None


def _operating_system(error: OSError) -> OptotypeError:
    """What the operating system refused, in words."""
    where = f": {error.filename}" if error.filename is not None else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ExternalError(
            f"no space left on the disk{where}",
            hint="Free some space and run the same command again; what was there before is unchanged.",
        )
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"no such file or folder{where}")
    if isinstance(error, PermissionError):
        return ExternalError(f"permission denied{where}", hint="Check who owns it: ls -ld")
    if error.errno == errno.EROFS:
        return ExternalError(f"the file system is read-only{where}")
    return ExternalError(f"{error.strerror or error}{where}")
