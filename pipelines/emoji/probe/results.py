"""How well the models of a panel answer, and which of them differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.panel import ProbePanel
from optotype.pipelines.emoji.probe.questions import CHOICES, KINDS
from optotype.pipelines.emoji.probe.ties import LEVEL, resampled

__all__ = ["accuracies", "downstream", "runs", "tie_report"]

FORMAT = 1  # of the report on ties
CHANCE = 1 / CHOICES


def accuracies(panel: ProbePanel, repeats: int, seed: int) -> list[dict[str, Any]]:
    """One row for each run and kind of wrong caption (and ``all``): accuracy and its bootstrap interval.

    Returns
    -------
    list of dict
        ``model``, ``modality`` (image or blind), ``kind``, ``items``, ``accuracy``, ``low``, ``high``,
        ``above_chance`` (the interval lies above 1/4).
    """
    names, modality, correct = runs(panel)
    kinds = np.array([question.kind for question in panel.questions])
    rows = []
    for kind in (*KINDS, "all"):
        chosen = np.flatnonzero((kinds == kind) | (kind == "all"))
        bootstrap = resampled(correct[:, chosen], panel.clusters[chosen], repeats=repeats, seed=seed)
        for i, name in enumerate(names):
            low, high = bootstrap.interval(i)
            rows.append(
                {
                    "model": name,
                    "modality": modality[i],
                    "kind": kind,
                    "items": len(chosen),
                    "accuracy": round(float(bootstrap.observed[i]), 12),
                    "low": low,
                    "high": high,
                    "above_chance": low > CHANCE,
                }
            )
    order = {name: i for i, name in enumerate(names)}
    return sorted(rows, key=lambda row: order[row["model"]])


def downstream(panel: ProbePanel, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a metric of (encoder, language model) is judged by: accuracy over all questions, mean over kinds of probe.

    Parameters
    ----------
    rows : sequence of mapping
        `accuracies` of the panel.

    Returns
    -------
    list of dict
        ``encoder``, ``model`` (the language model), ``score``; in the order of the panel.
    """
    whole = {row["model"]: row["accuracy"] for row in rows if row["kind"] == "all"}
    found: dict[tuple[str, str], list[float]] = {}
    for member in panel.members:
        found.setdefault((member.encoder, member.language_model), []).append(whole[member.name])
    return [
        {"encoder": encoder, "model": model, "score": round(float(np.mean(values)), 12)}
        for (encoder, model), values in found.items()
    ]


def tie_report(panel: ProbePanel, repeats: int, seed: int) -> dict[str, Any]:
    """Which panel models differ over all questions.

    Returns
    -------
    dict
        ``pairs``: one row for every two models: ``first``, ``second``, ``differ_in`` (encoder, language_model,
        probe), ``difference`` of accuracies, ``low``, ``high``, ``tied``. ``tied`` and ``compared``: how many, in all
        and among variants that differ in one part alone.
    """
    members = panel.members
    bootstrap = resampled(panel.choices == panel.answers, panel.clusters, repeats=repeats, seed=seed)
    rows = []
    for i, j, difference, low, high in bootstrap.differences():
        parts = ("encoder", "language_model", "probe")
        rows.append(
            {
                "first": members[i].name,
                "second": members[j].name,
                "differ_in": [part for part in parts if getattr(members[i], part) != getattr(members[j], part)],
                "difference": difference,
                "low": low,
                "high": high,
                "tied": low <= 0 <= high,
            }
        )
    summary = {}
    for label, wanted in (
        ("all", rows),
        *(
            (part, [row for row in rows if row["differ_in"] == [part]])
            for part in ("encoder", "language_model", "probe")
        ),
    ):
        summary[label] = {"compared": len(wanted), "tied": sum(bool(row["tied"]) for row in wanted)}
    return {
        "format_version": FORMAT,
        "kind": "probe-ties",
        "level": LEVEL,
        "repeats": repeats,
        "seed": seed,
        "resampled": "images; all their questions together",
        "summary": summary,
        "pairs": rows,
    }


def runs(panel: ProbePanel) -> tuple[list[str], list[str], NDArray[np.bool_]]:
    """Names, modalities and correctness (runs, q) of panel models and blind runs."""
    names = [member.name for member in panel.members]
    blind = np.stack(list(panel.blind.values()))
    correct = np.concatenate([panel.choices, blind]) == panel.answers
    return [*names, *panel.blind], ["image"] * len(names) + ["blind"] * len(blind), correct
