"""Help, version and usage errors load nothing but click and the standard library; nor does ``import optotype``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from optotype.registry.cli.root import cli

# The libraries that cost a noticeable time to import. The test below allows none but click; the message names these.
HEAVY = {"torch", "transformers", "dask", "distributed", "xarray", "zarr", "pandas", "scipy", "pandera", "dvc"}
HEAVY |= {"numpy", "rich", "matplotlib"}

# Runs one command line in a fresh interpreter and prints the top-level names of all modules that it loaded beyond those
# that a bare interpreter of this environment has (the environment's own .pth files load some).
_PROBE = """
import sys
before = set(sys.modules)
import io, json, runpy, contextlib
captured = io.StringIO()
sys.argv = ["optotype", *json.loads(sys.argv[1])]
code = 0
with contextlib.redirect_stdout(captured), contextlib.redirect_stderr(captured):
    try:
        runpy.run_module("optotype", run_name="__main__", alter_sys=True)
    except SystemExit as leave:
        code = leave.code or 0
tops = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps({"code": code, "output": captured.getvalue(), "loaded": sorted(tops)}))
"""


def _commands(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _commands(child, (*path, name))


def _run(arguments: list[str]) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(arguments)], capture_output=True, text=True, check=True, timeout=60
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def _foreign(loaded: object) -> set[str]:
    assert isinstance(loaded, list)
    return set(loaded) - sys.stdlib_module_names - {"optotype", "click", "__main__"}


def test_every_verb_is_walked() -> None:
    paths = {" ".join(path) for path in _commands()}
    assert {"", "rank", "features import", "states export", "encode images", "neighbours build"} <= paths


@pytest.mark.parametrize("path", list(_commands()), ids=lambda path: " ".join(path) or "optotype")
def test_help_loads_click_and_the_standard_library_alone(path: tuple[str, ...]) -> None:
    result = _run([*path, "--help"])
    assert result["code"] == 0
    assert str(result["output"]).startswith(" ".join(["Usage: optotype", *path]))
    foreign = _foreign(result["loaded"])
    assert not foreign, f"--help loads {sorted(foreign)}; heavy ones: {sorted(foreign & HEAVY)}"


@pytest.mark.parametrize("arguments", [["--version"], ["rnk"], ["rank"], ["rank", "--metrik", "ravel"]], ids=" ".join)
def test_version_and_usage_errors_load_no_more(arguments: list[str]) -> None:
    result = _run(arguments)
    assert result["code"] == (0 if arguments == ["--version"] else 2)
    assert not _foreign(result["loaded"])


@pytest.mark.parametrize("command", [["optotype"], ["python", "-m", "optotype"]], ids=" ".join)
def test_installed_command_and_module_print_the_same_help(command: list[str]) -> None:
    """What ``-X importtime`` lists for the real entry points, not for the probe."""
    script = "from optotype.__main__ import main; main()"  # what the installed command consists of
    start = ["-m", "optotype"] if command[0] == "python" else ["-c", script]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *start, "--help"], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert done.stdout.startswith("Usage: optotype [OPTIONS] COMMAND")
    assert {"click", "optotype.registry.cli.rank"} <= loaded
    assert not {name for name in loaded if name.partition(".")[0] in HEAVY}


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import optotype; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    tops = {name.partition(".")[0] for name in done.stdout.split()}
    assert "optotype" in tops
    assert not tops - sys.stdlib_module_names - {"optotype"}
