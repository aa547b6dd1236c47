"""The two sides that a cross-modal metric compares: pooled visual rows and textual states of the same items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.whitening import normalise_rows
from optotype.pipelines.metrics.metric import Inputs, metric_error
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["paired_rows", "paired_unit_rows"]

Floats = NDArray[np.float64]

_SHOWN = 5


def paired_rows(name: str, inputs: Inputs, *, fewest: int) -> tuple[Floats, Floats]:
    """Pooled features (n, d) and states (n, t) as they are.

    Raises
    ------
    UsageError
        There are no states, or fewer than ``fewest`` items.
    InvalidDataError
        Rows that are not finite; the items are named.
    """
    if inputs.states is None:
        raise metric_error(name, "it compares images with texts and needs states", "Name them with --states NAME.")
    n = len(inputs.items)
    if n < fewest:
        raise metric_error(name, f"it needs {fewest} items or more, got {n}")
    sides = inputs.pooled, inputs.states
    problems = [
        problem
        for side, rows in zip(_names(inputs), sides, strict=True)
        for problem in _named(
            inputs, side, np.logical_not(np.isfinite(rows).all(axis=1)), "not-finite", "hold NaN or Inf"
        )
    ]
    if problems:
        raise InvalidDataError(f"metric {name} cannot compare these", problems)
    return inputs.pooled, inputs.states


def paired_unit_rows(name: str, inputs: Inputs, *, fewest: int) -> tuple[Floats, Floats]:
    """:func:`paired_rows`, each row scaled to length 1; an InvalidDataError names the items without a direction."""
    units, problems = [], []
    for side, rows in zip(_names(inputs), paired_rows(name, inputs, fewest=fewest), strict=True):
        unit, zero = normalise_rows(rows)
        units.append(unit)
        problems += _named(inputs, side, zero, "no-direction", "are zero, which has no cosine with anything")
    if problems:
        raise InvalidDataError(f"metric {name} cannot compare these by cosine", problems)
    return units[0], units[1]


def _names(inputs: Inputs) -> tuple[str, str]:
    return f"pooled features of {inputs.encoder}", f"states of {inputs.model}"


def _named(inputs: Inputs, side: str, wrong: NDArray[np.bool_], kind: str, message: str) -> list[Problem]:
    items = [str(item) for item in inputs.items[wrong]]
    if not items:
        return []
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return [Problem(side, kind, f"{len(items)} rows {message}: {', '.join(items[:_SHOWN])}{more}")]
