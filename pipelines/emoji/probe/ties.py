"""Which panel models differ: a paired bootstrap over the images that the questions are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.halves import seeded

__all__ = ["LEVEL", "Bootstrap", "resampled"]

LEVEL = 0.95
_BLOCK = 1000


@dataclass(frozen=True)
class Bootstrap:
    """Accuracies of all models on the same resamples.

    Attributes
    ----------
    observed : ndarray (m,) float64
    resampled : ndarray (b, m) float64
    """

    observed: NDArray[np.float64]
    resampled: NDArray[np.float64]

    def interval(self, model: int) -> tuple[float, float]:
        """Percentile interval of one model's accuracy at `LEVEL`."""
        return _interval(self.resampled[:, model])

    def differences(self) -> Iterator[tuple[int, int, float, float, float]]:
        """(i, j, accuracy i - accuracy j, low, high) for every i < j."""
        for i in range(len(self.observed)):
            for j in range(i + 1, len(self.observed)):
                low, high = _interval(self.resampled[:, i] - self.resampled[:, j])
                yield i, j, _rounded(self.observed[i] - self.observed[j]), low, high


def resampled(
    correct: NDArray[np.bool_], clusters: Sequence[int] | NDArray[np.int64], *, repeats: int, seed: int
) -> Bootstrap:
    """Resample clusters of items with replacement, the same ones for every model.

    Parameters
    ----------
    correct : ndarray (m, q) bool
    clusters : sequence of int, length q
        The image (set of repeats) that each item is about. Its items stand or fall together: they are no independent
        draws, and resampling them one by one would make the intervals too narrow.
    repeats, seed : int
    """
    numbers, inverse = np.unique(np.asarray(clusters), return_inverse=True)
    membership = np.zeros((correct.shape[1], len(numbers)))
    membership[np.arange(correct.shape[1]), inverse] = 1
    right, sizes = correct @ membership, membership.sum(axis=0)  # whole numbers: sums in any order are exact
    draw = seeded(seed, "bootstrap", len(numbers))
    even = np.full(len(numbers), 1 / len(numbers))
    accuracies = []
    for start in range(0, repeats, _BLOCK):
        counts = draw.multinomial(len(numbers), even, size=min(_BLOCK, repeats - start)).astype(np.float64)
        accuracies.append(counts @ right.T / (counts @ sizes)[:, None])
    return Bootstrap(right.sum(axis=1) / sizes.sum(), np.concatenate(accuracies))


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return _rounded(low), _rounded(high)


def _rounded(value: float) -> float:
    """To 12 decimals, and never -0.0: a difference of nothing is 0."""
    return round(float(value), 12) + 0.0
