"""Kinds of published things: one module each, loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from optotype.registry.artifacts.kinds.adapter import Adapter
from optotype.schemas.references import check_kind

__all__ = ["adapter"]

_MODULES = {
    "suite": "suites",
    "frontier": "frontiers",
    "pairs": "pairs",
    "ranking": "rankings",
    "report": "reports",
    "features": "arrays",
    "states": "arrays",
    "scores": "panels",
}


def adapter(kind: str) -> Adapter:
    """The adapter of a kind.

    Raises
    ------
    UsageError
        No such kind.
    """
    module = import_module(f"optotype.registry.artifacts.kinds.{_MODULES[check_kind(kind)]}")
    return cast("Adapter", module.ADAPTERS[kind])
