"""optotype: the registry that vision-language evaluation stands on.

Importing this does no work: every public name is loaded at its first use.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it
_PUBLIC: dict[str, str] = {}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'optotype' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
