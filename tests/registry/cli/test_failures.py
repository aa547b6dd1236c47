"""Exceptions become a message on stderr and an exit code; never a traceback."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.commands import Root
from optotype.registry.cli.root import cli
from optotype.schemas import errors
from optotype.schemas.errors import InvalidDataError, OptotypeError, Problem


def _raise(error: BaseException, *arguments: str) -> Result:
    """What the command line does with a verb that raises ``error``."""
    root = Root("optotype")

    @root.command()
    @click.option("--json", "as_json", is_flag=True)
    def verb(as_json: bool) -> None:
        raise error

    return CliRunner().invoke(root, ["verb", *arguments], prog_name="optotype")


def _leaves(parent: type[OptotypeError]) -> list[type[OptotypeError]]:
    return [leaf for child in parent.__subclasses__() for leaf in [child, *_leaves(child)]]


@pytest.mark.parametrize("kind", _leaves(OptotypeError), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["table", "json"])
def test_each_kind_of_error_has_its_exit_code(kind: type[OptotypeError], arguments: tuple[str, ...]) -> None:
    error: OptotypeError
    if kind is InvalidDataError:
        error = InvalidDataError("two things", [Problem("ids", "a", "first"), Problem("row_size", "b", "second")])
    else:
        error = kind("what came", hint="optotype init")
    result = _raise(error, *arguments)
    assert result.exit_code == kind.exit_code
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    expected = ["first", "second"] if kind is InvalidDataError else ["what came", "Hint: optotype init\n"]
    assert all(text in result.stderr for text in expected)


def test_exit_codes_are_distinct_and_leave_room_for_the_shell() -> None:
    codes = [kind.exit_code for kind in _leaves(OptotypeError)]
    assert sorted(codes) == sorted(set(codes))
    assert all(2 <= code < 64 for code in codes)
    assert errors.UsageError.exit_code == click.UsageError.exit_code


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/x"), 10, "no space left on the disk: /data/x"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/data/x"), 10, "permission denied: /data/x"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "/data/x"), 10, "read-only: /data/x"),
        (FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x.npz"), 3, "no such file or folder: x.npz"),
        (ConnectionResetError(errno.ECONNRESET, "reset by peer"), 10, "reset by peer"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 10, "Broken pipe"),
        (MemoryError(), 10, "not enough memory"),
        (ModuleNotFoundError("No module named 'gguf'", name="gguf"), 9, "pip install gguf"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_the_machine_refuses_is_said_in_words(error: Exception, code: int, says: str) -> None:
    result = _raise(error)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "error", [ValueError("first line\nsecond line"), KeyError("x"), ModuleNotFoundError("no", name="optotype.nothing")]
)
def test_a_bug_is_one_line_that_says_where_to_report_it(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPTOTYPE_DEBUG", raising=False)
    result = _raise(error, "--json")
    assert (result.exit_code, result.stdout) == (70, "")
    assert len(result.stderr.splitlines()) == 1
    assert type(error).__name__ in result.stderr
    assert "/issues" in result.stderr


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTOTYPE_DEBUG", "1")
    result = _raise(ValueError("first line"))
    assert result.exit_code == 70
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Internal error: ValueError: first line.")


def test_interrupt_is_130() -> None:
    result = _raise(KeyboardInterrupt())
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted.\n")


_SLOW = """
import sys, time
from optotype.registry.cli import root
from optotype.store import project

def find(start=None):
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)

project.Project.find = find
root.cli.main(["features", "list"], prog_name="optotype")
"""


def test_ctrl_c_in_a_real_process() -> None:
    # A shell starts what it runs in the background with SIGINT ignored, and children inherit that.
    at_ease = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    command = [sys.executable, "-c", at_ease + _SLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "Interrupted.\n")


_LONG_OUTPUT = """
from optotype.registry.cli import features, output, root

@root.cli.command()
def long():
    for _ in range(100_000):
        output.emit("x" * 80)

root.cli.main(["long"], prog_name="optotype")
"""


def test_a_reader_that_leaves_ends_the_run_without_a_word() -> None:
    command = [sys.executable, "-c", _LONG_OUTPUT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "x" * 80 + "\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=30) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full is Linux's")
def test_a_full_disk_behind_stdout_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", _LONG_OUTPUT],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 10
    assert done.stderr.startswith("Error: no space left on the disk")
    assert "Traceback" not in done.stderr


_NAMES = """
from optotype.registry.cli import output, root

@root.cli.command()
def names():
    output.emit("\\u2603 \\udc80")
    output.emit_json(["\\u2603 \\udc80"])

root.cli.main(["names"], prog_name="optotype")
"""


@pytest.mark.parametrize(("encoding", "word"), [("latin-1", r"\u2603"), ("utf-8", "\u2603")])
def test_an_id_that_the_terminal_cannot_spell_is_printed_all_the_same(encoding: str, word: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", _NAMES], capture_output=True, check=True, timeout=30, env=environment)
    text, *document = done.stdout.decode(encoding).splitlines()
    assert text == rf"{word} \udc80"
    assert json.loads("\n".join(document)) == ["\u2603 \udc80"]


_ENCODE = ["encode", "images", "a", "--images", "i", "--source", "s"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnk"], "Did you mean 'rank'?"),
        (["features", "lst"], "Did you mean 'list'?"),
        (["states", "zzz"], "There are: export, import, list, show."),
        (["rank", "--prenorm-feature", "l2"], "'--prenorm-features'"),
        (["rank", "--features", "a", "--states", "b", "--metric", "ravell"], "Did you mean 'ravel'?"),
        (["rank", "--features", "a", "--states", "b", "-k", "0"], "'-k' / '--k'"),
        (["rank", "--features", "a", "--states", "b", "-k", "ten"], "'-k' / '--k'"),
        (["rank", "--features", "a", "--states", "b", "-k", "nan"], "'-k' / '--k'"),
        (["rank", "--features", "a", "--states", "b", "--eps", "nan"], "finite number above 0"),
        (["rank", "--features", "a", "--states", "b", "--eps", "inf"], "finite number above 0"),
        (["rank", "--features", "a", "--states", "b", "--eps", "0"], "finite number above 0"),
        (["rank", "--features", "a", "--states", "b", "--eps", "-1e-4"], "finite number above 0"),
        (["rank", "--features", "a", "--states", "b", "--null", "-1"], "'--null'"),
        (["rank", "--features", "a", "--states", "b", "--all-prenorms", "--prenorm-states", "l2"], "--prenorm-states"),
        (["rank", "--states", "b"], "'--features'"),
        (["rank", "-C", "x"], "optotype -C PROJECT rank"),
        (["features", "list", "-C", "x"], "optotype -C PROJECT features list"),
        (["encode", "images", "a", "--images", "i", "--source", "s", "--layers", "8,x"], "'x' is not a layer"),
        (["encode", "images", "a", "--images", "i", "--source", "s", "--layers", "8,"], "'' is not a layer"),
        (
            ["encode", "images", "a", "--images", "i", "--source", "s", "--layers", "8", "--layer", "8"],
            "given twice: 8",
        ),
        (["-C", "x", "init", "y"], "give it once"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_say_what_was_meant(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(cli, arguments, prog_name="optotype")
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert "Try 'optotype" in result.stderr or "Usage: optotype" in result.stderr
