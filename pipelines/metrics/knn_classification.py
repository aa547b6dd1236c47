"""k-NN classification: how often the neighbours of an image by pooled features vote for its label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.topk import DECIMALS, top_k
from optotype.pipelines.metrics.labelled import labelled, unit_rows
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, too_large

__all__ = ["KnnClassification"]

_BLOCK_VALUES = 4 << 20  # similarities held at once


class KnnClassification:
    """Leave-one-out accuracy of weighted k-NN on the cosine of pooled features.

    The k most similar other items j (by cosine s_ij, rounded to 12 decimals; ties to the lower id) vote for their label
    with weight exp(s_ij / T), as in Wu et al. 2018 (k = 20 here, T = 0.07). The label with the most weight wins, ties
    (to 12 decimals of the largest vote) to the label that sorts first. Each labelled item is classified among all
    others: nothing is fitted, so no split is needed, and nothing is random. ``per_item`` are the labelled items by
    id, 1 where right; ``chance`` is the share of the most frequent label.

    FLOPs: 2·n²·d for n labelled items of d channels.
    """

    name = "knn-classification"
    kind: Kind = "vision-only"
    needs: frozenset[Need] = frozenset({"labels"})
    options: Mapping[str, Option] = MappingProxyType(
        {
            "k": Option(20, int, "neighbours that vote", minimum=1),
            "temperature": Option(0.07, float, "T of the weights exp(cosine / T)", minimum=0.005),
        }
    )
    source = "weighted k-NN (Wu et al. 2018)"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """k is less than the items; those without a label are seen later."""
        yield from too_large(int(options["k"]), n)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """See the class; ``seed`` is not used.

        Raises
        ------
        UsageError
            No labels, fewer than two classes of two items, or no more labelled items than k.
        InvalidDataError
            Features that are not finite or all zero.
        """
        data = labelled(self.name, inputs)
        k, temperature = options["k"], options["temperature"]
        n = len(data.codes)
        if k >= n:
            raise metric_error(
                self.name,
                f"k is below the number of labelled items; k = {k}, items = {n}",
                f"Give --set {self.name}.k={min(10, n - 1)}, or more labels.",
            )
        rows = unit_rows(self.name, data.rows, data.items, "features")
        hits = np.empty(n)
        step = max(1, _BLOCK_VALUES // n)
        with one_thread():
            for start in range(0, n, step):
                stop = min(start + step, n)
                similarity = rows[start:stop] @ rows.T
                similarity[np.arange(stop - start), np.arange(start, stop)] = np.nan
                index, value = top_k(similarity, k)
                guess = _votes(data.codes[index], value, len(data.classes), temperature).argmax(axis=1)
                hits[start:stop] = guess == data.codes[start:stop]
        details = {**data.details, "k": k, "temperature": temperature}
        chance = float(np.bincount(data.codes).max() / n)
        return Score(float(hits.mean()), chance=chance, per_item=hits, details=details, warnings=data.warnings)


def _votes(
    labels: NDArray[np.int64], cosines: NDArray[np.float64], classes: int, temperature: float
) -> NDArray[np.float64]:
    """Weight of each class (rows, classes), in parts of that of the nearest neighbour.

    Parameters
    ----------
    labels : ndarray (rows, k) int64
    cosines : ndarray (rows, k) float64
        Falling.
    """
    weights = np.exp((cosines - cosines[:, :1]) / temperature)
    votes = np.zeros((len(labels), classes))
    for rank in range(labels.shape[1]):  # in the order of the ranks, so that sums are the same whatever the block
        votes[np.arange(len(labels)), labels[:, rank]] += weights[:, rank]
    largest: NDArray[np.float64] = votes.max(axis=1, keepdims=True)
    return np.round(votes / largest, DECIMALS)
