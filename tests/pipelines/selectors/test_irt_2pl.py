from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.irt.abilities import abilities
from optotype.pipelines.irt.two_parameter import fit
from optotype.pipelines.selectors import irt_2pl
from optotype.pipelines.selectors.conformance import conformance_problems, random_pool
from optotype.pipelines.selectors.irt_2pl import Irt2pl, fit_notes, response_model
from optotype.pipelines.selectors.pool import Pool


@pytest.mark.parametrize("seed", range(3))
def test_conforms(seed: int) -> None:
    assert conformance_problems(Irt2pl(), seed) == []


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_items_are_those_of_a_loop_over_models(missing: float) -> None:
    pool = random_pool(3, models=12, missing=missing, sizes=(50,))
    responses = np.where(np.isnan(pool.scores), np.nan, pool.scores >= 0.5)
    model = fit(responses)
    ability = abilities(model, responses)
    score = []
    for i in range(pool.n):
        chance = [1 / (1 + np.exp(-(model.slope[i] * theta + model.intercept[i]))) for theta in ability]
        unknown = np.isnan(responses[:, i]).all()
        score.append(-1.0 if unknown else np.mean([model.slope[i] ** 2 * p * (1 - p) for p in chance]))
    cut = sorted(np.round(score, 9))[-10]
    selection = Irt2pl().select(pool, 10, seed=0)
    assert (np.round(score, 9)[selection.index] >= cut).all()
    assert selection.weight is None
    assert selection.score is not None
    np.testing.assert_allclose(np.nan_to_num(selection.score, nan=-1), score, atol=1e-8)


def test_an_item_that_separates_the_models_comes_before_noise() -> None:
    rng = np.random.default_rng(0)
    ability = np.linspace(-2, 2, 40)
    scores = (rng.random((40, 60)) < 0.5).astype(float)
    scores[:, 20:40] = rng.random((40, 20)) < 1 / (1 + np.exp(-3 * ability[:, None]))
    selection = Irt2pl().select(Pool.of(scores, benchmark=["a"] * 60), 20, seed=0)
    assert np.isin(selection.index, np.arange(20, 40)).mean() > 0.9


def test_unanswered_items_come_last_and_are_told() -> None:
    pool = random_pool(1)  # no model has item 2
    selection = Irt2pl().select(pool, pool.n - 1, seed=0)
    assert selection.index.tolist() == [i for i in range(pool.n) if i != 2]
    assert selection.score is not None
    assert np.isnan(selection.score).sum() == 1
    assert any("1 of 61 items have no valid score" in note for note in selection.notes)
    assert any("graded scores of 20 of 61 items" in note for note in selection.notes)


def test_ties_are_drawn_by_the_seed() -> None:
    pool = Pool.of(np.repeat(np.array([[0.0], [1.0], [1.0]]), 30, axis=1), benchmark=["a"] * 30)
    chosen = {tuple(Irt2pl().select(pool, 5, seed=seed).index) for seed in range(5)}
    assert len(chosen) == 5


def test_a_model_without_scores_has_no_say() -> None:
    pool = random_pool(4, sizes=(30,))
    more = Pool.of(np.vstack([pool.scores, np.full((3, 30), np.nan)]), benchmark=pool.benchmark, item=pool.item)
    first, second = Irt2pl().select(pool, 10, seed=0), Irt2pl().select(more, 10, seed=0)
    np.testing.assert_array_equal(first.score, second.score)


def test_the_same_responses_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(responses: np.ndarray) -> object:
        calls.append(len(responses))
        return fit(responses)

    monkeypatch.setattr(irt_2pl, "fit", counted)
    monkeypatch.setattr(irt_2pl, "_KEPT", 2)
    irt_2pl._fits.clear()
    pools = [random_pool(seed, models=6) for seed in range(3)]
    for pool in (*pools, pools[2], pools[1], pools[0]):  # the last was forgotten by then
        response_model(pool)
    assert len(calls) == 4
    assert len(irt_2pl._fits) == 2


def test_a_fit_that_did_not_settle_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irt_2pl, "fit", lambda responses: fit(responses, iterations=1))
    irt_2pl._fits.clear()
    pool = random_pool(0)
    notes = fit_notes(pool, response_model(pool))
    irt_2pl._fits.clear()
    assert notes[0] == "the item response model was stopped after 1 iterations, before it settled"
