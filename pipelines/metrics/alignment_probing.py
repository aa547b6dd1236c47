"""Alignment probing: a contrastive linear map from images to texts, and the retrieval it makes possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.fitting import Side, fit_pair
from optotype.pipelines.emoji.probe.maps import PENALTIES
from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.held_out import drawn_order, held_out, held_out_count
from optotype.pipelines.metrics.labelled import check_finite
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, check_fit

__all__ = ["AlignmentProbing", "expected_recall"]

_FEWEST = 4  # pairs in a fold: the accuracy that settings are chosen by has four choices


class AlignmentProbing:
    """Held-out image-text R@1 of a linear map from pooled features to text states, trained by InfoNCE.

    Both sides are centred and turned to their principal directions by the training pairs (128 at most, shrunk
    whitening), then W minimises InfoNCE of X W Yᵀ plus a ridge: convex, L-BFGS, the same fit as that of the emoji
    probes (`optotype.pipelines.emoji.probe.maps.contrastive`). Shrinkage and penalty are chosen in folds of the
    training pairs. A held-out image is then compared by cosine of its mapped features with all held-out captions.
    R@1 is the expected one over random orders of equally similar captions: 1/g where the right one is among the g most
    similar (at 12 decimals), else 0; captions that are repeated share their credit so.

    ``per_item`` are the held-out pairs by id; ``chance`` is 1 / held-out pairs. R@1 hangs on how many those are: only
    scores of equal ``held_out`` can be compared.

    Memory: a few matrices of ``pairs`` x ``pairs`` float64. More pairs are cut to the first of the drawn order.

    FLOPs: with m training pairs and p, q <= 128 directions, 4·m·p·q + 4·m²·(p + q) a step of L-BFGS, ≤ 200 steps for
    each of 7 penalties, folds + 1 times; and 2·(m + h)²·q for the h held-out.

    Chosen where the definition is silent: full-batch training to the optimum rather than a number of epochs, 30 % held
    out, images to captions (Zhang et al. 2025 report both; the other direction is in ``details``).
    """

    name = "alignment-probing"
    kind: Kind = "trains"
    patches = False
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType(
        {
            "held-out": Option(0.3, float, "share of the pairs that is held out", minimum=0.05, maximum=0.95),
            "folds": Option(3, int, "folds of the training pairs that settings are chosen by", minimum=2, maximum=20),
            "pairs": Option(2000, int, "most pairs that are used, held-out ones included", minimum=12, maximum=10000),
            "direction": Option(
                "image-to-text",
                str,
                "what is looked up with what; both is the mean",
                choices=("image-to-text", "text-to-image", "both"),
            ),
        }
    )
    source = "contrastive linear alignment probing, held-out retrieval (Zhang et al. 2025)"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are enough pairs for the folds and the part that is held out."""
        pairs = min(n, int(options["pairs"]))
        test = held_out_count(pairs, options["held-out"]) if pairs >= 2 else 0
        fewest = _FEWEST * int(options["folds"])
        if pairs - test < fewest or test < 2:
            yield Misfit(
                f"{pairs} pairs are too few: {fewest} for training and 2 held out are the least",
                hint=f"Give more pairs, or fewer folds: --set {self.name}.folds=2.",
            )

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """See the class.

        Raises
        ------
        UsageError
            No states, or too few pairs for the folds.
        InvalidDataError
            Rows that are not finite, or do not vary.
        """
        if inputs.states is None:
            raise metric_error(self.name, "it needs states of a language model", "Give --states NAME.")
        check_finite(self.name, inputs.pooled, inputs.items, "features")
        check_finite(self.name, inputs.states, inputs.items, "states")
        check_fit(self, len(inputs.items), options)
        kept = np.sort(drawn_order(inputs.items, seed, "alignment-probing/pairs")[: options["pairs"]])
        items = inputs.items[kept]
        folds = options["folds"]
        train, test = held_out(items, options["held-out"], seed, "alignment-probing")
        fold = np.empty(len(train), dtype=np.int64)
        fold[drawn_order(items[train], seed, "alignment-probing/folds")] = np.arange(len(train)) % folds
        order = np.argsort(train)  # ascending by id
        train, fold, test = train[order], fold[order], np.sort(test)
        with one_thread():
            images = Side.of(inputs.pooled[kept], train, fold, f"features of {inputs.encoder}")
            texts = Side.of(inputs.states[kept], train, fold, f"states of {inputs.model}")
            fit = fit_pair(images, texts, train, fold, ["contrastive"])["contrastive"]
        similarity = fit.similarity[np.ix_(test, test)]
        forward, back = expected_recall(similarity), expected_recall(similarity.T)
        hits = {"image-to-text": forward, "text-to-image": back, "both": (forward + back) / 2}[options["direction"]]
        details = {
            "train": len(train),
            "held_out": len(test),
            "image_to_text": float(forward.mean()),
            "text_to_image": float(back.mean()),
            "shrink": fit.shrink,
            "penalty": fit.penalty,
            "weakest_penalty": fit.penalty == PENALTIES["contrastive"][-1],  # a weaker one might be better still
            "validation": fit.validation,
        }
        notes = []
        if len(kept) < len(inputs.items):
            notes.append(f"{len(kept)} of {len(inputs.items)} pairs are used; {self.name}.pairs sets how many")
        return Score(float(hits.mean()), chance=1 / len(test), per_item=hits, details=details, warnings=tuple(notes))


def expected_recall(similarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """R@1 of each row over random orders of equal similarities.

    Parameters
    ----------
    similarity : ndarray (h, h) float64
        Column i is right for row i.

    Returns
    -------
    ndarray (h,) float64
        1 / g where the right column is among the g largest, else 0.
    """
    best = similarity == similarity.max(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.diag(best) / best.sum(axis=1)
    return shares
