"""Suites: the items that ``optotype compress`` kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description, Rows, inputs_in, read_document, said
from optotype.registry.artifacts.kinds.items import item_problems, item_rows, read_items, read_models
from optotype.schemas.errors import Problem

__all__ = ["ADAPTERS"]

_DOCUMENT = "compression.json"
_KIND = "compression"
_NEWEST = 1
_NUMBERS = ("vaw", "variance", "delta", "cell", "weight")
# Of what a suite was made of, and not of what made it.
_INPUTS = ("panel", "panel_digest", "embeddings", "embeddings_digest")


class _Suites:
    what = "A compressed suite: the items of larger benchmarks that keep the ranking of a panel of models."
    load = 'optotype.load_suite("{name}")'

    def problems(self, payload: Path) -> list[Problem]:
        problems = item_problems(payload, _NUMBERS, positive=("weight",))
        document = read_document(payload / _DOCUMENT, _KIND, _NEWEST, problems)
        if document and not isinstance(document.get("parameters"), dict):
            problems.append(Problem(_DOCUMENT, "no-parameters", "parameters is an object"))
        if document and not isinstance(document.get("stages"), list):
            problems.append(Problem(_DOCUMENT, "no-stages", "stages is a list"))
        return problems

    def describe(self, payload: Path) -> Description:
        document = read_document(payload / _DOCUMENT, _KIND, _NEWEST, [])
        items = read_items(payload)
        parameters = dict(document["parameters"])
        seed = parameters.get("seed")
        facts: dict[str, Any] = {
            "items": len(items),
            "benchmarks": int(items["benchmark"].nunique()),
            "categories": int(items["category"].nunique()),
        }
        stages = [stage for stage in document["stages"] if isinstance(stage, dict)]
        if stages:
            facts["items_of_panel"] = stages[0].get("items_in")
            facts["stages"] = len(stages)
            facts["rho"] = stages[-1].get("rho")
        ranks = self.ranks(payload)
        if ranks is not None:
            facts["models"] = len(ranks)
        facts["content_digests"] = []
        title = "{items:,} items of {benchmarks} benchmarks in {categories} categories".format(**facts)
        limits = (
            "The suite keeps the ranking of the models that it was chosen on; models unlike them may rank otherwise.",
            "Scores on it are not scores on the full benchmarks; `optotype place` estimates those.",
            *said(document),
        )
        inputs = inputs_in({key: document[key] for key in _INPUTS if document.get(key) is not None})
        return Description(title, parameters, _seed(seed), tuple(inputs), facts, limits=limits)

    def rows(self, payload: Path) -> Rows:
        return item_rows(payload, weight="weight")

    def ranks(self, payload: Path) -> dict[str, dict[str, Any]] | None:
        return read_models(
            payload,
            rank=("rank_compressed", "compressed_rank", "rank"),
            score=("score_compressed", "compressed_score", "score"),
        )


def _seed(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


ADAPTERS = {"suite": _Suites()}
