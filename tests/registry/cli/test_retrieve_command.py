"""``optotype retrieve`` as it is typed."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.root import cli
from optotype.store.states import write_states

TASKS = {"i2t": ("en", "it"), "t2i": ("en", "it"), "c": ("en", "it"), "vqa": ("en",), "vg": ("en",)}


def _run(line: str) -> Result:
    return CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="optotype")


@pytest.fixture(autouse=True)
def _project(project: Path) -> None:
    """A task set and arrays under the names of the examples; queries are their truths, and each first one is gone."""
    cells = [(task, language) for task, languages in TASKS.items() for language in languages]
    queries = [(f"{task}/{language}/q{i}", task, language, f"item {i}") for task, language in cells for i in range(3)]
    offered = [(name.replace("/q", "/c"), *rest) for name, *rest in queries]
    for name, head, rows in (
        ("queries", ("query", "task", "language", "item"), queries),
        ("candidates", ("candidate", "task", "language", "item"), offered),
        ("relevance", ("query", "candidate"), [(a[0], b[0]) for a, b in zip(queries, offered, strict=True)]),
    ):
        with (project / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *rows])
    line = "optotype tasks import mmmeb --queries queries.csv --candidates candidates.csv --relevance relevance.csv"
    assert _run(line).exit_code == 0
    asked = sorted(name for name, *_ in queries if not name.endswith("q0"))
    there = sorted(name for name, *_ in offered)
    arrays = {"e5-queries": asked, "clip-images": asked, "e5-candidates": there, "clip-names": there}
    arrays["clip"] = sorted(asked + there)
    for name, ids in arrays.items():
        rows = np.eye(3, dtype=np.float32)[[int(one[-1]) for one in ids]] + np.float32(0.1)
        write_states(project / "data" / "states" / name, ids=ids, blocks=[rows], inputs={"operation": "test"})


def test_examples_run(project: Path) -> None:
    for line in cli.commands["retrieve"].examples:  # type: ignore[attr-defined]
        result = _run(line)
        assert result.exit_code == 0, result.stderr
        if "--json" in line:
            assert json.loads(result.stdout)["cells"][0]["p1"]["expected"] == pytest.approx(200 / 3)
    files = sorted(path.name for path in (project / "retrieval").iterdir())
    assert files == ["cells.csv", "languages.csv", "retrieval.json"]


def test_the_tables_for_people() -> None:
    result = _run("optotype retrieve --queries clip --candidates clip --task mmmeb --bootstrap 20 --at 1,2")
    assert result.exit_code == 0, result.stderr
    head, *lines = result.stdout.split("\n\n")[0].splitlines()
    titles = "task language queries candidates P@1 expected optimistic pessimistic interval chance"
    assert head.split() == [*titles.split(), "invalid", "queries", "invalid", "truths"]
    assert len(lines) == 8
    assert lines[0].split()[:7] == ["i2t", "en", "3", "3", "66.7", "66.7", "66.7"]
    averages = [line.split() for line in result.stdout.strip().split("\n\n")[1].splitlines()]
    assert averages[1] == ["en", "66.7", "66.7", "66.7", "66.7", "66.7", "66.7", "66.7", *["-"] * 7]
    assert averages[2][:8] == ["it", "66.7", "66.7", "66.7", "-", "-", "66.7", "-"]
    assert averages[2][8:10] == ["+0.0", "-"]  # gaps of AVG-3 and of AVG
    assert [line[0] for line in averages[1:]] == ["en", "it", "macro"]
    assert "query i2t/en/q0 (i2t, en): no embedding" in result.stderr
    assert "and 3 more without a usable vector" in result.stderr
    assert "it: the set has no vqa, vg in this language" in result.stderr


def test_json_is_one_document_and_null_what_cannot_be() -> None:
    result = _run(
        "optotype retrieve --queries clip --candidates clip --task mmmeb --unable vqa --ties optimistic --json"
    )
    document = json.loads(result.stdout)
    assert document["parameters"]["ties"] == "optimistic"
    assert document["languages"][0]["p1"]["vqa"] is None
    assert document["languages"][0]["avg"] is None
    assert len(document["invalid"]) == 7
    assert "vqa: declared as one that the model cannot do" in result.stderr
    human = _run("optotype retrieve --queries clip --candidates clip --task mmmeb --unable vqa")
    row = next(line.split() for line in human.stdout.splitlines() if line.startswith("vqa"))
    assert row == ["vqa", "en", "3", "3", *["-"] * 6]


REFUSED = [
    ("--queries clip --candidates clip --task mmmeb --at 0", 2, "whole numbers from 1"),
    ("--queries clip --candidates clip --task mmmeb --at 5,5", 2, "each once"),
    ("--queries clip --candidates clip --task mmmeb --ties first", 2, "expected"),
    ("--queries clip --candidates clip --task mmmeb --unable vq", 2, "Did you mean"),
    ("--queries clip --candidates clip --task nothing", 3, "no tasks called 'nothing'"),
    ("--queries clip --candidates nothing --task mmmeb", 3, "no states and no features called 'nothing'"),
    ("--queries clip --candidates qwen3 --task mmmeb", 4, "not of one space"),
    ("--queries clip --task mmmeb", 2, "--candidates"),
]


def test_what_is_refused(project: Path) -> None:
    _run("optotype states import qwen3 qwen3.npz")
    for words, code, said in REFUSED:
        result = _run(f"optotype retrieve {words} --out out")
        assert result.exit_code == code, result.stderr
        assert said in result.stderr
        assert not result.stdout
        assert not (project / "out").exists()
