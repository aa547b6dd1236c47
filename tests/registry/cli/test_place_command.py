"""``optotype place`` as it is typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from payloads import make_suite

from optotype.registry.cli.commands import Root
from optotype.registry.cli.place import place


@click.group(cls=Root)
@click.option("-C", "project", type=click.Path(path_type=Path))
def cli(project: Path | None) -> None:
    """The verb alone."""


cli.add_command(place)


def _run(line: str) -> Result:
    return CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="optotype")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_suite(tmp_path / "mini", {"mmvp/1": 1.0, "mmvp/2": 1.0})
    rows = [f"m{i},{i / 12},1,0,0,{i / 10},1" for i in range(1, 11)]
    head = "model,score_all,rank_all,score_reference,rank_reference,score_compressed,rank_compressed"
    (tmp_path / "mini" / "models.csv").write_text("\n".join([head, *rows]) + "\n")
    (tmp_path / "results.csv").write_text("benchmark,item_id,model,score\nmmvp,1,new,1\nmmvp,2,new,0\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", place.examples)  # type: ignore[attr-defined]
def test_example(line: str) -> None:
    result = _run(line)
    assert result.exit_code == 0, result.stderr
    assert "new" in result.stdout
    if "--json" in line:
        (row,) = json.loads(result.stdout)["models"]
        assert (row["score"], row["rank"], row["among"]) == (0.5, 6.5, 11)
        assert row["estimate"]["value"] == pytest.approx(5 / 12)
    else:
        assert "0.417" in result.stdout


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("optotype place mini", 2, "RESULTS"),
        ("optotype place mini results.csv --level 1", 2, "--level"),
        ("optotype place mini nothing.csv", 3, "nothing.csv"),
        ("optotype place mini results.csv --benchmark mmvp=x", 2, "no benchmark 'x'"),
        ("optotype place mini results.csv --panel nowhere", 3, "project"),
    ],
)
def test_refusals(line: str, code: int, message: str) -> None:
    result = _run(line)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert not result.stdout
