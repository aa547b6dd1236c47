"""``optotype retrieve`` as it is typed."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from optotype.pipelines.retrieval import evaluate
from optotype.registry.cli import retrieve as retrieve_command
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
    ("--queries clip --candidates clip --task mmmeb --at 99999999999999999999", 2, "from 1 to 1,000,000"),
    ("--queries clip --candidates clip --task mmmeb --model ''", 2, "--model is empty"),
    ("--queries clip --candidates clip --task mmmeb --model 'a\tb'", 2, "control character"),
    ("--queries clip --candidates clip --task mmmeb:vg --unable vg", 2, "every task is --unable"),
    ("--queries clip --candidates clip --task mmmeb::it", 2, "NAME[:TASK[:LANGUAGE]]"),
    ("--queries clip --candidates clip --task mmmeb:i2t:it:x", 2, "NAME[:TASK[:LANGUAGE]]"),
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


def test_all_names_that_there_are_not_are_listed() -> None:
    result = _run("optotype retrieve --queries clap --queries clap --candidates e5-candidate --task mmmb")
    assert (result.exit_code, result.stdout) == (3, "")
    lines = result.stderr.splitlines()
    assert lines[0] == "Error: 3 references stand for nothing:"
    for line, name, close in zip(
        lines[1:], ("clap", "e5-candidate", "mmmb"), ("clip", "e5-candidates", "mmmeb"), strict=True
    ):
        assert f"called {name!r}" in line
        assert f"Did you mean {close!r}?" in line


def test_help_says_when_cosines_are_tied_and_what_a_gap_means() -> None:
    shown = " ".join(_run("optotype retrieve --help").stdout.split())
    for said in ("equal after rounding to 12 decimals", "count as different", "positive means worse than English"):
        assert said in shown
    assert "NAME[:TASK[:LANGUAGE]]" in shown


def test_out_is_looked_at_before_the_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(evaluate, "rank_truths", never)
    result = _run("optotype retrieve --queries clip --candidates clip --task mmmeb --out /proc/optotype-out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "/proc/optotype-out cannot be written to" in result.stderr


def test_states_with_rows_that_are_not_finite(project: Path) -> None:
    """One query's vector has a NaN: imported on demand, it counts as wrong, the rest as before."""
    ids = sorted(f"{task}/{lang}/q{i}" for task, languages in TASKS.items() for lang in languages for i in range(3))
    rows = np.eye(3, dtype=np.float32)[[int(one[-1]) for one in ids]] + np.float32(0.1)
    rows[ids.index("vg/en/q1"), 0] = np.nan
    np.savez("broken.npz", ids=np.array(ids), states=rows)
    refused = _run("optotype states import broken broken.npz")
    assert refused.exit_code == 4
    assert "--keep-invalid" in refused.stderr
    taken = _run("optotype states import broken broken.npz --keep-invalid")
    assert taken.exit_code == 0
    assert "1 row holds NaN or Inf" in taken.stderr
    result = _run("optotype retrieve --queries broken --candidates clip --task mmmeb --json")
    document = json.loads(result.stdout)
    assert [row["p_at_1"] for row in document["cells"]] == pytest.approx([100.0] * 7 + [200 / 3])
    assert document["invalid"] == [
        {"kind": "query", "id": "vg/en/q1", "task": "vg", "language": "en", "reason": "NaN or Inf"}
    ]


def test_the_largest_k_is_the_one_that_is_told() -> None:
    assert retrieve_command._MOST_K == evaluate.MOST_K
    line = "optotype retrieve --queries clip --candidates clip --task mmmeb --json --at"
    assert _run(f"{line} {evaluate.MOST_K}").exit_code == 0
    assert _run(f"{line} {evaluate.MOST_K + 1}").exit_code == 2
