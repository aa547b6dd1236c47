"""Small arrays for the tests of the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@dataclass
class Ragged:
    """Ragged features in memory: ids, row_size and tokens in the same order."""

    ids: list[str]
    row_size: np.ndarray
    tokens: np.ndarray

    def image(self, number: int) -> np.ndarray:
        start = int(self.row_size[:number].sum())
        return self.tokens[start : start + int(self.row_size[number])]

    def shuffled(self, seed: int) -> Ragged:
        order = np.random.default_rng(seed).permutation(len(self.ids))
        tokens = np.concatenate([self.image(i) for i in order])
        return Ragged([self.ids[i] for i in order], self.row_size[order], tokens)

    def blocks(self, rows: int) -> list[np.ndarray]:
        return [self.tokens[i : i + rows] for i in range(0, len(self.tokens), rows)]

    def save(self, path: Path, **extra: Any) -> Path:
        np.savez(path, ids=np.array(self.ids), row_size=self.row_size, tokens=self.tokens, **extra)
        return path


@pytest.fixture
def ragged():
    """Makes sorted ragged features."""

    def make(images: int = 7, channels: int = 5, dtype: str = "float32", seed: int = 0, most: int = 6) -> Ragged:
        rng = np.random.default_rng(seed)
        row_size = rng.integers(1, most + 1, images)
        tokens = rng.standard_normal((int(row_size.sum()), channels)).astype(dtype)
        return Ragged([f"image-{i:04d}" for i in range(images)], row_size, tokens)

    return make


@pytest.fixture
def files():
    """Lists a folder recursively, hidden entries included."""

    def listing(folder: Path) -> list[str]:
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))

    return listing


@pytest.fixture(autouse=True)
def _quiet_dvc(tmp_path_factory, monkeypatch):
    """DVC with no configuration and no cache of this machine."""
    base = tmp_path_factory.mktemp("dvc-home")
    for name in ("DVC_SITE_CACHE_DIR", "DVC_GLOBAL_CONFIG_DIR", "DVC_SYSTEM_CONFIG_DIR"):
        monkeypatch.setenv(name, str(base / name.lower()))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    for name in ("DVC_STAGE", "DVC_ROOT"):
        monkeypatch.delenv(name, raising=False)
