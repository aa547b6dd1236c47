"""What the README tells people to type works as written."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from panels import write_panel_files

from optotype.registry.cli.root import cli as root

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.M | re.S)
COMMANDS = [
    line.split("#")[0].strip() for _, text in FENCES for line in text.splitlines() if line.startswith("optotype ")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the README names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    generator = np.random.default_rng(0)
    ids = np.array([f"p{i:03}" for i in range(120)])
    np.savez(tmp_path / "patches.npz", ids=ids, patches=generator.standard_normal((120, 4, 8), dtype=np.float32))
    np.savez(tmp_path / "states.npz", ids=ids, states=generator.standard_normal((120, 16), dtype=np.float32))
    write_panel_files(tmp_path)
    return tmp_path


def test_every_command_is_one_there_is() -> None:
    assert len(COMMANDS) > 6
    for command in COMMANDS:
        words = shlex.split(command)[1:]
        node, context = root, root.make_context("optotype", [], resilient_parsing=True)
        while words and hasattr(node, "commands") and words[0] in node.commands:
            node = node.commands[words.pop(0)]
        assert not hasattr(node, "commands"), f"{command}: no such verb"
        node.make_context(command, words, parent=context)  # parses every option; runs nothing


def test_commands_with_own_arrays_and_python_run_as_written(folder: Path) -> None:
    run = CliRunner()
    for command in COMMANDS[: COMMANDS.index("optotype rank --features my-encoder --states my-llm") + 1]:
        done = run.invoke(root, shlex.split(command)[1:])
        assert done.exit_code == 0, f"{command}\n{done.output}{done.exception}"
    names = _run_python(0)
    assert names["rows"][0]["k"] == 50
    assert names["patches"].dims == ("token", "channel")


def test_commands_with_own_scores_and_python_run_as_written(folder: Path) -> None:
    run = CliRunner()
    start = COMMANDS.index("optotype scores import panel scores.csv --items items.csv --models models.csv")
    some = ["optotype init", *COMMANDS[start:]]
    for command in some[: [line.split()[1] for line in some].index("evaluate") + 1]:
        done = run.invoke(root, shlex.split(command)[1:])
        assert done.exit_code == 0, f"{command}\n{done.output}{done.exception}"
    assert (folder / "suite" / "items.parquet").is_file()
    names = _run_python(1)
    assert names["suite"]["stages"][-1]["stage"] == 2
    assert names["scores"].dims == ("model", "item")


def _run_python(number: int) -> dict[str, Any]:
    """Runs one of the README's Python blocks; the names it leaves."""
    code = [text for language, text in FENCES if language == "python"][number]
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    return names


def test_table_is_what_the_committed_run_gave() -> None:
    with (ROOT / "data" / "ranking" / "scores.csv").open(encoding="utf-8", newline="") as file:
        scores = {(row["encoder"], row["model"]): f"{float(row['score']):.3f}" for row in csv.DictReader(file)}
    part = README.split("<!-- ranking -->")[1].split("<!-- /ranking -->")[0]
    head, _, *lines = [re.split(r"\s*\|\s*", line)[1:-1] for line in part.splitlines() if line.startswith("|")]
    shown = {
        (line[0], model): cell.split()[0] for line in lines for model, cell in zip(head[1:], line[1:], strict=True)
    }
    assert shown == scores


def test_suite_is_what_the_committed_run_gave() -> None:
    metrics = json.loads((ROOT / "data" / "suite" / "metrics.json").read_text(encoding="utf-8"))
    part = README.split("<!-- suite -->")[1].split("<!-- /suite -->")[0]
    _, _, *lines = [re.split(r"\s*\|\s*", line)[1:-1] for line in part.splitlines() if line.startswith("|")]
    shown = [line[1:] for line in lines]
    counts = ("items_out", "benchmarks_out", "categories_out")
    assert shown == [
        [*(str(stage[name]) for name in counts), f"{stage['rho']:.3f}", f"{stage['rho_to_reference']:.3f}"]
        for stage in metrics.values()
    ]


def test_retrieval_is_what_the_committed_run_gave() -> None:
    with (ROOT / "data" / "retrieval" / "by-language.csv").open(encoding="utf-8", newline="") as file:
        expected = {
            (f"{row['language_model']}, {row['task']}", row["language"]): f"{float(row['p_at_1']):.1f}"
            for row in csv.DictReader(file)
            if row["style"] == "plain"
        }
    part = README.split("<!-- retrieval -->")[1].split("<!-- /retrieval -->")[0]
    head, _, *lines = [re.split(r"\s*\|\s*", line)[1:-1] for line in part.splitlines() if line.startswith("|")]
    shown = {(line[0], language): cell for line in lines for language, cell in zip(head[1:], line[1:], strict=True)}
    assert shown == expected
