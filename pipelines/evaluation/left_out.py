"""How well the scores on other benchmarks predict a benchmark that was left out (section I.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.evaluation.seeds import derived_seed

__all__ = ["PENALTY", "REPEATS", "TRAINING_SIZES", "left_out"]

TRAINING_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
REPEATS = 30
PENALTY = 1.0  # scikit-learn's default; the paper names none


def left_out(
    scores: NDArray[np.float64],
    benchmarks: Sequence[str],
    *,
    seed: int,
    sizes: Sequence[int] = TRAINING_SIZES,
    repeats: int = REPEATS,
    least: int = 10,
) -> list[dict[str, Any]]:
    """Predict each benchmark's scores by Ridge regression from all others, for growing numbers of training models.

    Section I.3 and Table 22. The predictors are whole benchmark scores in [0, 1]. A missing one is replaced by its mean
    over the training models, and a benchmark that no training model has is not used. The paper is silent on the
    penalty (1 here, unscaled features, with intercept), on how many models must remain to be predicted (``least``), and
    on models with no other benchmark (they are left out, as nothing predicts them). The mean of the training models'
    own scores on the target is the baseline that a prediction has to beat.

    Parameters
    ----------
    scores : ndarray (models, benchmarks) float64
        In [0, 1], NaN where a model has none.
    benchmarks : sequence of str
    seed : int
        Each (target, size, repeat) has its own seed from it.
    sizes, repeats, least : int
        Training models, random splits of each, and fewest models that must remain.

    Returns
    -------
    list of dict
        ``protocol, target, models, training, features, splits, mae, mae_sd, mae_of_mean``; the sd is over splits
        (ddof 1), None for one. Sizes that leave too few models are not there.
    """
    from sklearn.linear_model import Ridge

    rows: list[dict[str, Any]] = []
    for column, target in enumerate(benchmarks):
        others = np.delete(scores, column, axis=1)
        usable = np.flatnonzero(np.isfinite(scores[:, column]) & np.isfinite(others).any(axis=1))
        for size in sizes:
            if len(usable) - size < least:
                continue
            errors, baselines = [], []
            for repeat in range(repeats):
                rng = np.random.default_rng(derived_seed(seed, "left-out", target, size, repeat))
                shuffled = rng.permutation(usable)
                train, test = np.sort(shuffled[:size]), np.sort(shuffled[size:])
                wanted = scores[test, column]
                features, asked = _filled(others[train], others[test])
                known = scores[train, column]
                mean = float(known.mean())
                guess = (
                    Ridge(alpha=PENALTY, solver="cholesky").fit(features, known).predict(asked)
                    if features.shape[1]
                    else np.full(len(test), mean)
                )
                errors.append(float(np.mean(np.abs(guess - wanted))))
                baselines.append(float(np.mean(np.abs(mean - wanted))))
            rows.append(
                {
                    "protocol": "left-out",
                    "target": target,
                    "models": len(usable),
                    "training": size,
                    "features": others.shape[1],
                    "splits": repeats,
                    "mae": float(np.mean(errors)),
                    "mae_sd": float(np.std(errors, ddof=1)) if repeats > 1 else None,
                    "mae_of_mean": float(np.mean(baselines)),
                }
            )
    return rows


def _filled(train: NDArray[np.float64], test: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Features with gaps filled by the training means; those that no training model has are dropped."""
    there = np.isfinite(train)
    known = there.any(axis=0)
    train, test, there = train[:, known], test[:, known], there[:, known]
    mean = np.where(there, train, 0.0).sum(axis=0) / there.sum(axis=0)
    return np.where(there, train, mean), np.where(np.isfinite(test), test, mean)
