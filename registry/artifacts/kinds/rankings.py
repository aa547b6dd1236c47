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
_OPTIONAL = ("model", "chance", "adjusted")  # not every metric has a language model or a level of chance
_SETTINGS = ("metric", "k", "eps", "gamma", "n", "post_features", "post_states")
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
                if not isinstance(row.get(key), str) and not _may_lack(row, key)
            ]
            problems += [
                Problem(f"{_DOCUMENT}: rows[{i}].{key}", "value", f"a number is wanted, got {row.get(key)!r}")
                for key in _NUMBERS
                if type(row.get(key)) not in (int, float) and not _may_lack(row, key)
            ]
        return limited(problems)

    def describe(self, payload: Path) -> Description:
        rows = _rows(payload)
        encoders = {row["encoder"] for row in rows}
        models = {row["model"] for row in rows if row["model"] is not None}
        metrics = list(dict.fromkeys(row["metric"] for row in rows))
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
        if len(metrics) > 1:
            title += f" by {len(metrics)} metrics"
        made_of = tuple(inputs[key] for key in sorted(inputs))
        return Description(title, parameters, seed if type(seed) is int else None, made_of, facts, limits=limits)

    def rows(self, payload: Path) -> Rows:
        rows = _rows(payload)
        names: tuple[str, ...] = ("encoder", "model", *_PRENORMS)
        if any("kind" in row for row in rows):  # of several metrics or settings
            names += _SETTINGS
        found = {
            tuple(str(row.get(name)) for name in names): {
                key: row.get(key) for key in (*_NUMBERS, "n", "k", "interval")
            }
            for row in rows
        }
        return Rows(names, "rows", found)

    def ranks(self, payload: Path) -> dict[str, dict[str, Any]] | None:
        from optotype.registry.rankings import main_rows

        rows = _rows(payload)
        rows = [dict(row) for row in main_rows([row for row in rows if row["metric"] == rows[0]["metric"]])]
        ranks: dict[str, dict[str, Any]] = {}
        for model in sorted({row["model"] or "" for row in rows}):
            scores = {row["encoder"]: float(row["score"]) for row in rows if (row["model"] or "") == model}
            for encoder, score in scores.items():
                above = sum(other > score for other in scores.values())
                ranks[f"{encoder} x {model}" if model else encoder] = {"rank": float(above + 1), "score": score}
        return ranks


def _may_lack(row: Mapping[str, Any], key: str) -> bool:
    """Whether a row may say nothing here: one that tells its metric's kind, where that has no such thing."""
    return key in _OPTIONAL and "kind" in row and key in row and row[key] is None


def _rows(payload: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_document(payload / _DOCUMENT, "ranking", _NEWEST, [])["rows"]
    return rows


def _one(values: list[Any]) -> Any:
    """The value if all are equal, else each that occurs, in order."""
    distinct = [value for i, value in enumerate(values) if value not in values[:i]]
    return distinct[0] if len(distinct) == 1 else distinct


ADAPTERS = {"ranking": _Rankings()}
