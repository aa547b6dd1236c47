"""A project without DVC's own files in the user's home, and tiny arrays to import."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from panels import write_panel_files

from optotype.store.project import Project

N = 128


def write_arrays(folder: Path, *, n: int = N, seed: int = 0) -> None:
    """``siglip.npz`` (ragged, float32), ``dinov2.npz`` (3-D, float16), ``qwen3.npz`` and ``smollm2.npz`` (states).

    And ``clip-l14.npz`` and ``dinov2-l14.npz``, which have the same grid of 2 x 2 tokens and the same 6 channels.
    """
    random = np.random.default_rng(seed)
    ids = np.array([f"item-{i:03d}" for i in random.permutation(n)])
    row_size = random.integers(1, 5, size=n)
    folder.mkdir(parents=True, exist_ok=True)
    tokens = random.normal(size=(row_size.sum(), 6)).astype(np.float32)
    np.savez(folder / "siglip.npz", ids=ids, tokens=tokens, row_size=row_size)
    np.savez(folder / "dinov2.npz", ids=ids, patches=random.normal(size=(n, 3, 5)).astype(np.float16))
    np.savez(folder / "qwen3.npz", ids=ids[::-1], states=random.normal(size=(n, 8)))
    for number, name in enumerate(("clip-l14", "dinov2-l14")):
        mine = np.random.default_rng([seed, number])
        np.savez(folder / f"{name}.npz", ids=ids, patches=mine.normal(size=(n, 4, 6)).astype(np.float16))
    np.savez(folder / "smollm2.npz", ids=np.sort(ids), states=random.normal(size=(n, 2 * n)).astype(np.float32))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, which is the working directory, with the files of `write_arrays` in it.

    It is made without DVC (whose set-up takes seconds); `test_init` has the real thing.
    """
    root = tmp_path / "project"
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    write_arrays(root)
    write_panel_files(root)
    names = "encoders: {siglip: {}, dinov2: {}}\nlanguage_models: [qwen3, smollm2]\n"
    (root / "params.yaml").write_text(names, encoding="utf-8")
    monkeypatch.chdir(root)
    assert Project.find().root == root.resolve()
    assert "DVC_STAGE" not in os.environ
    return root
