"""What a payload ranks, as tables to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds import adapter

__all__ = ["result_tables"]

_MAIN = ("none", "l2")  # row normalisation of features and states that a ranking is read under, where it has it
_SHOWN = 100


def result_tables(kind: str, payload: Path) -> list[dict[str, Any]]:
    """Tables of ranks, best first.

    Returns
    -------
    list of dict
        ``title``, ``subject`` (what a row is), ``rows`` of ``{"rank", "name", "score", "interval", "adjusted"}`` (None
        for what there is not), ``more`` (rows that are left out), ``chance`` (float or None), ``note``.
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
    keys = list(found.rows)
    main = _MAIN if any(key[2:] == _MAIN for key in keys) else keys[0][2:]
    others = len({key[2:] for key in keys}) - 1
    tables = []
    for model in sorted({key[1] for key in keys if key[2:] == main}):
        mine = {key[0]: found.rows[key] for key in keys if key[1] == model and key[2:] == main}
        scores = {encoder: float(row["score"]) for encoder, row in mine.items()}
        rows = [
            {
                "rank": 1 + sum(other > scores[encoder] for other in scores.values()),
                "name": encoder,
                "score": scores[encoder],
                "interval": row.get("interval"),
                "adjusted": row.get("adjusted"),
            }
            for encoder, row in mine.items()
        ]
        rows.sort(key=lambda row: (row["rank"], row["name"]))
        first = next(iter(mine.values()))
        note = f"{first.get('n')} items, {first.get('k')} neighbours; features {main[0]}, states {main[1]} as row norm."
        if others:
            note += f" {others} other row norm{'s' if others > 1 else ''} in ranking.json."
        tables.append({**_table(model, "encoder", rows), "chance": first.get("chance"), "note": note})
    return tables


def _table(title: str, subject: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "title": title,
        "subject": subject,
        "rows": rows[:_SHOWN],
        "more": max(0, len(rows) - _SHOWN),
        "chance": None,
        "note": None,
    }
