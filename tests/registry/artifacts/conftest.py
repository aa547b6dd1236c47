"""Projects to publish in, with DVC's and git's own settings in folders of the tests."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from optotype.store.project import Project

Run = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project without git and DVC, which is enough for small payloads."""
    folder = tmp_path / "project"
    (folder / ".optotype").mkdir(parents=True)
    (folder / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    return folder.resolve()


def run(folder: Path, *command: str) -> str:
    """Run a command in a folder; what it printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def shell() -> Run:
    """``shell(folder, *command)``."""
    return run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project under git and DVC, committed, with a ``dvc.yaml`` that has a comment."""
    folder = tmp_path / "repository"
    folder.mkdir()
    run(folder, "git", "init", "--quiet", "--initial-branch=main", ".")
    Project.init(folder)
    (folder / "dvc.yaml").write_text("# what we run\nstages: {}\n", encoding="utf-8")
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "--quiet", "-m", "first")
    return folder.resolve()
