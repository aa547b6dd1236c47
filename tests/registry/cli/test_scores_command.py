"""``optotype scores``: what is typed, printed and refused."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from optotype.registry import panels
from optotype.registry.cli.commands import Root
from optotype.registry.cli.scores import scores
from optotype.store.project import Project

SCORES = """benchmark,item_id,model,score,modality,response
mmvp,1,a,1,,(A)
mmvp,1,b,0,,(Z)
mmvp,2,a,0.5,,
mmvp,1,a,1,blind,
"""


@pytest.fixture
def files(project: Path) -> Path:
    (project / "scores.csv").write_text(SCORES, encoding="utf-8")
    (project / "blind1.csv").write_text("benchmark,item_id,model,score\nmmvp,2,a,0\n", encoding="utf-8")
    (project / "blind2.csv").write_text("benchmark,item_id,model,score\nmmvp,2,b,1\n", encoding="utf-8")
    (project / "items.csv").write_text("benchmark,item_id,category\nmmvp,2,c\nmmvp,1,c\nmmvp,3,c\n", encoding="utf-8")
    (project / "models.csv").write_text("model,family\na,f\nb,g\n", encoding="utf-8")
    return project


def run(*words: str) -> Result:
    @click.group(cls=Root)
    def cli() -> None:
        pass

    cli.add_command(scores)
    return CliRunner().invoke(cli, ["scores", *words], prog_name="optotype")


def ok(*words: str) -> Result:
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    return result


def test_import_show_list(files: Path) -> None:
    words = ["--items", "items.csv", "--models", "models.csv", "--invalid-response", r"\(Z\)", "--scale", "mmvp=0:1"]
    row = json.loads(ok("import", "mini", "scores.csv", *words, "--json").stdout)
    assert (row["name"], row["path"], row["scores"], row["blind_scores"]) == ("mini", "data/scores/mini", 2, 1)
    assert row["invalid"] == {"mmvp": {"b": {r"response matches \(Z\)": 1}}}
    assert row["ignored_items"] == 1
    (listed,) = json.loads(ok("list", "--json").stdout)
    assert (listed["models"], listed["items"], listed["parts"], listed["error"]) == (2, 2, 1, None)
    shown = json.loads(ok("show", "mini", "--json").stdout)
    (benchmark,) = shown["benchmarks"]
    assert (benchmark["coverage"], benchmark["mean"], benchmark["blind_models"]) == (0.5, 0.75, 1)
    assert "mini" in ok("list").stdout
    text = ok("show", "data/scores/mini").stdout
    assert "mmvp" in text
    assert "0.750" in text
    assert json.loads(ok("show", "./data/scores/mini", "--json").stdout)["path"] == "data/scores/mini"


def test_blind_takes_all_paths_up_to_the_next_option(files: Path) -> None:
    row = json.loads(ok("import", "mini", "scores.csv", "--blind", "blind1.csv", "blind2.csv", "--json").stdout)
    assert row["blind_scores"] == 3
    row = json.loads(ok("import", "mini", "--json", "--blind", "blind1.csv", "--blind", "blind2.csv").stdout)
    assert (row["new_blind_scores"], row["repeats"]) == (0, 2)
    assert run("import", "mini", "scores.csv", "--blind").exit_code == 2
    assert run("import", "mini").exit_code == 2
    assert "PATH" in run("import", "mini").stderr


def test_notes_are_on_stderr_and_json_alone_on_stdout(files: Path) -> None:
    text = SCORES + "mmvp,1,a,1,no_info,\n"
    (files / "scores.csv").write_text(text, encoding="utf-8")
    result = ok("import", "mini", "scores.csv", "--json")
    json.loads(result.stdout)
    assert "no_info (1)" in result.stderr
    assert "2 models" not in result.stdout
    assert "models" in ok("import", "mini", "scores.csv").stdout


def test_refusals_have_no_traceback(files: Path) -> None:
    (files / "bad.csv").write_text(SCORES.replace("0.5", "7"), encoding="utf-8")
    result = run("import", "mini", "bad.csv")
    assert result.exit_code == 4
    assert "off the scale 0:1" in result.stderr
    assert "Traceback" not in result.stderr
    assert run("import", "Mini", "scores.csv").exit_code == 2
    assert run("import", "mini", "none.csv").exit_code == 3
    assert run("import", "mini", "scores.csv", "--scale", "mmvp").exit_code == 2
    assert run("show", "mini").exit_code == 3
    assert not (files / "data" / "scores" / "mini").exists()


def test_export(files: Path) -> None:
    ok("import", "mini", "scores.csv")
    row = json.loads(ok("export", "mini", "out.csv", "--json").stdout)
    assert (row["files"], row["rows"]) == (["out.csv", "out.items.csv", "out.models.csv"], 4)
    refused = run("export", "mini", "out.csv")
    assert refused.exit_code == 6
    assert "--force" in refused.stderr
    ok("export", "mini", "out.csv", "--force")
    assert "out" in ok("export", "mini", "out", "--format", "zarr").stdout
    assert run("export", "mini", "out.xyz").exit_code == 2
    ok("import", "copy", "out.csv", "--items", "out.items.csv", "--models", "out.models.csv")
    first, second = json.loads(ok("list", "--json").stdout)
    assert {**first, "name": "", "path": "", "digest": ""} == {**second, "name": "", "path": "", "digest": ""}


def test_a_damaged_panel_is_listed_with_what_is_wrong(files: Path) -> None:
    ok("import", "mini", "scores.csv")
    (files / "data" / "scores" / "mini" / "panel.json").write_text("{", encoding="utf-8")
    (row,) = json.loads(ok("list", "--json").stdout)
    assert "not a JSON" in row["error"]
    assert row["scores"] is None
    result = ok("list")
    assert "damaged" in result.stdout
    assert "cannot be read" in result.stderr


def test_the_api_finds_the_project_and_names_do_not_become_bundles(files: Path) -> None:
    row = panels.import_scores(None, "mini", [files / "scores.csv"])
    assert row["models"] == 2
    project = Project.find(files)
    assert project.names("scores") == ["mini"]
    assert project.resolve("scores", "mini") == project.scores / "mini"
    (project.scores / "mini" / "panel.json").unlink()  # a killed first import: its part is no panel
    assert project.names("scores") == []
    assert panels.list_panels(project) == []


def test_dvc_tracks_a_panel_and_a_second_import_leaves_the_first_part_alone(tmp_path: Path) -> None:
    project = Project.init(tmp_path / "tracked", scm=False)
    (tmp_path / "a.csv").write_text(SCORES, encoding="utf-8")
    (tmp_path / "b.csv").write_text("benchmark,item_id,model,score\nmmvp,2,b,1\n", encoding="utf-8")
    panels.import_scores(project, "mini", [tmp_path / "a.csv"])
    assert (project.scores / "mini.dvc").is_file()
    part = project.scores / "mini" / "part-0001"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in part.rglob("*") if path.is_file()}
    row = panels.import_scores(project, "mini", [tmp_path / "b.csv"])
    assert (row["parts"], row["scores"]) == (2, 4)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in part.rglob("*") if path.is_file()} == before


def test_help_says_where_scales_are_declared() -> None:
    told = {option.name: str(getattr(option, "help", "")) for option in scores.commands["import"].params}
    assert "scale_min and scale_max declare the scale" in told["items"]
    assert "Must agree with scale_min and scale_max of --items" in told["scales"]
