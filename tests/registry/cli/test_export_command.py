"""``optotype export`` as it is typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from payloads import make_suite
from PIL import Image

from optotype.registry.cli.commands import Root
from optotype.registry.cli.export import export


@click.group(cls=Root)
@click.option("-C", "project", type=click.Path(path_type=Path))
def cli(project: Path | None) -> None:
    """The verb alone."""


cli.add_command(export)


def _run(line: str) -> Result:
    return CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="optotype")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_suite(tmp_path / "mini", {"mmvp/1": 1.0, "mmvp/2": 1.0})
    (tmp_path / "images").mkdir()
    for name in "ab":
        Image.new("RGB", (8, 8), (name == "a" and "red") or "blue").save(tmp_path / "images" / f"{name}.png")
    (tmp_path / "items.csv").write_text("item_id,question,A,B,answer,image\n1,Q,x,y,A,a.png\n2,Q,x,y,B,b.png\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", export.examples)  # type: ignore[attr-defined]
def test_example(line: str) -> None:
    result = _run(line)
    assert result.exit_code == 0, result.stderr
    assert Path(shlex.split(line)[5]).exists()
    again = _run(f"{line} --json")
    assert again.exit_code == 0, again.stderr
    assert json.loads(again.stdout)["items"] == 2


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("optotype export mini --to pdf x", 2, "'pdf' is not one of"),
        ("optotype export mini --to ids x --base-task mmvp", 2, "written BENCHMARK"),
        ("optotype export mini --to lmms-eval x --base-task mmvp=a/a.yaml --base-task mmvp=b/b.yaml", 2, "given twice"),
        ("optotype export other@1.0.0 --to ids x", 3, "optotype"),
        ("optotype export mini --to vlmevalkit x", 4, "no text of the question"),
        ("optotype export mini --to lmms-eval images --base-task mmvp=a/a.yaml", 6, "in the way"),
    ],
)
def test_refusals_leave_nothing(line: str, code: int, message: str) -> None:
    result = _run(line)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert not result.stdout
    assert not Path("x").exists()
