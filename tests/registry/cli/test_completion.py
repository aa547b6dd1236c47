"""The shell completes verbs, options and the names of the project's arrays."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from optotype.registry.cli.root import cli


def _complete(words: list[str], incomplete: str) -> list[str]:
    found = ShellComplete(cli, {}, "optotype", "_OPTOTYPE_COMPLETE").get_completions(words, incomplete)
    return [item.value for item in found]


@pytest.fixture
def named(project: Path) -> Path:
    for kind, names in (("features", ("siglip", "dinov2")), ("states", ("qwen3",))):
        for name in names:
            (project / "data" / kind / name).mkdir(parents=True)
            (project / "data" / kind / name / "zarr.json").write_text("{}", encoding="utf-8")
    return project


def test_verbs_and_options() -> None:
    assert _complete([], "r") == ["rank", "retrieve", "report"]
    assert _complete(["rank"], "--prenorm-f") == ["--prenorm-features"]
    assert _complete(["rank", "--prenorm-features"], "") == ["none", "l2"]


def test_names_of_arrays(named: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _complete(["rank", "--features"], "") == ["dinov2", "siglip"]
    assert _complete(["rank", "--features", "siglip", "--states"], "q") == ["qwen3"]
    assert _complete(["features", "show"], "s") == ["siglip"]
    monkeypatch.chdir(tmp_path)
    assert _complete(["rank", "--features"], "") == []
    assert _complete(["-C", str(named), "states", "export"], "") == ["qwen3"]
