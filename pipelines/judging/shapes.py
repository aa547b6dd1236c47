"""Channels, tokens and parameters of encoders and language models, from stored arrays or from a table."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from optotype.pipelines.judging.cells import parsed, shown, table_cells
from optotype.pipelines.judging.costs import Known
from optotype.pipelines.judging.predictions import Prediction
from optotype.schemas.errors import InvalidDataError, OptotypeError, Problem
from optotype.schemas.names import is_url_or_path
from optotype.store.checks import limited
from optotype.store.project import Kind, Project

__all__ = ["read_costs", "safetensors_parameters", "stored_shapes"]

_COLUMNS = ("parameters", "tokens", "channels")
_MOST_HEADER = 100 << 20


def stored_shapes(project: Project | None, predictions: Sequence[Prediction]) -> dict[str, Known]:
    """What the project's arrays tell, by digest.

    An array is looked up by the name of the encoder or language model and taken only if it has the digest that the
    ranking recorded. Parameters are counted in the ``.safetensors`` files of the model's folder, where the array's
    recorded inputs name one inside the project. The tokens of captions are recorded nowhere.
    """
    found: dict[str, Known] = {}
    if project is None:
        return found
    sides: tuple[Kind, Kind] = ("features", "states")
    for kind in sides:
        for each in predictions:
            name, digest = each.encoder if kind == "features" else each.model, each.digests.get(kind)
            if name is None or digest is None or digest in found or is_url_or_path(name):
                continue
            with contextlib.suppress(OptotypeError, OSError, KeyError):  # an array that is not there tells nothing
                known = _stored(project, kind, name, digest)
                if known is not None:
                    found[digest] = known
    return found


def _stored(project: Project, kind: Kind, name: str, digest: str) -> Known | None:
    from optotype.store.features import open_features
    from optotype.store.manifest import read_manifest
    from optotype.store.states import open_states

    source = project.resolve(kind, name)
    array = open_features(source) if kind == "features" else open_states(source)
    if array.attrs.get("digest") != digest:
        return None
    model: Any = read_manifest(source).inputs.get("model")
    parameters = _parameters(project, model) if isinstance(model, dict) else None
    if kind == "states":
        return Known(int(array.sizes["channel"]), None, parameters)
    tokens = array.sizes["token"] / array.sizes["image"]
    return Known(int(array.sizes["channel"]), float(tokens), parameters)


def _parameters(project: Project, model: dict[str, Any]) -> int | None:
    """Parameters in the folder that a model was loaded from, if it lies in the project."""
    named = model.get("folder") or model.get("source")
    if not isinstance(named, str) or named.startswith("python:"):
        return None
    root = project.root.resolve()
    folder = (root / named).resolve()
    if not folder.is_relative_to(root) or not folder.is_dir():
        return None
    return safetensors_parameters(folder)


def safetensors_parameters(folder: Path) -> int | None:
    """Elements of all tensors in the ``.safetensors`` files of a folder; None without any, or if one is not sound."""
    files = sorted(folder.glob("*.safetensors"))
    total = 0
    for path in files:
        try:
            with path.open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                if size > _MOST_HEADER:
                    return None
                header = json.loads(file.read(size))
            total += sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
    return total if files else None


def read_costs(path: Path) -> dict[str, Known]:
    """A table ``name`` and some of ``parameters, tokens, channels``: of encoders and language models alike.

    Raises
    ------
    NotFoundError, FormatError
        As `optotype.pipelines.judging.cells.table_cells`.
    InvalidDataError
        No such columns; every cell that is no number above 0; names that are blank or there twice.
    """
    there, rows = table_cells(path)
    columns = [name for name in _COLUMNS if name in there]
    if "name" not in there or not columns:
        message = f"a column name and some of {', '.join(_COLUMNS)} are wanted; there are {', '.join(there)}"
        raise InvalidDataError(f"{path} refused:", [Problem(str(path), "missing-column", message)])
    problems: list[Problem] = []
    found: dict[str, Known] = {}
    for number, row in enumerate(rows, 1):
        where, name = f"{path.name}, row {number}", str(row["name"]).strip()
        if not name or name in found:
            problems.append(Problem(where, "name", f"name is there once and not blank; got {name!r}"))
            continue
        values = {column: _positive(str(row[column]), column, where, problems) for column in columns}
        channels = values.get("channels")
        found[name] = Known(None if channels is None else int(channels), values.get("tokens"), values.get("parameters"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    return found


def _positive(text: str, column: str, where: str, problems: list[Problem]) -> float | None:
    if not text.strip():
        return None
    value = parsed(text)
    if value is None or not math.isfinite(value) or value <= 0:
        problems.append(Problem(where, "not-a-number", f"{column} is a number above 0, got {shown(text)}"))
        return None
    return value
