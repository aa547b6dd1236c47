"""What the tables of an evaluation cannot support, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

__all__ = ["FEW", "caveats", "merged"]

FEW = 10
"""Held-out models; a ρ over fewer supports no ranking of selectors."""

Row = dict[str, Any]

_NUMBER = re.compile(r"(?<![\w.])[0-9]+(?![\w.]*[0-9])(?!\w)")  # whole ones, not those in a name or a decimal


def caveats(
    tables: Mapping[str, Sequence[Row]],
    notes: Mapping[str, set[str]],
    families: Sequence[str],
    min_held_out: int,
) -> list[str]:
    """Sentences for the reader.

    Parameters
    ----------
    tables : mapping
        As `optotype.pipelines.evaluation.evaluate.evaluate` gives them.
    notes : mapping of selector to set of str
        What selectors said of themselves.
    families : sequence of str
        Of the models of the panel.
    min_held_out : int
    """
    found = [f"{selector}: {note}" for selector, some in notes.items() for note in merged(some)]
    splits = tables.get("held_out_splits", [])
    fewest = min((row["held_out"] for row in splits if row["counted"]), default=FEW)
    if fewest < FEW:
        found.append(
            f"Some ρ are over {fewest} held-out models; ρ over so few supports no ranking of selectors "
            f"(--min-held-out is {min_held_out})"
        )
    total = sum(row["categories"] for row in splits)
    left_out = sum(row["left_out"] for row in splits)
    if left_out:
        found.append(
            f"{left_out} of {total} category results are left out of the means: ρ is undefined, held-out models are "
            "too few, or no item is kept"
        )
    whole = sum(row["whole"] for row in splits)
    if whole:
        found.append(f"{whole} of {total} category results are of pools kept whole (K = n), left out of the means")
    found += _close_calls(tables.get("held_out_summary", []))
    alone = sum(families.count(name) == 1 or not name for name in families)
    if "leave_one_family_out" in tables and not tables.get("cross_family_agreement"):
        found.append("No two families have 4 models each and items in common: there is no agreement between families")
    if "intervals" in tables and alone:
        found.append(
            f"{alone} of {len(families)} models are alone in their family; a bootstrap stratified by family never "
            "varies them, so that the intervals are too narrow"
        )
    return found


def merged(notes: Iterable[str]) -> list[str]:
    """Notes that differ in their numbers alone as one, each number a range; sorted.

    ``3 of 9 items ...`` and ``5 of 9 items ...`` become ``3-5 of 9 items ...``.
    """
    alike: dict[tuple[str, ...], list[list[int]]] = {}
    for note in notes:
        alike.setdefault(tuple(_NUMBER.split(note)), []).append([int(found) for found in _NUMBER.findall(note)])
    found = []
    for words, numbers in alike.items():
        ranges = [f"{low}" if low == high else f"{low}-{high}" for low, high in _ends(numbers)]
        found.append("".join(part for pair in zip_longest(words, ranges, fillvalue="") for part in pair))
    return sorted(found)


def _ends(numbers: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [(min(column), max(column)) for column in zip(*numbers, strict=True)]


def _close_calls(summary: Sequence[Row]) -> list[str]:
    """Retentions at which the best selector leads by less than the spread between splits."""
    close = []
    for retention in sorted({row["retention"] for row in summary}):
        here = [row for row in summary if row["protocol"] == "held-out" and row["retention"] == retention]
        rows = sorted((row for row in here if row["mean"] is not None), key=lambda row: -row["mean"])
        if len(rows) > 1 and rows[0]["sd"] is not None and rows[0]["mean"] - rows[1]["mean"] < rows[0]["sd"]:
            close.append(f"{retention:g}")
    if not close:
        return []
    return [
        f"At retention {', '.join(close)} the best selector leads the next by less than its sd over splits: no claim "
        "rests on a single split"
    ]
