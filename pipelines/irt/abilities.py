"""Abilities of models from their responses, under a fitted item response model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.irt.two_parameter import TwoParameter, blocks, logistic, quadrature
from optotype.pipelines.kernels.one_thread import one_thread

__all__ = ["abilities"]

_NODES = 61  # from -8 to 8: the posterior of a model that has everything right lies far out
_STEPS = 50
_TOLERANCE = 1e-10


def abilities(model: TwoParameter, responses: NDArray[Any]) -> NDArray[np.float64]:
    """Mean of the posterior of each model's ability (EAP) under θ ~ N(0, 1).

    Where the posterior is as wide as the distance of the nodes or wider, it is a sum over nodes as far apart as those
    of the fit, from -8 to 8. Many items make it narrower, and the sum would only name the nearest node: there it is
    the mode, found by Newton's method (the log posterior is concave), plus half the third derivative over the squared
    second (Laplace's approximation to second order), which differs from the mean by less than a thousandth.

    Parameters
    ----------
    model : TwoParameter
    responses : ndarray (m, n)
        1 right, 0 wrong; -1 or NaN missing. Items in the order of the model.

    Returns
    -------
    ndarray (m,) float64
        0, the mean of the prior, for a model without a valid response.
    """
    known = np.where(np.isnan(responses), -1, responses).astype(np.int8)
    nodes, log_weight = quadrature(_NODES)
    log = np.tile(log_weight, (len(known), 1))
    with one_thread():
        for block in blocks(known.shape[1]):
            logit = np.outer(model.slope[block], nodes) + model.intercept[block, None]
            _, log_sum = logistic(logit)
            part = known[:, block]
            log += (part == 1).astype(np.float64) @ logit - (part >= 0).astype(np.float64) @ log_sum
        weight = np.exp(log - log.max(axis=1, keepdims=True))
        mean = (weight @ nodes) / weight.sum(axis=1)
        mode = mean.copy()
        for _ in range(_STEPS):
            slope, curvature, skew = _derivatives(model, known, mode)
            step = np.clip(slope / curvature, -1.0, 1.0)
            mode += step
            if np.abs(step).max(initial=0.0) < _TOLERANCE:
                break
    narrow = 1 / np.sqrt(curvature) < nodes[1] - nodes[0]
    return np.asarray(np.where(narrow, mode + skew / (2 * curvature**2), mean))


def _derivatives(
    model: TwoParameter, known: NDArray[np.int8], ability: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """First, minus the second, and third derivative (m,) of the log posterior at one ability for each model."""
    first, second, third = -ability, np.ones(len(ability)), np.zeros(len(ability))
    for block in blocks(known.shape[1]):
        part, a = known[:, block], model.slope[block]
        chance, _ = logistic(np.outer(ability, a) + model.intercept[block])
        spread = np.where(part >= 0, chance * (1 - chance), 0.0)
        first += np.where(part >= 0, part - chance, 0.0) @ a
        second += spread @ a**2
        third -= (spread * (1 - 2 * chance)) @ a**3
    return first, second, third
