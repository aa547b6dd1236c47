"""``optotype tasks import|list|show|export``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.reference import commands
from optotype.registry.cli.root import cli
from optotype.registry.tasks import export_tasks, import_tasks, show_tasks, tasks_rows
from optotype.store.project import Project


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="optotype")


def _json(*arguments: str) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def file(project: Path) -> str:
    captions = {"a": "A cat.", "b": "A dog.", "c": "A car."}
    rows = [{"img": name, "captions": [text, *captions.values()]} for name, text in captions.items()]
    lines = [json.dumps(row) for row in rows]
    (project / "xtd_en_3_formatted_i2t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return "xtd_en_3_formatted_i2t.jsonl"


def test_import_list_show_export(project: Path, file: str) -> None:
    taken = _json("tasks", "import", "xtd", file)
    (cell,) = taken.pop("cells")
    assert (cell["task"], cell["language"], cell["queries"], cell["candidates"]) == ("i2t", "en", 3, 3)
    (listed,) = _json("tasks", "list")
    assert listed == taken
    assert (listed["path"], listed["tasks"], listed["error"]) == ("data/tasks/xtd", ["i2t"], None)
    shown = _json("tasks", "show", "xtd")
    assert shown.items() >= listed.items()
    assert shown["cells"] == [cell]
    assert shown["inputs"]["left_out"] == {"candidate again in its list": 3}
    assert _json("tasks", "show", "./data/tasks/xtd")["digest"] == listed["digest"]
    written = _json("tasks", "export", "xtd", "--out", "tables out")
    assert written["files"] == {
        "queries.csv": 3,
        "candidates.csv": 3,
        "relevance.csv": 3,
        "query-images.csv": 3,
        "candidate-texts.csv": 3,
    }
    again = _json(*shlex.split(written["import"].replace("NAME", "again"))[1:])
    assert again["digest"] == listed["digest"]
    assert _run("tasks", "export", "xtd", "--out", "tables out").exit_code == 6
    forced = _run("tasks", "export", "xtd", "--out", "tables out", "--force")
    assert "tables out/queries.csv  3 rows" in forced.stdout.splitlines()


def test_for_people(project: Path, file: str) -> None:
    empty = _run("tasks", "list")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "optotype tasks import NAME PATH" in empty.stderr
    taken = _run("tasks", "import", "xtd", file)
    head, row = taken.stdout.splitlines()
    assert head.startswith("task  language  queries  items  candidates  lists  a list  relevant  duplicates")
    assert row.split() == ["i2t", "en", "3", "3", "3", "1", "3", "1.00", "0.0", "%"]
    assert "left out: 3 x candidate again in its list" in taken.stderr
    assert "languages taken from the names of files: en (xtd_en_3_formatted_i2t.jsonl)" in taken.stderr
    assert "the same data was there already" in _run("tasks", "import", "xtd", file).stderr
    assert _run("tasks", "list").stdout.splitlines()[1].split()[:6] == ["xtd", "i2t", "en", "3", "3", "1"]
    shown = _run("tasks", "show", "xtd").stdout
    assert row in shown
    assert _json("tasks", "list")[0]["digest"] in shown
    (project / "data" / "tasks" / "xtd" / "zarr.json").write_text("{}")
    damaged = _run("tasks", "list")
    assert damaged.exit_code == 0
    assert "damaged" in damaged.stdout
    assert "xtd cannot be read" in damaged.stderr


def test_refusals(project: Path, file: str) -> None:
    Path("bad.jsonl").write_text('{"img": 1, "captions": ["a", "b"]}\n{"captions": 3}\n', encoding="utf-8")
    result = _run("tasks", "import", "bad", "bad.jsonl", "--language", "en", "--json")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "bad.jsonl:1" in result.stderr
    assert "bad.jsonl:2" in result.stderr
    assert _run("tasks", "import", "Bad Name", file).exit_code == 2
    assert _run("tasks", "import", "none").exit_code == 2
    missing = _run("tasks", "show", "xtd")
    assert missing.exit_code == 3
    assert "optotype tasks import" in missing.stderr


def test_the_functions_behind_the_verbs(project: Path, file: str) -> None:
    """The same from Python, the project being the one around the working directory."""
    row = import_tasks(None, "xtd", [file], track=False)
    found = Project.find()
    assert [entry["digest"] for entry in tasks_rows(found)] == [row["digest"]]
    assert show_tasks(None, "./data/tasks/xtd")["digest"] == row["digest"]
    assert "queries.csv" in export_tasks(found, "xtd", project / "out")["files"]


def test_examples_of_the_help(project: Path, file: str) -> None:
    """Every example runs as it stands once its files are there; those that import come first."""
    lines = Path(file).read_text(encoding="utf-8")
    Path("xtd_en_1000_formatted_i2t.jsonl").write_text(lines, encoding="utf-8")
    Path("xtd_it_1000_formatted_i2t.jsonl").write_text(lines, encoding="utf-8")
    Path("mscoco_t2i_info.jsonl").write_text('{"cand_names": ["a", "b"], "label_name": "a"}\n', encoding="utf-8")
    Path("q.csv").write_text("query,task,language\nq,t2i,en\n", encoding="utf-8")
    Path("c.csv").write_text("candidate\na\nb\n", encoding="utf-8")
    Path("r.csv").write_text("query,candidate\nq,a\n", encoding="utf-8")
    examples = {line for _, command in commands() for line in getattr(command, "examples", ())}
    mine = sorted(
        (line for line in examples if line.startswith("optotype tasks ")), key=lambda line: " import " not in line
    )
    assert len(mine) >= 8
    for line in mine:
        words = shlex.split(line)[1:]
        if words[1] == "export" and "--force" not in words:
            words[words.index("--out") + 1] = "elsewhere"
        result = _run(*words)
        assert result.exit_code == 0, (line, result.stderr)
