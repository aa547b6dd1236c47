"""The page of retrieval over emoji: its rows as tables and plots, put through the template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from optotype.registry.report.formats import rendered, template_text
from optotype.registry.report.retrieval.plots import difference_plot, language_plot
from optotype.registry.report.retrieval.tables import (
    LANGUAGES,
    TASKS,
    agreements,
    by_encoder,
    chances,
    detail,
    grid,
    main_style,
    order,
)
from optotype.registry.report.retrieval.verdict import points, spread, verdicts

__all__ = ["render"]

_SECTIONS = (
    ("languages", "By language"),
    ("styles", "Styles of names"),
    ("encoders", "Encoders"),
    ("every", "Every figure"),
    ("notes", "Notes"),
    ("reading", "How to read it"),
    ("reproduce", "Reproduce"),
)
_DIFFERENCES = {
    "style": "Both maps fitted on what they are asked",
    "other-style": "A style that the map was not fitted on",
}

Row = Mapping[str, Any]


def render(document: Row, title: str) -> str:
    """The whole page as text: no script, nothing loaded from elsewhere, the same bytes for the same input.

    Parameters
    ----------
    document : mapping
        What ``retrieval.json`` holds.
    title : str
    """
    names, rows, contrasts = order(document), document["rows"], document["contrasts"]
    languages, main = names["language"], main_style(document)
    every: list[str | None] = [*languages, None]
    compared = [language for language in languages if language != "en"]
    columns = [(task, language) for task in names["task"] for language in languages]
    by_chance = chances(rows)
    others = {kind: grid(contrasts, kind, every) for kind in _DIFFERENCES}
    left_out = "styles" if not any(others.values()) else None
    return rendered(
        template_text("optotype.registry.report.retrieval", "retrieval.html"),
        title=title,
        contents=[(name, words) for name, words in _SECTIONS if name != left_out],
        sheets=["suites.css"],
        filters={"points": points, "spread": spread, "language": _language, "task": lambda name: TASKS.get(name, name)},
        doc=document,
        names=names,
        main=main,
        verdicts=verdicts(document),
        chance=sorted(set(by_chance.values())),
        means=grid(contrasts, "mean", every),
        gaps=grid(contrasts, "gap", compared),
        agreements=agreements(rows, compared),
        compared=compared,
        language_plots=_language_plots(document),
        differences=[
            {
                "kind": kind,
                "words": _DIFFERENCES[kind],
                "lines": lines,
                "plots": _difference_plots(kind, lines, languages),
            }
            for kind, lines in others.items()
            if lines
        ],
        encoders=[(model, by_encoder(rows, model, main, columns)) for model in names["language_model"]],
        columns=columns,
        every=[
            (model, task, detail(rows, model, main, task))
            for model in names["language_model"]
            for task in names["task"]
        ],
        deep=max(document["parameters"]["at"]),
        command=_command(document),
    )


def _language_plots(document: Row) -> list[tuple[str, list[dict[str, Any]]]]:
    """By language model, one for each task; all with one scale."""
    names, by_chance = order(document), chances(document["rows"])
    means = [
        row
        for row in document["contrasts"]
        if row["kind"] == "mean" and row["fitted_on"] == row["style"] and row["language"] is not None
    ]
    top = 1.08 * max([value for row in means for value in (row["value"], row["high"] or 0.0)] + [1.0])
    found = []
    for number, model in enumerate(names["language_model"]):
        figures = []
        for task in names["task"]:
            own = [row for row in means if row["language_model"] == model and row["task"] == task]
            lines = [(style, [row for row in own if row["style"] == style]) for style in names["style"]]
            spoken = [language for language in names["language"] if (task, language) in by_chance]
            what = f"P@1 of {model}, {TASKS.get(task, task)}, by language, mean over encoders"
            plot = language_plot(
                lines,
                {language: by_chance[task, language] for language in spoken},
                top,
                name=f"language{number}-{task}",
                what=what,
            )
            figures.append({"title": model, "note": TASKS.get(task, task), "plot": Markup(plot)})
        found.append((model, figures))
    return found


def _difference_plots(kind: str, lines: list[dict[str, Any]], languages: list[str]) -> list[dict[str, Any]]:
    """Of English, if it is there, and of the mean over languages."""
    found = []
    for place, language in enumerate([*languages, None]):
        if language in ("en", None):
            rows = [line["cells"][place] for line in lines]
            spoken = "mean over languages" if language is None else _language(language)
            plot = difference_plot(rows, name=f"{kind}{place}", what=f"{_DIFFERENCES[kind]}, {spoken}")
            found.append({"note": spoken, "plot": Markup(plot)})
    return found


def _language(name: str | None) -> str:
    return "all" if name is None else LANGUAGES.get(name, name)


def _command(document: Row) -> str:
    chosen, inputs = document["parameters"], document["inputs"]
    words = ["optotype emoji retrieval --pairs PAIRS --tasks TASKS"]
    words += [f"--features {shlex.quote(name)}" for name in inputs["features"]]
    words += [f"--names {shlex.quote(name)}=ARRAY" for name in inputs["names"]]
    words.append(
        f"--probe {chosen['probe']} --at {','.join(map(str, chosen['at']))} --bootstrap {chosen['bootstrap']} "
        f"--seed {chosen['seed']} --out RETRIEVAL"
    )
    return " \\\n    ".join(words)
