"""The page of a judgement: its tables and plots, put through the template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from optotype.registry.report.formats import rendered, template_text
from optotype.registry.report.judgement import plots
from optotype.registry.report.judgement.printed import ABLATION, printed_mean
from optotype.registry.report.judgement.verdict import best_first, verdicts

__all__ = ["render"]

MEAN = "mean"
_OPEN = 6  # pool curves that are seen at once
_TITLES = {
    "k": "Neighbours k",
    "eps": "Stabiliser ε",
    "gamma": "Patch differentiation γ",
    "n": "Items n",
    "layer": "Layer",
}
_SIDES = (("pooled", "raw"), ("pooled", "whitened"), ("patches", "raw"), ("patches", "whitened"))
_SECTIONS = (
    ("metrics", "Metrics"),
    ("differences", "Differences"),
    ("ablation", "Ablation"),
    ("sensitivity", "Sensitivity"),
    ("settings", "Other settings"),
    ("pool", "Pool size"),
    ("costs", "Costs"),
    ("pairs", "Scores and outcomes"),
    ("warnings", "Warnings"),
    ("reading", "How to read it"),
    ("reproduce", "Reproduce"),
)

Row = Mapping[str, Any]


def render(document: Mapping[str, Any], title: str) -> str:
    """The whole page as text: no script, nothing loaded from elsewhere, the same bytes for the same input.

    Parameters
    ----------
    document : mapping
        What ``judgement.json`` holds.
    title : str
    """
    rows, models = document["rows"], document["downstream"]["models"]
    cells = {(row["label"], row["model"]): row for row in rows}
    ranked = best_first(rows)
    columns = [MEAN, *models] if len(models) > 1 else list(models)
    parts = {
        "metrics": _metrics(ranked, cells, columns),
        "differences": [row for row in document["comparisons"] if row["statistic"] == "rho"],
        "ablation": _ablation(ranked, cells, columns),
        "sensitivity": _sensitivity(document["curves"], models),
        "settings": _settings(document, cells, columns),
        "pool": _pool(document["curves"], ranked),
        "costs": _costs(document, ranked),
        "pairs": _pairs(document, ranked, cells),
    }
    always = ("metrics", "warnings", "reading", "reproduce")
    return rendered(
        template_text("optotype.registry.report.judgement", "judgement.html"),
        title=title,
        contents=[(name, words) for name, words in _SECTIONS if name in always or parts[name]],
        filters={"power": _power, "value": _value},
        sheets=["suites.css"],
        doc=document,
        downstream=document["downstream"],
        parameters=document["parameters"],
        columns=columns,
        mean=MEAN,
        verdicts=verdicts(document),
        part=parts,
        names={row["label"]: row["metric"] for row in ranked},
        command=_command(document),
    )


def _metrics(ranked: Sequence[Row], cells: Mapping[tuple[str, str], Row], columns: Sequence[str]) -> Row:
    """A line for each metric, and a plot for each language model and their mean."""
    lines = []
    for row in ranked:
        printed = printed_mean(row["metric"])
        lines.append(
            {
                "metric": row["metric"],
                "cells": [cells[row["label"], model] for model in columns],
                "printed": None if printed is None else {"rho": printed[0], "r": printed[1]},
            }
        )
    drawn = []
    for number, model in enumerate(columns):
        own = [cells[row["label"], model] for row in ranked]
        words = _words(model)
        drawn.append({"title": words, "plot": Markup(plots.forest_plot(own, words, name=f"forest{number}"))})
    return {"lines": lines, "figures": drawn, "printed": any(line["printed"] for line in lines)}


def _words(model: str) -> str:
    return "mean over language models" if model == MEAN else model


def _ablation(ranked: Sequence[Row], cells: Mapping[tuple[str, str], Row], columns: Sequence[str]) -> Row | None:
    """Pooled or patches, raw or whitened, as far as they were judged."""
    labels = {row["metric"]: row["label"] for row in ranked}
    there = [(name, sides, labels[name]) for name, sides in zip(ABLATION, _SIDES, strict=True) if name in labels]
    if len(there) < 2:
        return None
    lines = [
        {
            "metric": name,
            "image": sides[0],
            "whitening": sides[1],
            "cell": cells[label, columns[0]],
            "printed": {"rho": ABLATION[name][0], "r": ABLATION[name][1]},
        }
        for name, sides, label in there
    ]
    drawn = []
    for number, model in enumerate(columns):
        words = _words(model)
        own = [{**cells[label, model], "metric": f"{sides[0]}, {sides[1]}"} for _, sides, label in there]
        plot = plots.forest_plot(own, f"ablation of RAVEL, {words}", name=f"ablation{number}")
        drawn.append({"title": words, "plot": Markup(plot)})
    return {"lines": lines, "figures": drawn, "model": columns[0]}


def _sensitivity(curves: Sequence[Row], models: Sequence[str]) -> list[Row]:
    """One plot for each metric and setting that was varied."""
    found: list[Row] = []
    for curve, words in _TITLES.items():
        own = [row for row in curves if row["curve"] == curve]
        for metric in dict.fromkeys(row["metric"] for row in own):
            line = [row for row in own if row["metric"] == metric]
            plot = plots.sensitivity_plot(curve, line, models, name=f"{curve}{len(found)}")
            found.append({"title": f"{words}: {metric}", "plot": Markup(plot)})
    return found


def _settings(document: Mapping[str, Any], cells: Mapping[tuple[str, str], Row], columns: Sequence[str]) -> list[Row]:
    """All results of metrics that were judged under several settings, the main one first."""
    several = {each["metric"] for each in document["results"] if not each["main"]}
    return [
        {
            "label": each["label"],
            "main": each["main"],
            "cells": [cells[each["label"], model] for model in columns],
        }
        for each in document["results"]
        if each["metric"] in several
    ]


def _pool(curves: Sequence[Row], ranked: Sequence[Row]) -> Row | None:
    """Curves of all metrics, best first; the first few are seen at once."""
    own = [row for row in curves if row["curve"] == "pool" and row["rho"] is not None]
    lines: dict[str, list[Row]] = {}
    for row in own:
        lines.setdefault(row["label"], [])
    models = {row["model"] for row in own}
    wanted = MEAN if MEAN in models else next(iter(models), MEAN)
    for row in own:
        if row["model"] == wanted:
            lines[row["label"]].append(row)
    lines = {label: line for label, line in lines.items() if line}
    if not lines:
        return None
    low = max(-1.04, min(row["rho_low"] for line in lines.values() for row in line) - 0.05)
    order = [row["label"] for row in ranked if row["label"] in lines]
    drawn = [
        {
            "title": lines[label][0]["metric"],
            "plot": Markup(
                plots.pool_plot(
                    lines[label], [lines[other] for other in order if other != label], low, name=f"pool{number}"
                )
            ),
        }
        for number, label in enumerate(order)
    ]
    return {"first": drawn[:_OPEN], "rest": drawn[_OPEN:]}


def _costs(document: Mapping[str, Any], ranked: Sequence[Row]) -> Row | None:
    """Lines with a number each, main results that have FLOPs first, and the plot that bears the numbers."""
    main = {row["label"]: row for row in ranked}
    costs = [row for row in document["costs"]["rows"] if row["label"] in main]
    points = [row for row in document["curves"] if row["curve"] == "flops" and row["label"] in main]
    models = {row["model"] for row in points}
    wanted = MEAN if MEAN in models else next(iter(models), MEAN)
    points = sorted((row for row in points if row["model"] == wanted), key=lambda row: (row["x"], row["label"]))
    if not points:
        return None
    place = {row["label"]: number for number, row in enumerate(points, 1)}
    lines = [{**row, "number": place.get(row["label"]), "rho": main[row["label"]]["rho"]} for row in costs]
    lines.sort(key=lambda line: (line["number"] is None, line["number"] or 0, line["label"]))
    whole = all(line["total"] is not None for line in lines if line["number"] is not None)
    return {
        "lines": lines,
        "plot": Markup(plots.cost_plot(points, name="cost")),
        "axis": "scoring and encoding" if whole else "scoring alone",
    }


def _pairs(document: Mapping[str, Any], ranked: Sequence[Row], cells: Mapping[tuple[str, str], Row]) -> Row | None:
    """Scores and outcomes of the best metric and of RAVEL."""
    chosen = [row["label"] for row in ranked[:1]] + [row["label"] for row in ranked[1:] if row["metric"] == "ravel"]
    found: list[Row] = []
    for label in chosen:
        for model in document["downstream"]["models"]:
            own = [point for point in document["points"] if point["label"] == label and point["model"] == model]
            if own:
                row = cells[label, model]
                plot = plots.points_plot(own, row, name=f"points{len(found)}")
                ordered = sorted(own, key=lambda point: (-point["score"], point["encoder"]))
                title = f"{row['metric']}, {model}"
                found.append({"title": title, "row": row, "plot": Markup(plot), "points": ordered})
    return {"figures": found} if found else None


def _value(value: float) -> str:
    """A score with four decimals, or with four digits and a power of ten where these would show it badly."""
    plain = value == 0 or 1e-3 <= abs(value) < 1e6
    return _power(value, 3) if not plain else f"{value:.4f}".replace("-", "−")


def _power(value: float | None, decimals: int = 2) -> str:
    """A number with its first digits, three for FLOPs, and a power of ten."""
    if value is None:
        return "–"
    digits, _, exponent = f"{value:.{decimals}e}".partition("e")
    return f"{digits.replace('-', '−')}·10{str(int(exponent)).translate(str.maketrans('0123456789-', '⁰¹²³⁴⁵⁶⁷⁸⁹⁻'))}"


def _command(document: Mapping[str, Any]) -> str:
    chosen, sources = document["parameters"], document["sources"]
    words = ["optotype judge " + " ".join(shlex.quote(each["name"]) for each in sources["rankings"])]
    words.append(shlex.quote(sources["downstream"]["name"]))
    words.append(f"--bootstrap {chosen['bootstrap']} --pool-repeats {chosen['pool_repeats']} --seed {chosen['seed']}")
    words += [f"--rename {shlex.quote(f'{name}={other}')}" for name, other in chosen["rename"].items()]
    words += [f"--{name}" for name in ("common", "partial") if chosen[name]]
    words += [f"--costs {shlex.quote(sources['costs']['name'])}"] if sources["costs"] else []
    words.append("--out JUDGEMENT")
    return " \\\n    ".join(words)
