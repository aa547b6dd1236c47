"""A frozen subset against all subsets, by brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from optotype.pipelines.evaluation.shelf_life import release_order, shelf_life
from optotype.schemas.errors import InvalidDataError, UsageError

_NAMES = ["a", "b", "c", "d", "e"]


def _all(scores: NDArray[np.float64], k: int) -> dict[tuple[int, ...], float]:
    """ρ of every subset on complete scores."""
    reference = scores.mean(axis=1).round(12)
    return {
        subset: float(spearmanr(scores[:, subset].mean(axis=1).round(12), reference).statistic)
        for subset in combinations(range(scores.shape[1]), k)
    }


def test_release_order_leaves_undated_models_out() -> None:
    assert release_order(["2024-02", "", "2023", "2024-02", "2024"]) == [2, 4, 0, 3]


def test_equals_brute_force() -> None:
    rng = np.random.default_rng(2)
    scores = rng.random((24, 5))
    order = rng.permutation(20)
    dates = [""] * 24
    for place, model in enumerate(order):
        dates[model] = f"2024-01-{place + 1:02d}"
    rows = shelf_life(scores, _NAMES, dates, 2, "none", shares=(0.5, 0.75, 1.0))
    assert [(row["panel"], row["models"], row["scored"]) for row in rows] == [
        ("oldest", 10, 10),
        ("oldest", 15, 15),
        ("all dated", 20, 20),
        ("newer alone", 10, 10),
        ("with undated", 24, 24),
    ]
    first = _all(scores[order[:10]], 2)
    frozen = max(first, key=lambda subset: round(first[subset], 9))
    undated = [model for model in range(24) if not dates[model]]
    panels = [order[:10], order[:15], order, order[10:], np.concatenate([order, undated])]
    for row, members in zip(rows, panels, strict=True):
        found = _all(scores[members], 2)
        values = np.array(list(found.values()))
        assert row["subset"] == [_NAMES[number] for number in frozen]
        assert row["rho"] == pytest.approx(found[frozen])
        assert row["best_subset_rho"] == pytest.approx(values.max())
        assert row["gap"] == pytest.approx(values.max() - found[frozen])
        assert row["percentile"] == pytest.approx(100 * np.mean(values <= found[frozen] + 1e-12))
        assert row["mean_subset_rho"] == pytest.approx(values.mean())
        assert row["subsets"] == 10
    assert rows[0]["gap"] == pytest.approx(0)


def test_zscore_of_newer_models_is_that_of_all_dated_ones() -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((16, 4)) * [1.0, 0.1, 0.5, 2.0]
    dates = [f"2024-{m + 1:02d}" if m < 9 else f"2025-{m - 8:02d}" for m in range(16)]
    rows = shelf_life(scores, _NAMES[:4], dates, 2, "zscore", shares=(0.5, 1.0))
    standard = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    newer = next(row for row in rows if row["panel"] == "newer alone")
    subset = [_NAMES.index(name) for name in newer["subset"]]
    expected = spearmanr(standard[8:][:, subset].mean(axis=1), standard[8:].mean(axis=1)).statistic
    assert newer["rho"] == pytest.approx(float(expected))


def test_models_with_few_categories_do_not_enter() -> None:
    scores = np.random.default_rng(4).random((12, 4))
    scores[::3, :3] = np.nan
    dates = [f"2024-{m + 1:02d}" for m in range(12)]
    rows = shelf_life(scores, _NAMES[:4], dates, 2, shares=(1.0,))
    assert [row["scored"] for row in rows] == [8]


def test_what_cannot_be_frozen_says_why() -> None:
    scores = np.random.default_rng(0).random((8, 3))
    with pytest.raises(InvalidDataError, match="needs release dates"):
        shelf_life(scores, _NAMES[:3], [""] * 8, 2)
    with pytest.raises(InvalidDataError, match="no subset of 5"):
        shelf_life(scores, _NAMES[:3], ["2024"] * 8, 5)
    with pytest.raises(UsageError, match="subsets"):
        shelf_life(np.ones((4, 60)), [str(n) for n in range(60)], ["2024"] * 4, 20)
