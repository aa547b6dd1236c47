"""Ranks of a panel's models on a set of items, where the panel is here: for payloads that hold no ranks themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.index import Registry
from optotype.schemas.errors import OptotypeError

__all__ = ["find_panel", "ranks_on"]


def find_panel(registry: Registry, lineage: Collection[Mapping[str, Any]]) -> Path | None:
    """The folder of the panel that a lineage names, in the project or published; None if its bytes are not here."""
    from optotype.registry.artifacts.kinds.panels import DOCUMENT, read_panel

    digests = {str(node["digest"]) for node in lineage if node["kind"] == "scores"}
    for path in sorted((registry.root / "data" / "scores").glob(f"*/{DOCUMENT}")):
        try:
            if read_panel(path.parent)["digest"] in digests:
                return path.parent
        except OptotypeError:
            continue
    contents = registry.contents() if digests else {}
    for digest in sorted(digests & contents.keys()):
        try:
            return registry.payload(contents[digest])
        except OptotypeError:
            continue
    return None


def ranks_on(panel: Path, items: Collection[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Rank (1 = best, ties share the mean) and mean score in [0, 1] of every model over the items that it has.

    Means are rounded to 12 decimals before ranking, so that no rank hangs on the order of a sum.
    """
    import numpy as np
    from scipy.stats import rankdata

    from optotype.pipelines.compression.scaled import scaled
    from optotype.store.panels import open_panel

    opened = open_panel(panel)
    keys = zip(opened["benchmark"].values.tolist(), opened["item"].values.tolist(), strict=True)
    wanted = set(items)
    places = np.array([i for i, key in enumerate(keys) if key in wanted], dtype=np.int64)
    values = np.asarray(scaled(opened.isel(item=places), "score"), dtype=np.float64)
    there = np.isfinite(values)
    counts = there.sum(axis=1)
    sums = np.where(there, values, 0.0).sum(axis=1)
    models = opened["model"].values.tolist()
    scores = {
        model: round(float(total / count), 12)
        for model, total, count in zip(models, sums, counts, strict=True)
        if count
    }
    ranks = rankdata([-score for score in scores.values()]) if scores else []
    return {
        model: {"rank": float(rank), "score": score} for (model, score), rank in zip(scores.items(), ranks, strict=True)
    }
