"""The public names of ``optotype``: all there, documented, and the same for Python as for type checkers."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import optotype
from optotype import _PUBLIC


def test_lists_agree() -> None:
    assert optotype.__all__ == sorted({*_PUBLIC, "__version__"})
    assert dir(optotype) == optotype.__all__


@pytest.mark.parametrize("name", sorted(_PUBLIC))
def test_name_is_there_and_documented(name: str) -> None:
    thing = getattr(optotype, name)
    assert inspect.getdoc(thing)
    assert getattr(thing, "__module__", None) == _PUBLIC[name]
    assert getattr(optotype, name) is thing


def test_type_checkers_see_the_same() -> None:
    tree = ast.parse(Path(str(optotype.__file__)).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == _PUBLIC


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        optotype.nothing  # noqa: B018
