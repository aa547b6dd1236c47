"""What a metric says of an encoder and a language model, under which settings it says so, and what came of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = [
    "ATTRIBUTES",
    "COUNTS",
    "DEFAULTS",
    "SETTINGS",
    "Outcome",
    "Prediction",
    "names_apart",
    "normalised",
    "source_name",
    "told",
]

SETTINGS = (
    "k",
    "eps",
    "gamma",
    "n",
    "prenorm_features",
    "prenorm_states",
    "post_features",
    "post_states",
    "options",
)
"""What tells two results of one metric apart: a result is judged with those of the same settings alone."""

ATTRIBUTES = ("states_layer", "features_layer", "seed")
"""What differs from array to array anyway; it tells results apart only where one pair has several of them."""

COUNTS = ("n", "k", "seed", "states_layer", "features_layer")

DEFAULTS: Mapping[str, Any] = {
    "k": 100,
    "eps": 1e-4,
    "gamma": 1.0,
    "prenorm_features": "none",
    "prenorm_states": "l2",
    "post_features": "none",
    "post_states": "none",
    "options": "{}",
    "states_layer": -2,
    "seed": 0,
}


@dataclass(frozen=True)
class Prediction:
    """A score of one metric.

    Attributes
    ----------
    metric, encoder : str
    model : str or None
        None: the score holds for every language model.
    score : float
        Higher is better.
    settings : mapping
        Those of `SETTINGS` and `ATTRIBUTES` that are known, as `normalised` gives them.
    source, place, called : str
        The file, where in it, and what messages call it (default its name); the first two get into no result.
    flops : float, optional
        Of scoring, where the source tells them.
    details : mapping
        What the metric told beside its score.
    digests : mapping
        Digests of the arrays, ``features`` and ``states``, where the source tells them.
    """

    metric: str
    encoder: str
    model: str | None
    score: float
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    place: str = ""
    called: str = ""
    flops: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> str:
        """The file as a result speaks of it: as it is called, else by its name and, for a ranking, its folder's."""
        return self.called or source_name(Path(self.source))


@dataclass(frozen=True)
class Outcome:
    """What a pair reached on one benchmark; ``model`` None: it holds for every language model."""

    encoder: str
    model: str | None
    benchmark: str
    score: float
    place: str = ""


def source_name(path: Path) -> str:
    """Name of a file without where it lies; of a ``ranking.json`` with its folder."""
    return f"{path.parent.name}/{path.name}" if path.name == "ranking.json" and path.parent.name else path.name


def names_apart(paths: Sequence[Path]) -> list[str]:
    """What to call files: as `source_name` does, and with as many of their folders as tell them apart.

    Only folders that are part of a path as it is given are told; of two paths that are the same there is one name.
    """
    found: list[str] = []
    for path in paths:
        rivals = [other for other in paths if other != path and source_name(other) == source_name(path)]
        depth = len(Path(source_name(path)).parts)
        while rivals and any(other.parts[-depth:] == path.parts[-depth:] for other in rivals):
            depth += 1
        found.append(Path(*path.parts[-depth:]).as_posix() if rivals else source_name(path))
    return found


def normalised(name: str, value: Any) -> Any:
    """The value of a setting in its one form, so that what is left out equals what is spelled out.

    No γ is γ = 1, no chain is ``none``, options are JSON with sorted keys.
    """
    if name == "options":
        return json.dumps(value or {}, sort_keys=True, ensure_ascii=False) if not isinstance(value, str) else value
    if name == "gamma":
        return 1.0 if value is None else float(value)
    if name in ("post_features", "post_states"):
        return value or "none"
    if value is None or name not in ("eps", "n", "k"):
        return value
    return float(value) if name == "eps" else int(value)


def told(name: str, value: Any) -> str:
    """A setting in a few words, for labels."""
    words = {
        "eps": "ε",
        "gamma": "γ",
        "n": "n",
        "k": "k",
        "prenorm_features": "features prenorm",
        "prenorm_states": "states prenorm",
        "post_features": "features",
        "post_states": "states",
        "states_layer": "text layer",
        "features_layer": "image layer",
    }
    if name == "options":
        found = json.loads(value) if isinstance(value, str) else dict(value or {})
        return ", ".join(f"{key} {entry}" for key, entry in found.items()) or "no options"
    shown = f"{value:g}" if isinstance(value, float) else "not told" if value is None else str(value)
    return f"{words.get(name, name)} {shown}"
