"""Intervals of correlations by resampling encoders, the same resamples for every metric and language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.evaluation.bootstrap import interval, resampled_models
from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.pipelines.judging.correlations import STATISTICS, levelled

__all__ = ["against_best", "mean_over_models", "resampled", "with_interval"]

_BLOCK = 2_000

Floats = NDArray[np.float64]


def resampled(scores: Floats, outcomes: Floats, resamples: int, seed: int) -> dict[str, Floats]:
    """Both correlations on resamples of the encoders, with replacement, as many as there are.

    A resample on which one side is all equal has no correlation; it is NaN here, left out of intervals and counted.

    Parameters
    ----------
    scores : ndarray (results, models, encoders) float64
        NaN rows for language models that a result does not speak of.
    outcomes : ndarray (models, encoders) float64
    resamples : int
        R; 0 for none.
    seed : int

    Returns
    -------
    dict
        ``rho`` and ``r``: ndarray (results, models, R) float64.
    """
    results, models, encoders = scores.shape
    found = {name: np.full((results, models, resamples), np.nan) for name in STATISTICS}
    if not resamples:
        return found
    scores, outcomes = levelled(scores), levelled(outcomes)
    draws = resampled_models(["pool"] * encoders, resamples, derived_seed(seed, "judge", "bootstrap"))
    for m in range(models):
        for number in range(results):
            if np.isnan(scores[number, m]).any():
                continue
            for start in range(0, resamples, _BLOCK):
                part = draws[start : start + _BLOCK]
                for name, correlate in STATISTICS.items():
                    found[name][number, m, start : start + len(part)] = correlate(
                        scores[number, m][part], outcomes[m][part]
                    )
    return found


def mean_over_models(values: Floats) -> Floats:
    """Unweighted mean over the language models, axis 1; NaN where one of them has no value."""
    return np.asarray(values.mean(axis=1), dtype=np.float64)


def with_interval(name: str, value: float, values: Floats) -> dict[str, Any]:
    """``name`` with its 95 % percentile interval and the number of resamples that it rests on; None for what is not."""
    found = interval(values)
    there = found.resamples > 0
    return {
        name: float(value) if np.isfinite(value) else None,
        f"{name}_low": found.low if there else None,
        f"{name}_high": found.high if there else None,
        f"{name}_resamples": found.resamples,
    }


def against_best(
    labels: Sequence[str],
    means: Mapping[str, Floats],
    draws: Mapping[str, Floats],
    p: Callable[[str, int, int], float | None],
) -> list[dict[str, Any]]:
    """The result with the highest mean ρ against each other one, on the same resamples.

    Parameters
    ----------
    labels : sequence of str
    means : mapping of str to ndarray (results,)
        ``rho`` and ``r`` over all encoders, mean over language models; NaN where there is none.
    draws : mapping of str to ndarray (results, R)
        The same on each resample.
    p : callable
        Of a statistic and the numbers of two results: how often shuffled outcomes set them as far apart, see
        `optotype.pipelines.judging.correlations.difference_p`.

    Returns
    -------
    list of dict
        Others by falling mean of ρ, for each statistic: ``statistic, best, other, difference, low, high, resamples,
        wins`` (share of the resamples in which the best is ahead, half of those in which both are equal), ``p``. None
        without resamples, but for p. The best was chosen on the same encoders, so its lead is told too favourably.
    """
    rho = means["rho"]
    there = [number for number in range(len(labels)) if np.isfinite(rho[number])]
    if len(there) < 2:
        return []
    ranked = sorted(there, key=lambda number: (-rho[number], labels[number]))
    best, rows = ranked[0], []
    for name, values in means.items():
        for other in ranked[1:]:
            gaps = interval(draws[name][best] - draws[name][other])
            told = gaps.resamples > 0
            rows.append(
                {
                    "statistic": name,
                    "best": labels[best],
                    "other": labels[other],
                    "difference": float(values[best] - values[other]),
                    "low": gaps.low if told else None,
                    "high": gaps.high if told else None,
                    "resamples": gaps.resamples,
                    "wins": gaps.above_zero if told else None,
                    "p": p(name, best, other),
                }
            )
    return rows
