"""Declared axes of models, such as generations or sizes, and what accuracy gains along them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import InvalidDataError, NotFoundError, Problem, UsageError, did_you_mean

__all__ = ["AxisGain", "axis_gains", "largest_gain", "parse_axes"]


@dataclass(frozen=True)
class AxisGain:
    """Accuracy gained along one axis.

    Attributes
    ----------
    axis : str
    first, last : list of str
        Models at the lowest and the highest position.
    steps : int
        Distinct positions less one.
    gain : float
        Accuracy of the last less that of the first, divided by the steps.
    benchmarks : int
        On which both ends have scores.
    """

    axis: str
    first: list[str]
    last: list[str]
    steps: int
    gain: float
    benchmarks: int


def parse_axes(models: Sequence[str], texts: Sequence[str]) -> dict[str, dict[float, list[int]]]:
    """Axes by first appearance: position -> rows of the models there. ``texts`` are ``name:position`` or "".

    Raises
    ------
    InvalidDataError
        A text of another form; all of them are listed.
    """
    axes: dict[str, dict[float, list[int]]] = {}
    problems = []
    for row, (model, text) in enumerate(zip(models, texts, strict=True)):
        if not text:
            continue
        name, _, position = text.rpartition(":")
        try:
            place = float(position)
        except ValueError:
            place = math.nan
        if not name.strip() or not math.isfinite(place):
            problems.append(Problem(model, "bad-axis", f"{text!r} is not name:position, such as qwen-vl:3"))
            continue
        axes.setdefault(name.strip(), {}).setdefault(place, []).append(row)
    if problems:
        raise InvalidDataError(
            "The axes of some models cannot be read", problems, hint="Mend the column `axis` of the models table"
        )
    return axes


def axis_gains(
    models: Sequence[str], texts: Sequence[str], benchmark_scores: NDArray[np.float64]
) -> tuple[list[AxisGain], list[str]]:
    """Gain per step of every axis with two positions or more (Table 21), and warnings about the others.

    Accuracy is the mean over benchmarks of the mean scaled score, benchmarks weighing alike as in the paper's model
    scores. Where the paper is silent: it is taken over the benchmarks that both ends have; several models at one end
    are averaged; a step leads from one distinct position to the next, whatever their distance.

    Parameters
    ----------
    models, texts : sequence of str, length M
        Names, and the column ``axis``.
    benchmark_scores : ndarray (M, B) float64
    """
    gains, warnings = [], []
    for name, positions in parse_axes(models, texts).items():
        places = sorted(positions)
        if len(places) < 2:
            warnings.append(f"axis {name} has one position only; it is ignored")
            continue
        low, high = (benchmark_scores[positions[place]] for place in (places[0], places[-1]))
        shared = np.isfinite(low).any(axis=0) & np.isfinite(high).any(axis=0)
        if not shared.any():
            warnings.append(f"axis {name}: its ends share no benchmark; it is ignored")
            continue
        difference = np.nanmean(high[:, shared], axis=0).mean() - np.nanmean(low[:, shared], axis=0).mean()
        first, last = ([str(models[row]) for row in positions[place]] for place in (places[0], places[-1]))
        steps = len(places) - 1
        gains.append(AxisGain(name, first, last, steps, float(difference) / steps, int(shared.sum())))
    return gains, warnings


def largest_gain(gains: Sequence[AxisGain], axis: str | None) -> AxisGain:
    """The axis that gains most per step, or the one of a name.

    Raises
    ------
    UsageError
        There is no axis at all, or it does not gain.
    NotFoundError
        No axis of that name.
    """
    names = [gain.axis for gain in gains]
    if axis is not None and axis not in names:
        raise NotFoundError(f"no axis is called {axis!r}", hint=did_you_mean(axis, names) or _DECLARE)
    if not gains:
        raise UsageError("neither --gain nor an axis of models says how many items a frontier keeps", hint=_DECLARE)
    best = max((gain for gain in gains if axis in (None, gain.axis)), key=lambda gain: gain.gain)
    if best.gain <= 0:
        raise UsageError(
            f"accuracy does not grow along {best.axis}: {best.gain:+.5f} a step", hint="Give the share with --gain"
        )
    return best


_DECLARE = (
    "Give the share of items with --gain 0.1, or declare an axis in the models table: a column `axis` with values "
    "name:position, such as qwen-vl:1 and qwen-vl:2"
)
