"""Projects: found upward, made once, names of arrays looked up in them; and DVC."""

import json
import subprocess
import sys

import numpy as np
import pytest

from optotype.schemas.errors import ConflictError, ExternalError, FormatError, NotFoundError, UsageError
from optotype.store import dvc
from optotype.store.project import Project
from optotype.store.states import write_states


@pytest.fixture
def project(tmp_path):
    """A project without DVC: what most of these tests need."""
    folder = tmp_path / "project"
    (folder / ".optotype").mkdir(parents=True)
    (folder / ".optotype" / "project.json").write_text('{"format_version": 1}')
    return Project(folder)


def add(target):
    write_states(target, ids=["a"], blocks=[np.ones((1, 1))], inputs={})


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("scm", [True, False])
def test_init(tmp_path, scm):
    folder = tmp_path / "p"
    if scm:
        folder.mkdir()
        git(folder, "init")
    project = Project.init(folder, scm=scm)
    assert Project.find(folder) == project
    assert json.loads((folder / ".optotype" / "project.json").read_text()) == {"format_version": 1}
    assert (folder / "data").is_dir()
    config = (folder / ".dvc" / "config").read_text()
    assert 'type = "reflink,hardlink,copy"' in config
    assert "analytics = false" in config
    assert ("no_scm" in config) is not scm
    # DVC reads what was written there
    said = subprocess.run(
        [sys.executable, "-m", "dvc", "config", "cache.type"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert said.stdout.strip() == "reflink,hardlink,copy"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert Project.init(folder, scm=scm) == project  # again: nothing changes
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    if scm:
        project.cache.mkdir()
        (project.cache / "x").touch()
        shown = subprocess.run(
            ["git", "status", "--porcelain", "-uall"], cwd=folder, check=True, capture_output=True, text=True
        )
        assert ".optotype/project.json" in shown.stdout
        assert "cache" not in shown.stdout


def test_init_below_the_root_of_a_repository(tmp_path):
    git(tmp_path, "init")
    Project.init(tmp_path / "below")
    assert dvc.is_dvc_project(tmp_path / "below")


def test_init_where_it_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        Project.init(tmp_path / "file")
    with pytest.raises(UsageError, match="not in a git repository"):
        Project.init(tmp_path / "p", scm=True)


def test_init_that_fails_leaves_no_project(tmp_path, monkeypatch):
    def fail(root, *, scm):
        raise ExternalError("no dvc")

    monkeypatch.setattr(dvc, "init", fail)
    with pytest.raises(ExternalError):
        Project.init(tmp_path)
    with pytest.raises(NotFoundError):
        Project.find(tmp_path)


def test_find_upward(project, tmp_path, monkeypatch):
    deep = project.root / "a" / "b"
    deep.mkdir(parents=True)
    assert Project.find(deep) == project
    monkeypatch.chdir(deep)
    assert Project.find() == project
    with pytest.raises(NotFoundError, match="optotype init"):
        Project.find(tmp_path)


def test_newer_project_is_refused(project):
    (project.root / ".optotype" / "project.json").write_text('{"format_version": 2}')
    with pytest.raises(FormatError, match="reads up to 1"):
        Project.find(project.root)


def test_names_and_bundles(project):
    assert project.names("states") == []
    add(project.states / "minilm")
    add(project.states / "smollm2" / "smollm2-l8")
    add(project.states / "smollm2" / "smollm2-l9")
    (project.states / "empty").mkdir()
    (project.states / ".hidden").mkdir()
    (project.states / "file.dvc").touch()
    assert project.names("states") == ["minilm", "smollm2-l8", "smollm2-l9"]
    assert project.resolve("states", "minilm") == project.states / "minilm"
    assert project.resolve("states", "smollm2-l9") == project.states / "smollm2" / "smollm2-l9"


def test_two_arrays_of_one_name(project):
    add(project.states / "a")
    add(project.states / "bundle" / "a")
    with pytest.raises(ConflictError, match="bundle"):
        project.resolve("states", "a")


def test_unknown_names(project):
    with pytest.raises(NotFoundError, match="optotype states import"):
        project.resolve("states", "minilm")
    add(project.states / "minilm")
    with pytest.raises(NotFoundError, match="Did you mean 'minilm'"):
        project.resolve("states", "minlm")
    with pytest.raises(UsageError):
        project.resolve("states", "Not A Name")


def test_paths_and_urls_pass(project):
    assert str(project.resolve("features", "some/where")) == "some/where"
    assert project.resolve("features", "http://host/a") == "http://host/a"
    assert project.resolve("features", "simplecache::http://host/a") == "simplecache::http://host/a"


def test_array_whose_replacement_was_cut_short_is_found(project):
    add(project.states / "a")
    (project.states / "a").rename(project.states / ".a.next")
    assert project.names("states") == ["a"]


def test_track(tmp_path, monkeypatch):
    project = Project.init(tmp_path / "p", scm=False)
    add(project.states / "a")
    assert dvc.track(project.states / "a", root=project.root)
    assert (project.states / "a.dvc").is_file()
    assert project.names("states") == ["a"]
    monkeypatch.setenv("DVC_STAGE", "encode")
    assert dvc.in_stage()
    assert not dvc.track(project.states / "a", root=project.root)


def test_track_without_dvc(project):
    assert not dvc.track(project.root, root=project.root)


def test_dvc_fails_with_its_reason(tmp_path):
    project = Project.init(tmp_path / "p", scm=False)
    with pytest.raises(ExternalError, match="does not exist"):
        dvc.track(project.root / "none", root=project.root)
