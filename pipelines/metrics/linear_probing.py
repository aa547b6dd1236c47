"""Linear probing: how well a linear classifier reads the labels of images off their pooled features."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.held_out import stratified_folds, stratified_held_out
from optotype.pipelines.metrics.labelled import labelled
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score
from optotype.pipelines.metrics.misfits import Misfit, too_few

__all__ = ["STRENGTHS", "LinearProbing"]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Inverse penalties C that are tried, strongest penalty first."""

_MOST_STEPS = 1000


class LinearProbing:
    """Held-out accuracy of a multinomial logistic regression on pooled features.

    Features are standardised by the mean and deviation of the training part. The penalty is ‖W‖²/(2C) beside the sum of
    the log-losses (scikit-learn's ``LogisticRegression``, L-BFGS); C is the one of `STRENGTHS` with the most right
    answers in folds of the training part, ties to the strongest penalty, then the fit is made anew on all of it. The
    split and the folds are stratified and drawn by id and seed. Where there are more channels than training items, the
    fit is made in the coordinates of the items' own span: the penalty holds W there, so nothing is lost (representer
    theorem), and what is dear is done once.

    ``per_item`` are the held-out items, ascending, 1 where right; ``chance`` is the share of the class that is most
    frequent in training among the held-out.

    FLOPs: 4·n·d·min(n, d) for the coordinates, and for each of 6·folds + 1 fits ≤ 1,000 steps of 4·n·min(n, d)·classes;
    n is the number of training items. A step is one pass forward and one back.

    Chosen where the definition is silent: 30 % held out, 3 folds, standardising, the grid of C.
    """

    name = "linear-probing"
    kind: Kind = "vision-only"
    needs: frozenset[Need] = frozenset({"labels"})
    options: Mapping[str, Option] = MappingProxyType(
        {
            "held-out": Option(0.3, float, "share of each class that is held out", minimum=0.05, maximum=0.95),
            "folds": Option(3, int, "folds of the training part that C is chosen by", minimum=2, maximum=20),
        }
    )
    source = "logistic regression on pooled features, held-out accuracy (Caron et al. 2021; scikit-learn)"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 4 items or more."""
        yield from too_few(n, 4)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """See the class.

        Raises
        ------
        UsageError
            No labels, or fewer than two classes of two items.
        InvalidDataError
            Features that are not finite.
        """
        data = labelled(self.name, inputs)
        train, test = stratified_held_out(data.items, data.codes, options["held-out"], seed, "linear-probing")
        codes = data.codes[train]
        fold = stratified_folds(data.items[train], codes, min(options["folds"], len(train)), seed, "linear-probing/C")
        stopped = 0
        with one_thread():
            right = np.zeros(len(STRENGTHS), dtype=np.int64)
            for number in np.unique(fold):
                inside, outside = train[fold != number], train[fold == number]
                x, left = _coordinates(data.rows[inside], data.rows[outside])
                for place, strength in enumerate(STRENGTHS):
                    guess, short = _predict(x, data.codes[inside], left, strength)
                    right[place] += np.count_nonzero(guess == data.codes[outside])
                    stopped += short
            best = int(np.argmax(right))
            x, left = _coordinates(data.rows[train], data.rows[test])
            guess, short = _predict(x, codes, left, STRENGTHS[best])
            stopped += short
        hits = (guess == data.codes[test]).astype(np.float64)
        majority = int(np.argmax(np.bincount(codes)))
        details = {
            **data.details,
            "train": len(train),
            "held_out": len(test),
            "c": STRENGTHS[best],
            "validation": float(right[best] / len(train)),
        }
        notes = data.warnings
        if stopped:
            notes += (f"{stopped} of the fits stopped at {_MOST_STEPS} steps, short of the optimum",)
        chance = float(np.mean(data.codes[test] == majority))
        return Score(float(hits.mean()), chance=chance, per_item=hits, details=details, warnings=notes)


def _coordinates(
    train: NDArray[np.float64], other: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both standardised by ``train`` (n, d); then along the span of ``train``, where that is narrower."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train)
    x, y = scaler.transform(train), scaler.transform(other)
    if len(x) < x.shape[1]:
        _, values, axes = np.linalg.svd(x, full_matrices=False)
        axes = axes[values > max(values[0], 0.0) * 1e-10]
        if len(axes):
            x, y = x @ axes.T, y @ axes.T
    return x, y


def _predict(
    x: NDArray[np.float64], codes: NDArray[np.int64], other: NDArray[np.float64], strength: float
) -> tuple[NDArray[np.int64], bool]:
    """Classes of ``other``, and whether the fit stopped early. A fit that sees one class alone answers with it."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if (codes == codes[0]).all():
        return np.full(len(other), codes[0]), False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=_MOST_STEPS).fit(x, codes)
    return model.predict(other), any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
