"""Rows of a retrieval as tables: language models and tasks down, languages across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["LANGUAGES", "TASKS", "agreements", "by_encoder", "chances", "detail", "grid", "main_style", "order"]

Row = Mapping[str, Any]
Grid = list[dict[str, Any]]

LANGUAGES = {
    "de": "German", "en": "English", "es": "Spanish", "fr": "French", "it": "Italian", "pt": "Portuguese",
}  # fmt: skip
TASKS = {"i2t": "image to name", "t2i": "name to image"}


def order(document: Row) -> dict[str, list[str]]:
    """Encoders, language models, styles, tasks and languages, each in the order of the rows."""
    names = ("encoder", "language_model", "style", "task", "language")
    return {name: list(dict.fromkeys(row[name] for row in document["rows"])) for name in names}


def main_style(document: Row) -> str:
    """The style that is shown where only one is: the first."""
    return str(order(document)["style"][0])


def grid(contrasts: Sequence[Row], kind: str, languages: Sequence[str | None]) -> Grid:
    """Contrasts of one kind, as lines with a cell (the row, or None) for each language; None is the mean over them.

    Returns
    -------
    list of dict
        ``language_model``, ``task``, ``fitted_on``, ``style``, ``against``, ``cells``; means only where the names are
        in the style that the map was fitted on.
    """
    keys = ("language_model", "task", "fitted_on", "style", "against")
    lines: dict[tuple[Any, ...], dict[str | None, Row]] = {}
    for row in contrasts:
        if row["kind"] == kind and (kind != "mean" or row["fitted_on"] == row["style"]):
            # The gap is to English in every language, and one line.
            lines.setdefault(tuple(row[name] for name in keys), {})[row["language"]] = row
    return [
        {**dict(zip(keys, key, strict=True)), "cells": [found.get(language) for language in languages]}
        for key, found in lines.items()
    ]


def chances(rows: Sequence[Row]) -> dict[tuple[str, str], float]:
    """P@1 by chance, by task and language."""
    return {(row["task"], row["language"]): row["chance"] for row in rows}


def agreements(rows: Sequence[Row], languages: Sequence[str]) -> Grid:
    """Mean over encoders of the agreement with English, in the style that the map was fitted on."""
    found: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in rows:
        if row["fitted_on"] == row["style"] and row["agreement"] is not None:
            key = (row["language_model"], row["task"], row["style"])
            found.setdefault(key, {}).setdefault(row["language"], []).append(row["agreement"])
    return [
        {
            **dict(zip(("language_model", "task", "style"), key, strict=True)),
            "cells": [sum(of[name]) / len(of[name]) if name in of else None for name in languages],
        }
        for key, of in found.items()
    ]


def by_encoder(rows: Sequence[Row], model: str, style: str, columns: Sequence[tuple[str, str]]) -> Grid:
    """P@1 of every encoder under one language model, fitted on and asked in one style; the best of a column on top.

    Parameters
    ----------
    columns : sequence of (task, language)

    Returns
    -------
    list of dict
        ``encoder``, ``cells`` (the rows, each with ``top``: no other of its column is higher).
    """
    own = [row for row in rows if row["language_model"] == model and row["fitted_on"] == row["style"] == style]
    best = {
        column: max(row["p1"]["expected"] for row in own if (row["task"], row["language"]) == column)
        for column in columns
    }
    lines = []
    for encoder in dict.fromkeys(row["encoder"] for row in own):
        at = {(row["task"], row["language"]): row for row in own if row["encoder"] == encoder}
        cells = [{**at[column], "top": at[column]["p1"]["expected"] == best[column]} for column in columns]
        lines.append({"encoder": encoder, "cells": cells})
    return lines


def detail(rows: Sequence[Row], model: str, style: str, task: str) -> list[Row]:
    """Every row of one language model and task, fitted on and asked in one style."""
    return [
        row
        for row in rows
        if row["language_model"] == model and row["task"] == task and row["fitted_on"] == row["style"] == style
    ]
