"""What can be concluded from retrieval over emoji, and what cannot, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optotype.registry.report.formats import count, listed
from optotype.registry.report.retrieval.tables import LANGUAGES, TASKS, chances, order

__all__ = ["points", "spread", "verdicts"]

Row = Mapping[str, Any]

_UNTRAINED = "random-vit"


def points(value: float | None) -> str:
    """Percent or percentage points: one decimal."""
    return "–" if value is None else f"{value + 0.0:.1f}".replace("-0.0", "0.0").replace("-", "−")


def spread(row: Row) -> str:
    """The ends of an interval; nothing where there is none."""
    return "" if row["low"] is None else f"{points(row['low'])} to {points(row['high'])}"


def verdicts(document: Row) -> list[str]:
    """Sentences, the most important first; none claims more than its interval does."""
    names, contrasts = order(document), document["contrasts"]
    main = names["style"][0]
    found = [_scope(document)]
    if not document["parameters"]["bootstrap"]:
        found.append("Without intervals (--bootstrap) nothing says whether a difference is more than noise.")
        return found
    means = [row for row in contrasts if row["kind"] == "mean" and row["fitted_on"] == row["style"] == main]
    by_chance = chances(document["rows"])
    for model in names["language_model"]:
        own = [row for row in means if row["language_model"] == model and row["language"] is not None]
        found.append(_level(model, main, own, by_chance))
    found += _floor(document["rows"], main)
    gaps = [row for row in contrasts if row["kind"] == "gap" and row["style"] == main and row["low"] is not None]
    if gaps:
        found.append(_gap(main, gaps))
    # Where all else is near chance, a mean over languages hides what happens in English.
    language = "en" if "en" in names["language"] else None
    for kind, words in (
        ("style", "Names in another style under a map fitted on that style, against {} names under theirs"),
        ("other-style", "Names in a style that the map was not fitted on, against those it was fitted on"),
    ):
        own = [row for row in contrasts if row["kind"] == kind and row["language"] == language]
        if own:
            found.append(_styles(words.format(main), own))
    return found


def _scope(document: Row) -> str:
    rows = document["rows"]
    asked = sorted({row["queries"] for row in rows})
    encoders = len(order(document)["encoder"])
    several = f"{count(asked[0])} to {count(asked[-1])}" if len(asked) > 1 else count(asked[0])
    return (
        f"Each P@1 is over {several} queries, so one more right answer is {points(100 / asked[0])} points; the figures "
        f"in these sentences are means over {encoders} encoder{'s' if encoders != 1 else ''}. Intervals resample the "
        "emoji: they speak of other emoji like these, not of other encoders, and among so many some exclude 0 by luck."
    )


def _level(model: str, style: str, means: Sequence[Row], by_chance: Mapping[tuple[str, str], float]) -> str:
    parts = []
    for task in dict.fromkeys(row["task"] for row in means):
        own = [row for row in means if row["task"] == task]
        best = max(own, key=lambda row: row["value"])
        above = [row for row in own if row["low"] is not None and row["low"] > by_chance[task, row["language"]]]
        others = [_name(row) for row in own if row not in above]
        text = f"{TASKS.get(task, task)}, {_name(best)} has the highest P@1, {points(best['value'])} % ({spread(best)})"
        if not others:
            parts.append(f"{text}; every language is above chance")
        elif above:
            parts.append(f"{text}; not told apart from chance: {listed(others)}")
        else:
            parts.append(f"{text}; no language is told apart from chance")
    return f"{model}, {style} names: {'. '.join(part[0].upper() + part[1:] for part in parts)}."


def _floor(rows: Sequence[Row], style: str) -> list[str]:
    """What an encoder that was never trained reaches, if there is one."""
    own = [row for row in rows if row["encoder"] == _UNTRAINED and row["fitted_on"] == row["style"] == style]
    if not own:
        return []
    best = max(own, key=lambda row: row["p1"]["expected"])
    return [
        f"{_UNTRAINED} was never trained and is one of the encoders; with {style} names it reaches up to "
        f"{points(best['p1']['expected'])} % ({best['language_model']}, {TASKS.get(best['task'], best['task'])}, "
        f"{_name(best)}). Above chance is therefore not yet above what colour and layout give."
    ]


def _gap(style: str, gaps: Sequence[Row]) -> str:
    behind = [row for row in gaps if row["low"] > 0]
    ahead = [row for row in gaps if row["high"] < 0]
    even = [row for row in gaps if row["low"] <= 0 <= row["high"]]
    text = f"Gap to English, {style} names, {len(gaps)} comparisons of a language model, task and language: "
    parts = []
    if behind:
        least, most = (points(end(row["value"] for row in behind)) for end in (min, max))
        many = f"all {len(behind)}" if len(behind) == len(gaps) else str(len(behind))
        parts.append(f"behind English in {many}, by {least} to {most} points")
    for words, rows in (("ahead of it", ahead), ("not told apart", even)):
        if rows:
            told = [f"{row['language_model']} {TASKS.get(row['task'], row['task'])} in {_name(row)}" for row in rows]
            parts.append(f"{words} in {len(rows)} ({listed(told)})")
    return f"{text}{'; '.join(parts)}."


def _styles(words: str, rows: Sequence[Row]) -> str:
    spoken = "over all languages" if rows[0]["language"] is None else f"in {_name(rows[0])}"
    groups: dict[str, list[str]] = {"better": [], "worse": [], "not told apart": []}
    for row in rows:
        if row["low"] is None:
            continue
        verdict = "better" if row["low"] > 0 else "worse" if row["high"] < 0 else "not told apart"
        where = f"{row['language_model']}, {TASKS.get(row['task'], row['task'])}"
        if row["kind"] == "other-style":
            where += f", {row['style']} under a map of {row['fitted_on']} names"
        groups[verdict].append(f"{where} ({points(row['value'])} points; {spread(row)})")
    parts = [
        f"{verdict}: {', '.join(told)}" for verdict, told in groups.items() if told and verdict != "not told apart"
    ]
    even = len(groups["not told apart"])
    if even:
        parts.append(f"not told apart: {f'all {even}' if even == len(rows) else f'{even} of {len(rows)}'}")
    return f"{words}, {spoken}: {'; '.join(parts)}."


def _name(row: Row) -> str:
    return LANGUAGES.get(row["language"], str(row["language"]))
