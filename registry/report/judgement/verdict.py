"""What can be concluded from a judgement, and what cannot, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optotype.registry.report.formats import interval, listed, num, percent

__all__ = ["best_first", "verdicts"]

Row = Mapping[str, Any]


def best_first(rows: Sequence[Row]) -> list[Row]:
    """Rows of the mean over language models under main settings, by falling ρ; those without one last."""
    own = [row for row in rows if row["main"] and row["model"] == "mean"]
    return sorted(own, key=lambda row: (row["rho"] is None, -(row["rho"] or 0), row["label"]))


def verdicts(document: Mapping[str, Any]) -> list[str]:
    """Sentences, the most important first: the caveats, the highest, what it is told apart from, RAVEL's place."""
    ranked = [row for row in best_first(document["rows"]) if row["rho"] is not None]
    models = document["downstream"]["models"]
    found = [text for text in document["warnings"] if text.startswith("This is a small pool")]
    if not ranked:
        return [*found, "No result speaks of every language model, so there is no mean to compare."]
    first = ranked[0]
    over = f"mean over {len(models)} language models" if len(models) > 1 else str(models[0])
    text = f"{first['metric']} has the highest ρ, {num(first['rho'])} ({over})"
    text += f", interval {interval((first['rho_low'], first['rho_high']))}" if first["rho_low"] is not None else ""
    found.append(f"{text}.")
    gaps = [row for row in document["comparisons"] if row["statistic"] == "rho" and row["low"] is not None]
    names = {row["label"]: row["metric"] for row in ranked}
    if gaps:
        clear = [names[row["other"]] for row in gaps if row["low"] > 0]
        near = [names[row["other"]] for row in gaps if row["low"] <= 0]
        if clear:
            found.append(f"The interval of the difference is above 0 for {listed(clear)}.")
        if near:
            closest = max(gaps, key=lambda row: (-row["wins"], row["other"]))
            found.append(
                f"It is not told apart from {listed(near)}: there the interval of the difference holds 0. The closest, "
                f"{names[closest['other']]}, is behind on {percent(closest['wins'])} of the resamples."
            )
        found.append("The highest was picked on these very encoders, so its lead is told too favourably.")
    elif len(ranked) > 1:
        found.append("Without resamples nothing says whether any difference is more than noise.")
    sure = [row["metric"] for row in ranked if row["rho_low"] is not None and row["rho_low"] > 0]
    if any(row["rho_low"] is not None for row in ranked):
        found.append(f"Intervals of ρ above 0: {listed(sure) if sure else 'none'}.")
    place = next((at for at, row in enumerate(ranked, 1) if row["metric"] == "ravel"), None)
    if place is not None and len(ranked) > 1:
        own = ranked[place - 1]
        found.append(f"RAVEL is number {place} of {len(ranked)}, with ρ {num(own['rho'])} and r {num(own['r'])}.")
    return found
