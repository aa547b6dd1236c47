"""What a compressed suite and a panel of probes amount to, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from optotype.registry.report.compression.probes import CHANCE
from optotype.registry.report.formats import count, listed, num, percent

__all__ = ["probe_verdicts", "set_by", "verdicts"]

_FEW = 10  # models; a ρ over fewer says little
_GOOD = 0.9


def verdicts(document: Mapping[str, Any]) -> list[str]:
    """What the suite keeps, and what that does to the ranking."""
    stages, moved = document["suite"]["stages"], document["moves"]["rows"]
    first, last = stages[0], stages[-1]
    share = percent(last["items_out"] / first["items_in"])
    found = [
        f"{count(last['items_out'])} of {count(first['items_in'])} items ({share}) are left, in "
        f"{last['categories_out']} of {first['categories_in']} categories."
    ]
    if last["rho_to_reference"] is not None and len(stages) > 1:
        found.append(
            f"Ranked by them, {len(moved)} models stand as on the cleaned items with ρ = "
            f"{num(last['rho_to_reference'])}; {_largest(moved)}"
        )
    if 0 < len(moved) < _FEW:
        found.append(f"A ρ over {len(moved)} models says little: a single exchange of places moves it a lot.")
    if len(stages) > 2:
        found += _budget_verdict(stages[2]["details"], stages[2])
    return found


def _largest(moved: Sequence[Mapping[str, Any]]) -> str:
    if not moved or moved[0]["move"] == 0:
        return "no model changes its place."
    top = moved[0]
    return f"the largest move is {abs(top['move']):g} places ({top['model']})."


def _budget_verdict(details: Mapping[str, Any], stage: Mapping[str, Any]) -> list[str]:
    rows = details["categories"]
    found = []
    judged = [row for row in rows if row["rho"] is not None and row["K"] < row["n"]]
    if judged:
        worst = min(judged, key=lambda row: row["rho"])
        found.append(
            f"The kept items agree least with their pool in {worst['category']}: ρ = {num(worst['rho'])}."
            if worst["rho"] < _GOOD
            else f"In every category that was cut, the kept items agree with their pool with ρ ≥ {num(worst['rho'])}."
        )
    floor = sum(set_by(row, details) == "floor" for row in rows)
    whole = sum(row["K"] == row["n"] for row in rows)
    if not floor and not whole:
        return found
    kept = percent(stage["items_out"] / stage["items_in"])
    words = f"The floor of {details['floor']} items, not the retention of {details['retention']:g}, set the budget of "
    words += f"{floor} of {len(rows)} categories"
    if whole:
        words += f", and {whole} {'is' if whole == 1 else 'are'} kept whole, where ρ = 1 means nothing"
    return [*found, f"{words}: stage 2 keeps {kept} of its items."]


def set_by(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """What a category's budget comes from: all its items, the floor, or the retention."""
    if row["K"] == row["n"]:
        return "whole"
    return "floor" if row["K"] > math.floor(round(details["retention"] * row["n"], 9)) else "retention"


def probe_verdicts(
    probe: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    matrix: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> list[str]:
    """Who is best and tied with it, what the options alone give away, and where the floor lies."""
    sighted = [row for row in rows if row["modality"] == "image"]
    blind = [row for row in rows if row["modality"] == "blind"]
    found = []
    tied = probe["tied_with_best"]
    if tied:
        total = len(sighted)
        found.append(
            f"{tied[0]} has the highest accuracy; {len(tied) - 1} of the other {total - 1} models are tied with it."
            if len(tied) > 1
            else f"{tied[0]} has the highest accuracy, and no other model is tied with it."
        )
    if blind:
        best = max(row["by_kind"]["all"]["accuracy"] for row in blind)
        found.append(
            f"The best blind run reaches {num(best)} over all kinds, chance is {CHANCE:g}: "
            + (
                "the options alone give little away."
                if best < CHANCE + 0.05
                else "the options alone give something away."
            )
        )
    untrained = probe["untrained"]
    if untrained is not None:
        own = [row["by_kind"]["all"]["accuracy"] for row in sighted if row["encoder"] == untrained]
        line = next(line for line in matrix if line["encoder"] == untrained) if matrix else {"cells": []}
        never = [name for name, pair in zip(names, line["cells"], strict=False) if pair and pair["tied"] == 0]
        ever = [name for name, pair in zip(names, line["cells"], strict=False) if pair and pair["tied"] > 0]
        reach = f"{num(min(own))} to {num(max(own))}"
        words = f"{untrained} was never trained and still reaches {reach}: that, not chance, is the floor."
        if ever:
            are = "is" if len(ever) == 1 else "are"
            words += f" {listed(ever)} {are} tied with it under at least one language model and probe"
            words += f"; {listed(never)} never." if never else "."
        found.append(words)
    return found
