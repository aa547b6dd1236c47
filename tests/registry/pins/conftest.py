"""A publisher's repository and somebody else's folder, with settings and caches of the tests alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from payloads import make_suite

from optotype.registry.artifacts.publish import Published, publish
from optotype.store.project import Project

Run = Callable[..., str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("OPTOTYPE_CACHE", str(folder))
    return folder


def run(folder: Path, *command: str) -> str:
    """Run a command in a folder; what it printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def shell() -> Run:
    """``shell(folder, *command)``."""
    return run


class Publisher:
    """A repository in which suites are published."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root = root
        self.scratch = scratch
        self.url = root.as_uri()

    def suite(self, version: str, *items: str, tag: bool = False, name: str = "prime") -> Published:
        """Publish a suite and commit it."""
        source = make_suite(self.scratch / f"{name}-{version}", dict.fromkeys(items or ("a/1", "a/2"), 1.0))
        done = publish("suite", f"{name}@{version}", source, root=self.root)
        self.commit()
        if tag and not (self.root / "dvc.yaml").is_file():  # publish tags only what DVC would find by it
            run(self.root, "git", "tag", "--annotate", "-m", "publish", f"suite/{name}@v{version}")
        elif tag:
            assert publish("suite", f"{name}@{version}", source, root=self.root, tag=True).tag
        return done

    def commit(self) -> str:
        """Commit everything; the commit."""
        run(self.root, "git", "add", ".")
        run(self.root, "git", "commit", "--quiet", "--allow-empty", "-m", "publish")
        return run(self.root, "git", "rev-parse", "HEAD").strip()

    def payload(self, version: str, name: str = "prime") -> Path:
        """Folder of a suite's payload."""
        return self.root / "artifacts" / "suite" / name / version / "payload"


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    """Under git, without DVC."""
    root = (tmp_path / "publisher").resolve()
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    run(root, "git", "init", "--quiet", "--initial-branch=main", ".")
    return Publisher(root, tmp_path / "made")


@pytest.fixture
def with_dvc(tmp_path: Path) -> Publisher:
    """Under git and DVC, with a default remote."""
    root = (tmp_path / "publisher").resolve()
    root.mkdir()
    run(root, "git", "init", "--quiet", "--initial-branch=main", ".")
    Project.init(root)
    config = root / ".dvc" / "config"
    text = config.read_text().replace("[core]\n", "[core]\nremote = store\n")
    config.write_text(f"{text}\n['remote \"store\"']\nurl = {tmp_path / 'remote'}\n")
    found = Publisher(root, tmp_path / "made")
    found.commit()
    return found


@pytest.fixture
def downstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another git repository, the working directory; no project."""
    folder = (tmp_path / "downstream").resolve()
    folder.mkdir()
    run(folder, "git", "init", "--quiet", "--initial-branch=main", ".")
    monkeypatch.chdir(folder)
    return folder
