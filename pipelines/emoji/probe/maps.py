"""Linear maps from whitened image features to whitened text states, each for a path of penalties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["PENALTIES", "PROBES", "contrastive", "contrastive_loss", "ridge"]

Matrix = NDArray[np.float64]

_MOST_STEPS = 200
_TOLERANCE = 1e-9


def ridge(images: Matrix, texts: Matrix, penalties: Sequence[float]) -> list[Matrix]:
    """argmin_W  ‖XW - Y‖² / n + λ ‖W‖²  for each λ.

    Parameters
    ----------
    images : ndarray (n, p) float64
        X, centred.
    texts : ndarray (n, q) float64
        Y, centred.
    penalties : sequence of float
        λ > 0.

    Returns
    -------
    list of ndarray (p, q) float64
    """
    values, vectors = np.linalg.eigh(images.T @ images / len(images))
    target = vectors.T @ (images.T @ texts) / len(images)
    return [vectors @ (target / (np.maximum(values, 0.0) + penalty)[:, None]) for penalty in penalties]


def contrastive(images: Matrix, texts: Matrix, penalties: Sequence[float]) -> list[Matrix]:
    """argmin_W  InfoNCE(X W Yᵀ) + λ/2 ‖W‖²  for each λ; X and Y are first divided by the roots of their widths.

    InfoNCE is the mean of the two softmax cross-entropies (each image among all captions, each caption among all
    images), as in CLIP (Radford et al. 2021), without a temperature of its own: the penalty holds the scale of W.
    The logits are linear in W, so the problem is convex: one optimum, wherever the search begins. L-BFGS from the
    solution of the penalty before, at most 200 steps each; give the largest first.

    Parameters and result as for `ridge`.
    """
    from scipy.optimize import minimize

    x, y = images / np.sqrt(images.shape[1]), texts / np.sqrt(texts.shape[1])
    weights = np.zeros(x.shape[1] * y.shape[1])
    found = []
    for penalty in penalties:
        result: Any = minimize(
            contrastive_loss,
            weights,
            args=(x, y, penalty),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _MOST_STEPS, "ftol": _TOLERANCE, "gtol": _TOLERANCE},
        )
        weights = result.x
        found.append(weights.reshape(x.shape[1], y.shape[1]).copy())
    return found


def contrastive_loss(weights: Matrix, x: Matrix, y: Matrix, penalty: float) -> tuple[float, Matrix]:
    """The objective of `contrastive` at ``weights`` (p·q,), and its gradient."""
    n = len(x)
    w = weights.reshape(x.shape[1], y.shape[1])
    logits = x @ w @ y.T
    right = np.diag_indices(n)
    loss, slope = 0.0, np.zeros_like(logits)
    for axis in (0, 1):
        shifted = logits - logits.max(axis=axis, keepdims=True)
        powers = np.exp(shifted)
        sums = powers.sum(axis=axis, keepdims=True)
        loss += float(np.log(sums).sum() - shifted[right].sum()) / (2 * n)
        slope += powers / sums
    slope[right] -= 2
    loss += penalty / 2 * float(weights @ weights)
    gradient = x.T @ (slope / (2 * n)) @ y + penalty * w
    return loss, gradient.ravel()


PROBES: dict[str, Callable[[Matrix, Matrix, Sequence[float]], list[Matrix]]] = {
    "ridge": ridge,
    "contrastive": contrastive,
}
PENALTIES: dict[str, tuple[float, ...]] = {
    "ridge": (30.0, 3.0, 0.3, 0.03),
    "contrastive": (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003),
}
