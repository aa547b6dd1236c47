"""Small pair suites: `from pair_suites import write_pair_suite`."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["make_questions", "make_statements", "write_answers", "write_pair_suite"]

SHORT = ("orientation", "count")


def make_questions(pairs: int = 4, *, first: int = 1) -> list[dict[str, str]]:
    """Two questions a pair about open and closed wings, of opposite keys, in two patterns; ids count from ``first``."""
    rows = []
    for n in range(2 * pairs):
        pair = n // 2
        rows.append(
            {
                "id": str(first + n),
                "pair": f"p{pair}",
                "side": str(1 + n % 2),
                "image": f"img-{n:03d}",
                "question": "Are the wings open or closed?",
                "option_a": "Open",
                "option_b": "Closed",
                "answer": "ab"[n % 2],
                "pattern": SHORT[pair % 2],
            }
        )
    return rows


def make_statements(patterns: Sequence[str]) -> list[dict[str, str]]:
    """Two statements for each pair of one of ``patterns``."""
    return [
        {
            "id": f"s{pair}-{side}",
            "pair": f"p{pair}",
            "side": str(side),
            "image": f"img-{2 * pair + side - 1:03d}",
            "text": f"wings {'open' if side == 1 else 'closed'}",
            "pattern": pattern,
        }
        for pair, pattern in enumerate(patterns)
        for side in (1, 2)
    ]


def write_pair_suite(
    folder: Path,
    questions: Sequence[Mapping[str, str]] = (),
    statements: Sequence[Mapping[str, str]] = (),
    **document: Any,
) -> Path:
    """A folder that `optotype.store.pair_suites.read_pair_suite` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format_version": 1, "kind": "pair-suite", **document})
    (folder / "pair-suite.json").write_text(text, encoding="utf-8")
    for name, rows in (("questions.csv", questions), ("statements.csv", statements)):
        if rows:
            write_answers(folder / name, rows)
    return folder


def write_answers(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A CSV of rows."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
