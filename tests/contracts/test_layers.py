"""Imports point one way, and heavy or single-purpose packages stay in the rooms made for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("schemas", "store", "pipelines", "registry")  # each may import itself and those before it
MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))

# The only places where torch or transformers may be imported, and there only inside functions.
TORCH_ROOMS = ("pipelines/encode/", "pipelines/emoji/", "pipelines/kernels/torch_", "store/importers/pt.py")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every imported module of a file, and whether the import runs when the file is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    deferred = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            yield name, id(node) not in deferred


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_keeps_to_its_layer(path: Path) -> None:
    where = path.relative_to(ROOT).as_posix()
    own = LAYERS.index(where.split("/")[0])
    for name, at_import in imports(path):
        parts = name.split(".")
        assert parts[0] not in LAYERS, f"{where}: import optotype.{parts[0]}, not {parts[0]}"
        if parts[0] == "optotype" and len(parts) > 1 and parts[1] in LAYERS:
            assert LAYERS.index(parts[1]) <= own, f"{where}: {LAYERS[own]} may not import {parts[1]}"
        if parts[0] in ("click", "rich_click"):
            assert where.startswith("registry/cli/"), f"{where}: only registry/cli knows click"
        if parts[0] in ("dvc", "dvc_data", "dvc_objects"):
            assert where == "store/dvc.py", f"{where}: only store/dvc.py knows DVC"
            assert not at_import, f"{where}: dvc is imported inside functions"
        if parts[0] in ("torch", "transformers"):
            assert where.startswith(TORCH_ROOMS), f"{where}: torch and transformers stay in {TORCH_ROOMS}"
            assert not at_import, f"{where}: torch and transformers are imported inside functions"
        assert parts[0] not in ("dill", "joblib", "cloudpickle", "shelve"), f"{where}: nothing is ever unpickled"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_unpickles_nothing(path: Path) -> None:
    """Of pickle only the error may be named; np.load and torch.load are told so in words."""
    told = {
        "np.load": ("allow_pickle", False),
        "numpy.load": ("allow_pickle", False),
        "torch.load": ("weights_only", True),
    }
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == "pickle":
            assert node.attr == "UnpicklingError", f"{path}:{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and node.module == "pickle":
            assert {alias.name for alias in node.names} == {"UnpicklingError"}, f"{path}:{node.lineno}"
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in told:
            keyword, value = told[name]
            given = {word.arg: word.value for word in node.keywords}
            assert keyword in given, f"{path}:{node.lineno}: {name} without {keyword}={value}"
            assert ast.literal_eval(given[keyword]) is value, f"{path}:{node.lineno}: {name} with {ast.unparse(node)}"


def test_every_layer_was_read() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(LAYERS)


def test_no_module_is_called_utils() -> None:
    assert [path for path in MODULES if path.stem in ("util", "utils", "helpers", "misc", "common")] == []
