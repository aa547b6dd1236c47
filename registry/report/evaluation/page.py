"""The page of an evaluation: its tables as grids and plots, put through the template."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from optotype.registry.report.evaluation import sections
from optotype.registry.report.evaluation.grids import main_retention
from optotype.registry.report.evaluation.verdict import SHARE, verdicts
from optotype.registry.report.formats import rendered, template_text

__all__ = ["render"]

_SECTIONS = (
    ("held-out", "Held-out models"),
    ("warnings", "Warnings"),
    ("categories", "Categories"),
    ("chronological", "Chronological"),
    ("end-to-end", "End to end"),
    ("shelf-life", "Shelf life"),
    ("left-out", "Left-out benchmark"),
    ("cross-family", "Families"),
    ("variants", "Variants"),
    ("intervals", "Intervals"),
    ("spectrum", "Spectrum"),
    ("reproduce", "Reproduce"),
)


def render(document: Mapping[str, Any], title: str) -> str:
    """The whole page as text: no script, nothing loaded from elsewhere, the same bytes for the same input.

    Parameters
    ----------
    document : mapping
        What ``evaluation.json`` holds.
    title : str
    """
    parameters, tables = document["parameters"], document["tables"]
    main = main_retention(parameters["retentions"])
    # What keeps every item is a row of some tables, under a name that is no selector.
    everything = [
        row["selector"]
        for name in ("end_to_end_summary", "spectrum", "cross_family_agreement")
        for row in tables.get(name, [])
    ]
    others = [name for name in dict.fromkeys(everything) if name not in parameters["selectors"]]
    order = [*parameters["selectors"], *others]
    parts = {
        "held-out": sections.held_out(tables, parameters),
        "warnings": list(document["warnings"]),
        "categories": sections.categories(tables, parameters),
        "chronological": sections.chronological(tables, parameters),
        "end-to-end": sections.end_to_end(tables, parameters, order),
        "shelf-life": sections.shelf_life(tables),
        "left-out": sections.left_out(tables),
        "cross-family": sections.families(tables, parameters, order, main),
        "variants": sections.variants(tables, parameters),
        "intervals": sections.intervals(tables, parameters, main),
        "spectrum": sections.spectrum(tables, parameters, order),
    }
    always = ("held-out", "warnings", "reproduce")
    return rendered(
        template_text("optotype.registry.report.evaluation", "evaluation.html"),
        title=title,
        contents=[(name, words) for name, words in _SECTIONS if name in always or parts[name]],
        sheets=["suites.css"],
        doc=document,
        panel=document["panel"],
        parameters=parameters,
        baseline=parameters.get("baseline"),
        verdicts=verdicts(document),
        part={name.replace("-", "_"): value for name, value in parts.items()},
        main=main,
        ahead=SHARE,
        command=_command(document),
    )


def _command(document: Mapping[str, Any]) -> str:
    chosen = document["parameters"]
    words = [f"optotype evaluate {shlex.quote(document['panel']['name'] or 'PANEL')}"]
    words.append(f"--selectors {','.join(chosen['selectors'])}")
    words.append(f"--retention {','.join(f'{value:g}' for value in chosen['retentions'])}")
    words.append(f"--protocols {','.join(chosen['protocols'])}")
    words.append(f"--splits {chosen['splits']} --seed {chosen['seed']} --min-held-out {chosen['min_held_out']}")
    words.append(f"--category-by {shlex.quote(chosen['category_by'])} --floor {chosen['floor']}")
    words.append(f"--tau {chosen['tau']!r} --alpha {chosen['alpha']:g} -k {chosen['k']}")
    words.append(f"--normalise {chosen['normalise']}")
    if document.get("embeddings"):
        words.append("--embeddings EMBEDDINGS")
    words.append("--out EVALUATION")
    return " \\\n    ".join(words)
