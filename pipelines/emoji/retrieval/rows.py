"""One row per task and language out of what retrieval found in one space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optotype.pipelines.retrieval.evaluate import Retrieval

__all__ = ["rows_of"]

_CELL = (
    "task",
    "language",
    "queries",
    "candidates",
    "invalid_queries",
    "invalid_truths",
    "p1",
    "hit",
    "mrr",
    "ndcg",
    "chance",
    "interval",
)


def rows_of(head: Mapping[str, Any], retrieval: Retrieval) -> list[dict[str, Any]]:
    """Rows of all cells, in their order.

    Parameters
    ----------
    head : mapping
        What every row begins with.
    retrieval : Retrieval

    Returns
    -------
    list of dict
        ``head``, then what `Retrieval.cells` has of a cell, then ``gap_to_english`` (P@1 of English minus this, in
        percentage points) and ``agreement`` (percent of the items whose prediction is that of English) out of
        `Retrieval.languages`; null where there is no English to compare with.
    """
    by_language = {row["language"]: row for row in retrieval.languages}
    rows = []
    for cell in retrieval.cells:
        of_language = by_language[cell["language"]]
        against = {name: (of_language[name] or {}).get(cell["task"]) for name in ("gap_to_english", "agreement")}
        of_cell = {name: cell[name] for name in _CELL}
        for name in ("hit", "ndcg"):  # by k, as text: what a JSON document has
            of_cell[name] = {str(k): value for k, value in cell[name].items()}
        rows.append({**head, **of_cell, **against})
    return rows
