"""The page of a compression: its document and figures put through the template, and what they mean in words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from optotype.registry.report.compression.probes import CHANCE
from optotype.registry.report.compression.verdict import probe_verdicts, set_by, verdicts
from optotype.registry.report.formats import count, num, rendered, template_text

__all__ = ["MOVERS", "candidate_rows", "probe_styles", "render"]

MOVERS = 6  # models whose moves are numbered in the plot
_LANES = 30  # categories in one plot
_SHOWN = 20  # items of the frontier

Row = dict[str, Any]


def render(document: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    """The whole page as text: no script, nothing loaded from elsewhere, the same bytes for the same input.

    Parameters
    ----------
    document : mapping
        What the report's ``compression.json`` holds.
    figures : mapping
        Inline SVG by name; those that are not there are not shown.
    """
    suite = document["suite"]
    stages = suite["stages"]
    sections = [
        ("funnel", "Funnel", True),
        ("warnings", "Warnings", True),
        ("cleaning", "Cleaning", True),
        ("representatives", "Representatives", len(stages) > 1),
        ("budget", "Budget", len(stages) > 2),
        ("count", "Categories", len(stages) > 3),
        ("models", "Models", True),
        ("frontier", "Frontier", document["frontier"] is not None),
        ("probe", "Probes", document["probe"] is not None),
        ("reproduce", "Reproduce", True),
    ]
    return rendered(
        template_text("optotype.registry.report.compression", "compression.html"),
        title=document["title"],
        contents=[(name, words) for name, words, there in sections if there],
        sheets=["suites.css"],
        doc=document,
        suite=suite,
        panel=document["panel"],
        stages=stages,
        plots={name: Markup(plot) for name, plot in figures.items() if isinstance(plot, str)},
        verdicts=verdicts(document),
        cleaning=_cleaning(stages[0]),
        candidates=_candidates(stages[1]["details"]["categories"]) if len(stages) > 1 else None,
        budget=_budget(stages[2]["details"]) if len(stages) > 2 else None,
        movers=MOVERS,
        frontier=_frontier(document["frontier"]),
        probe=_probe(document["probe"], figures.get("probes", {})),
        command=_command(suite),
    )


def candidate_rows(categories: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Categories with a choice to make, the first of them where they are many."""
    return [row for row in categories if len(row["candidates"]) > 1][:_LANES]


def probe_styles(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(language model, probe) of the models that see images, in the order of the table."""
    return list(dict.fromkeys((row["language_model"], row["probe"]) for row in rows if row["modality"] == "image"))


def _cleaning(stage: Mapping[str, Any]) -> Row:
    rows = [{**row, "parts": _removed(row)} for row in stage["details"]["benchmarks"]]
    names = ("items", "all_correct", "blind_solvable", "both", "without_blind_run", "kept")
    total = {name: sum(row[name] for row in rows) for name in names}
    return {"rows": rows, "total": {**total, "parts": _removed(total)}}


def _removed(row: Mapping[str, Any]) -> list[tuple[str, int]]:
    """What became of a benchmark's items, as the parts of a bar."""
    return [
        ("c", row["kept"]),
        ("a", row["all_correct"] - row["both"]),
        ("d", row["both"]),
        ("b", row["blind_solvable"] - row["both"]),
    ]


def _candidates(categories: Sequence[Mapping[str, Any]]) -> Row:
    choice = [row for row in categories if len(row["candidates"]) > 1]
    rows = [
        {**row, "words": ", ".join(f"{name} {num(rho)}" for name, rho in row["candidates"].items())}
        for row in categories
    ]
    return {"rows": rows, "choice": len(choice), "drawn": min(len(choice), _LANES)}


def _budget(details: Mapping[str, Any]) -> Row:
    rows, shares = [], []
    for row in details["categories"]:
        told = row["benchmarks"]
        cells = sum(entry.get("from_cells", 0) for entry in told) if told else row["in_cells"]
        rows.append(
            {
                **row,
                "from_cells": cells,
                "by_score": row["K"] - cells,
                "set_by": {"whole": "kept whole", "floor": "floor", "retention": "retention"}[set_by(row, details)],
                "parts": [("a", cells), ("b", row["K"] - cells), ("rest", row["n"] - row["K"])],
            }
        )
        shares += [{"category": row["category"], **entry} for entry in told if "share" in entry]
    return {"rows": rows, "shares": shares, "details": details}


def _frontier(document: Mapping[str, Any] | None) -> Row | None:
    if document is None:
        return None
    kept = document["kept"]
    if kept == 0:
        verdict = "No item is kept."
    else:
        verdict = (
            f"{count(kept)} of {count(document['in_band'])} items in band {'are' if kept != 1 else 'is'} kept, "
            f"a share of {document['gain']:.4g}."
        )
    if kept < 30:
        verdict += " So few items rank nobody: a model’s mean over them moves in large steps."
    axes = sorted(document["axes"], key=lambda axis: (-(axis["gain"] or 0), axis["axis"]))
    chosen = None if document["axis"] is None else document["axis"]["axis"]
    return {**document, "verdict": verdict, "axes": axes, "chosen": chosen, "shown": document["kept_items"][:_SHOWN]}


def _probe(probe: Mapping[str, Any] | None, figures: Mapping[str, str]) -> Row | None:
    if probe is None:
        return None
    table: dict[str, Row] = {}
    for row in probe["rows"]:
        entry = table.setdefault(row["model"], {**row, "by_kind": {}})
        entry["by_kind"][row["kind"]] = row
    kinds = [*probe["kinds"], "all"]
    rows = sorted(
        (row for row in table.values() if "all" in row["by_kind"]),
        key=lambda row: (row["modality"] == "blind", -row["by_kind"]["all"]["accuracy"], row["model"]),
    )
    encoders = list(dict.fromkeys(row["encoder"] for row in rows if row["modality"] == "image"))
    found = {(pair["first"], pair["second"]): pair for pair in probe["encoders"]}
    matrix = [
        {"encoder": one, "cells": [found.get((one, other)) or found.get((other, one)) for other in encoders]}
        for one in encoders
    ]
    return {
        **probe,
        "kinds": kinds,
        "plots": [{"kind": kind, "plot": Markup(figures[kind])} for kind in probe["kinds"]],
        "rows": rows,
        "encoder_names": encoders,
        "matrix": matrix if probe["encoders"] else [],
        "verdicts": probe_verdicts(probe, rows, matrix, encoders),
        "chance": CHANCE,
    }


def _command(suite: Mapping[str, Any]) -> str:
    parameters, embeddings = suite["parameters"], suite.get("embeddings")
    words = [f"optotype compress {shlex.quote(suite['panel']['name'] or 'PANEL')}"]
    words.append(f"--stop-after {parameters['stop_after']} --tau {parameters['tau']!r}")
    words.append(f"--retention {parameters['retention']:g} --floor {parameters['floor']} -k {parameters['k']}")
    words.append(f"--alpha {parameters['alpha']:g} --selector {parameters['selector']} --seed {parameters['seed']}")
    words.append(
        f"--category-by {shlex.quote(parameters['category_by'])} --normalise {parameters['normalise']} "
        f"--rho-target {parameters['rho_target']:g}"
    )
    if embeddings:
        words.append(f"--embeddings {shlex.quote(embeddings['name'] or 'EMBEDDINGS')}")
    if parameters["greedy"]:
        words.append("--greedy")
    words.append("--out SUITE")
    return " \\\n    ".join(words)
