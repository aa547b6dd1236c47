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
# What is published takes a git repository and versions of it, what is exported a suite: registry/artifacts/
# test_commands.py, test_pins_command.py, test_export_command.py and test_place_command.py run each of these.
_PUBLISHED = ("publish", "list", "show", "diff", "verify", "yank", "alias", "pin", "pull", "update", "export", "place")
_NEED_MORE += tuple(f"optotype {verb}" for verb in _PUBLISHED)
# Files of retrieval tasks: test_tasks_command.py runs these.
_NEED_MORE += ("optotype tasks ",)
# Retrieval takes tasks and embeddings: test_retrieve_command.py runs these.
_NEED_MORE += ("optotype retrieve",)
# These need a pair suite: test_pair_scores_command.py runs them.
_NEED_MORE += ("optotype pairs score", "optotype pairs match", "optotype pairs correlate")
# Downstream scores and a ranking with sweeps: test_judgements.py runs these.
_NEED_MORE += ("optotype judge",)
_RUNNABLE = [line for line in _ALL if not line.startswith(_NEED_MORE)]


_SET_UP = [
    *(["features", "import", name, f"{name}.npz"] for name in ("siglip", "dinov2", "clip-l14", "dinov2-l14")),
    *(["states", "import", name, f"{name}.npz"] for name in ("qwen3", "smollm2")),
    ["embeddings", "import", "clip", "clip-items.npz"],
    ["scores", "import", "panel", "scores.csv", "--items", "items.csv", "--models", "models.csv"],
]
_OF_PANELS = ("scores", "embeddings", "compress", "frontier", "evaluate")


def test_most_examples_are_run() -> None:
    assert len(_RUNNABLE) >= 15
    verbs = {" ".join(line.split()[1:3]) for line in _RUNNABLE}
    assert {
        "features import",
        "features export",
        "features mix",
        "states list",
        "neighbours build",
        "rank --features",
        "scores import",
        "compress panel",
        "evaluate panel",
    } <= verbs


@pytest.mark.parametrize("line", _RUNNABLE)
def test_example(line: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(line)[1:]
    runner = CliRunner()
    if "import" not in words:
        for needed in _SET_UP:
            if words[0] == needed[0] or (words[0] in _OF_PANELS) == (needed[0] in _OF_PANELS):
                taken = runner.invoke(cli, needed, prog_name="optotype")
                assert taken.exit_code == 0, taken.stderr
    if "-C" in words:
        monkeypatch.chdir(project.parent)
    result = runner.invoke(cli, words, prog_name="optotype")
    assert result.exit_code == 0, result.stderr
    assert result.stdout
