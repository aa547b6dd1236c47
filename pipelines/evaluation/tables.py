"""Rows of categories and splits, drawn together: means, spreads, wins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["by_category", "by_family", "by_split", "end_to_end_summary", "summary", "variant_summary"]

Row = dict[str, Any]

SAME = 1e-12  # means this close share a win


def by_split(rows: Iterable[Row]) -> list[Row]:
    """Mean ρ over the categories of each split.

    A category is left out, and counted, where it is kept whole, where ρ is not defined, or where it is too small in
    held-out models.

    Returns
    -------
    list of dict
        ``protocol, selector, retention, split, rho, mae, categories, counted, whole, left_out, n, K, held_out``: n and
        K are sums over the counted categories, ``held_out`` is the smallest number of models that a counted ρ is over.
    """
    found = []
    for key, group in _grouped(rows, ("protocol", "selector", "retention", "split")).items():
        counted = [row for row in group if row["counted"]]
        found.append(
            {
                **dict(zip(("protocol", "selector", "retention", "split"), key, strict=True)),
                "rho": _mean([row["rho"] for row in counted]),
                "mae": _mean([row["mae"] for row in counted]),
                "categories": len(group),
                "counted": len(counted),
                "whole": sum(row["whole"] for row in group),
                "left_out": sum(not row["counted"] and not row["whole"] for row in group),
                "n": sum(row["n"] for row in counted),
                "K": sum(row["K"] for row in counted),
                "held_out": min((row["held_out"] for row in counted), default=0),
            }
        )
    return found


def summary(splits: Iterable[Row], *, value: str = "rho", baseline: str = "random") -> list[Row]:
    """Mean, sd, min and max over splits, wins, and the paired difference to a baseline.

    Parameters
    ----------
    splits : iterable of dict
        Rows with ``protocol, selector, retention, split`` and a value; None is left out.
    value : str
    baseline : str
        A selector; without it in the rows the differences are None.

    Returns
    -------
    list of dict
        ``protocol, selector, retention, K, splits, mean, sd, min, max, wins, minus_baseline, minus_baseline_sd,
        ahead_of_baseline``. sd has ddof 1 (None for one split). A split is won by the selector with the highest value,
        by all that share it within 1e-12; one selector alone wins nothing.
    """
    rows = list(splits)
    at: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row[value] is not None:
            at[row["protocol"], row["retention"], row["split"]][row["selector"]] = row[value]
    found = []
    for (protocol, selector, retention), group in _grouped(rows, ("protocol", "selector", "retention")).items():
        values = [row[value] for row in group if row[value] is not None]
        places = [at[protocol, retention, row["split"]] for row in group]
        gaps = [place[selector] - place[baseline] for place in places if selector in place and baseline in place]
        gaps = [] if selector == baseline else gaps
        found.append(
            {
                "protocol": protocol,
                "selector": selector,
                "retention": retention,
                "K": _mean([row["K"] for row in group]),
                "splits": len(values),
                "mean": _mean(values),
                "sd": _sd(values),
                "min": min(values, default=None),
                "max": max(values, default=None),
                "wins": sum(_wins(place, selector) for place in places),
                "minus_baseline": _mean(gaps),
                "minus_baseline_sd": _sd(gaps),
                "ahead_of_baseline": sum(gap > SAME for gap in gaps),
            }
        )
    return found


def _wins(place: Mapping[str, float], selector: str) -> bool:
    return len(place) > 1 and selector in place and place[selector] >= max(place.values()) - SAME


def by_category(rows: Iterable[Row]) -> list[Row]:
    """Mean and sd of ρ over the splits in which a category counts (Table 9)."""
    names = ("protocol", "category", "selector", "retention")
    found = []
    for key, group in _grouped(rows, names).items():
        values = [row["rho"] for row in group if row["counted"]]
        found.append(
            {
                **dict(zip(names, key, strict=True)),
                "n": group[0]["n"],
                "K": group[0]["K"],
                "whole": all(row["whole"] for row in group),
                "splits": len(values),
                "left_out": len(group) - len(values),
                "mean": _mean(values),
                "sd": _sd(values),
                "mae": _mean([row["mae"] for row in group if row["counted"]]),
            }
        )
    return found


def end_to_end_summary(rows: Sequence[Row], baseline: str) -> list[Row]:
    """Summaries with stage 3 (``stage 3: true``) and without, and splits in which a selector beats all items kept.

    Parameters
    ----------
    rows : sequence of dict
    baseline : str
        Selector of the rows that keep all items; those are compared at every retention.
    """
    found = []
    retentions = sorted({row["retention"] for row in rows if row["selector"] != baseline}) or [1.0]
    for value, stage_3 in (("rho", True), ("rho_without_stage_3", False)):
        spread = [
            {**row, "retention": retention}
            for row in rows
            for retention in (retentions if row["selector"] == baseline else [row["retention"]])
        ]
        found += [{"stage_3": stage_3, **row} for row in summary(spread, value=value, baseline=baseline)]
    return found


def by_family(rows: Iterable[Row]) -> list[Row]:
    """Mean shift in places over families and categories that count, of each selector and retention."""
    found = []
    for (selector, retention), group in _grouped(rows, ("selector", "retention")).items():
        counted = [row for row in group if row["counted"] and row["rank_shift"] is not None]
        found.append(
            {
                "protocol": "leave-one-family-out",
                "selector": selector,
                "retention": retention,
                "families": len({row["split"] for row in counted}),
                "rows": len(counted),
                "left_out": len(group) - len(counted),
                "rank_shift": _mean([row["rank_shift"] for row in counted]),
                "ranked": _mean([row["ranked"] for row in counted]),
                "rho": _mean([row["rho"] for row in counted]),
            }
        )
    return found


def variant_summary(rows: Iterable[Row]) -> list[Row]:
    """Mean ρ over the (set, category) pairs whose own ranking is stable, of each selector and retention."""
    found = []
    for (selector, retention), group in _grouped(rows, ("selector", "retention")).items():
        used = [row for row in group if row["supports"] and row["counted"]]
        found.append(
            {
                "protocol": "variants",
                "selector": selector,
                "retention": retention,
                "sets": len(used),
                "unstable": sum(not row["supports"] for row in group),
                "mean": _mean([row["rho"] for row in used]),
                "sd": _sd([row["rho"] for row in used]),
                "min": min((row["rho"] for row in used), default=None),
            }
        )
    return found


def _grouped(rows: Iterable[Row], names: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their values under some names, in the order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _sd(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
