"""From the states of tokens to one state for each text."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["POOLINGS", "TEXT_POOLINGS", "Pooling", "TextPooling", "pool"]

Pooling = Literal["mean", "last", "cls"]
POOLINGS: tuple[Pooling, ...] = ("mean", "last", "cls")
TextPooling = Literal["mean", "last", "cls", "last-before-eos"]
TEXT_POOLINGS: tuple[TextPooling, ...] = (*POOLINGS, "last-before-eos")
"""Poolings where the tokens are known, so that the end of the sequence can be told from the text."""


def pool(
    states: npt.NDArray[np.floating[Any]], mask: npt.NDArray[np.integer[Any]], pooling: Pooling
) -> npt.NDArray[np.float32]:
    """One state for each text out of its tokens' states.

    Parameters
    ----------
    states : ndarray of float, shape (texts, tokens, channels)
        Hidden states; what stands at padding is ignored, NaN included.
    mask : ndarray of int, shape (texts, tokens)
        Attention mask: 1 at real tokens (special tokens included), 0 at padding on either side. At least one 1 a text.
    pooling : {"mean", "last", "cls"}
        The mean over real tokens, accumulated in float64; the last real token; the first real token.

    Returns
    -------
    ndarray of float32, shape (texts, channels)
    """
    real = mask.astype(bool)
    if pooling == "mean":
        kept = np.where(real[:, :, None], states.astype(np.float64), 0.0)
        pooled: npt.NDArray[Any] = kept.sum(axis=1) / real.sum(axis=1, keepdims=True)
    else:
        first = real.argmax(axis=1)
        last = real.shape[1] - 1 - real[:, ::-1].argmax(axis=1)
        pooled = states[np.arange(len(states)), first if pooling == "cls" else last]
    return pooled.astype(np.float32)
