"""A probe panel as files that the importer of score tables reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optotype.pipelines.emoji.probe.blind import BLIND, blind_kind
from optotype.pipelines.emoji.probe.directions import MOST_DIRECTIONS
from optotype.pipelines.emoji.probe.fitting import SHRINKS
from optotype.pipelines.emoji.probe.known import encoder_facts, released
from optotype.pipelines.emoji.probe.maps import PENALTIES
from optotype.pipelines.emoji.probe.panel import ProbePanel
from optotype.pipelines.emoji.probe.questions import CHOICES, LETTERS, QUESTION
from optotype.pipelines.emoji.probe.readme import readme
from optotype.pipelines.emoji.probe.results import accuracies, downstream, runs, tie_report
from optotype.store.drafts import draft_file

__all__ = ["FORMAT", "write_panel"]

FORMAT = 1


def write_panel(panel: ProbePanel, out: Path, *, seed: int, min_items: int, repeats: int = 10_000) -> dict[str, Any]:
    """Write a panel into the folder ``out``; equal panels give equal bytes, each file takes its place in one step.

    - ``scores.parquet``: ``benchmark, item_id, model, score, modality, response``; the response is the chosen letter.
    - ``items.parquet``: ``benchmark, item_id, category, sub_task, question, answer, n_choices, image, A, B, C, D,
      text``; ``text`` is the question with its options, ``image`` is relative to the table of pairs.
    - ``models.csv``: ``model, family, vendor, release_date, axis, encoder, language_model, probe``. Blind runs
      are no models and not in it.
    - ``ties.json`` (`tie_report`), ``accuracy.csv`` (`accuracies`), ``downstream.csv`` (`downstream`: what rankings
      of the same encoders are judged by), ``metrics.json`` for ``dvc metrics``, ``README.md``, ``SOURCE.json`` last.

    Returns
    -------
    dict
        The content of ``SOURCE.json``.
    """
    rows, ties = accuracies(panel, repeats, seed), tie_report(panel, repeats, seed)
    source = _source(panel, rows, ties, seed=seed, min_items=min_items, repeats=repeats)
    _write(out / "scores.parquet", _parquet(_scores(panel)))
    _write(out / "items.parquet", _parquet(_items(panel)))
    _write(out / "models.csv", _csv(_models(panel)))
    _write(out / "ties.json", _json(ties))
    _write(out / "accuracy.csv", _csv([{**row, "above_chance": str(row["above_chance"]).lower()} for row in rows]))
    _write(out / "downstream.csv", _csv(downstream(panel, rows)))
    _write(out / "metrics.json", _json(_metrics(rows)))
    _write(out / "README.md", readme(panel, seed, min_items, repeats).encode())
    _write(out / "SOURCE.json", _json(source))
    return source


def _scores(panel: ProbePanel) -> dict[str, Any]:
    """Columns of the tidy table: run after run, questions in their order."""
    names, modality, correct = runs(panel)
    choices = np.concatenate([panel.choices, np.stack(list(panel.blind.values()))])
    q = len(panel.questions)
    return {
        "benchmark": [question.benchmark for question in panel.questions] * len(names),
        "item_id": [question.item for question in panel.questions] * len(names),
        "model": [name for name in names for _ in range(q)],
        "score": correct.astype(np.float64).ravel(),
        "modality": [name for name in modality for _ in range(q)],
        "response": [LETTERS[choice] for choice in choices.ravel().tolist()],
    }


def _items(panel: ProbePanel) -> dict[str, Any]:
    texts, questions = panel.pairs.texts, panel.questions
    offered = [[texts[pair] for pair in question.options] for question in questions]
    return {
        "benchmark": [question.benchmark for question in questions],
        "item_id": [question.item for question in questions],
        "category": [question.category for question in questions],
        "sub_task": [question.kind for question in questions],
        "question": [QUESTION] * len(questions),
        "answer": [LETTERS[question.answer] for question in questions],
        "n_choices": np.full(len(questions), CHOICES, dtype=np.int64),
        "image": [panel.pairs.images[question.target] for question in questions],
        **{letter: [row[place] for row in offered] for place, letter in enumerate(LETTERS)},
        "text": ["\n".join([QUESTION, *map("{}. {}".format, LETTERS, row)]) for row in offered],
    }


def _models(panel: ProbePanel) -> list[dict[str, str]]:
    rows = []
    for member in panel.members:
        facts = encoder_facts(member.encoder, member.layer)
        axis = f"{facts.axis}/{member.language_model}/{member.probe}:{facts.position}" if facts.axis else ""
        rows.append(
            {
                "model": member.name,
                "family": facts.family,
                "vendor": facts.origin.vendor,
                "release_date": released(facts, member.language_model),
                "axis": axis,
                "encoder": member.encoder,
                "language_model": member.language_model,
                "probe": member.probe,
            }
        )
    return rows


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Accuracy by run and kind."""
    metrics: dict[str, Any] = {}
    for row in rows:
        metrics.setdefault(row["model"], {})[row["kind"]] = row["accuracy"]
    return metrics


def _source(
    panel: ProbePanel,
    rows: Sequence[Mapping[str, Any]],
    ties: Mapping[str, Any],
    *,
    seed: int,
    min_items: int,
    repeats: int,
) -> dict[str, Any]:
    sizes: dict[str, int] = {}
    for question in panel.questions:
        sizes[question.benchmark] = sizes.get(question.benchmark, 0) + 1
    counts = np.bincount(panel.sets)
    return {
        "format_version": FORMAT,
        "kind": "probe-panel",
        "parameters": {
            "seed": seed,
            "min_items": min_items,
            "nearest_by": panel.nearest_by,
            "bootstrap": repeats,
            "shrinks": list(SHRINKS),
            "penalties": {probe: list(values) for probe, values in PENALTIES.items()},
            "most_directions": MOST_DIRECTIONS,
        },
        "inputs": panel.inputs,
        "pairs": {
            "n": len(panel.pairs),
            "training": len(panel.train),
            "held_out": len(panel.pairs) - len(panel.train),
            "sets_of_repeats": int((counts > 1).sum()),
            "pairs_in_them": int(counts[counts > 1].sum()),
        },
        "items": len(panel.questions),
        "benchmarks": sizes,
        "models": [
            {
                "model": member.name,
                "shrink": member.fit.shrink,
                "penalty": member.fit.penalty,
                "validation": member.fit.validation,
                **{row["kind"]: row["accuracy"] for row in rows if row["model"] == member.name},
            }
            for member in panel.members
        ],
        "blind": {
            name: {
                "formed": BLIND[blind_kind(name)],
                **{row["kind"]: row["accuracy"] for row in rows if row["model"] == name},
            }
            for name in panel.blind
        },
        "ties": ties["summary"],
        "notes": panel.notes,
    }


def _write(path: Path, content: bytes) -> None:
    with draft_file(path) as file:
        file.write(content)


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _csv(rows: Iterable[Mapping[str, Any]]) -> bytes:
    rows = list(rows)
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue().encode()


def _parquet(columns: Mapping[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), table, compression="zstd")
    return table.getvalue()
