"""Rows of an evaluation's tables as grids, selectors down and retentions across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Grid", "columns", "grid", "main_retention"]

Row = Mapping[str, Any]
Grid = dict[str, Any]

_USUAL = 0.05


def main_retention(retentions: Sequence[float]) -> float:
    """The retention that is shown where only one is: the one nearest to the paper's 5 %."""
    return min(retentions, key=lambda value: (abs(value - _USUAL), value))


def columns(rows: Sequence[Row], retentions: Sequence[float]) -> list[dict[str, Any]]:
    """A column for each retention, with the least and largest K that its rows have."""
    found = []
    for retention in retentions:
        kept = [row["K"] for row in rows if row["retention"] == retention and row.get("K")]
        found.append({"retention": retention, "K": [min(kept), max(kept)] if kept else None})
    return found


def grid(
    rows: Sequence[Row],
    selectors: Sequence[str],
    retentions: Sequence[float],
    value: str = "mean",
    *,
    among: Sequence[str] | None = None,
) -> Grid:
    """Rows by selector and retention.

    Parameters
    ----------
    rows : sequence of mappings
        With ``selector``, ``retention`` and a value, each pair once.
    selectors, retentions : sequence
        In the order of the grid; selectors without a row are left out.
    value : str
        What is compared: the largest of each column is marked.
    among : sequence of str, optional
        Selectors that are compared, and whose K stand over the columns; all by default.

    Returns
    -------
    dict
        ``columns`` (see `columns`), ``lines`` (``selector``, ``cells``: the rows or None, each with ``top``).
    """
    at = {(row["selector"], row["retention"]): row for row in rows}
    compared = [row for row in rows if row["selector"] in (selectors if among is None else among)]
    best = {
        retention: max(
            (row[value] for row in compared if row["retention"] == retention and row[value] is not None), default=None
        )
        for retention in retentions
    }
    lines = []
    for selector in selectors:
        cells = [at.get((selector, retention)) for retention in retentions]
        if any(cells):
            fair = among is None or selector in among
            marked = [
                None if cell is None else {**cell, "top": fair and cell[value] is not None and cell[value] == top}
                for cell, top in zip(cells, best.values(), strict=True)
            ]
            lines.append({"selector": selector, "cells": marked})
    return {"columns": columns(compared, retentions), "lines": lines}
