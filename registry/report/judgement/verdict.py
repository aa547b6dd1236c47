"""What can be concluded from a judgement, and what cannot, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optotype.pipelines.kernels.spearman import SAME
from optotype.registry.report.formats import interval, listed, num, percent
from optotype.registry.report.formats import p as told_p

__all__ = ["DROPPED", "LEVEL", "best_first", "verdicts"]

LEVEL = 0.05
DROPPED = 0.05
"""Share of the resamples that may have no correlation before an interval is taken for too narrow."""
_RULE = "p < 0.05 and at most 5 % of the resamples without a correlation"

Row = Mapping[str, Any]


def best_first(rows: Sequence[Row]) -> list[Row]:
    """Rows of the mean over language models under main settings, by falling ρ; those without one last."""
    own = [row for row in rows if row["main"] and row["model"] == "mean"]
    return sorted(own, key=lambda row: (row["rho"] is None, -(row["rho"] or 0), row["label"]))


def verdicts(document: Mapping[str, Any]) -> list[str]:
    """Sentences, the most important first: the caveats, the highest, what it is told apart from, RAVEL's place.

    That a ρ or a difference is above 0 is said where its interval is, its p by shuffling is below `LEVEL`, and at most
    `DROPPED` of the resamples were left out as they have no correlation; else the sentence tells the two. Where no ρ
    whatever is rare among shuffled scores, nothing is said of any metric.
    """
    ranked = [row for row in best_first(document["rows"]) if row["rho"] is not None]
    found = [text for text in document["warnings"] if text.startswith("This is a small pool")]
    if not ranked:
        return [*found, "No result speaks of every language model, so there is no mean to compare."]
    if document["critical_rho"] is None:
        return [*found, f"Nothing is concluded from {len(document['downstream']['encoders'])} encoders."]
    resamples = document["parameters"]["bootstrap"]
    found += _highest(ranked, document["downstream"]["models"])
    gaps = [row for row in document["comparisons"] if row["statistic"] == "rho" and abs(row["difference"]) > SAME]
    names = {row["label"]: row["metric"] for row in ranked}
    if not resamples:
        found += ["Without resamples nothing says whether any difference is more than noise."] if gaps else []
    else:
        found += _told_apart(gaps, names, resamples)
        found += ["The highest was picked on these very encoders, so its lead is told too favourably."] if gaps else []
        found += _above_zero(ranked, resamples)
    return [*found, *_place(ranked)]


def _highest(ranked: Sequence[Row], models: Sequence[str]) -> list[str]:
    """The highest ρ, or those that tie for it; and that it is not above 0."""
    first = ranked[0]
    over = f"mean over {len(models)} language models" if len(models) > 1 else str(models[0])
    top = [row["metric"] for row in ranked if abs(row["rho"] - first["rho"]) <= SAME]
    if len(top) > 1:
        text = f"{listed(top)} tie for the highest ρ, {num(first['rho'])} ({over})"
    else:
        text = f"{first['metric']} has the highest ρ, {num(first['rho'])} ({over})"
    text += f", interval {interval((first['rho_low'], first['rho_high']))}" if first["rho_low"] is not None else ""
    found = [f"{text}."]
    if first["rho"] <= SAME:
        what = "Every ρ is negative" if first["rho"] < -SAME else "No ρ is above 0"
        found.append(f"{what}: encoders that a metric scores higher reach no more downstream.")
    return found


def _told_apart(gaps: Sequence[Row], names: Mapping[str, str], resamples: int) -> list[str]:
    """From what the highest is told apart, and from what it is not."""
    found = []
    above = [row for row in gaps if row["low"] is not None and row["low"] > 0]
    clear = [names[row["other"]] for row in above if _sure(row["p"], row["resamples"], resamples)]
    unsure = [row for row in above if names[row["other"]] not in clear]
    near = [row for row in gaps if row not in above]
    if clear:
        found.append(f"The interval of the difference is above 0 for {listed(clear)} ({_RULE}).")
    if unsure:
        told = [f"{names[row['other']]} ({_doubt(row['p'], row['resamples'], resamples)})" for row in unsure]
        found.append(
            f"The interval of the difference is above 0, and yet the difference is not sure, for {listed(told)}."
        )
    if near:
        found.append(
            f"It is not told apart from {listed([names[row['other']] for row in near])}: there the interval of the "
            "difference holds 0."
        )
        rated = [row for row in near if row["wins"] is not None]
        if rated:
            closest = min(rated, key=lambda row: (row["wins"], row["other"]))
            found[-1] += (
                f" The closest, {names[closest['other']]}, is behind on {percent(closest['wins'])} of the resamples."
            )
    return found


def _above_zero(ranked: Sequence[Row], resamples: int) -> list[str]:
    """Whose ρ is above 0 by interval and p, and whose by its interval alone."""
    above = [row for row in ranked if row["rho_low"] is not None and row["rho_low"] > 0]
    sure = [row["metric"] for row in above if _sure(row["rho_p"], row["rho_resamples"], resamples)]
    unsure = [row for row in above if not _sure(row["rho_p"], row["rho_resamples"], resamples)]
    found = [f"Intervals of ρ above 0 ({_RULE}): {listed(sure) if sure else 'none'}."]
    if unsure:
        told = [f"{row['metric']} ({_doubt(row['rho_p'], row['rho_resamples'], resamples)})" for row in unsure]
        found.append(f"The interval of ρ is above 0, and yet ρ is not surely so, for {listed(told)}.")
    return found


def _place(ranked: Sequence[Row]) -> list[str]:
    own = next((row for row in ranked if row["metric"] == "ravel"), None)
    if own is None or len(ranked) < 2:
        return []
    place = 1 + sum(row["rho"] > own["rho"] + SAME for row in ranked)
    ties = [row["metric"] for row in ranked if row is not own and abs(row["rho"] - own["rho"]) <= SAME]
    text = f"RAVEL is number {place} of {len(ranked)}, with ρ {num(own['rho'])} and r {num(own['r'])}"
    return [f"{text}; {listed(ties)} {'ties' if len(ties) == 1 else 'tie'} with it." if ties else f"{text}."]


def _sure(p: float | None, kept: int, resamples: int) -> bool:
    return p is not None and p < LEVEL and resamples - kept <= DROPPED * resamples


def _doubt(p: float | None, kept: int, resamples: int) -> str:
    return f"p {told_p(p)}, {percent((resamples - kept) / resamples)} of the resamples without a correlation"
