"""How far the models move when they are ranked on the compressed suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import bottleneck
import numpy as np

__all__ = ["moves"]


def moves(models: Sequence[Mapping[str, Any]], family: Mapping[str, str], before: str) -> list[dict[str, Any]]:
    """Rank of every model before and after, largest move first, then by rank.

    Parameters
    ----------
    models : sequence of mappings
        As `optotype.pipelines.compression.compress.Compression` has them.
    family : mapping of str to str
        Of each model.
    before : {"all", "reference"}
        The leaderboard that is compared with the compressed one.

    Returns
    -------
    list of dict
        ``model, family, score_before, rank_before, score_after, rank_after, move`` of the models on both leaderboards.
        Both ranks are among these models alone (1 is the best, ties share their mean rank); ``move`` is the places
        gained, negative if lost.
    """
    both = [row for row in models if row[f"rank_{before}"] is not None and row["rank_compressed"] is not None]
    if not both:
        return []
    first, after = (
        bottleneck.rankdata(np.array([row[f"rank_{name}"] for row in both], dtype=np.float64))
        for name in (before, "compressed")
    )
    rows = [
        {
            "model": row["model"],
            "family": family.get(row["model"], ""),
            "score_before": row[f"score_{before}"],
            "rank_before": float(first[place]),
            "score_after": row["score_compressed"],
            "rank_after": float(after[place]),
            "move": float(first[place] - after[place]),
        }
        for place, row in enumerate(both)
    ]
    return sorted(rows, key=lambda row: (-abs(row["move"]), row["rank_before"], row["model"]))
