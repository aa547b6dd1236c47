"""Right or wrong from graded scores, which is what an item response model reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HALF_SCALE", "Binarisation", "binarise"]

HALF_SCALE = frozenset({"binary", "vqa", "soft", "judge"})
"""Values of the item column ``scoring`` whose items are cut at half their scale."""


@dataclass(frozen=True)
class Binarisation:
    """Where the scores of each item are cut, learnt on some models and good for others.

    Attributes
    ----------
    threshold : ndarray (n,) float64
        On the scale [0, 1].
    above : ndarray (n,) bool
        Whether a score must exceed the threshold to be right; else it may equal it.
    wrong, right : ndarray (n,) float64
        What a wrong and a right response of the item's group score on average: 0 and 1 where all scores are 0 or 1.
        They turn a probability of being right back into an expected score.
    """

    threshold: NDArray[np.float64]
    above: NDArray[np.bool_]
    wrong: NDArray[np.float64]
    right: NDArray[np.float64]

    def __call__(self, scores: NDArray[Any]) -> NDArray[np.int8]:
        """Responses (m, n): 1 right, 0 wrong, -1 missing, from scores (m, n) in [0, 1] with NaN."""
        with np.errstate(invalid="ignore"):
            passed = (scores > self.threshold) | ((scores == self.threshold) & ~self.above)
        return np.where(np.isnan(scores), -1, passed).astype(np.int8)

    def take(self, items: NDArray[np.intp]) -> Binarisation:
        """The same for some of the items."""
        return Binarisation(self.threshold[items], self.above[items], self.wrong[items], self.right[items])

    def expected(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Expected scores (m, n) from probabilities (m, n) of being right."""
        return self.wrong + (self.right - self.wrong) * probability


def binarise(
    scores: NDArray[Any], benchmark: NDArray[Any], scoring: NDArray[Any] | None = None
) -> tuple[NDArray[np.int8], Binarisation]:
    """Cut the scores of each benchmark at half its scale or at its median (PRIMEBench, section C.1).

    Items whose ``scoring`` is binary, vqa, soft or judge, and benchmarks whose scores are all 0 or 1, are cut at 0.5;
    other graded items at the median of all valid scores of such items of their benchmark. The paper does not say on
    which side a score at the cut falls. Here half the scale is right. At a median, a score must exceed it, unless
    letting it be equal divides the scores more evenly: with many equal scores one of the two cuts may leave
    nothing on one side.

    Parameters
    ----------
    scores : ndarray (M, n) float
        Of the build models, in [0, 1]; NaN is missing.
    benchmark : ndarray (n,) of str
    scoring : ndarray (n,) of str, optional
        "" is not known; upper and lower case are the same.

    Returns
    -------
    responses : ndarray (M, n) int8
        1 right, 0 wrong, -1 missing.
    binarisation : Binarisation
        To cut other models' scores at the same places.
    """
    n = scores.shape[1]
    half = np.zeros(n, dtype=bool)
    if scoring is not None:
        half = np.array([str(value).strip().lower() in HALF_SCALE for value in scoring], dtype=bool)
    cut = Binarisation(np.full(n, 0.5), np.zeros(n, dtype=bool), np.zeros(n), np.ones(n))
    names, group = np.unique(np.asarray(benchmark, dtype=str), return_inverse=True)
    for number in range(len(names)):
        for graded in (False, True):  # items of one benchmark may be scored in different ways
            items = np.flatnonzero((group == number) & (half != graded))
            values = np.asarray(scores[:, items], dtype=np.float64)
            known = values[~np.isnan(values)]
            if not len(known) or np.isin(known, (0.0, 1.0)).all():
                continue
            if graded:
                cut.threshold[items], cut.above[items] = _median_cut(known)
            passed = cut.take(items)(values)
            overall = known.mean()
            for side, levels in ((0, cut.wrong), (1, cut.right)):
                chosen = values[passed == side]
                levels[items] = chosen.mean() if len(chosen) else overall
    return cut(scores), cut


def _median_cut(known: NDArray[np.float64]) -> tuple[float, bool]:
    """The median, and whether a score must exceed it."""
    middle = float(np.median(known))
    strict, loose = float(np.mean(known > middle)), float(np.mean(known >= middle))
    return middle, abs(strict - 0.5) <= abs(loose - 0.5)
