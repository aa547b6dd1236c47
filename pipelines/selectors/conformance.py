"""What every selector has to satisfy, as checks that can be run on any of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import Selection, Selector
from optotype.schemas.errors import OptotypeError, Problem, UsageError

__all__ = ["CHECKS", "conformance_problems", "random_pool"]

_BROKEN = (OptotypeError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, Warning)
_SIZES = (40, 20, 1)


def random_pool(seed: int, *, models: int = 9, missing: float = 0.0, sizes: tuple[int, ...] = _SIZES) -> Pool:
    """A pool with all that a selector may need: 0/1 and graded scores, answers, embeddings, and dirt.

    The first benchmark has items that all solve, that none solves, that no model has, that equal each other, and one
    without an embedding.
    """
    generator = np.random.default_rng(seed)
    n = sum(sizes)
    ability, difficulty = generator.normal(size=(models, 1)), generator.normal(size=n)
    chance = 1 / (1 + np.exp(difficulty - 1.5 * ability))
    scores = (generator.random((models, n)) < chance).astype(np.float64)
    names = np.repeat(np.array([f"benchmark-{place}" for place in range(len(sizes))], dtype=object), sizes)
    graded = names == "benchmark-1"
    scores[:, graded] = np.round(chance[:, graded], 2)
    scores[generator.random(scores.shape) < missing] = np.nan
    scores[:, 0], scores[:, 1], scores[:, 2], scores[:, 4] = 1.0, 0.0, np.nan, scores[:, 3]
    text = generator.normal(size=(n, 6)).astype(np.float32)
    vision_text = (text + generator.normal(size=(n, 6))).astype(np.float32)
    vision_text[5] = np.nan
    vision_text[7] = vision_text[6]
    return Pool.of(
        scores,
        benchmark=names,
        item=[f"{place:03}" for place in range(n)],
        scoring=np.where(graded, "graded", "binary").astype(object),
        response=np.where(np.isnan(scores), 0, generator.integers(0, 5, size=scores.shape)).astype(np.uint32),
        text=text,
        vision_text=vision_text,
    )


def _same(first: Selection, second: Selection) -> bool:
    def equal(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
        if one is None or other is None:
            return one is other
        return np.array_equal(one, other)

    return (
        equal(first.index, second.index) and equal(first.weight, second.weight) and equal(first.cell, second.cell)
    ) and first.notes == second.notes


def _form(pool: Pool, selection: Selection, budget: int) -> Iterator[str]:
    """What is wrong with the shape of a selection."""
    index, count = selection.index, min(budget, pool.n)
    if index.dtype != np.int64 or index.shape != (count,):
        yield f"a budget of {budget} of {pool.n} gives {count} int64 positions; got {index.shape} {index.dtype}"
        return
    if len(index) and not (index[0] >= 0 and index[-1] < pool.n and (np.diff(index) > 0).all()):
        yield f"positions are ascending, without repeats, from 0 to {pool.n - 1}; got {index.tolist()}"
    weight, cell, score = selection.weight, selection.cell, selection.score
    if weight is not None and (weight.shape != index.shape or weight.dtype != np.float64):
        yield f"weights are float64, one for each kept item; got {weight.shape} {weight.dtype}"
    elif weight is not None and not (np.isfinite(weight) & (weight > 0)).all():
        yield f"weights are positive; got {weight.tolist()}"
    if cell is not None and (cell.shape != index.shape or cell.dtype != np.int32 or (cell < -1).any()):
        yield "cells are int32, one for each kept item, -1 for none"
    if score is not None and (score.shape != (pool.n,) or score.dtype != np.float64):
        yield f"scores are float64, one for each item of the pool; got {score.shape} {score.dtype}"
    json.dumps(dict(selection.details), allow_nan=False)


def _count(selector: Selector, seed: int) -> Iterator[str]:
    pool = random_pool(seed)
    for budget in (0, 1, 2, 7, pool.n - 1, pool.n, pool.n + 5):
        yield from _form(pool, selector.select(pool, budget, seed=seed), budget)


def _refusals(selector: Selector, seed: int) -> Iterator[str]:
    for what, arguments in (("budget", {"budget": -1, "seed": seed}), ("seed", {"budget": 3, "seed": -1})):
        try:
            selector.select(random_pool(seed), **arguments)
        except UsageError:
            continue
        yield f"a negative {what} is a UsageError"


def _repeatable(selector: Selector, seed: int) -> Iterator[str]:
    first = selector.select(random_pool(seed), 9, seed=seed)
    pool = random_pool(seed)
    before = pool.scores.copy()
    selector.select(pool, 4, seed=seed + 1)
    if not _same(first, selector.select(pool, 9, seed=seed)):
        yield "the same pool, budget and seed give the same selection, whatever was selected before"
    if not np.array_equal(before, pool.scores, equal_nan=True):
        yield "the scores of the pool are not written to"


def _held_out(selector: Selector, seed: int) -> Iterator[str]:
    pool = random_pool(seed, models=14)
    build = np.array([0, 2, 3, 5, 6, 8, 10, 11])
    other = np.setdiff1d(np.arange(14), build)
    scores, answers = pool.scores.copy(), np.array(pool.responses)
    scores[other], answers[other] = 1 - scores[other], 7
    changed = replace(pool, matrix=scores, response=answers)
    if not _same(selector.select(pool.take(build), 9, seed=seed), selector.select(changed.take(build), 9, seed=seed)):
        yield "models that are not build models have no say"


def _model_order(selector: Selector, seed: int) -> Iterator[str]:
    pool = random_pool(seed, missing=0.1)
    turned = pool.take(np.arange(9)[::-1])
    first, second = selector.select(pool, 9, seed=seed), selector.select(turned, 9, seed=seed)
    if not np.array_equal(first.index, second.index):
        yield f"the order of the models has no say; got {first.index.tolist()} and {second.index.tolist()}"


def _estimates(selector: Selector, seed: int) -> Iterator[str]:
    pool, others = random_pool(seed), random_pool(seed + 1, models=5, missing=0.2).scores
    others[4] = np.nan
    for budget in (1, 9, pool.n):
        selection = selector.select(pool, budget, seed=seed)
        estimate = selection.estimate(others)
        if estimate.shape != (5,) or estimate.dtype != np.float64:
            yield f"an estimate is one float64 for each model; got {estimate.shape} {estimate.dtype}"
            continue
        some = ~np.isnan(others[:, selection.index]).all(axis=1)
        if not np.array_equal(np.isfinite(estimate), some):
            yield "an estimate is finite for a model with any of the kept items, NaN for one with none"
        hidden = np.full_like(others, np.nan)
        hidden[:, selection.index] = others[:, selection.index]
        if not np.array_equal(selection.estimate(hidden), estimate, equal_nan=True):
            yield "an estimate reads the kept columns alone"
    present = np.isfinite(others[:4])
    mean = np.where(present, others[:4], 0).sum(axis=1) / present.sum(axis=1)
    whole = selector.select(pool, pool.n, seed=seed).estimate(others)[:4]
    if not np.allclose(whole, mean, rtol=0, atol=1e-9):
        yield f"on the whole pool an estimate is the mean; got {whole.tolist()} for {mean.tolist()}"


def _degenerate(selector: Selector, seed: int) -> Iterator[str]:
    pool = random_pool(seed, missing=0.3)
    silent = pool.scores.copy()
    silent[0] = np.nan
    n, models = pool.n, len(silent)
    cases = {
        "missing scores": pool,
        "a model without a score": replace(pool, matrix=silent).take(np.arange(models)),
        "no score at all": replace(pool, matrix=np.full((models, n), np.nan)).take(np.arange(models)),
        "all right": replace(pool, matrix=np.ones((models, n))).take(np.arange(models)),
        "all items equal": replace(pool, matrix=np.repeat(pool.scores[:, [9]], n, axis=1)).take(np.arange(models)),
        "one model": pool.take([0]),
        "two models": pool.take([0, 1]),
        "one item": Pool.of(np.array([[0.0], [1.0], [1.0]]), benchmark=["only"]),
    }
    for name, case in cases.items():
        for budget in (1, 9, case.n - 1):
            for text in _form(case, selector.select(case, max(budget, 0), seed=seed), max(budget, 0)):
                yield f"{name}: {text}"


def _unscored(selector: Selector, seed: int) -> Iterator[str]:
    """Every third item has no score; both benchmarks have more scored items than their shares."""
    pool = random_pool(seed, sizes=(40, 20))
    scores = pool.scores.copy()
    scores[:, ::3] = np.nan
    pool = replace(pool, matrix=scores).take(np.arange(len(scores)))
    silent = np.flatnonzero(pool.valid == 0)
    for budget in (1, 9, 30):
        kept = np.intersect1d(selector.select(pool, budget, seed=seed).index, silent)
        if len(kept):
            yield f"items without a score come last; {len(kept)} of {budget} kept are such, while others are left"


def _embeddings(selector: Selector, seed: int) -> Iterator[str]:
    pool = random_pool(seed)
    missing = np.full_like(np.asarray(pool.vision_text), np.nan)
    for name, rows in {
        "no embeddings": {"text": None, "vision_text": None},
        "text alone": {"vision_text": None},
        "vision-text alone": {"text": None},
        "no item with a vision-text embedding": {"vision_text": missing},
    }.items():
        case = replace(pool, kept={}, **rows)  # type: ignore[arg-type]
        selection = selector.select(case, 9, seed=seed)
        for text in _form(case, selection, 9):
            yield f"{name}: {text}"
        if name == "no embeddings" and selector.needs & {"text", "vision_text"} and not selection.notes:
            yield "without the embeddings that it needs a selection has a note"
    selection = selector.select(replace(pool, response=None), 9, seed=seed)
    if "responses" in selector.needs and not selection.notes:
        yield "without the answers that it needs a selection has a note"


def _other_benchmarks(selector: Selector, seed: int) -> Iterator[str]:
    """Of 40, 20 and 30 items 8, 4 and 6 are kept: with the third benchmark or without, the first two keep 12."""
    large = random_pool(seed, sizes=(40, 20, 30))
    first = np.arange(60)
    small = Pool.of(
        large.scores[:, first],
        benchmark=large.benchmark[first],
        item=large.item[first],
        text=np.asarray(large.text)[first],
        vision_text=np.asarray(large.vision_text)[first],
    )
    alone, beside = selector.select(small, 12, seed=seed), selector.select(large, 18, seed=seed)
    if alone.cell is None or beside.cell is None:
        return
    here = beside.index < 60
    if not (np.array_equal(alone.index, beside.index[here]) and np.array_equal(alone.cell, beside.cell[here])):
        yield "a benchmark that is added changes no other benchmark's cells"


CHECKS: Mapping[str, Callable[[Selector, int], Iterator[str]]] = MappingProxyType(
    {
        "count": _count,
        "refusals": _refusals,
        "repeatable": _repeatable,
        "held-out": _held_out,
        "model-order": _model_order,
        "estimates": _estimates,
        "degenerate": _degenerate,
        "unscored": _unscored,
        "embeddings": _embeddings,
        "other-benchmarks": _other_benchmarks,
    }
)
"""Name of each check, and the check: it yields what is wrong, in words."""


def conformance_problems(selector: Selector, seed: int = 0, *, skip: frozenset[str] = frozenset()) -> list[Problem]:
    """All that is wrong with a selector; empty if nothing is.

    Parameters
    ----------
    selector : Selector
    seed : int
        Of the pools and of the selections.
    skip : frozenset of str
        Names of `CHECKS` that do not apply. ``model-order`` is one for a method whose start or sums depend on the
        order of the models, ``unscored`` for one that draws items whatever is known of them.

    Notes
    -----
    A warning counts as a problem. The pools are small and random; they hold missing, tied and constant scores.
    """
    problems = []
    for name, check in CHECKS.items():
        if name in skip:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                problems += [Problem(selector.name, name, text) for text in check(selector, seed)]
            except _BROKEN as error:
                problems.append(Problem(selector.name, name, f"{type(error).__name__}: {error}"))
    return problems
