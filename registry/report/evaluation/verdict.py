"""What can be concluded from an evaluation, and what cannot, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optotype.pipelines.evaluation.caveats import FEW
from optotype.registry.report.formats import count, listed, num, share

__all__ = ["SHARE", "against", "fewest_held_out", "verdicts"]

SHARE = 0.9
"""Of the splits: in as many, at least, a selector is ahead of (or not ahead of) the baseline before this report says
that it is ahead (or behind)."""

Row = Mapping[str, Any]

_SPLITS = 10


def fewest_held_out(splits: Sequence[Row]) -> int | None:
    """The least number of held-out models that a counted ρ is over; None where nothing is counted."""
    return min((row["held_out"] for row in splits if row["counted"]), default=None)


def against(row: Row, baseline: str | None, fewest: int | None) -> str:
    """``ahead``, ``behind`` or ``even``; ``baseline`` for the baseline itself, ``unknown`` where nothing can be said.

    Ahead: the mean difference over the splits exceeds its sd, and at least `SHARE` of the splits are won; behind:
    the mirror image. The rule is about these models: splits share them, and are no independent trials.
    """
    if row["selector"] == baseline:
        return "baseline"
    gap, sd = row["minus_baseline"], row["minus_baseline_sd"]
    if gap is None or sd is None or fewest is None or fewest < FEW:
        return "unknown"
    won = row["ahead_of_baseline"] / row["splits"]
    if gap > sd and won >= SHARE:
        return "ahead"
    return "behind" if gap < -sd and won <= 1 - SHARE + 1e-9 else "even"


def verdicts(document: Mapping[str, Any]) -> list[str]:
    """Sentences, the most important first."""
    tables, parameters = document["tables"], document["parameters"]
    summary = [row for row in tables.get("held_out_summary", []) if row["protocol"] == "held-out"]
    splits = [row for row in tables.get("held_out_splits", []) if row["protocol"] == "held-out"]
    if not summary:
        return [
            "No random splits were asked for: nothing here says how selectors compare on models they have not seen."
        ]
    fewest = fewest_held_out(splits)
    if fewest is None:
        return ["No ρ counts: every category is kept whole, has too few held-out models, or ties them all."]
    if fewest < FEW:
        return [
            f"Some ρ are over {fewest} held-out models. That supports no ranking of selectors: read the tables as an "
            "account of this run, not as a comparison."
        ]
    found = [
        f"Each ρ is over {fewest} or more held-out models of a panel of {document['panel']['models']}. All splits are "
        "drawn from the same models, so they are no independent trials, and what holds on this panel need not hold on "
        "another."
    ]
    drawn = len({row["split"] for row in splits})
    if drawn < _SPLITS:
        found.append(
            f"Only {drawn} split{'s were' if drawn != 1 else ' was'} drawn: a spread over so few is a rough guess."
        )
    found += _floored(summary, parameters)
    baseline = parameters.get("baseline")
    for retention in parameters["retentions"]:
        rows = [row for row in summary if row["retention"] == retention and row["mean"] is not None]
        if rows:
            found.append(f"At {share(retention)} (K {count(rows[0]['K'])}): {_at(rows, baseline, fewest)}")
    return found


def _floored(summary: Sequence[Row], parameters: Mapping[str, Any]) -> list[str]:
    """Retentions that keep the same number of items, as the floor sets the budgets and not r."""
    kept = {row["retention"]: row["K"] for row in summary if row["K"] is not None}
    least = [retention for retention, size in kept.items() if size == min(kept.values())]
    if len(least) < 2:
        return []
    words = listed([share(retention) for retention in sorted(least)])
    return [f"K is the same at {words}: there the floor of {parameters['floor']} items sets the budgets, not r."]


def _at(rows: Sequence[Row], baseline: str | None, fewest: int) -> str:
    ranked = sorted(rows, key=lambda row: (-row["mean"], row["selector"]))
    first = ranked[0]
    words = f"{first['selector']} has the highest mean ρ, {num(first['mean'])}"
    if len(ranked) > 1:
        near = [row["selector"] for row in ranked[1:] if first["mean"] - row["mean"] < (first["sd"] or 0)]
        words += f"; within its sd lie {listed(near)}, so that none of these is the best" if near else ""
    if baseline is None:
        return f"{words}. Without random items nothing says whether that is better than chance."
    marks = {row["selector"]: against(row, baseline, fewest) for row in rows}
    parts = [
        f"{verb} {baseline}: {listed([name for name, mark in marks.items() if mark == kind])}"
        for kind, verb in (("ahead", "Ahead of"), ("behind", "Behind"), ("even", "Not told apart from"))
        if kind in marks.values()
    ]
    return f"{words}. {'. '.join(parts)}{'.' if parts else ''}"
