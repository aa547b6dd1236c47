"""``optotype catalog build``."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.catalog import catalog
from optotype.registry.cli.commands import Root


@pytest.fixture
def project(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(published, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def run(*words: str) -> Result:
    """The verb under a root of its own, which turns errors into exit codes."""
    root = Root("optotype", params=[click.Option(["-C", "project"], type=click.Path(path_type=Path))])
    root.add_command(catalog)
    return CliRunner().invoke(root, ["catalog", *words], prog_name="optotype")


def test_examples_run(project: Path) -> None:
    lines = [line for command in (catalog, *catalog.commands.values()) for line in getattr(command, "examples", ())]
    assert len(set(lines)) == 2
    for line in dict.fromkeys(lines):
        result = run(*shlex.split(line)[2:])
        assert result.exit_code == 0, result.stderr
        assert (project / "site/index.html").is_file()
        assert line in run("build", "--help").stdout


def test_json_is_one_document(project: Path) -> None:
    result = run("build", "out", "--title", "Ours", "--json")
    written = json.loads(result.stdout)
    assert written["index"] == "out/index.html"
    assert (written["title"], written["versions"], written["names"], written["notes"]) == ("Ours", 8, 5, [])
    assert written["comparisons"] == 4
    assert written["files"] == sum(path.is_file() for path in (project / "out").rglob("*"))
    assert "<title>Ours</title>" in (project / "out/index.html").read_text()


def test_words_go_to_stderr_and_the_page_to_stdout(project: Path) -> None:
    shutil.rmtree(project / "artifacts/pairs/drawings/0.1.0/payload")
    result = run("build", "out")
    assert result.stdout == "out/index.html\n"
    assert "8 version(s) of 5 name(s), 4 comparison(s)" in result.stderr
    assert "pairs/drawings@0.1.0: " in result.stderr


def test_what_is_in_the_way_is_refused(project: Path) -> None:
    result = run("build", ".optotype")
    assert result.exit_code == 6
    assert "in the way" in result.stderr
    assert run("build", "artifacts/site").exit_code == 2
    assert run("build", "..").exit_code == 2
