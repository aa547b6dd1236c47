"""One probe of one pair: settings chosen within the training half, then fitted on all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.directions import Directions, fit_directions, unit
from optotype.pipelines.emoji.probe.maps import PENALTIES, PROBES
from optotype.pipelines.emoji.probe.questions import CHOICES

__all__ = ["SHRINKS", "Fit", "Side", "expected_accuracy", "fit_pair"]

SHRINKS = (10.0, 1.0, 0.1)
"""Of the whitening of both sides, see `Directions.apply`; strongest first."""


@dataclass(frozen=True)
class Side:
    """Rows of one array over all pairs, and their principal directions by the training half and by its folds.

    Attributes
    ----------
    rows : ndarray (n, d) float64
    whole : Directions
        Of the training half.
    without : tuple of Directions
        Of the training half without fold 0, 1, …
    """

    rows: NDArray[np.float64]
    whole: Directions
    without: tuple[Directions, ...]

    @classmethod
    def of(cls, rows: NDArray[np.float64], train: NDArray[np.int64], fold: NDArray[np.int64], where: str) -> Side:
        """Directions of ``rows`` (n, d); ``fold`` (t,) is that of each training pair ``train`` (t,)."""
        whole = fit_directions(rows[train], where)
        without = tuple(fit_directions(rows[train[fold != number]], where) for number in np.unique(fold))
        return cls(rows, whole, without)


@dataclass(frozen=True)
class Fit:
    """A fitted probe.

    Attributes
    ----------
    similarity : ndarray (n, n) float64
        Cosine of the text that the map makes of image i to caption j, both whitened; rounded to 12 decimals.
    shrink, penalty : float
        The chosen settings.
    validation : float
        What they were chosen by, see `expected_accuracy`.
    """

    similarity: NDArray[np.float64]
    shrink: float
    penalty: float
    validation: float


def expected_accuracy(similarity: NDArray[np.float64]) -> float:
    """Accuracy to be expected on questions with random wrong captions, over all of them: no draw is involved.

    Parameters
    ----------
    similarity : ndarray (h, h) float64, h >= 4
        Row i: of image i to all captions. The right one wins against b others: C(b, 3) / C(h - 1, 3) of the questions.
    """
    below = np.count_nonzero(similarity < np.diag(similarity)[:, None], axis=1)
    wrong = CHOICES - 1
    return sum(comb(int(b), wrong) for b in below) / (len(below) * comb(len(below) - 1, wrong))


def fit_pair(
    images: Side, texts: Side, train: NDArray[np.int64], fold: NDArray[np.int64], probes: Sequence[str]
) -> Mapping[str, Fit]:
    """Fit every kind of probe to one (encoder, language model) pair.

    The settings are those with the highest mean `expected_accuracy` on the folds that a fit did not see, ties by the
    order of the grid (strongest shrinkage and penalty first). The shrinkage is chosen with the ridge map, whose path
    costs next to nothing, and shared by the others; each chooses its own penalty.

    Parameters
    ----------
    images, texts : Side
    train : ndarray (t,) int64
        Pairs of the training half.
    fold : ndarray (t,) int64
    probes : sequence of str
        Of `PROBES`.
    """
    by_ridge = {shrink: _validation("ridge", images, texts, train, fold, shrink) for shrink in SHRINKS}
    shrink = max(SHRINKS, key=lambda value: max(by_ridge[value]))
    fits = {}
    for probe in probes:
        scores = by_ridge[shrink] if probe == "ridge" else _validation(probe, images, texts, train, fold, shrink)
        best = int(np.argmax(scores))
        x, y = images.whole.apply(images.rows, shrink), texts.whole.apply(texts.rows, shrink)
        # The whole path up to the chosen penalty, as in the folds: each solution begins at the one before.
        weights = PROBES[probe](x[train], y[train], PENALTIES[probe][: best + 1])[-1]
        similarity = np.round(unit(x @ weights) @ unit(y).T, 12)
        fits[probe] = Fit(similarity, shrink, PENALTIES[probe][best], scores[best])
    return fits


def _validation(
    probe: str,
    images: Side,
    texts: Side,
    train: NDArray[np.int64],
    fold: NDArray[np.int64],
    shrink: float,
) -> list[float]:
    """Mean accuracy on the folds left out, for each penalty; rounded to 12 decimals."""
    totals = np.zeros(len(PENALTIES[probe]))
    for number, (visual, textual) in enumerate(zip(images.without, texts.without, strict=True)):
        fitted, left = train[fold != number], train[fold == number]
        x, y = visual.apply(images.rows, shrink), textual.apply(texts.rows, shrink)
        for place, weights in enumerate(PROBES[probe](x[fitted], y[fitted], PENALTIES[probe])):
            totals[place] += expected_accuracy(np.round(unit(x[left] @ weights) @ unit(y[left]).T, 12))
    means: list[float] = np.round(totals / len(images.without), 12).tolist()
    return means
