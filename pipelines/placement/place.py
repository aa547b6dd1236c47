"""A model that was evaluated on a suite alone: its score, the full score to expect, its place among a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.leaderboard import nan_mean
from optotype.pipelines.placement.jackknife import LEAST_POINTS, check_level, predict, rank_of
from optotype.pipelines.placement.ranks import place_among, places_within
from optotype.pipelines.placement.suite_scores import suite_scores
from optotype.pipelines.placement.yardstick import Yardstick

__all__ = ["CategoryPlace", "Estimate", "Placement", "place", "place_by_scores"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A score that was not measured.

    Attributes
    ----------
    value : float
    low, high : float
        The interval; all three are in [0, 1].
    bounded : bool
        False where there are too few models for an interval of the level: it is then [0, 1].
    models : int
        Models that the line was drawn through.
    error : float
        Mean absolute residual of each of them from the line through the others; with ``errors``, their mean.
    """

    value: float
    low: float
    high: float
    bounded: bool
    models: int
    error: float


@dataclass(frozen=True)
class CategoryPlace:
    """One category.

    Attributes
    ----------
    category : str
    items, answered : int
        Of the suite; 0 for a category that the suite has no items of.
    score : float or None
        On the suite's items.
    estimate : Estimate or None
        On all items of the category.
    """

    category: str
    items: int
    answered: int
    score: float | None
    estimate: Estimate | None


@dataclass(frozen=True)
class Placement:
    """What is known of one model.

    Attributes
    ----------
    score : float or None
        On the suite: the mean of its categories' scores.
    categories : tuple of CategoryPlace
        Those of the suite, then the others of the full benchmarks.
    estimate : Estimate or None
        Of the full score; None where too few models of the panel can be compared (``reason``).
    rank : float or None
        By the score on the suite, among the ``among`` models that can be compared, the new one counted; 1 is the best,
        ties share their mean rank.
    full_rank : float or None
        By the estimate, among their full scores.
    full_ranks : (int, int) or None
        The best and worst of these ranks within the interval of the estimate.
    among : int
    left_out : tuple of str
        Benchmarks that the full score does not hold, since most models of the panel that can be compared lack them.
    reason : str or None
    """

    score: float | None
    categories: tuple[CategoryPlace, ...]
    estimate: Estimate | None = None
    rank: float | None = None
    full_rank: float | None = None
    full_ranks: tuple[int, int] | None = None
    among: int = 0
    left_out: tuple[str, ...] = ()
    reason: str | None = None


