"""Projects to publish in, with DVC's and git's own settings in folders of the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from optotype.store.project import Project

Run = Callable[..., str]


@pytest.fixture(scope="session", autouse=True)
def _settings_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Neither DVC nor git reads the user's settings, and nobody is told anything."""
    base = tmp_path_factory.mktemp("settings")
    settings = {
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(base / "site"),
        "DVC_GLOBAL_CONFIG_DIR": str(base / "global"),
        "DVC_SYSTEM_CONFIG_DIR": str(base / "system"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        for name in ("DVC_STAGE", "DVC_ROOT"):
            patch.delenv(name, raising=False)
        yield


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
