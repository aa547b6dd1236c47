"""Pooling, directions, maps and how their settings are chosen, each against something slow and plain."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from probes import feature_array, make_pairs
from scipy.optimize import approx_fprime

from optotype.pipelines.emoji.probe.directions import MOST_DIRECTIONS, fit_directions, unit
from optotype.pipelines.emoji.probe.fitting import Side, expected_accuracy, fit_pair
from optotype.pipelines.emoji.probe.halves import folds
from optotype.pipelines.emoji.probe.maps import PENALTIES, PROBES, contrastive, contrastive_loss, ridge
from optotype.pipelines.emoji.probe.pooling import pooled
from optotype.schemas.errors import InvalidDataError


def test_pooled_is_the_mean_token_however_the_array_is_cut() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, size=30)
    tokens = rng.normal(size=(sizes.sum(), 5)).astype(np.float16)
    array = feature_array(make_pairs({"a": 30}), "e", np.zeros((30, 5)))
    array = array.drop_dims("token").assign(patches=(("token", "channel"), tokens), row_size=("image", sizes))
    plain = [part.astype(np.float64).mean(axis=0) for part in np.split(tokens, np.cumsum(sizes)[:-1])]
    results = [pooled(array.chunk(token=size)) for size in (1, 7, 1000)]
    np.testing.assert_allclose(results[0], plain, rtol=1e-12)
    assert {result.tobytes() for result in results} == {results[0].tobytes()}


@pytest.mark.parametrize("shape", [(20, 50), (60, 12), (13, 13)])
def test_directions_are_those_of_the_singular_values(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(1).normal(size=shape) * np.linspace(1, 5, shape[1]) + 3
    found = fit_directions(rows, "rows")
    _, singular, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    r = min(shape[0] - 1, shape[1])
    assert found.vectors.shape == (shape[1], r)
    np.testing.assert_allclose(found.variance, singular[:r] ** 2 / len(rows), rtol=1e-8)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * right[:r].T, axis=0)), 1, rtol=1e-8)
    white = found.apply(rows, 0.0)
    np.testing.assert_allclose(white.T @ white / len(rows), np.eye(r), atol=1e-8)
    shrunk = found.apply(rows, 2.0)
    expected = singular[:r] ** 2 / len(rows)
    np.testing.assert_allclose(shrunk.var(axis=0), expected / (expected + 2 * expected.mean()), rtol=1e-8)


def test_directions_are_bounded_and_equal_rows_refused() -> None:
    rows = np.random.default_rng(2).normal(size=(300, 200))
    assert fit_directions(rows, "rows").vectors.shape == (200, MOST_DIRECTIONS)
    with pytest.raises(InvalidDataError, match="features vit: all 9 training rows are equal"):
        fit_directions(np.ones((9, 4)), "features vit")


def test_ridge_is_least_squares_with_a_penalty() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 6)), rng.normal(size=(30, 4))
    x[:, 5] = x[:, 4]  # singular without the penalty
    for penalty, found in zip((2.0, 0.1), ridge(x, y, (2.0, 0.1)), strict=True):
        stacked = np.vstack([x, np.sqrt(penalty * len(x)) * np.eye(6)])
        expected, *_ = np.linalg.lstsq(stacked, np.vstack([y, np.zeros((6, 4))]))
        np.testing.assert_allclose(found, expected, atol=1e-10)


def slow_loss(w: np.ndarray, x: np.ndarray, y: np.ndarray, penalty: float) -> float:
    logits = x @ w.reshape(x.shape[1], y.shape[1]) @ y.T
    n, total = len(x), 0.0
    for i in range(n):
        total -= logits[i, i] - np.log(np.exp(logits[i]).sum())
        total -= logits[i, i] - np.log(np.exp(logits[:, i]).sum())
    return total / (2 * n) + penalty / 2 * float((w**2).sum())


def test_contrastive_loss_and_slope() -> None:
    rng = np.random.default_rng(4)
    x, y, w = rng.normal(size=(9, 4)), rng.normal(size=(9, 3)), rng.normal(size=12)
    value, slope = contrastive_loss(w, x, y, 0.3)
    assert value == pytest.approx(slow_loss(w, x, y, 0.3), rel=1e-12)
    np.testing.assert_allclose(slope, approx_fprime(w, slow_loss, 1e-7, x, y, 0.3), atol=1e-5)
    huge, slope = contrastive_loss(w * 1e4, x, y, 0.3)  # exp() alone would overflow
    assert np.isfinite(huge)
    assert np.isfinite(slope).all()


def test_contrastive_finds_the_one_optimum() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(25, 4)), rng.normal(size=(25, 3))
    direct, after_others = contrastive(x, y, [0.05])[0], contrastive(x, y, [3.0, 0.4, 0.05])[-1]
    np.testing.assert_allclose(direct, after_others, atol=1e-3 * np.abs(direct).max())
    weights = direct.ravel()
    best = contrastive_loss(weights, x / 2, y / np.sqrt(3), 0.05)[0]
    for _ in range(20):
        near = weights + rng.normal(scale=0.1, size=12)
        assert contrastive_loss(near, x / 2, y / np.sqrt(3), 0.05)[0] > best


def test_expected_accuracy_is_the_mean_over_all_questions() -> None:
    similarity = np.round(np.random.default_rng(6).normal(size=(7, 7)), 1)  # with ties
    outcomes = [
        all(similarity[i, i] > similarity[i, j] for j in wrong)
        for i in range(7)
        for wrong in combinations([j for j in range(7) if j != i], 3)
    ]
    assert expected_accuracy(similarity) == pytest.approx(np.mean(outcomes), rel=1e-12)
    assert expected_accuracy(np.eye(5)) == 1
    assert expected_accuracy(np.ones((5, 5))) == 0


def test_fits_see_the_training_half_alone() -> None:
    rng = np.random.default_rng(7)
    meaning = rng.normal(size=(60, 5))
    images = np.tanh(meaning @ rng.normal(size=(5, 20))) + rng.normal(scale=0.3, size=(60, 20))
    texts = meaning @ rng.normal(size=(5, 12)) + rng.normal(scale=0.3, size=(60, 12))
    train = np.arange(0, 60, 2)
    fold = folds(np.arange(30), 3, 0)

    def fitted(visual: np.ndarray, textual: np.ndarray) -> dict[str, tuple[object, ...]]:
        sides = Side.of(visual, train, fold, "features"), Side.of(textual, train, fold, "states")
        fits = fit_pair(*sides, train, fold, list(PROBES))
        return {
            probe: (fit.shrink, fit.penalty, fit.validation, fit.similarity[np.ix_(train, train)].tobytes())
            for probe, fit in fits.items()
        }

    before = fitted(images, texts)
    assert set(before) == {"ridge", "contrastive"}
    for probe, (_, penalty, validation, _) in before.items():
        assert penalty in PENALTIES[probe]
        assert validation > 0.4
    images[1::2] = 100 * rng.normal(size=(30, 20))
    texts[1::2] = 0
    assert fitted(images, texts) == before


def test_unit_leaves_zeros() -> None:
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0, 0]]
