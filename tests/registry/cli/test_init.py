"""``optotype init`` with git and without, and where a project is found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.root import cli


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="optotype")


@pytest.mark.parametrize("git", [True, False], ids=["git", "no-git"])
def test_an_empty_project_takes_an_import_and_ignores_what_it_can_make_again(
    git: bool, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "fresh"
    root.mkdir()
    if git:
        subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    made = _run("init", str(root), "--json")
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout) == {"root": str(root.resolve())}
    assert (root / ".dvc" / "config").is_file()
    assert ("no_scm = True" in (root / ".dvc" / "config").read_text(encoding="utf-8")) != git

    monkeypatch.chdir(root / "data")  # found upward
    assert _run("features", "list", "--json").stdout == "[]\n"
    taken = _run("features", "import", "siglip", str(project / "siglip.npz"))
    assert taken.exit_code == 0, taken.stderr
    assert (root / "data" / "features" / "siglip.dvc").is_file()
    again = _run("init", str(root))
    assert again.exit_code == 0
    assert json.loads(_run("features", "list", "--json").stdout)[0]["name"] == "siglip"
    if git:
        status = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=all"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "zarr" not in status.stdout
        assert "cache" not in status.stdout


def test_a_file_is_no_place_for_a_project(project: Path) -> None:
    result = _run("init", "siglip.npz")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("line", ["features list", "states show a", "rank --features a --states b"])
def test_no_project(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = _run(*line.split())
    assert (result.exit_code, result.stdout) == (3, "")
    assert "optotype init" in result.stderr


def test_c_names_the_folder_of_a_project(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run("-C", "project", "features", "list", "--json").stdout == "[]\n"
    inside = project / "data"
    inside.mkdir()
    below = _run("-C", str(inside), "features", "list")
    assert below.exit_code == 3
    assert f"optotype -C {project.resolve()}" in below.stderr, "the project above is suggested, not used"
    for folder in (".", "nowhere"):
        result = _run("-C", folder, "features", "list", "--json")
        assert (result.exit_code, result.stdout) == (3, "")
        assert f"optotype init {folder}" in result.stderr


def test_files_are_found_from_the_working_directory(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project / "siglip.npz").rename(elsewhere / "mine.npz")
    monkeypatch.chdir(elsewhere)
    taken = _run("-C", str(project), "features", "import", "siglip", "mine.npz")
    assert taken.exit_code == 0, taken.stderr
    exported = _run("-C", str(project), "features", "export", "siglip", "copy.npz")
    assert exported.exit_code == 0, exported.stderr
    assert (elsewhere / "copy.npz").is_file()


def test_paths_need_no_project(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run("features", "import", "siglip", "siglip.npz").exit_code == 0
    assert _run("states", "import", "qwen3", "qwen3.npz").exit_code == 0
    named = json.loads(_run("rank", "--features", "siglip", "--states", "qwen3", "--json").stdout)
    monkeypatch.chdir(tmp_path)
    features, states = "project/data/features/siglip", f"file://{project}/data/states/qwen3"
    shown = _run("features", "show", features, "--json")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["digest"] == named[0]["features_digest"]
    ranked = _run("rank", "--features", features, "--states", states, "--json")
    assert ranked.exit_code == 0, ranked.stderr
    assert json.loads(ranked.stdout)[0]["score"] == named[0]["score"]
