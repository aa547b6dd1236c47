"""The page: the report's document and figures put through the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from optotype.registry.report.formats import DASH, listed, num, percent, rendered, template_text
from optotype.registry.report.ranking.thumbnails import Thumbnails

__all__ = ["render"]

_CONTENTS = (
    ("ranking", "Ranking"),
    ("warnings", "Warnings"),
    ("normalisation", "Normalisation"),
    ("neighbours", "Neighbours"),
    ("spectra", "Spectra"),
    ("patches", "Patch matches"),
    ("reproduce", "Reproduce"),
)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _spread(value: Mapping[str, Any] | None, side: str) -> str:
    found = (value or {}).get(side)
    return DASH if not found else f"{num(found['mean'])} ± {num(found['sd'])}"


def _concerns(group: Mapping[str, Any], encoders: int, models: int) -> str:
    parts = []
    for kind, total, word in (("encoders", encoders, "encoder"), ("models", models, "language model")):
        names = group[kind]
        every = len(names) == total
        parts.append(f"every {word}" if every and total > 1 else listed(names))
    return f"{parts[0]} with {parts[1]}"


def _verdict(table: Mapping[str, Any]) -> str:
    marks = [row["against_best"] for row in table["rows"]]
    best, model, total = table["rows"][0]["encoder"], table["model"], len(table["rows"])
    if total == 1:
        return f"{model}: one encoder, nothing to compare."
    if "unknown" in marks:
        lead = f"{model}: {best} has the highest score, but no bootstrap was asked for,"
        return f"{lead} so nothing here says whether its lead is noise."
    tied = marks.count("tie")
    if tied == 0:
        return f"{model}: {best} leads, and no other encoder’s interval reaches its own."
    if tied == total - 1:
        return (
            f"{model}: {best} has the highest score, but all {total} encoders are tied; these pairs do not rank them."
        )
    below = total - 1 - tied
    are, lie = "is" if tied == 1 else "are", "lies" if below == 1 else "lie"
    others = f"{tied} of the other {total - 1} {are} tied with it, {below} {lie} below"
    return f"{model}: {best} has the highest score; {others}."


def render(document: Mapping[str, Any], figures: Mapping[str, Any], thumbnails: Thumbnails) -> str:
    """The whole page as text: no script, nothing loaded from elsewhere, the same bytes for the same input.

    Parameters
    ----------
    document : mapping
        What ``ranking.json`` holds.
    figures : mapping
        Inline SVG: ``scores`` and ``combinations`` by language model, ``spectra`` by side and name, ``patch``.
    thumbnails : Thumbnails
        Of every item that the page shows.
    """
    summary = document["summary"]
    letters = list(zip(_LETTERS, summary["models"], strict=False)) if len(summary["models"]) <= len(_LETTERS) else []
    letter = {model: sign for sign, model in letters}
    combinations = _combinations(document, figures)
    main = (summary["prenorm_features"], summary["prenorm_states"])
    return rendered(
        template_text("optotype.registry.report.ranking", "ranking.html"),
        title=document["title"],
        contents=[entry for entry in _CONTENTS if combinations or entry[0] != "normalisation"],
        filters={"spread": _spread, "letters": lambda models: " ".join(letter.get(model, model) for model in models)},
        doc=document,
        s={**summary, "interval_note": _interval_note(summary, document)},
        main=list(main),
        number=thumbnails.number.__getitem__,
        uris=thumbnails.uris,
        letters=letters,
        tables=_tables(document, figures),
        warnings=[_with_concerns(group, summary) for group in document["warnings"]],
        other_warnings=[_with_concerns(group, summary) for group in document["other_warnings"]],
        combinations=combinations,
        examples=_examples(document),
        example_count=len(document["examples"][0]["items"]),
        spectra=_spectra(document, figures),
        patch=_patch(document, figures),
    )


def _interval_note(summary: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    total = sum(len(table["rows"]) for table in document["tables"])
    if summary["intervals"] == 0:
        return "not asked for"
    return "95 %, over items" if summary["intervals"] == total else f"for {summary['intervals']} of {total} scores"


def _with_concerns(group: Mapping[str, Any], summary: Mapping[str, Any]) -> dict[str, Any]:
    return {**group, "concerns": _concerns(group, len(summary["encoders"]), len(summary["models"]))}


def _main_rows(document: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    summary = document["summary"]
    main = (summary["prenorm_features"], summary["prenorm_states"])
    rows = document["rows"]
    return {
        (row["model"], row["encoder"]): row for row in rows if (row["prenorm_features"], row["prenorm_states"]) == main
    }


def _tables(document: Mapping[str, Any], figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    full = _main_rows(document)
    result = []
    for table in document["tables"]:
        model = table["model"]
        rows = [
            {"cosine_spread": None, "features_dtype": DASH, **full[model, row["encoder"]], **row}
            for row in table["rows"]
        ]
        result.append(
            {
                "model": model,
                "rows": rows,
                "states_dtype": rows[0].get("states_dtype", "unknown"),
                "verdict": _verdict(table),
                "plot": Markup(figures["scores"][model]),
            }
        )
    return result


def _combinations(document: Mapping[str, Any], figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = document["summary"]["combinations"]
    if len(columns) < 2:
        return []
    found = {
        (row["model"], row["encoder"], row["prenorm_features"], row["prenorm_states"]): row for row in document["rows"]
    }
    result = []
    for table in document["tables"]:
        model = table["model"]
        encoders = [row["encoder"] for row in table["rows"]]
        best = {}
        for column in columns:
            scores = [found[model, name, *column]["score"] for name in encoders if (model, name, *column) in found]
            best[tuple(column)] = max(scores, default=None)
        lines = []
        for name in encoders:
            cells: list[dict[str, Any] | None] = []
            for column in columns:
                row = found.get((model, name, *column))
                cells.append(
                    row
                    and {
                        "score": row["score"],
                        "warnings": bool(row["warnings"]),
                        "best": row["score"] == best[tuple(column)],
                    }
                )
            lines.append({"encoder": name, "cells": cells})
        result.append(
            {"model": model, "columns": columns, "lines": lines, "plot": Markup(figures["combinations"][model])}
        )
    return result


def _examples(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    full = _main_rows(document)
    models = document["summary"]["models"]
    return [
        {
            **group,
            "scores": ", ".join(
                f"{num(full[model, group['encoder']]['score'])} with {model}"
                for model in models
                if (model, group["encoder"]) in full
            ),
        }
        for group in document["examples"]
    ]


def _spectra(document: Mapping[str, Any], figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    share: dict[tuple[str, str], float] = {}
    for row in _main_rows(document).values():
        share["features", row["encoder"]] = row["share_below_eps"]["features"]
        share["states", row["model"]] = row["share_below_eps"]["states"]
    sides = []
    for kind, heading in (("features", "Encoders: patch features"), ("states", "Language models: text states")):
        norm = document["summary"][f"prenorm_{kind}"]
        listed = [
            {
                "name": name,
                "note": _kept(spectrum, share[kind, name]),
                "plot": Markup(figures["spectra"][kind][name]),
            }
            for name, spectrum in document["spectra"][kind].items()
        ]
        sides.append({"title": f"{heading} (row normalisation {norm})", "plots": listed})
    return sides


def _kept(spectrum: Mapping[str, Any], share: float) -> str:
    kept = f"{spectrum['before']['directions']} of {spectrum['channels']} directions kept"
    return f"{kept}, {percent(share)} below ε"


def _ordinal(place: int) -> str:
    return "nearest" if place == 1 else f"no. {place}"


def _patch(document: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any] | None:
    match = document["patch_match"]
    if match is None:
        return None
    return {
        "encoder": match["encoder"],
        "grid_a": match["grids"][0],
        "text_a": match["texts"][0],
        "text_b": match["texts"][1],
        "place": _ordinal(match["place"]),
        "chamfer": match["chamfer"],
        **{name: Markup(figures["patch"][name]) for name in ("lines", "paint", "heat")},
        "cropped": figures["patch"]["cropped"],
    }
