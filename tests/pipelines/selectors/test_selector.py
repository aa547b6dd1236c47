"""Names of selectors, and how a model is scored on a selection."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import SELECTORS, Selection, check_budget, everything, get_selector
from optotype.schemas.errors import NotFoundError, UsageError


@pytest.mark.parametrize("name", SELECTORS)
def test_every_name_is_a_selector_of_that_name(name: str) -> None:
    selector = get_selector(name)
    assert selector.name == name
    assert selector.needs <= {"scores", "responses", "text", "vision_text"}


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(NotFoundError) as caught:
        get_selector("variace")
    assert "anchor-points" in caught.value.message
    assert caught.value.hint == "Did you mean 'variance'?"


@pytest.mark.parametrize("weighted", [False, True])
def test_an_estimate_is_the_mean_of_the_kept_scores_that_are_there(weighted: bool) -> None:
    generator = np.random.default_rng(0)
    scores = generator.random((7, 12))
    scores[generator.random(scores.shape) < 0.3] = np.nan
    index = np.array([0, 3, 4, 9])
    scores[2, index] = np.nan
    weight = generator.random(4) + 0.1 if weighted else None
    found = Selection(index, weight=weight).estimate(scores)
    for row, value in zip(scores, found, strict=True):
        pairs = [(float(row[i]), 1.0 if weight is None else float(weight[k])) for k, i in enumerate(index)]
        pairs = [(x, w) for x, w in pairs if not np.isnan(x)]
        if pairs:
            assert value == pytest.approx(sum(x * w for x, w in pairs) / sum(w for _, w in pairs), abs=1e-12)
        else:
            assert np.isnan(value)
    assert np.isnan(found[2])


def test_nothing_kept_estimates_nothing() -> None:
    assert np.isnan(Selection(np.zeros(0, dtype=np.int64)).estimate(np.ones((2, 3)))).all()


def test_budgets_and_seeds() -> None:
    pool = Pool.of(np.zeros((2, 3)), benchmark=["b"] * 3)
    assert [check_budget(pool, budget, 0) for budget in (0, 2, 3, 9)] == [0, 2, 3, 3]
    with pytest.raises(UsageError, match="budget"):
        check_budget(pool, -1, 0)
    with pytest.raises(UsageError, match="seed"):
        check_budget(pool, 1, -1)
    assert everything(pool, notes=("whole",)).index.tolist() == [0, 1, 2]
