"""The space in which a probe compares images with texts: the map itself, where the panel needs similarities alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.directions import Directions, unit
from optotype.pipelines.emoji.probe.fitting import Side, fit_pair
from optotype.pipelines.emoji.probe.maps import PENALTIES, PROBES

__all__ = ["Space", "fit_space"]


@dataclass(frozen=True)
class Space:
    """Whitened text states of one language model, and a linear map of one encoder's images into them.

    Attributes
    ----------
    images, texts : Directions
        Of the training half.
    weights : ndarray (p, q) float64
        From whitened images to whitened texts.
    shrink, penalty, validation : float
        The chosen settings, and what they were chosen by; see `fit_pair`.
    """

    images: Directions
    texts: Directions
    weights: NDArray[np.float64]
    shrink: float
    penalty: float
    validation: float

    def of_images(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Pooled features (n, d) as vectors of length 1, (n, q)."""
        return unit(self.images.apply(rows, self.shrink) @ self.weights)

    def of_texts(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Text states of length 1 (n, d) as vectors of length 1, (n, q); rows of zeros stay zeros."""
        vectors = unit(self.texts.apply(rows, self.shrink))
        vectors[~rows.any(axis=1)] = 0  # they say nothing; whitening moves the origin and would give them a direction
        return vectors


def fit_space(
    images: Side, texts: Side, train: NDArray[np.int64], fold: NDArray[np.int64], probe: str = "contrastive"
) -> Space:
    """Fit one probe as `fit_pair` does, and keep its map.

    The cosine of row i of `of_images` and row j of `of_texts` is `Fit.similarity` of that very probe.

    Parameters
    ----------
    images, texts : Side
        Row i of both is pair i. Rows that are not in ``train`` are not looked at.
    train : ndarray (t,) int64
    fold : ndarray (t,) int64
        Of each training pair.
    probe : str
        Of `PROBES`.
    """
    fit = fit_pair(images, texts, train, fold, [probe])[probe]
    penalties = PENALTIES[probe]
    x = images.whole.apply(images.rows[train], fit.shrink)
    y = texts.whole.apply(texts.rows[train], fit.shrink)
    # The path from the first penalty to the chosen one, as the fit went: every solution begins at the one before.
    weights = PROBES[probe](x, y, penalties[: penalties.index(fit.penalty) + 1])[-1]
    return Space(images.whole, texts.whole, weights, fit.shrink, fit.penalty, fit.validation)
