"""Runs that see the options alone: what can be answered without the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.directions import unit
from optotype.pipelines.emoji.probe.questions import CHOICES

__all__ = ["BLIND", "blind_kind", "blind_runs", "central", "marginal", "typical"]

BLIND = {
    "typical": "The option closest to the mean caption of the training half (cosine of states as they are). This is "
    "what a ridge map answers when the image is replaced by the mean of the training images: it is mapped onto the "
    "mean of the training captions.",
    "central": "The option most like the other three (mean cosine of states, centred on the training half). It "
    "would find a right answer whose neighbours are the wrong ones.",
    "marginal": "The option that the probes of this kind like best whatever they are shown: mean score over all images "
    "of the training half, then over all encoders.",
}
"""Kinds of blind run and how each is formed; one of each for every language model, `marginal` for every probe too."""


def typical(states: NDArray[np.float64], train: NDArray[np.int64], options: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores (q, 4) of the options by `BLIND` ``typical``.

    Parameters
    ----------
    states : ndarray (n, d) float64
        Of all captions.
    train : ndarray (t,) int64
    options : ndarray (q, 4) int64
        Pairs whose captions are offered.
    """
    rows = unit(states)
    scores: NDArray[np.float64] = np.round(rows[options] @ rows[train].mean(axis=0), 12)
    return scores


def central(states: NDArray[np.float64], train: NDArray[np.int64], options: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores (q, 4) of the options by `BLIND` ``central``; parameters as for `typical`."""
    rows = unit(states)
    offered = unit(rows - rows[train].mean(axis=0))[options]
    to_all = np.einsum("qid,qjd->qij", offered, offered)
    to_self = np.einsum("qid,qid->qi", offered, offered)
    scores: NDArray[np.float64] = np.round((to_all.sum(axis=2) - to_self) / (CHOICES - 1), 12)
    return scores


def marginal(
    similarities: Sequence[NDArray[np.float64]], train: NDArray[np.int64], options: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Scores (q, 4) of the options by `BLIND` ``marginal``.

    Parameters
    ----------
    similarities : sequence of ndarray (n, n) float64
        `Fit.similarity` of each encoder.
    train, options
        As for `typical`.
    """
    liked = np.mean([similarity[train].mean(axis=0) for similarity in similarities], axis=0)
    scores: NDArray[np.float64] = np.round(liked[options], 12)
    return scores


def blind_runs(
    states: Mapping[str, NDArray[np.float64]],
    similarities: Mapping[tuple[str, str], Sequence[NDArray[np.float64]]],
    train: NDArray[np.int64],
    options: NDArray[np.int64],
) -> dict[str, NDArray[np.float64]]:
    """Scores (q, 4) of every blind run, by its name.

    Parameters
    ----------
    states : mapping
        Of each language model.
    similarities : mapping
        Of each (language model, probe): one matrix for each encoder.
    """
    runs = {}
    for model, rows in states.items():
        runs[f"blind-typical/{model}"] = typical(rows, train, options)
        runs[f"blind-central/{model}"] = central(rows, train, options)
    for (model, probe), matrices in similarities.items():
        runs[f"blind-marginal/{model}/{probe}"] = marginal(matrices, train, options)
    return runs


def blind_kind(name: str) -> str:
    """``blind-typical/minilm-l6`` is of kind ``typical``."""
    return name.partition("/")[0].removeprefix("blind-")
