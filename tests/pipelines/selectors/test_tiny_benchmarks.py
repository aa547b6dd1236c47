from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from optotype.pipelines.irt.abilities import abilities
from optotype.pipelines.irt.two_parameter import fit
from optotype.pipelines.selectors.conformance import conformance_problems, random_pool
from optotype.pipelines.selectors.irt_2pl import response_model
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import Selector
from optotype.pipelines.selectors.tiny_benchmarks import (
    GpIrt,
    IrtSelection,
    PIrt,
    TinyAnchors,
    TinyIrtAnchors,
    blend,
    irt_bias,
)

ALL = [TinyAnchors(), TinyIrtAnchors(), PIrt(), GpIrt()]


@pytest.mark.parametrize("selector", ALL, ids=lambda selector: selector.name)
@pytest.mark.parametrize("seed", range(2))
def test_conforms(selector: Selector, seed: int) -> None:
    assert conformance_problems(selector, seed) == []


def binary_pool(models: int = 12, items: int = 80, seed: int = 0) -> tuple[Pool, NDArray[np.float64]]:
    """A pool of 0/1 scores, and 20 more models."""
    rng = np.random.default_rng(seed)
    ability, slope, difficulty = rng.normal(size=models + 20), np.exp(rng.normal(0, 0.4, items)), rng.normal(size=items)
    chance = 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
    scores = (rng.random(chance.shape) < chance).astype(float)
    return Pool.of(scores[:models], benchmark=["a"] * items), scores[models:]


def test_anchors_reproduce_the_build_models_where_items_repeat() -> None:
    rng = np.random.default_rng(0)
    scores = np.repeat(rng.integers(0, 2, size=(10, 8)), [1, 2, 3, 4, 5, 6, 7, 12], axis=1).astype(float)
    pool = Pool.of(scores, benchmark=["a"] * 40)
    for budget in (8, 20):
        selection = TinyAnchors().select(pool, budget, seed=0)
        np.testing.assert_allclose(selection.estimate(scores), scores.mean(axis=1))


def test_missing_scores_are_filled_and_told() -> None:
    pool = random_pool(0, missing=0.2, sizes=(30,))
    selection = TinyAnchors().select(pool, 6, seed=0)
    mean = [np.nanmean(pool.scores if np.isnan(column).all() else column) for column in pool.scores.T]
    filled = replace(pool, matrix=np.where(np.isnan(pool.scores), mean, pool.scores)).take(np.arange(9))
    assert selection.index.tolist() == TinyAnchors().select(filled, 6, seed=0).index.tolist()
    assert selection.notes == (f"{np.isnan(pool.scores).sum()} missing scores were filled with the mean of their item",)


def test_irt_anchors_spread_over_difficulties() -> None:
    pool, _ = binary_pool(models=30)
    difficulty = response_model(pool).model.difficulty
    chosen = TinyIrtAnchors().select(pool, 8, seed=0).index
    assert np.ptp(difficulty[chosen]) > 0.5 * np.ptp(difficulty)


def completed(pool: Pool, selection: IrtSelection, row: NDArray[np.float64]) -> float:
    """p-IRT of one model, item by item."""
    model = fit(np.where(np.isnan(pool.scores), np.nan, pool.scores >= 0.5))
    some = model.take(selection.index)
    kept = row[selection.index]
    theta = abilities(some, kept[None])[0]
    observed = [x for x in kept if not math.isnan(x)]
    expected = [
        1 / (1 + math.exp(-(model.slope[i] * theta + model.intercept[i])))
        for i in range(pool.n)
        if i not in selection.index
    ]
    share = len(observed) / (len(observed) + len(expected))
    return float(share * np.mean(observed) + (1 - share) * np.mean(expected))


def test_p_irt_is_that_of_a_loop() -> None:
    pool, others = binary_pool()
    others[3, ::2] = np.nan
    selection = PIrt().select(pool, 9, seed=0)
    assert isinstance(selection, IrtSelection)
    assert selection.index.tolist() == TinyIrtAnchors().select(pool, 9, seed=0).index.tolist()
    np.testing.assert_allclose(selection.estimate(others), [completed(pool, selection, row) for row in others])


