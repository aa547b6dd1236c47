"""Small random panels: as `open_panel` would give them, and as the tables that are imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

__all__ = ["make_panel", "write_panel_files"]


def make_panel(
    benchmarks: Mapping[str, int],
    *,
    models: int = 8,
    categories: Mapping[str, str] | Sequence[str] | None = None,
    families: Sequence[str] | None = None,
    release_dates: Sequence[str] | None = None,
    axis: Sequence[str] | None = None,
    blind: int = 0,
    missing: float = 0.0,
    graded: Sequence[str] = (),
    scales: Mapping[str, tuple[float, float]] | None = None,
    responses: bool = False,
    chunk: int = 7,
    seed: int = 0,
) -> xr.Dataset:
    """A panel drawn from abilities and difficulties, with missing scores and, where asked, graded benchmarks.

    ``categories`` maps a benchmark to its category, or gives one for each item; "" means none.
    """
    rng = np.random.default_rng(seed)
    sizes = list(benchmarks.values())
    names = np.repeat(np.array(list(benchmarks), dtype=object), sizes)
    n = int(np.sum(sizes))
    items = np.array([f"{i:04d}" for size in sizes for i in range(size)], dtype=object)
    ability = rng.normal(size=models)[:, None]
    chance = 1 / (1 + np.exp(-(1.5 * ability - rng.normal(size=n))))
    score = (rng.random((models, n)) < chance).astype(np.float32)
    low, high = np.zeros(n), np.ones(n)
    for name in graded:
        here = names == name
        score[:, here] = np.round(chance[:, here] + rng.normal(scale=0.1, size=(models, int(here.sum()))), 2).clip(0, 1)
    for name, (least, most) in (scales or {}).items():
        here = names == name
        low[here], high[here] = least, most
        score[:, here] = least + (most - least) * score[:, here]
    score[rng.random(score.shape) < missing] = np.nan
    if categories is None:
        category = np.full(n, "", dtype=object)
    elif isinstance(categories, Mapping):
        category = np.array([categories.get(name, "") for name in names], dtype=object)
    else:
        category = np.array(list(categories), dtype=object)

    def text(values: Sequence[str] | None) -> np.ndarray:
        return np.array([""] * models if values is None else list(values), dtype=object)

    panel = xr.Dataset(
        {"score": (("model", "item"), score)},
        coords={
            "model": ("model", np.array([f"model-{m:02d}" for m in range(models)], dtype=object)),
            "family": ("model", text(families)),
            "release_date": ("model", text(release_dates)),
            "axis": ("model", text(axis)),
            "item": ("item", items),
            "benchmark": ("item", names),
            "category": ("item", category),
            "scale_min": ("item", low),
            "scale_max": ("item", high),
        },
        attrs={"name": "random", "digest": f"sha256:{seed:064x}", "invalid": "{}"},
    )
    if blind:
        guess = (rng.random((blind, n)) < 0.45).astype(np.float32)
        panel["blind"] = (("blind_model", "item"), (low + (high - low) * guess).astype(np.float32))
        panel = panel.assign_coords(blind_model=("blind_model", np.array([f"blind-{m}" for m in range(blind)], object)))
    if responses:
        panel["response"] = (("model", "item"), rng.integers(0, 5, size=(models, n), dtype=np.uint32))
    for name in list(panel.data_vars):
        panel[name] = panel[name].chunk({"item": chunk})  # the labels stay in memory, as in a stored panel
    return panel


def write_panel_files(folder: Path, *, models: int = 24, items: int = 24, seed: int = 0) -> None:
    """``scores.csv``, ``items.csv``, ``models.csv`` of four benchmarks in two categories; ``clip-items.npz``."""
    random = np.random.default_rng(seed)
    benchmarks = {"mmvp": "Seeing", "blink": "Seeing", "mmmu": "Knowing", "mathvista": "Knowing"}
    names = [f"model-{number:02d}" for number in range(models)]
    ability = np.linspace(-1.5, 1.5, models)
    rows, labels = ["benchmark,item_id,model,score"], ["benchmark,item_id,category,question"]
    for benchmark, category in benchmarks.items():
        for item, difficulty in enumerate(random.normal(size=items)):
            labels.append(f"{benchmark},{item:03d},{category},question {item}")
            right = random.random(models) < 1 / (1 + np.exp(difficulty - 2 * ability))
            rows += [f"{benchmark},{item:03d},{name},{int(hit)}" for name, hit in zip(names, right, strict=True)]
    table = ["model,family,release_date", *(f"{n},family-{i % 4},2024-{1 + i // 2:02d}" for i, n in enumerate(names))]
    (folder / "scores.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "items.csv").write_text("\n".join(labels) + "\n", encoding="utf-8")
    (folder / "models.csv").write_text("\n".join(table) + "\n", encoding="utf-8")
    keys = [line.split(",")[:2] for line in labels[1:]]
    vectors = {kind: random.normal(size=(len(keys), 8)).astype(np.float32) for kind in ("text", "vision_text")}
    benchmark, item = np.array(keys).T
    np.savez(folder / "clip-items.npz", benchmark=benchmark, item_id=item, **vectors)
