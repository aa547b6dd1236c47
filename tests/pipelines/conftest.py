"""Slow, obvious references for the operators, and small data to feed both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

from optotype.store.features import write_features
from optotype.store.project import Project
from optotype.store.states import write_states


def _whitened(items: Sequence[np.ndarray], eps: float, prenorm: str) -> list[np.ndarray]:
    items = [np.asarray(item, dtype=np.float64) for item in items]
    if prenorm == "l2":
        items = [item / np.linalg.norm(item, axis=1, keepdims=True) for item in items]
    rows = np.concatenate(items)
    mean = rows.sum(axis=0) / len(rows)
    covariance = np.zeros((rows.shape[1], rows.shape[1]))
    for row in rows:
        covariance += np.outer(row - mean, row - mean)
    values, vectors = np.linalg.eigh(covariance / (len(rows) - 1))
    keep = values > max(1e-10, values.max() * len(values) * 2.2e-16)
    result = []
    for item in items:
        white = (item - mean) @ vectors[:, keep] / np.sqrt(values[keep] + eps)
        result.append(white / np.linalg.norm(white, axis=1, keepdims=True))
    return result


def _chamfer(items: Sequence[np.ndarray]) -> np.ndarray:
    n = len(items)
    result = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if i != j:
                forward = [max(float(a @ b) for b in items[j]) for a in items[i]]
                backward = [max(float(a @ b) for a in items[i]) for b in items[j]]
                result[i, j] = 0.5 * (sum(forward) / len(forward) + sum(backward) / len(backward))
    return result


def _neighbours(similarity: np.ndarray, k: int) -> list[list[int]]:
    n = len(similarity)
    return [
        sorted((j for j in range(n) if j != i), key=lambda j, i=i: (-round(float(similarity[i, j]), 12), j))[:k]
        for i in range(n)
    ]


def _score(first: list[list[int]], second: list[list[int]]) -> float:
    return sum(len(set(a) & set(b)) / len(a) for a, b in zip(first, second, strict=True)) / len(first)


@pytest.fixture(scope="session")
def slow() -> SimpleNamespace:
    """``whitened(items, eps, prenorm)``, ``chamfer(unit)``, ``neighbours(matrix, k)``, ``score(graph, graph)``."""
    return SimpleNamespace(whitened=_whitened, chamfer=_chamfer, neighbours=_neighbours, score=_score)


def _features(items: Sequence[np.ndarray], *, chunk: int = 17, ids: Sequence[str] | None = None) -> xr.Dataset:
    rows = np.concatenate(items)
    names = [f"i{number:04}" for number in range(len(items))] if ids is None else list(ids)
    return xr.Dataset(
        {
            "patches": (("token", "channel"), da.from_array(rows, chunks=(chunk, -1))),
            "row_size": ("image", np.array([len(item) for item in items]), {"sample_dimension": "token"}),
        },
        coords={"image": ("image", np.array(names, dtype=object))},
    )


def _states(rows: np.ndarray, *, chunk: int = 7, ids: Sequence[str] | None = None) -> xr.Dataset:
    names = [f"i{number:04}" for number in range(len(rows))] if ids is None else list(ids)
    return xr.Dataset(
        {"states": (("text", "channel"), da.from_array(rows, chunks=(chunk, -1)))},
        coords={"text": ("text", np.array(names, dtype=object))},
    )


def _ragged(seed: int, n: int, channels: int, most: int = 9, dtype: Any = np.float32) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    scale = np.logspace(0, -2, channels)
    sizes = generator.integers(1, most, n, endpoint=True)
    return [(generator.standard_normal((size, channels)) * scale).astype(dtype) for size in sizes]


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """``features(items)``, ``states(rows)`` as lazy data sets; ``ragged(seed, n, channels)`` random items."""
    return SimpleNamespace(features=_features, states=_states, ragged=_ragged)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project, made by hand: these tests need no DVC."""
    root = tmp_path / "project"
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}')
    return Project(root)


@pytest.fixture
def put(project: Project) -> SimpleNamespace:
    """``put.features(name, items, ids=None)`` and ``put.states(name, rows, ids=None)`` write into the project."""

    def names(count: int, ids: Sequence[str] | None) -> list[str]:
        return [f"i{number:04}" for number in range(count)] if ids is None else list(ids)

    def features(name: str, items: Sequence[np.ndarray], ids: Sequence[str] | None = None) -> None:
        write_features(
            project.features / name,
            ids=names(len(items), ids),
            row_size=np.array([len(item) for item in items]),
            blocks=[np.concatenate(items)],
            dtype=items[0].dtype.name,
            inputs={"name": name},
        )

    def states(name: str, rows: np.ndarray, ids: Sequence[str] | None = None) -> None:
        target = project.states / name
        write_states(target, ids=names(len(rows), ids), blocks=[rows], dtype=rows.dtype.name, inputs={"name": name})

    return SimpleNamespace(features=features, states=states)
