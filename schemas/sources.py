"""Where a model comes from: ``hf:<repo>@<revision>``, a local folder, or ``python:<module>:<factory>``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from optotype.schemas.errors import UsageError

__all__ = ["ModelSource", "parse_source"]

_HF = re.compile(r"hf:(?P<repo>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)@(?P<revision>[\w./-]+)")
_PYTHON = re.compile(r"python:(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<factory>[A-Za-z_]\w*)(?:@(?P<path>.+))?")
_FORMS = "hf:<repo>@<revision>, a local folder, or python:<module>:<factory>[@<folder>]"


@dataclass(frozen=True)
class ModelSource:
    """A parsed source.

    Attributes
    ----------
    kind : {"hf", "folder", "python"}
    text : str
        The source as written.
    location : str
        Repository (``hf``), folder (``folder``) or dotted module (``python``).
    revision : str or None
        Branch, tag or commit; for ``hf`` only, where it is required.
    factory : str or None
        Name of the callable in the module; for ``python`` only.
    folder : str or None
        Local folder with the weights: of ``folder`` always, of ``python`` if ``@<folder>`` was given.
    """

    kind: Literal["hf", "folder", "python"]
    text: str
    location: str
    revision: str | None = None
    factory: str | None = None
    folder: str | None = None


def parse_source(text: str) -> ModelSource:
    """Parse a model source. Nothing is looked up or loaded.

    Raises
    ------
    UsageError
        The text has none of the three forms; a hub source without a revision is refused, since
        ``main`` names other weights tomorrow.
    """
    if text.startswith("hf:"):
        match = _HF.fullmatch(text)
        if match is None:
            hint = f"Write {text}@<commit>, so that the same weights are meant next year." if "@" not in text else None
            raise UsageError(f"{text!r} is not a hub source: hf:<repo>@<revision>", hint=hint)
        return ModelSource("hf", text, match["repo"], revision=match["revision"])
    if text.startswith("python:"):
        match = _PYTHON.fullmatch(text)
        if match is None:
            raise UsageError(f"{text!r} is not a Python source: python:<module>:<factory>[@<folder>]")
        return ModelSource("python", text, match["module"], factory=match["factory"], folder=match["path"])
    if not text.strip():
        raise UsageError(f"an empty model source: {_FORMS}")
    return ModelSource("folder", text, text, folder=text)
