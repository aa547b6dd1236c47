"""Scores on the unit scale: decimals come back from float32, so that ties are ties."""

from __future__ import annotations

import numpy as np
import pytest
from panels import make_panel

from optotype.pipelines.compression.compress import compress
from optotype.pipelines.compression.scaled import scaled, unit_scale


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 10), (1, 5), (-1, 1), (0, 100)])
def test_decimals_come_back_from_float32(low: float, high: float) -> None:
    exact = np.arange(1001) / 1000
    stored = (low + (high - low) * exact).astype(np.float32)
    np.testing.assert_array_equal(unit_scale(stored, low, high), exact)


def test_missing_stays_missing_and_the_panel_stays_lazy() -> None:
    panel = make_panel({"a": 9}, missing=0.3, graded=["a"], scales={"a": (0, 10)})
    lazy = scaled(panel)
    assert hasattr(lazy, "compute")
    np.testing.assert_array_equal(np.isnan(lazy.compute()), np.isnan(panel["score"].values))


def test_models_with_equal_means_are_tied_and_equal_variances_are_seeded_ties() -> None:
    panel = make_panel({"a": 42}, models=4)
    pairs = [(low / 10, (low + 2) / 10) for low in range(1, 8)] * 6  # variance 0.01, each of them
    scores = np.array([[a, b, a, b] for a, b in pairs], dtype=np.float32).T
    panel["score"] = (("model", "item"), scores)
    kept = {
        seed: set(compress(panel, stop_after=2, floor=0, retention=0.2, seed=seed).items["item_id"])
        for seed in range(4)
    }
    assert len({frozenset(items) for items in kept.values()}) > 1, "the seed decides among equals"
    stage = compress(panel, stop_after=0)
    ranks = {row["model"]: row["rank_all"] for row in stage.models}
    assert ranks["model-00"] == ranks["model-02"] == 3.5
    assert ranks["model-01"] == ranks["model-03"] == 1.5
