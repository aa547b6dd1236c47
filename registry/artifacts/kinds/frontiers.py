"""Frontier sets: the items that the panel's models fail most of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description, Rows, inputs_in, read_document, said
from optotype.registry.artifacts.kinds.items import item_problems, item_rows, read_items, read_models
from optotype.schemas.errors import Problem

__all__ = ["ADAPTERS"]

_DOCUMENT = "frontier.json"
_KIND = "frontier"
_NEWEST = 1
_NUMBERS = ("mean", "variance", "score")


class _Frontiers:
    what = "A capability frontier: items that no family of models solves yet and that still tell models apart."
    load = 'pandas.read_parquet(folder / "items.parquet")'

    def problems(self, payload: Path) -> list[Problem]:
        problems = item_problems(payload, _NUMBERS)
        read_document(payload / _DOCUMENT, _KIND, _NEWEST, problems)
        return problems

    def describe(self, payload: Path) -> Description:
        document = read_document(payload / _DOCUMENT, _KIND, _NEWEST, [])
        items = read_items(payload)
        parameters = dict(document.get("parameters") or {})
        facts: dict[str, Any] = {
            "items": len(items),
            "benchmarks": int(items["benchmark"].nunique()),
            "categories": int(items["category"].nunique()),
        }
        counted = ("candidates", "in_band", "band", "gain")
        facts |= {key: document[key] for key in counted if isinstance(document.get(key), (int, float))}
        facts["content_digests"] = []
        seed = parameters.get("seed")
        title = "{items:,} items of {benchmarks} benchmarks at the frontier".format(**facts)
        limits = (
            "What is at the frontier depends on the panel's models; newer models move it.",
            "Items whose reference answer is wrong look hard: a frontier set has more of them than its benchmarks.",
            *said(document),
        )
        inputs = inputs_in({key: document[key] for key in ("panel", "panel_digest") if document.get(key) is not None})
        return Description(title, parameters, seed if type(seed) is int else None, tuple(inputs), facts, limits=limits)

    def rows(self, payload: Path) -> Rows:
        return item_rows(payload, weight=None)

    def ranks(self, payload: Path) -> dict[str, dict[str, Any]] | None:
        return read_models(payload, rank=("rank_frontier", "rank"), score=("score_frontier", "score", "mean"))


ADAPTERS = {"frontier": _Frontiers()}
