"""Small folders that can be published, one maker for each kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "make_frontier",
    "make_pairs",
    "make_ranking",
    "make_report",
    "make_states",
    "make_suite",
]

PANEL_DIGEST = "sha256:" + "ab" * 32


def make_suite(
    folder: Path,
    items: Mapping[str, float | None],
    *,
    ranks: Mapping[str, float] | None = None,
    parameters: Mapping[str, Any] | None = None,
    panel: str = PANEL_DIGEST,
) -> Path:
    """As ``optotype compress --out`` writes it; ``items`` maps ``benchmark/item`` to a weight."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [name.split("/") for name in items]
    n = len(names)
    table = pa.table(
        {
            "benchmark": pa.array([benchmark for benchmark, _ in names], pa.string()),
            "item_id": pa.array([item for _, item in names], pa.string()),
            "category": pa.array(["seeing"] * n, pa.string()),
            "vaw": pa.array(np.linspace(0.1, 0.2, n)),
            "variance": pa.array(np.linspace(0.1, 0.2, n)),
            "delta": pa.array([0.0] * n),
            "cell": pa.array([None] * n, pa.int32()),
            "weight": pa.array(list(items.values()), pa.float64()),
        }
    )
    pq.write_table(table, folder / "items.parquet")
    document = {
        "format_version": 1,
        "kind": "compression",
        "panel": {"name": "tiny", "digest": panel},
        "embeddings": None,
        "parameters": {"retention": 0.05, "seed": 0, **(parameters or {})},
        "versions": {},
        "stages": [{"stage": 0, "items_in": 100, "items_out": n, "rho": None}],
        "models": [],
        "warnings": ["few models"],
    }
    _write_json(folder / "compression.json", document)
    lines = [f"{model},1,1,1,1,0.5,{rank}" for model, rank in (ranks or {"a": 1.0, "b": 2.0, "c": 3.0}).items()]
    head = "model,score_all,rank_all,score_reference,rank_reference,score_compressed,rank_compressed"
    (folder / "models.csv").write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return folder


def make_frontier(folder: Path, items: Sequence[tuple[str, str]], panel: str = PANEL_DIGEST) -> Path:
    """As ``optotype frontier --out`` writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    n = len(items)
    columns: dict[str, Any] = {
        "benchmark": [benchmark for benchmark, _ in items],
        "item_id": [item for _, item in items],
        "category": ["seeing"] * n,
        "mean": np.full(n, 0.25),
        "variance": np.full(n, 0.1875),
        "score": np.full(n, 0.140625),
        "families_below": np.full(n, 3),
        "rank": np.arange(1, n + 1),
    }
    pq.write_table(pa.table(columns), folder / "items.parquet")
    document = {
        "format_version": 1,
        "kind": "frontier",
        "panel": {"name": "tiny", "digest": panel},
        "parameters": {"gain": 0.1, "axis": None},
        "candidates": 40,
        "in_band": 20,
        "kept": n,
        "gain": 0.1,
        "warnings": [],
    }
    _write_json(folder / "frontier.json", document)
    return folder


def make_ranking(
    folder: Path, scores: Mapping[str, float], *, k: int = 100, digests: Mapping[str, str] | None = None
) -> Path:
    """As ``optotype rank --out`` writes it, of one language model; ``digests`` are those of the encoders' features."""
    from optotype.registry.rankings import write_ranking

    rows = [
        {
            "encoder": encoder,
            "model": "lm",
            "metric": "ravel",
            "score": score,
            "chance": 0.25,
            "adjusted": (score - 0.25) / 0.75,
            "n": 400,
            "k": k,
            "eps": 1e-4,
            "prenorm_features": "none",
            "prenorm_states": "l2",
            "null": {"mean": 0.25, "sd": 0.01, "p": 0.01, "repeats": 100, "seed": 0},
            "interval": [score - 0.01, score + 0.01],
            "bootstrap": 100,
            "features_digest": (digests or {}).get(encoder, "sha256:" + f"{i + 1:02x}" * 32),
            "states_digest": "sha256:" + "ee" * 32,
            "warnings": [],
        }
        for i, (encoder, score) in enumerate(sorted(scores.items(), key=lambda entry: -entry[1]))
    ]
    write_ranking(rows, folder)
    return folder


def make_report(folder: Path, text: str = "hello") -> Path:
    """A page and its numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ranking.html").write_text(f"<!doctype html><p>{text}</p>\n", encoding="utf-8")
    _write_json(folder / "ranking.json", {"format_version": 1, "kind": "ranking-report", "title": text, "seed": 3})
    return folder


def make_pairs(folder: Path, n: int = 4) -> Path:
    """Tiny images with captions, from a wheel."""
    from PIL import Image

    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines = ["id,image,text,group"]
    for i in range(n):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(folder / "images" / f"{i}.png")
        lines.append(f"p{i},images/{i}.png,caption {i},{'ab'[i % 2]}")
    (folder / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    wheel = {"name": "drawings", "version": "2.0.0", "sha256": "cd" * 32, "licence": "CC-BY-4.0"}
    _write_json(folder / "SOURCE.json", {"format_version": 1, "kind": "pairs", "n": n, "seed": 0, "wheel": wheel})
    return folder


def make_states(folder: Path, *, n: int = 8, channels: int = 4, inputs: Mapping[str, Any] | None = None) -> Path:
    """An array of states, as ``optotype encode texts`` writes it."""
    from optotype.store.states import write_states

    values = np.random.default_rng(0).normal(size=(n, channels)).astype(np.float32)
    write_states(
        folder,
        ids=[f"t{i:06d}" for i in range(n)],
        blocks=[values],
        dtype="float32",
        inputs=dict(inputs or {"operation": "test"}),
    )
    return folder


def _write_json(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
