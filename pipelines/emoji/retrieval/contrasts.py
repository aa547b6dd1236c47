"""What differs, and how surely: P@1 averaged over encoders, with intervals by resampling the emoji.

The same resamples serve all languages, styles and encoders, so differences are paired. Emoji that share a caption or an
image are drawn together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.halves import seeded

__all__ = ["ENGLISH", "KINDS", "LEVEL", "Outcomes", "Setting", "contrasts"]

ENGLISH = "en"
LEVEL = 0.95
KINDS = ("mean", "style", "other-style", "gap")
_DECIMALS = 12  # more would hang on the order of sums

Setting = tuple[str, str, str, str]
"""Encoder, language model, style that the map was fitted on, style of the names asked about."""
Outcomes = Mapping[Setting, Mapping[tuple[str, str], Mapping[str, float]]]
"""By setting, and by task and language: item -> its P@1, from 0 to 1 (ties as chances)."""

Row = dict[str, Any]


def contrasts(outcomes: Outcomes, clusters: Mapping[str, Hashable], *, bootstrap: int, seed: int) -> list[Row]:
    """Means over encoders, and differences of such means.

    Parameters
    ----------
    outcomes : mapping
        See `Outcomes`; every setting has the same cells, every encoder the same settings.
    clusters : mapping of str to hashable
        What each item is drawn together with.
    bootstrap : int
        Resamples; 0 for no intervals.
    seed : int

    Returns
    -------
    list of dict
        ``kind``, ``language_model``, ``fitted_on``, ``style``, ``against`` (None for a mean), ``task``, ``language``
        (None: the unweighted mean over languages), ``value``, ``low``, ``high`` in percentage points. Kinds:

        - ``mean``: P@1 itself.
        - ``style``: names in ``style`` under a map fitted on them, minus the same of style ``against``.
        - ``other-style``: names in ``style`` under a map fitted on ``against``, minus names in ``against`` under it.
        - ``gap``: English minus ``language``, each in the style that the map was fitted on.

    Notes
    -----
    The mean of a cell over a resample is Σᵢ wᵢ xᵢ / Σᵢ wᵢ over its items, wᵢ the number of times that i's cluster was
    drawn. Intervals are percentiles of `LEVEL`, each for itself: of many, some exclude 0 by luck. They speak of other
    emoji, not of other encoders.
    """
    settings = list(outcomes)
    encoders = list(dict.fromkeys(setting[0] for setting in settings))
    models = list(dict.fromkeys(setting[1] for setting in settings))
    styles = list(dict.fromkeys(setting[3] for setting in settings))
    cells = list(outcomes[settings[0]])
    items = sorted({item for of_cell in outcomes[settings[0]].values() for item in of_cell})
    weights = _weights([clusters[item] for item in items], bootstrap, seed)
    rows: list[Row] = []
    for model in models:
        at: dict[tuple[str, str, str, str], NDArray[np.float64]] = {}
        for fitted_on in styles:
            for style in styles:
                own = [outcomes[encoder, model, fitted_on, style] for encoder in encoders]
                for task, language in cells:
                    at[fitted_on, style, task, language] = _means([of[task, language] for of in own], items, weights)
        rows += _of_model(model, at, styles, cells)
    return rows


def _of_model(
    model: str,
    at: Mapping[tuple[str, str, str, str], NDArray[np.float64]],
    styles: Sequence[str],
    cells: Sequence[tuple[str, str]],
) -> list[Row]:
    rows: list[Row] = []
    for task in dict.fromkeys(task for task, _ in cells):
        languages = [language for other, language in cells if other == task]
        every: list[str | None] = [*languages, None]

        def mean(fitted_on: str, style: str, language: str | None, task: str = task) -> NDArray[np.float64]:
            spoken = [name for other, name in cells if other == task] if language is None else [language]
            averaged: NDArray[np.float64] = np.mean([at[fitted_on, style, task, name] for name in spoken], axis=0)
            return averaged

        def add(kind: str, fitted_on: str, style: str, against: str | None, language: str | None, values: Any) -> None:
            head = {"kind": kind, "language_model": model, "fitted_on": fitted_on, "style": style, "against": against}
            rows.append({**head, "task": task, "language": language, **_told(values)})  # noqa: B023 - called in here

        for fitted_on in styles:
            for style in styles:
                for language in every:
                    add("mean", fitted_on, style, None, language, mean(fitted_on, style, language))
        for style in styles[1:]:
            for language in every:
                difference = mean(style, style, language) - mean(styles[0], styles[0], language)
                add("style", style, style, styles[0], language, difference)
        for fitted_on in styles:
            for style in styles:
                if style != fitted_on:
                    for language in every:
                        difference = mean(fitted_on, style, language) - mean(fitted_on, fitted_on, language)
                        add("other-style", fitted_on, style, fitted_on, language, difference)
        if ENGLISH in languages:
            for style in styles:
                for language in languages:
                    if language != ENGLISH:
                        difference = mean(style, style, ENGLISH) - mean(style, style, language)
                        add("gap", style, style, ENGLISH, language, difference)
    return rows


def _weights(clusters: Sequence[Hashable], bootstrap: int, seed: int) -> NDArray[np.float64]:
    """How often each item is drawn: first once each, then in every resample, (1 + b, items)."""
    number = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    draw = seeded(seed, "retrieval", len(number))
    even = np.full(len(number), 1 / len(number))
    once = np.ones((1, len(number)), dtype=np.int64)
    counts = np.concatenate([once, draw.multinomial(len(number), even, size=bootstrap)])
    drawn: NDArray[np.float64] = counts[:, [number[name] for name in clusters]].astype(np.float64)
    return drawn


def _means(
    own: Sequence[Mapping[str, float]], items: Sequence[str], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """P@1 in percent of one cell, averaged over encoders: as it is, then on every resample; NaN where none is drawn."""
    there = [place for place, item in enumerate(items) if item in own[0]]
    values = np.array([[of_encoder[items[place]] for place in there] for of_encoder in own])
    drawn = weights[:, there]
    with np.errstate(invalid="ignore"):
        averaged: NDArray[np.float64] = 100 * (drawn @ values.mean(axis=0)) / drawn.sum(axis=1)
    return averaged


def _told(values: NDArray[np.float64]) -> Row:
    resampled = values[1:][np.isfinite(values[1:])]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail]).tolist() if len(resampled) else (None, None)
    return {"value": _rounded(values[0]), "low": _rounded(low), "high": _rounded(high)}


def _rounded(value: float | None) -> float | None:
    """Never -0.0: a difference of nothing is 0."""
    return None if value is None else round(float(value), _DECIMALS) + 0.0
