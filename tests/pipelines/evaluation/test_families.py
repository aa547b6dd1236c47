"""Agreement between families, and the places that a left-out family moves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from optotype.pipelines.evaluation.families import agreement, rank_shift


def test_agreement_equals_scipy_over_common_items() -> None:
    rng = np.random.default_rng(0)
    scores = (rng.random((11, 40)) < 0.5).astype(float)
    scores[rng.random(scores.shape) < 0.2] = np.nan
    scores[:4, 3] = np.nan
    families = ["x"] * 4 + ["y"] * 4 + ["z"] * 2 + [""]
    rows = agreement(scores, families)
    assert [(row["family"], row["other"]) for row in rows] == [("x", "y")]
    x, y = [], []
    for item in range(40):
        one, other = scores[:4, item], scores[4:8, item]
        if np.isfinite(one).any() and np.isfinite(other).any():
            x.append(np.mean(one[np.isfinite(one)]))
            y.append(np.mean(other[np.isfinite(other)]))
    assert rows[0]["items"] == len(x) < 40
    assert rows[0]["rho"] == pytest.approx(float(spearmanr(np.round(x, 12), np.round(y, 12)).statistic))


def test_agreement_that_is_not_defined_is_none() -> None:
    scores = np.ones((8, 5))
    assert agreement(scores, ["x"] * 4 + ["y"] * 4)[0]["rho"] is None
    assert agreement(scores, ["x"] * 8) == []
    assert agreement(np.full((8, 5), np.nan), ["x"] * 4 + ["y"] * 4)[0]["items"] == 0


def test_rank_shift_by_hand_and_by_scipy() -> None:
    full = np.array([0.1, 0.2, 0.3, 0.4, np.nan])
    kept = np.array([0.4, 0.2, 0.3, 0.1, 0.9])
    outside = np.array([True, False, False, True, True])
    assert rank_shift(full, kept, outside) == (3.0, 4)  # from 1 to 4 and from 4 to 1; the last is not ranked
    shift, ranked = rank_shift(full, np.array([0.5, 0.5, 0.5, 0.5, 0.5]), np.array([True, True, False, False, False]))
    assert ranked == 4
    assert shift == pytest.approx(np.mean(np.abs(rankdata(full[:4]) - 2.5)[:2]))
    shift, _ = rank_shift(full, kept, np.array([False, False, False, False, True]))
    assert np.isnan(shift)
