"""A small project with real arrays on disk: two encoders, two language models, ten drawn images."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from optotype.pipelines.rank import rank
from optotype.store.features import write_features
from optotype.store.project import Project
from optotype.store.states import write_states

ITEMS = 24
GRID = 4
CHANNELS = 6


@dataclass(frozen=True)
class Ranked:
    """A project, its table of pairs, and rows under two combinations of row normalisation."""

    project: Project
    pairs: Path
    rows: list[dict[str, Any]]
    ids: list[str]


def make(root: Path) -> Ranked:
    """Write the project under ``root``: a 4 x 4 grid encoder, a ragged one, and two language models."""
    rng = np.random.default_rng(7)
    ids = [f"i{number:03d}" for number in range(ITEMS)]
    table = root / "pairs"
    (table / "images").mkdir(parents=True)
    with (table / "pairs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "image", "text"])
        for number, item in enumerate(ids):
            image = Image.new("RGB", (40, 40), "white")
            ImageDraw.Draw(image).ellipse((number, 4, number + 16, 36), fill=(10 * number, 80, 255 - 9 * number))
            image.save(table / "images" / f"{item}.png")
            writer.writerow([item, f"images/{item}.png", f"shape <{number}> & “more”"])
    (root / ".optotype").mkdir()
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n')
    project = Project(root.resolve())
    meaning = rng.normal(size=(ITEMS, 1, CHANNELS))
    square = (meaning + 0.5 * rng.normal(size=(ITEMS, GRID * GRID, CHANNELS))).reshape(-1, CHANNELS)
    sizes = 3 + np.arange(ITEMS) % 4
    ragged = np.concatenate([rng.normal(size=(size, CHANNELS)) for size in sizes])
    for name, tokens, row_size in (("grid", square, np.full(ITEMS, GRID * GRID)), ("ragged", ragged, sizes)):
        write_features(
            project.features / name,
            ids=ids,
            row_size=row_size,
            blocks=[tokens.astype(np.float16)],
            dtype="float16",
            inputs={"test": name},
        )
    for name, width in (("small", 5), ("wide", 40)):
        noise = rng.normal(size=(ITEMS, width)) * 0.1
        states = (meaning[:, 0, :] @ rng.normal(size=(CHANNELS, width)) + noise).astype(np.float32)
        write_states(project.states / name, ids=ids, blocks=[states], dtype="float32", inputs={"test": name})
    rows: list[dict[str, Any]] = []
    for norm in ("l2", "none"):
        rows += rank(
            project, ["grid", "ragged"], ["small", "wide"], k=5, prenorm_states=norm, null=20, bootstrap=20, seed=1
        )
    return Ranked(project, table / "pairs.csv", rows, ids)


@pytest.fixture(scope="session")
def make_ranked() -> Callable[[Path], Ranked]:
    return make


@pytest.fixture(scope="session")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Ranked:
    return make(tmp_path_factory.mktemp("ranked"))
