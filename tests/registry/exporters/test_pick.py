"""The file that is put beside an exported task: it picks by id, and never guesses."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from optotype.registry.exporters import lmms_eval_pick


class _Dataset:
    """What `datasets.Dataset` is to the file."""

    def __init__(self, columns: dict[str, list[Any]], split: str | None = "test") -> None:
        self.columns, self.split = columns, split
        self.column_names = list(columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]

    def select(self, places: list[int]) -> _Dataset:
        return _Dataset({name: [values[i] for i in places] for name, values in self.columns.items()}, self.split)


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., ModuleType]:
    def make(ids: list[str], columns: list[str]) -> ModuleType:
        shutil.copy(lmms_eval_pick.__file__, tmp_path / "utils.py")
        plan = {"ids": ids, "columns": columns, "include": "x.yaml", "suite": "suite/mini@1.0.0", "task": "mini_b"}
        (tmp_path / "suite.json").write_text(json.dumps(plan))
        spec = importlib.util.spec_from_file_location("utils", tmp_path / "utils.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return make


@pytest.fixture(autouse=True)
def _no_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lmms_eval.utils", None)


def test_takes_the_first_column_that_has_them_all(load: Callable[..., ModuleType]) -> None:
    module = load(["7", "3"], ["id", "index"])
    dataset = _Dataset({"id": [7, 8, 9], "index": [3, 7.0, 5], "text": ["a", "b", "c"]})
    assert module.pick(dataset).columns["text"] == ["b", "a"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"id": [1, 2]},
            r"1 of 2 items of suite/mini@1\.0\.0 are not in the data set \(columns tried: id; it has id\)",
        ),
        ({"pid": [1, 3]}, r"2 of 2 items .* \(none of the columns id, index; it has pid"),
        ({"id": [1, 3, 1]}, r"1 ids of .* stand in several rows .* 'id': 1"),
    ],
)
def test_fails_loudly(load: Callable[..., ModuleType], columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(["1", "3"], ["id", "index"]).pick(_Dataset(columns))


def test_a_blind_run_has_no_images(load: Callable[..., ModuleType]) -> None:
    assert load(["1"], ["id"]).no_images({"image": 1}, {}) == []
