"""MMVP-VLM: which of two images a statement is about, and which of two statements an image shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.pairs.patterns import by_pattern
from optotype.pipelines.pairs.pooling import pooled_rows
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.scheduler import Scheduler
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.checks import limited
from optotype.store.pair_suites import Statement, in_pairs

__all__ = ["CHANCE", "DIRECTIONS", "TIES", "TIE_BAND", "Matches", "decide", "match_pairs", "similarities"]

Direction = Literal["text-to-image", "image-to-text"]
Tie = Literal["wrong", "second"]
DIRECTIONS: tuple[Direction, ...] = ("text-to-image", "image-to-text")
TIES: tuple[Tie, ...] = ("wrong", "second")
CHANCE = 0.25
"""Of guessing twice between two."""
TIE_BAND = 1e-12
"""Cosines (float64) that differ by no more are tied: two equal vectors may differ by rounding."""


@dataclass(frozen=True)
class Matches:
    """Decisions about p pairs.

    Attributes
    ----------
    right : ndarray (p, 2) bool
        Of the first and second statement (text-to-image) or image (image-to-text).
    tied : ndarray (p, 2) bool
    """

    right: NDArray[np.bool_]
    tied: NDArray[np.bool_]

    @property
    def pairs(self) -> NDArray[np.bool_]:
        """(p,) Whether both are right."""
        both: NDArray[np.bool_] = self.right[:, 0] & self.right[:, 1]
        return both


def decide(cosines: NDArray[np.float64], direction: str = "text-to-image", tie: str = "wrong") -> Matches:
    """Match each statement to an image, or each image to a statement.

    Statement i of a pair belongs to image i. The public evaluator goes from text to image and compares a softmax with
    0.5 (image 1 if it is above), which is whether image 1 is more alike; of equally alike images it takes the second.
    That is ``tie="second"``; by ``tie="wrong"`` a tie is no match. The two differ exactly where the second of the two
    choices is tied (and the first right, as far as the pair goes).

    Parameters
    ----------
    cosines : ndarray (p, 2, 2) float64
        ``cosines[:, i, j]`` of image i and statement j.
    direction : {"text-to-image", "image-to-text"}
    tie : {"wrong", "second"}

    Raises
    ------
    UsageError
        No such direction or policy.
    """
    if direction not in DIRECTIONS:
        raise UsageError(f"direction is one of {', '.join(DIRECTIONS)}, got {direction!r}")
    if tie not in TIES:
        raise UsageError(f"tie is one of {', '.join(TIES)}, got {tie!r}")
    # to choose between: the axis that is compared comes last
    rows = cosines.transpose(0, 2, 1) if direction == "text-to-image" else cosines
    lead = rows[..., 0] - rows[..., 1]
    tied = np.abs(lead) <= TIE_BAND
    right = np.stack([lead[:, 0] > 0, lead[:, 1] < 0], axis=1) & ~tied
    if tie == "second":
        right[:, 1] |= tied[:, 1]
    return Matches(right, tied)


def similarities(
    statements: Sequence[Statement], features: xr.Dataset, states: xr.Dataset, place: Scheduler, progress: Progress
) -> NDArray[np.float64]:
    """Cosines of the images and statements of each pair.

    An image is the unweighted mean of its stored tokens, as mining has it (of one token that is the token). Neither
    side is centred or whitened; everything is float64.

    Parameters
    ----------
    statements : sequence of Statement
        Two for each of p pairs; rows of ``states`` are joined by their ids, images of ``features`` by theirs.
    features : Dataset
        ``patches(token, channel)``, ``row_size(image)``, coordinate ``image``.
    states : Dataset
        ``states(text, channel)``, coordinate ``text``.

    Returns
    -------
    ndarray (p, 2, 2) float64
        As `decide` takes them; pairs by first appearance.

    Raises
    ------
    UsageError
        The two have different numbers of channels, and so are not of one space.
    InvalidDataError
        Images or statements that are not there, values that are not finite, vectors of zeros; all are named, to twenty.
    """
    named = [str(each.attrs.get("name") or what) for each, what in ((features, "features"), (states, "states"))]
    channels = features.sizes["channel"], states.sizes["channel"]
    if channels[0] != channels[1]:
        raise UsageError(
            f"{named[0]} has {channels[0]} channels and {named[1]} has {channels[1]}: images and statements are "
            "compared in one space",
            hint="Give the pooled, projected outputs of both towers of one model (CLIP's image_embeds and "
            "text_embeds), imported with `optotype features import` and `optotype states import`.",
        )
    pairs = list(in_pairs(statements).values())
    at_image = {str(name): i for i, name in enumerate(features["image"].values)}
    at_text = {str(name): i for i, name in enumerate(states["text"].values)}
    problems = [
        Problem(where, "missing-id", f"there is no {what} {name!r}")
        for where, what, there, names in (
            (named[0], "image", at_image, [each.image for pair in pairs for each in pair]),
            (named[1], "statement", at_text, [each.id for pair in pairs for each in pair]),
        )
        for name in dict.fromkeys(names)
        if name not in there
    ]
    if problems:
        raise InvalidDataError("the suite cannot be matched:", limited(problems))
    positions = sorted({at_image[each.image] for pair in pairs for each in pair})
    pooled = pooled_rows(features, named[0], positions, place, progress)
    try:
        row = {position: i for i, position in enumerate(positions)}
        images = pooled.rows(np.array([[row[at_image[each.image]] for each in pair] for pair in pairs]).ravel())
    finally:
        pooled.close()
    texts = _unit(states, [at_text[each.id] for pair in pairs for each in pair], named[1])
    shape = (len(pairs), 2, channels[0])
    cosines: NDArray[np.float64] = np.einsum("pic,pjc->pij", images.reshape(shape), texts.reshape(shape))
    return cosines


def match_pairs(
    statements: Sequence[Statement],
    features: xr.Dataset,
    states: xr.Dataset,
    *,
    direction: str = "text-to-image",
    tie: str = "wrong",
    place: Scheduler,
    progress: Progress = SILENT,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Match the statements of a suite to its images.

    Returns
    -------
    row : dict
        JSON-ready: ``encoder, text_encoder, direction, tie, pairs, pairs_right, pair_accuracy, chance, pattern_mean,
        ties`` (choices, two a pair), ``tokens`` (most of an image), ``patterns`` (each with ``ties``),
        ``features_digest``, ``states_digest``.
    outcomes : list of dict
        For each pair ``pair, pattern, cosine_11`` (image 1, statement 1), ``cosine_12, cosine_21, cosine_22, right_1,
        right_2, tied_1, tied_2, right``.

    Raises
    ------
    UsageError, InvalidDataError
        As `decide` and `similarities`.
    """
    decide(np.zeros((0, 2, 2)), direction, tie)  # a wrong word is told before anything is read
    cosines = similarities(statements, features, states, place, progress)
    matches = decide(cosines, direction, tie)
    pairs = list(in_pairs(statements).values())
    patterns = [one.pattern for one, _ in pairs]
    summary = by_pattern(matches.pairs.tolist(), patterns)
    ties = matches.tied.sum(axis=1)
    for row in summary["patterns"]:
        row["ties"] = int(sum(n for n, name in zip(ties.tolist(), patterns, strict=True) if name == row["pattern"]))
    rows = [
        {
            "pair": one.pair,
            "pattern": one.pattern,
            **{f"cosine_{i + 1}{j + 1}": float(cosines[p, i, j]) for i in (0, 1) for j in (0, 1)},
            **{f"right_{i + 1}": bool(matches.right[p, i]) for i in (0, 1)},
            **{f"tied_{i + 1}": bool(matches.tied[p, i]) for i in (0, 1)},
            "right": bool(matches.pairs[p]),
        }
        for p, (one, _) in enumerate(pairs)
    ]
    summary = {
        "encoder": str(features.attrs.get("name", "")),
        "text_encoder": str(states.attrs.get("name", "")),
        "direction": direction,
        "tie": tie,
        **{name: summary[name] for name in ("pairs", "pairs_right", "pair_accuracy")},
        "chance": CHANCE,
        "pattern_mean": summary["pattern_mean"],
        "ties": int(ties.sum()),
        "tokens": int(np.asarray(features["row_size"].values).max()),
        "patterns": summary["patterns"],
        "features_digest": str(features.attrs.get("digest", "")),
        "states_digest": str(states.attrs.get("digest", "")),
    }
    return summary, rows


def _unit(states: xr.Dataset, positions: Sequence[int], name: str) -> NDArray[np.float64]:
    """Unit vectors of the states at ``positions``, float64."""
    distinct, place = np.unique(np.asarray(positions), return_inverse=True)
    data = states["states"].data[distinct]
    rows = np.asarray(data.compute(scheduler="synchronous") if hasattr(data, "dask") else data, dtype=np.float64)
    ids = states["text"].values[distinct]
    peak = np.abs(rows).max(axis=1, keepdims=True)
    finite, directed = np.isfinite(peak[:, 0]), peak[:, 0] > 0
    problems = [Problem(name, "not-finite", f"{i!r} holds NaN or Inf") for i in ids[~finite]]
    problems += [
        Problem(name, "no-direction", f"{i!r} is all zero, which has no cosine") for i in ids[~directed & finite]
    ]
    if problems:
        raise InvalidDataError(f"the states of {name} cannot be compared by cosine:", limited(problems))
    rows = np.ldexp(rows, -np.frexp(peak)[1])  # by a power of two: squares stay in range
    unit: NDArray[np.float64] = rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return unit[place]