def place(
    scores: Floats,
    category: Sequence[str],
    weight: Floats,
    panel: Yardstick | None,
    level: float = 0.9,
    errors: Mapping[str, float] | None = None,
) -> Placement:
    """Place a model by its scores on a suite.

    The score on the suite is the mean over its categories of the weighted mean of the items that were answered. Models
    of the panel can be compared if they have at least half of the answered items of each of these categories; theirs is
    computed on the answered items alone, so that what is missing changes the yardstick and not the comparison. The full
    score is the mean over categories of the mean over their benchmarks of the mean over all items, each in [0, 1], of
    the benchmarks that at least half of the models that can be compared have; the line from suite score to full score
    is drawn through those of them that have all of these (`optotype.pipelines.placement.jackknife.predict`). The same
    is done for each category's full score, from its own suite score where the suite holds it, else from the whole one.

    The items and categories of a suite were chosen on these models, so that the line fits them better than others, and
    the intervals are too narrow, the more so the more there was to choose from and the fewer models. Held-out models of
    a real panel of 21 lay within intervals of level 0.9 in 88 to 89 of 100 cases where categories were benchmarks, and
    in 70 to 83 where 5 of 35 categories were chosen on 11 or 16 models. ``errors`` mends that: the interval of the
    full score is then the estimate ± the ⌈level (n + 1)⌉-th smallest of the n errors of models that the suite was made
    anew without (95 to 98 of 100 in the second case); those of categories stay as they are. A new model unlike all of
    the panel may lie outside any interval made of them.

    Parameters
    ----------
    scores : ndarray (K,) float64
        Of the model, scaled to [0, 1]; NaN where one is missing.
    category : sequence of str, length K
    weight : ndarray (K,) float64
        Above 0.
    panel : Yardstick or None
        Without the model itself. None: nothing is estimated.
    level : float
        Of the intervals.
    errors : mapping, optional
        Model -> error, of `optotype.pipelines.placement.refit.refitted_errors`.
    """
    check_level(level)
    names = list(dict.fromkeys(category))
    number = np.array([names.index(each) for each in category], dtype=np.int64)
    answered = np.isfinite(scores)
    mine = suite_scores(scores[None], number, len(names), weight)[0]
    there = np.isfinite(mine)
    items, got = (np.bincount(number[mask], minlength=len(names)) for mask in (np.full(len(scores), True), answered))
    rows = {
        name: CategoryPlace(name, int(items[i]), int(got[i]), float(mine[i]) if there[i] else None, None)
        for i, name in enumerate(names)
    }
    if not there.any():
        return Placement(None, tuple(rows.values()), reason="no item of the suite has a score")
    score = float(nan_mean(mine[None])[0])
    if panel is None:
        return Placement(score, tuple(rows.values()), reason="no panel of scores to compare with")
    theirs = suite_scores(panel.items, np.where(answered, number, -1), len(names), weight)[:, there]
    comparable = _covers(panel.items, np.where(answered, number, -1), np.flatnonzero(there))
    whole = np.isfinite(panel.slices)
    common = 2 * whole[comparable].sum(axis=0) >= max(1, int(comparable.sum()))
    reference = comparable & whole[:, common].all(axis=1)
    left_out = tuple(name for name, kept in zip(panel.slice_name, common, strict=True) if not kept)
    if not common.any() or reference.sum() < LEAST_POINTS:
        few = int(reference.sum()) if common.any() else 0
        reason = f"{few} model(s) of the panel can be compared; {LEAST_POINTS} are needed"
        return Placement(score, tuple(rows.values()), left_out=left_out, reason=reason)

    suite, slices = theirs[reference], panel.slices[reference][:, common]
    overall = nan_mean(suite)
    kept = [name for name, here in zip(panel.slice_category, common, strict=True) if here]
    full = {name: slices[:, [each == name for each in kept]].mean(axis=1) for name in dict.fromkeys(kept)}
    column = {names[i]: place for place, i in enumerate(np.flatnonzero(there).tolist())}
    for name, values in full.items():
        own = column.get(name)
        x, new = (overall, score) if own is None else (suite[:, own], float(mine[there][own]))
        row = rows.get(name, CategoryPlace(name, 0, 0, None, None))
        rows[name] = CategoryPlace(name, row.items, row.answered, row.score, _estimate(x, values, new, level))
    apart = None
    if errors is not None:
        apart = np.array(
            [errors[name] for name, own in zip(panel.models, reference, strict=True) if own and name in errors]
        )
    found = place_by_scores(score, overall, np.mean(list(full.values()), axis=0), level, apart)
    return Placement(
        score,
        tuple(rows.values()),
        found.estimate,
        found.rank,
        found.full_rank,
        found.full_ranks,
        found.among,
        left_out,
    )


def place_by_scores(
    score: float, suite: Floats, full: Floats, level: float = 0.9, errors: Floats | None = None
) -> Placement:
    """Place a score among the suite scores and full scores of models, each (M,) and finite; see `place`."""
    if len(suite) < LEAST_POINTS:
        reason = f"{len(suite)} model(s) of the panel can be compared; {LEAST_POINTS} are needed"
        return Placement(score, (), reason=reason)
    estimate = _estimate(suite, full, score, level, errors)
    return Placement(
        score,
        (),
        estimate,
        place_among(score, suite),
        place_among(estimate.value, full),
        places_within(estimate.low, estimate.high, full) if estimate.bounded else (1, len(full) + 1),
        len(suite) + 1,
    )


def _covers(items: Floats, number: NDArray[np.int64], categories: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Models with at least half of the items of each category."""
    counts = np.stack([np.isfinite(items[:, number == each]).sum(axis=1) for each in categories.tolist()], axis=1)
    sizes = np.array([(number == each).sum() for each in categories.tolist()])
    return np.asarray((2 * counts >= sizes).all(axis=1))


def _estimate(x: Floats, y: Floats, new: float, level: float, errors: Floats | None = None) -> Estimate:
    line = predict(x, y, np.array([new]), level)
    low, high, error = float(line.low[0]), float(line.high[0]), line.error
    if errors is not None and len(errors):
        rank = rank_of(level, len(errors))
        reach = float(np.sort(errors)[rank - 1]) if rank <= len(errors) else np.inf
        low, high, error = float(line.estimate[0]) - reach, float(line.estimate[0]) + reach, float(errors.mean())
    value, least, most = (float(np.clip(each, 0.0, 1.0)) for each in (line.estimate[0], low, high))
    return Estimate(value, least, most, bool(np.isfinite(low)), len(x), error)
