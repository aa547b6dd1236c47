"""What a payload ranks, as tables to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.kinds.adapter import Rows
from optotype.registry.rankings import main_rows

__all__ = ["result_tables"]

_NONE = str(None)  # as the adapter of rankings writes it into keys
_SHOWN = 100


def result_tables(kind: str, payload: Path) -> list[dict[str, Any]]:
    """Tables of ranks, best first.

    Returns
    -------
    list of dict
        ``title``, ``subject`` (what a row is), ``rows`` of ``{"rank", "name", "score", "interval", "adjusted"}`` (None
        for what there is not), ``more`` (rows that are left out), ``chance`` (float or None), ``note``. Of a ranking
        one metric under one setting is shown (that of `optotype.registry.rankings.main_rows`); its name is in the title
        where others could have been asked for, and the note counts the others.
    """
    return _rankings(payload) if kind == "ranking" else _ranks(kind, payload)


def _ranks(kind: str, payload: Path) -> list[dict[str, Any]]:
    ranks = adapter(kind).ranks(payload)
    if not ranks:
        return []
    rows = [
        {"rank": value.get("rank"), "name": name, "score": value.get("score"), "interval": None, "adjusted": None}
        for name, value in ranks.items()
    ]
    rows.sort(key=lambda row: (row["rank"] is None, row["rank"] or 0.0, row["name"]))
    return [_table("Models", "model", rows)]


def _rankings(payload: Path) -> list[dict[str, Any]]:
    found = adapter("ranking").rows(payload)
    if found is None:
        return []
    several = "metric" in found.key  # it was made by any metrics, under any settings
    chosen = _chosen(found)
    others = len({key[2:] for key in found.rows} - {row["key"][2:] for row in chosen})
    tables = []
    for model in sorted({row["model"] for row in chosen}):
        mine = [row for row in chosen if row["model"] == model]
        scores = [float(row["score"]) for row in mine]
        rows = [
            {
                "rank": 1 + sum(other > score for other in scores),
                "name": row["encoder"],
                "score": score,
                "interval": row.get("interval"),
                "adjusted": row.get("adjusted"),
            }
            for row, score in zip(mine, scores, strict=True)
        ]
        rows.sort(key=lambda row: (row["rank"], row["name"]))
        title = model
        if several:
            title = mine[0]["metric"] if model == _NONE else f"{model}, by {mine[0]['metric']}"
        note = _note(mine[0], others, several)
        tables.append({**_table(title, "encoder", rows), "chance": mine[0].get("chance"), "note": note})
    return tables


def _chosen(found: Rows) -> list[dict[str, Any]]:
    """The rows that are shown, those that stand for the first metric, as `main_rows` chooses them; with their keys."""
    rows = [{**dict(zip(found.key, key, strict=True)), **values, "key": key} for key, values in found.rows.items()]
    for row in rows:
        row |= {name: float(row[name]) for name in ("eps", "gamma") if row.get(name, _NONE) != _NONE}
    return [dict(row) for row in main_rows([row for row in rows if row.get("metric") == rows[0].get("metric")])]


def _note(row: Mapping[str, Any], others: int, several: bool) -> str:
    """What the rows of a table were made under, and how much else there is."""
    note = f"{row.get('n')} items"
    if row.get("k") is not None:
        note += f", {row['k']} neighbours"
    if row["prenorm_features"] != _NONE:
        note += f"; features {row['prenorm_features']}, states {row['prenorm_states']} as row norm"
    note += "."
    if others and several:
        note += f" {others} other metric{'s' if others > 1 else ''} or setting{'s' if others > 1 else ''}"
    elif others:
        note += f" {others} other row norm{'s' if others > 1 else ''}"
    return f"{note} in ranking.json." if others else note


def _table(title: str, subject: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": title,
        "subject": subject,
        "rows": rows[:_SHOWN],
        "more": max(0, len(rows) - _SHOWN),
        "chance": None,
        "note": None,
    }
