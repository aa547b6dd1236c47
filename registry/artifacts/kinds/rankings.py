"""Rankings: what ``optotype rank --out`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description, Input, Rows, limited, read_document
from optotype.schemas.errors import Problem

__all__ = ["ADAPTERS"]

_DOCUMENT = "ranking.json"
_NEWEST = 1
_TEXTS = ("encoder", "model", "metric")
_NUMBERS = ("score", "chance", "adjusted")
_PARAMETERS = ("metric", "k", "eps", "bootstrap")
_PRENORMS = ("prenorm_features", "prenorm_states")


class _Rankings:
    what = "A ranking of vision encoders: how well their neighbours among images match those of a language model."
    load = 'json.loads((folder / "ranking.json").read_bytes())["rows"]'

    def problems(self, payload: Path) -> list[Problem]:
        problems: list[Problem] = []
        document = read_document(payload / _DOCUMENT, "ranking", _NEWEST, problems)
        rows = document.get("rows")
        if document and (not isinstance(rows, list) or not rows):
            problems.append(Problem(_DOCUMENT, "no-rows", "rows is a list of at least one row"))
            rows = []
        for i, row in enumerate(rows or []):
            if not isinstance(row, Mapping):
                problems.append(Problem(f"{_DOCUMENT}: rows[{i}]", "row", f"an object is wanted, got {row!r}"))
                continue
            problems += [
                Problem(f"{_DOCUMENT}: rows[{i}].{key}", "value", f"a text is wanted, got {row.get(key)!r}")
                for key in _TEXTS
                if not isinstance(row.get(key), str)
            ]
            problems += [
                Problem(f"{_DOCUMENT}: rows[{i}].{key}", "value", f"a number is wanted, got {row.get(key)!r}")
                for key in _NUMBERS
                if type(row.get(key)) not in (int, float)
            ]
        return limited(problems)

    def describe(self, payload: Path) -> Description:
        rows = _rows(payload)
        encoders, models = {row["encoder"] for row in rows}, {row["model"] for row in rows}
        parameters: dict[str, Any] = {key: _one([row.get(key) for row in rows]) for key in _PARAMETERS}
        parameters["prenorms"] = [list(pair) for pair in dict.fromkeys(tuple(map(row.get, _PRENORMS)) for row in rows)]
        null: Mapping[str, Any] = next((row["null"] for row in rows if isinstance(row.get("null"), Mapping)), {})
        parameters["null"] = null.get("repeats", 0)
        inputs = {
            (kind, row[f"{kind}_digest"]): Input(kind, kind, row[name], row[f"{kind}_digest"])
            for row in rows
            for kind, name in (("features", "encoder"), ("states", "model"))
            if isinstance(row.get(f"{kind}_digest"), str)
        }
        facts = {
            "encoders": len(encoders),
            "language_models": len(models),
            "items": _one([row.get("n") for row in rows]),
            "rows": len(rows),
            "best": rows[0]["encoder"],
            "content_digests": [],
        }
        warnings = dict.fromkeys(str(text) for row in rows for text in row.get("warnings") or ())
        limits = (
            "Scores are about the items ranked over and depend on k and on the prenorms; compare only equal settings.",
            *warnings,
        )
        seed = null.get("seed")
        title = f"{len(encoders)} vision encoders ranked for {len(models)} language models"
        made_of = tuple(inputs[key] for key in sorted(inputs))
        return Description(title, parameters, seed if type(seed) is int else None, made_of, facts, limits=limits)

    def rows(self, payload: Path) -> Rows:
        names = ("encoder", "model", *_PRENORMS)
        rows = _rows(payload)
        found = {
            tuple(str(row.get(name)) for name in names): {
                key: row.get(key) for key in (*_NUMBERS, "n", "k", "interval")
            }
            for row in rows
        }
        return Rows(names, "rows", found)

    def ranks(self, payload: Path) -> dict[str, dict[str, Any]] | None:
        rows = _rows(payload)
        main = tuple(map(rows[0].get, _PRENORMS))
        if any(tuple(map(row.get, _PRENORMS)) == ("none", "l2") for row in rows):
            main = ("none", "l2")
        ranks: dict[str, dict[str, Any]] = {}
        for model in sorted({row["model"] for row in rows}):
            scores = {
                row["encoder"]: float(row["score"])
                for row in rows
                if row["model"] == model and tuple(map(row.get, _PRENORMS)) == main
            }
            for encoder, score in scores.items():
                above = sum(other > score for other in scores.values())
                ranks[f"{encoder} x {model}"] = {"rank": float(above + 1), "score": score}
        return ranks


def _rows(payload: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_document(payload / _DOCUMENT, "ranking", _NEWEST, [])["rows"]
    return rows


def _one(values: list[Any]) -> Any:
    """The value if all are equal, else each that occurs, in order."""
    distinct = [value for i, value in enumerate(values) if value not in values[:i]]
    return distinct[0] if len(distinct) == 1 else distinct


ADAPTERS = {"ranking": _Rankings()}
