"""Every selector passes the conformance suite, and the suite finds selectors that break it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from optotype.pipelines.selectors.conformance import CHECKS, conformance_problems
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import SELECTORS, Selection, check_budget, get_selector

_SKIP = {
    # Items at equal distances from a centre are told apart by the rounding of sums over the models.
    "tiny-anchors": frozenset({"model-order"}),
    "random": frozenset({"unscored"}),  # reads no scores: every set of items is as likely as any other
}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_conform(name: str, seed: int) -> None:
    assert conformance_problems(get_selector(name), seed, skip=_SKIP.get(name, frozenset())) == []


class _First:
    """The first K items, those without a score last: conforms."""

    name = "first"
    needs: frozenset[str] = frozenset()

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        order = np.argsort(pool.valid == 0, kind="stable")
        return Selection(np.sort(order[: check_budget(pool, budget, seed)]).astype(np.int64))


def _broken(change: Callable[[Pool, Selection, int], Selection], needs: tuple[str, ...] = ()) -> _First:
    class Broken(_First):
        def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
            return change(pool, super().select(pool, budget, seed=seed), seed)

    broken = Broken()
    broken.needs = frozenset(needs)
    return broken


def _forgets() -> _First:
    """Another choice after another seed."""
    seeds = [0]

    def change(pool: Pool, selection: Selection, seed: int) -> Selection:
        shift = int(seeds[-1] != seed and 0 < len(selection.index) < pool.n)
        seeds.append(seed)
        return replace(selection, index=selection.index + shift)

    return _broken(change)


def _by_first_model(pool: Pool, selection: Selection, seed: int) -> Selection:
    order = np.argsort(np.nan_to_num(pool.scores[0], nan=2.0), kind="stable")
    return replace(selection, index=np.sort(order[: len(selection.index)]))


def _writes(pool: Pool, selection: Selection, seed: int) -> Selection:
    pool.scores[0, 0] += 1
    return selection


def _warns(pool: Pool, selection: Selection, seed: int) -> Selection:
    if pool.n == 1:
        warnings.warn("one item", RuntimeWarning, stacklevel=1)
    return selection


def _cells_of_all(pool: Pool, selection: Selection, seed: int) -> Selection:
    cell = (selection.index + pool.n) % 7
    return replace(selection, cell=cell.astype(np.int32))


def _sum(pool: Pool, selection: Selection, seed: int) -> Selection:
    class Sum(Selection):
        def estimate(self, scores: np.ndarray) -> np.ndarray:
            return np.nansum(scores, axis=1)

    return Sum(selection.index)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (_broken(lambda pool, s, _: replace(s, index=s.index[1:])), {"count"}),
        (_broken(lambda pool, s, _: replace(s, index=s.index[::-1])), {"count"}),
        (_broken(lambda pool, s, _: replace(s, index=s.index.astype(np.int32))), {"count"}),
        (_broken(lambda pool, s, _: replace(s, weight=s.index.astype(np.float64))), {"count"}),
        (_broken(lambda pool, s, _: replace(s, weight=np.ones(3))), {"count"}),
        (_broken(lambda pool, s, _: replace(s, cell=np.full(len(s.index), -2, np.int32))), {"count"}),
        (_broken(lambda pool, s, _: replace(s, score=np.zeros(3))), {"count"}),
        (_broken(lambda pool, s, _: replace(s, details={"x": float("nan")})), {"count"}),
        (_forgets(), {"repeatable"}),
        (_broken(_writes), {"repeatable"}),
        (_broken(_by_first_model), {"model-order"}),
        (_broken(_warns), {"degenerate"}),
        (_broken(lambda pool, s, _: s, ("text",)), {"embeddings"}),
        (_broken(lambda pool, s, _: s, ("responses",)), {"embeddings"}),
        (_broken(_cells_of_all), {"other-benchmarks"}),
        (_broken(_sum), {"estimates"}),
        (_broken(lambda pool, s, _: replace(s, index=np.arange(len(s.index), dtype=np.int64))), {"unscored"}),
    ],
)
def test_what_breaks_is_found(selector: _First, found: set[str]) -> None:
    assert conformance_problems(_First()) == []
    assert found <= {problem.kind for problem in conformance_problems(selector)}


def test_models_held_out_by_the_pool_are_out_of_sight() -> None:
    class Peeks(_First):
        def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
            seen.append(pool.scores.shape[0])
            return super().select(pool, budget, seed=seed)

    seen: list[int] = []
    assert conformance_problems(Peeks(), skip=frozenset(CHECKS) - {"held-out"}) == []
    assert seen == [8, 8]


def test_what_is_taken_for_granted_is_refused() -> None:
    class Careless(_First):
        def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
            order = np.argsort(pool.valid == 0, kind="stable")
            return Selection(np.sort(order[: min(abs(budget), pool.n)]).astype(np.int64))

    assert [problem.kind for problem in conformance_problems(Careless())] == ["refusals", "refusals"]