def test_p_irt_of_graded_scores_is_on_their_scale() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.6, 0.8, size=(10, 40)).round(2)
    pool = Pool.of(scores, benchmark=["graded"] * 40)
    estimate = PIrt().select(pool, 5, seed=0).estimate(scores)
    assert ((estimate > 0.65) & (estimate < 0.75)).all()


def test_gp_irt_mixes_the_anchors_and_p_irt() -> None:
    pool, others = binary_pool()
    anchors, plain = TinyIrtAnchors().select(pool, 9, seed=0), PIrt().select(pool, 9, seed=0)
    selection = GpIrt().select(pool, 9, seed=0)
    assert isinstance(selection, IrtSelection)
    bias = irt_bias(pool)
    assert bias is not None
    variance = np.mean([row.mean() * (1 - row.mean()) for row in pool.scores])
    assert selection.share == pytest.approx(bias**2 / (variance / 36 + bias**2))
    assert 0 < selection.share < 1
    np.testing.assert_allclose(
        selection.estimate(others),
        selection.share * anchors.estimate(others) + (1 - selection.share) * plain.estimate(others),
    )


def test_error_of_the_model_is_that_of_a_loop() -> None:
    pool, _ = binary_pool()
    rows = sorted(pool.scores, key=lambda row: row.tobytes())
    model = fit(np.array([row for m, row in enumerate(rows) if m % 5]))
    errors = []
    for row in rows[::5]:
        theta = abilities(model.take(np.arange(0, 80, 2)), row[None, ::2])[0]
        chance = 1 / (1 + np.exp(-(model.slope * theta + model.intercept)))
        errors.append(abs(chance[1::2].mean() - row[1::2].mean()))
    assert irt_bias(pool) == pytest.approx(np.mean(errors))


def test_error_of_the_model_with_gaps() -> None:
    pool, _ = binary_pool(models=3)
    assert irt_bias(pool) is not None
    assert irt_bias(pool.take([0, 1])) is None
    silent = pool.scores.copy()
    silent[1] = np.nan
    assert irt_bias(Pool.of(silent, benchmark=pool.benchmark)) is None  # two are left
    halves = pool.scores.copy()
    halves[:, 1::2] = np.nan
    assert irt_bias(Pool.of(halves, benchmark=pool.benchmark)) is None  # nothing to compare with


def test_without_models_to_validate_with_the_anchors_count_alone() -> None:
    pool, others = binary_pool(models=2)
    selection = GpIrt().select(pool, 9, seed=0)
    assert "needs 3 build models" in selection.notes[-1]
    np.testing.assert_allclose(selection.estimate(others), TinyIrtAnchors().select(pool, 9, seed=0).estimate(others))


def test_blend_goes_from_one_estimate_to_the_other() -> None:
    assert blend(0.0, 0.2, 10) == 0
    assert blend(0.1, 0.0, 10) == 1
    assert blend(0.0, 0.0, 10) == 1
    assert blend(0.05, 0.2, 5) == pytest.approx(0.0025 / (0.01 + 0.0025))


def test_p_irt_is_nearer_the_truth_than_its_anchors() -> None:
    errors = {"anchors": 0.0, "p-irt": 0.0, "gp-irt": 0.0}
    for seed in range(5):
        pool, others = binary_pool(models=40, items=300, seed=seed)
        for name, selector in (("anchors", TinyIrtAnchors()), ("p-irt", PIrt()), ("gp-irt", GpIrt())):
            estimate = selector.select(pool, 12, seed=seed).estimate(others)
            errors[name] += float(np.abs(estimate - others.mean(axis=1)).mean())
    assert errors["p-irt"] < 0.8 * errors["anchors"]
    assert errors["gp-irt"] < 0.8 * errors["anchors"]
