"""What a user installs: one import name, no tests, and the files that the code reads."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import optotype

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names of the files in a freshly built wheel."""
    copy = tmp_path_factory.mktemp("wheel") / "source"
    tracked = ["pyproject.toml", "README.md", "LICENSE", "src", "schemas", "store", "pipelines", "registry"]
    for name in tracked:
        source = ROOT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, copy / name, symlinks=True, ignore=ignore)
        else:
            copy.mkdir(exist_ok=True)
            shutil.copy2(source, copy / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "out", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "out").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_wheel_installs_optotype_alone(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"optotype"}


def test_wheel_holds_every_module_and_data_file(wheel: list[str]) -> None:
    layers = ("schemas", "store", "pipelines", "registry")
    suffixes = (".py", ".html", ".css", ".js", ".json")
    here = {
        f"optotype/{path.relative_to(ROOT).as_posix()}"
        for layer in layers
        for path in (ROOT / layer).rglob("*")
        if path.suffix in suffixes and "__pycache__" not in path.parts
    }
    inside = {name for name in wheel if name.startswith("optotype/")}
    assert here | {"optotype/__init__.py", "optotype/__main__.py", "optotype/py.typed"} == inside


def test_every_public_name_loads() -> None:
    for name in optotype.__all__:
        assert getattr(optotype, name) is not None
    assert dir(optotype) == optotype.__all__


def test_unknown_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module("optotype").no_such_name  # noqa: B018 - the access is the test


def test_version_is_said_once_and_the_same() -> None:
    assert f'version = "{optotype.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## {optotype.__version__}" in (ROOT / "CHANGELOG.md").read_text()
