"""A panel of alignment probes, as `optotype emoji panel` writes it: accuracies by kind of wrong answer, and ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.registry.report.sources import read_document, read_rows

__all__ = ["CHANCE", "UNTRAINED", "read_probe"]

CHANCE = 0.25
"""Four options."""

UNTRAINED = "random-vit"
"""Name of the encoder of the default project that was never trained."""

_TIES_FORMAT = 1
_EMOJI = "optotype emoji panel ... --out DIR"
_ACCURACY = {
    "model": "str", "modality": "str", "kind": "str", "items": "int", "accuracy": "float", "low": "float",
    "high": "float",
}  # fmt: skip
_MODELS = {"model": "str", "encoder": "str", "language_model": "str", "probe": "str"}


def read_probe(folder: Path) -> dict[str, Any]:
    """Accuracies and ties of a panel of probes.

    Returns
    -------
    dict
        ``kinds`` (of wrong answers, ``all`` last), ``rows`` (a dict per model and kind: ``model, modality, encoder,
        language_model, probe, kind, items, accuracy, low, high``), ``ties`` (``level, repeats, resampled, summary``),
        ``tied_with_best`` (models that are tied with the one of the highest accuracy over all kinds, itself first),
        ``encoders`` (a dict per pair of encoders: ``first, second, compared, tied``; only pairs of models that differ
        in the encoder alone), ``untrained`` (the encoder's name, or None).

    Raises
    ------
    NotFoundError, FormatError
        A file is not there, or not what it should be.
    """
    accuracy = read_rows(folder / "accuracy.csv", _ACCURACY, hint=_EMOJI)
    models = {row["model"]: row for row in read_rows(folder / "models.csv", _MODELS, hint=_EMOJI)}
    ties = read_document(
        folder / "ties.json",
        kind="probe-ties",
        newest=_TIES_FORMAT,
        needs=("level", "repeats", "resampled", "summary", "pairs"),
        hint=_EMOJI,
    )
    unknown = {"encoder": "", "language_model": "", "probe": ""}
    rows = [{**unknown, **models.get(row["model"], {}), **row} for row in accuracy]
    kinds = [kind for kind in dict.fromkeys(row["kind"] for row in rows) if kind != "all"]
    encoders = list(dict.fromkeys(row["encoder"] for row in rows if row["modality"] == "image"))
    return {
        "kinds": kinds,
        "rows": rows,
        "ties": {name: ties[name] for name in ("level", "repeats", "resampled", "summary")},
        "tied_with_best": _with_best(rows, ties["pairs"]),
        "encoders": _encoders(models, ties["pairs"], encoders),
        "untrained": UNTRAINED if UNTRAINED in encoders else None,
    }


def _with_best(rows: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    whole = [row for row in rows if row["kind"] == "all" and row["modality"] == "image"]
    if not whole:
        return []
    best = min(whole, key=lambda row: (-row["accuracy"], row["model"]))["model"]
    tied = {
        pair["second"] if pair["first"] == best else pair["first"]
        for pair in pairs
        if pair["tied"] and best in _both(pair)
    }
    return [best, *sorted(tied)]


def _both(pair: Mapping[str, Any]) -> tuple[str, str]:
    return str(pair["first"]), str(pair["second"])


def _encoders(
    models: Mapping[str, Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]], order: Sequence[str]
) -> list[dict[str, Any]]:
    """How often two encoders are tied, all else being equal."""
    found: dict[tuple[str, str], list[bool]] = {}
    for pair in pairs:
        if pair["differ_in"] == ["encoder"]:
            first, second = sorted((models[name]["encoder"] for name in _both(pair)), key=list(order).index)
            found.setdefault((first, second), []).append(bool(pair["tied"]))
    return [
        {"first": first, "second": second, "compared": len(ties), "tied": sum(ties)}
        for (first, second), ties in found.items()
    ]
