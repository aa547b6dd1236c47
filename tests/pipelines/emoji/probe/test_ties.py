"""The paired bootstrap, against loops over the same draws."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.emoji.probe.halves import seeded
from optotype.pipelines.emoji.probe.ties import resampled


def test_agrees_with_loops() -> None:
    rng = np.random.default_rng(0)
    correct = rng.random((3, 17)) < 0.5
    clusters = np.sort(rng.integers(0, 6, size=17)) * 3
    found = resampled(correct, clusters, repeats=40, seed=2)
    numbers = sorted(set(clusters.tolist()))
    draws = seeded(2, "bootstrap", len(numbers)).multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), 40)
    for row, counts in zip(found.resampled, draws, strict=True):
        items = [
            i
            for number, times in zip(numbers, counts, strict=True)
            for _ in range(times)
            for i in np.flatnonzero(clusters == number)
        ]
        np.testing.assert_allclose(row, correct[:, items].mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.observed, correct.mean(axis=1), rtol=1e-12)
    for i, j, difference, low, high in found.differences():
        values = found.resampled[:, i] - found.resampled[:, j]
        assert difference == pytest.approx(found.observed[i] - found.observed[j], abs=1e-11)
        assert (low, high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=1e-11)


def test_blocks_of_draws_make_no_difference_to_their_number() -> None:
    correct = np.random.default_rng(1).random((2, 30)) < 0.5
    assert resampled(correct, np.arange(30), repeats=2500, seed=0).resampled.shape == (2500, 2)


def test_equal_models_differ_by_nothing_and_unlike_ones_do_not_tie() -> None:
    rng = np.random.default_rng(3)
    good, bad = rng.random(200) < 0.9, rng.random(200) < 0.2
    found = {
        (i, j): rest
        for i, j, *rest in resampled(np.stack([good, good, bad]), np.arange(200), repeats=500, seed=0).differences()
    }
    assert found[0, 1] == [0, 0, 0]
    assert str(found[0, 1][1]) == "0.0"
    assert found[0, 2][1] > 0


def test_items_of_one_image_are_no_independent_draws() -> None:
    right = np.random.default_rng(4).random(50) < 0.5
    three = np.repeat(right, 3)[None]  # the same answer three times
    together = resampled(three, np.repeat(np.arange(50), 3), repeats=2000, seed=0).interval(0)
    alone = resampled(three, np.arange(150), repeats=2000, seed=0).interval(0)
    assert together[1] - together[0] > 1.4 * (alone[1] - alone[0])
