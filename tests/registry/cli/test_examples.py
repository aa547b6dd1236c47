"""The examples in the help run as they stand, in a project that has what they name."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from optotype.registry.cli.reference import commands
from optotype.registry.cli.root import cli

_ALL = sorted({line for _, command in commands() for line in getattr(command, "examples", ())})
# What these need is a model, a download, or the pairs of the default project; their words are parsed elsewhere.
# `init` sets up DVC, which takes seconds: test_init.py does that once with git and once without.
_NEED_MORE = ("optotype encode ", "optotype emoji ", "optotype report ", "optotype init")
_RUNNABLE = [line for line in _ALL if not line.startswith(_NEED_MORE)]


def test_most_examples_are_run() -> None:
    assert len(_RUNNABLE) >= 15
    verbs = {" ".join(line.split()[1:3]) for line in _RUNNABLE}
    assert {"features import", "features export", "states list", "neighbours build", "rank --features"} <= verbs


@pytest.mark.parametrize("line", _RUNNABLE)
def test_example(line: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)[1:]
    runner = CliRunner()
    if "import" not in words:
        for kind, names in (("features", ("siglip", "dinov2")), ("states", ("qwen3", "smollm2"))):
            for name in names:
                taken = runner.invoke(cli, [kind, "import", name, f"{name}.npz"], prog_name="optotype")
                assert taken.exit_code == 0, taken.stderr
    if "-C" in words:
        monkeypatch.chdir(project.parent)
    result = runner.invoke(cli, words, prog_name="optotype")
    assert result.exit_code == 0, result.stderr
    assert result.stdout
