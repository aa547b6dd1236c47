"""The determinantal selector: a process in each share, the rest by score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optotype.pipelines.kernels.cells import seed_of
from optotype.pipelines.kernels.determinantal import greedy_map, median_squared_distance
from optotype.pipelines.kernels.shares import shares
from optotype.pipelines.selectors import dpp
from optotype.pipelines.selectors.conformance import random_pool
from optotype.pipelines.selectors.order import seeded_keys
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import get_selector


def _slow(pool: Pool, budget: int, seed: int, most: int = 10**9) -> list[int]:
    keys = seeded_keys(pool, seed)
    quality = np.nan_to_num(pool.vaw, nan=-1.0).round(12)
    kept: list[int] = []
    parts = shares([len(members) for _, members in pool.groups], budget)
    for (name, members), share in zip(pool.groups, parts, strict=True):
        rows = np.asarray(pool.vision_text, dtype=np.float64)
        order = sorted(members.tolist(), key=lambda i: (-quality[i], int(keys[i])))
        embedded = [i for i in order if np.isfinite(rows[i]).all()][: max(most, share)]
        everyone = [i for i in members.tolist() if np.isfinite(rows[i]).all()]
        width = median_squared_distance(rows[everyone], pairs=2000, seed=seed_of(seed, "bandwidth", name))
        chosen = [
            embedded[k] for k in greedy_map(rows[embedded], np.maximum(pool.vaw[embedded], 0), share, bandwidth=width)
        ]
        kept += chosen + [i for i in order if i not in chosen][: share - len(chosen)]
    return sorted(kept)


def _within(pool: Pool, budget: int, most: int, benchmark: str) -> list[int]:
    return [i for i in _slow(pool, budget, 0, most) if pool.benchmark[i] == benchmark]


def _scored(seed: int) -> Pool:
    """Without the item that has no score: its quality is not a number."""
    pool = random_pool(seed)
    scores = pool.scores.copy()
    scores[:, 2] = 0.0
    return replace(pool, matrix=scores).take(np.arange(len(scores)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("budget", [5, 21, 58])
def test_a_process_in_each_share(seed: int, budget: int) -> None:
    pool = _scored(seed)
    found = get_selector("dpp").select(pool, budget, seed=seed)
    assert found.index.tolist() == _slow(pool, budget, seed)
    told = found.details["benchmarks"]
    assert sum(row["share"] for row in told) == budget
    assert all(row["by_process"] + row["by_score"] == row["share"] for row in told)


def test_a_large_benchmark_is_cut_to_its_best_items(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = _scored(1)
    monkeypatch.setattr(dpp, "_MOST_NUMBERS", 48)
    found = get_selector("dpp").select(pool, 9, seed=0)  # shares of 6 and 3: 8 and 16 items
    assert found.notes == (
        "benchmark-0: the process chooses among the 8 items with the highest scores",
        "benchmark-1: the process chooses among the 16 items with the highest scores",
    )
    cut = [i for name, most in (("benchmark-0", 8), ("benchmark-1", 16)) for i in _within(pool, 9, most, name)]
    assert found.index.tolist() == cut
    assert found.index.tolist() != _slow(pool, 9, 0)


def test_without_embeddings_it_is_shares_only() -> None:
    pool = replace(random_pool(0), text=None, vision_text=None, kept={})
    found = get_selector("dpp").select(pool, 9, seed=0)
    assert found.index.tolist() == get_selector("shares-only").select(pool, 9, seed=0).index.tolist()
    assert found.notes == ("no embeddings: shares are filled by score alone and δ = 0",)
    assert found.cell is None
