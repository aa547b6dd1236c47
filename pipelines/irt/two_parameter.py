"""The two-parameter logistic model (2PL), fitted by marginal maximum likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread

__all__ = ["NODES", "TwoParameter", "blocks", "fit", "logistic", "quadrature"]

NODES = 31
_REACH = 4.0  # standard deviations of ability on either side, with that many nodes
_BLOCK = 8192  # items at a time: memory stays flat in their number
_HALVINGS = 8
_STEP = np.array([[0.5], [2.0]])  # largest change of log slope and intercept in one step


@dataclass(frozen=True)
class TwoParameter:
    """A fitted model: P(model m is right on item i) = 1 / (1 + exp(-(a_i θ_m + d_i))), θ ~ N(0, 1).

    Attributes
    ----------
    slope : ndarray (n,) float64
        a_i > 0, the discrimination. With few models (30, say) it is weakly determined: correlations of about .45 with
        the truth, by whatever program; abilities and difficulties are far better.
    intercept : ndarray (n,) float64
        d_i. The difficulty is b_i = -d_i / a_i.
    answered : ndarray (n,) int64
        Models with a valid response; where it is 0 the parameters are those of the prior.
    iterations : int
    converged : bool
    """

    slope: NDArray[np.float64]
    intercept: NDArray[np.float64]
    answered: NDArray[np.int64]
    iterations: int
    converged: bool

    @property
    def difficulty(self) -> NDArray[np.float64]:
        """b_i (n,): the ability at which an item is answered rightly half of the time."""
        return -self.intercept / self.slope

    def take(self, items: NDArray[np.intp]) -> TwoParameter:
        """The same model for some of the items."""
        return TwoParameter(
            self.slope[items], self.intercept[items], self.answered[items], self.iterations, self.converged
        )

    def probability(self, ability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities (m, n) of being right, for abilities (m,)."""
        return logistic(np.outer(ability, self.slope) + self.intercept)[0]

    def information(self, ability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fisher information a² P (1 - P) of each item (n,), averaged over abilities (m,); 0 where none answered."""
        total = np.zeros(len(self.slope))
        for block in blocks(len(self.slope)):
            chance, _ = logistic(np.outer(ability, self.slope[block]) + self.intercept[block])
            total[block] = self.slope[block] ** 2 * (chance * (1 - chance)).mean(axis=0)
        return np.where(self.answered > 0, total, 0.0)


def fit(
    responses: NDArray[Any],
    *,
    slope_sd: float = 0.5,
    intercept_sd: float = 3.0,
    tolerance: float = 1e-3,
    iterations: int = 200,
) -> TwoParameter:
    """Fit slopes and intercepts by EM (Bock and Aitkin, 1981), maximising the marginal posterior.

    E step: posterior of each model's ability on 31 equally spaced nodes in [-4, 4] weighted by the normal density;
    from it the expected number of models, and of right answers, at each node. M step: one scoring step (Newton with
    the expected second derivatives, always a rise) in (log a, d) of all items at once, halved while it would lower
    the objective of its item. Missing responses are left out.

    Priors log a ~ N(0, ``slope_sd``²) and d ~ N(0, ``intercept_sd``²) keep items that all models, or none, got
    right finite. Slopes are positive: an item that better models get wrong comes out with a small slope.

    The result does not depend on the order of the models, nor on the number of threads.

    Parameters
    ----------
    responses : ndarray (M, n)
        1 right, 0 wrong; -1 or NaN missing.
    slope_sd, intercept_sd : float
    tolerance : float
        Largest change of a parameter at which the iteration ends.
    iterations : int
        At most.

    Returns
    -------
    TwoParameter
    """
    known = np.where(np.isnan(responses), -1, responses).astype(np.int8)
    # A sum hangs on its order in the last digit, an iteration in more of them.
    known = known[sorted(range(len(known)), key=lambda m: known[m].tobytes())]
    n = known.shape[1]
    nodes, log_weight = quadrature()
    answered = (known >= 0).sum(axis=0)
    right = (known == 1).sum(axis=0)
    parameters = np.zeros((2, n))  # log a, d
    parameters[1] = np.log((right + 0.5) / (answered - right + 0.5))
    precision = np.array([[1 / slope_sd**2], [1 / intercept_sd**2]])
    done, change = 0, np.inf
    with one_thread():
        while done < iterations and change >= tolerance:
            posterior = _posterior(known, parameters, nodes, log_weight)
            change = 0.0
            for block in blocks(n):
                right_at, models_at = _expected_counts(known[:, block], posterior)
                before = parameters[:, block]
                after = _step(before, right_at, models_at, nodes, precision)
                change = max(change, float(np.abs(after - before).max(initial=0.0)))
                parameters[:, block] = after
            done += 1
    return TwoParameter(np.exp(parameters[0]), parameters[1], answered.astype(np.int64), done, change < tolerance)


def quadrature(count: int = NODES) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes (count,) of ability and the logarithm of their weights, which sum to 1.

    31 nodes reach from -4 to 4; more of them reach further, at the same distance.
    """
    nodes = np.linspace(-1.0, 1.0, count) * _REACH * (count - 1) / (NODES - 1)
    weight = np.exp(-(nodes**2) / 2)
    return nodes, np.log(weight / weight.sum())


def logistic(logit: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """1 / (1 + exp(-z)) and log(1 + exp(z)) of every z, without overflow."""
    small = np.exp(-np.abs(logit))
    return np.where(logit >= 0, 1.0, small) / (1 + small), np.maximum(logit, 0) + np.log1p(small)


def blocks(n: int) -> Iterator[slice]:
    """Consecutive slices of at most 8192 of n items."""
    return (slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK))


def _posterior(
    known: NDArray[np.int8],
    parameters: NDArray[np.float64],
    nodes: NDArray[np.float64],
    log_weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Probability (M, nodes) of each ability, given the responses of each model."""
    log = np.tile(log_weight, (len(known), 1))
    for block in blocks(known.shape[1]):
        logit = np.outer(np.exp(parameters[0, block]), nodes) + parameters[1, block, None]
        _, log_sum = logistic(logit)
        part = known[:, block]
        log += (part == 1).astype(np.float64) @ logit - (part >= 0).astype(np.float64) @ log_sum
    log = np.exp(log - log.max(axis=1, keepdims=True))
    return np.asarray(log / log.sum(axis=1, keepdims=True))


def _expected_counts(
    part: NDArray[np.int8], posterior: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected right answers, and models, of each item at each node (n, nodes)."""
    return (part == 1).T.astype(np.float64) @ posterior, (part >= 0).T.astype(np.float64) @ posterior


def _step(
    before: NDArray[np.float64],
    right_at: NDArray[np.float64],
    models_at: NDArray[np.float64],
    nodes: NDArray[np.float64],
    precision: NDArray[np.float64],
) -> NDArray[np.float64]:
    """One scoring step (2, n) from parameters ``before``, none of which lowers the objective of its item."""

    def objective(parameters: NDArray[np.float64], items: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        logit = np.outer(np.exp(parameters[0]), nodes) + parameters[1][:, None]
        chance, log_sum = logistic(logit)
        value = (right_at[items] * logit - models_at[items] * log_sum).sum(axis=1)
        return value - (precision * parameters**2).sum(axis=0) / 2, chance

    value, chance = objective(before, slice(None))
    tilt = np.exp(before[0])[:, None] * nodes  # derivative of the logit by log a; by d it is 1
    surprise = right_at - models_at * chance
    weight = models_at * chance * (1 - chance)
    gradient = np.stack([(surprise * tilt).sum(axis=1), surprise.sum(axis=1)]) - precision * before
    aa = (weight * tilt**2).sum(axis=1) + precision[0]
    ad = (weight * tilt).sum(axis=1)
    dd = weight.sum(axis=1) + precision[1]
    step = np.stack([dd * gradient[0] - ad * gradient[1], aa * gradient[1] - ad * gradient[0]]) / (aa * dd - ad**2)
    step = np.clip(step, -_STEP, _STEP)
    after = before + step
    worse = np.flatnonzero(objective(after, slice(None))[0] < value)
    for _ in range(_HALVINGS):
        if not len(worse):
            break
        step[:, worse] /= 2
        after[:, worse] = before[:, worse] + step[:, worse]
        worse = worse[objective(after[:, worse], worse)[0] < value[worse]]
    after[:, worse] = before[:, worse]  # the top, up to rounding
    return np.asarray(after)
