"""Canonical correlation with a ridge, fitted on some items and read off others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.principal import leading
from optotype.pipelines.metrics.held_out import drawn_order
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, too_few
from optotype.pipelines.metrics.paired_rows import paired_rows

__all__ = ["RIDGES", "Cca", "split"]

Floats = NDArray[np.float64]

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Tried on the validation part; shares of the mean variance of a side's reduced features."""

_FEWEST = 20
_CONSTANT = 1e-12


class Cca:
    """Mean held-out correlation of the leading canonical components.

    Items are split 60/20/20 in an order drawn by id. On the training part each side, as it comes (not scaled
    to length 1), is centred and reduced to its leading principal components; ridge CCA maximises the correlation
    with λ·(mean variance)·I added to each covariance (Vinod 1976). The λ of :data:`RIDGES` with the highest mean
    correlation on the validation part is taken, the larger of equals; nothing is fitted again. The value is the mean
    correlation of the components on the test part; a component that is constant there counts 0. ``chance`` is 0.

    Decided here: 64 principal components a side, the grid, and the scale of the ridge, which makes the score the same
    whatever the units of a side.

    FLOPs: each side of w channels 2·m·w·min(m, w) + 4/3·min(m, w)³ with m = 0.6·n, and 2·n·p·w for the reduction.
    """

    name = "cca"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType(
        {
            "components": Option(10, int, "canonical components that are averaged", minimum=1),
            "dimensions": Option(64, int, "principal components that each side is reduced to", minimum=1),
            "ridge": Option(
                None, float, "share of the mean variance; chosen on the validation part if none", minimum=0
            ),
        }
    )
    source = "Hotelling 1936; ridge of Vinod 1976, J. Econometrics 4"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 20 items or more."""
        yield from too_few(n, _FEWEST)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [-1, 1]; see the class."""
        sides = paired_rows(self.name, inputs, fewest=_FEWEST)
        parts = split(inputs.items, seed)
        with one_thread():
            visual, textual = (self._reduced(rows, parts[0], options, seed) for rows in sides)
            smaller = min(len(visual.variance), len(textual.variance))
            count = min(int(options["components"]), smaller)
            ridges = RIDGES if options["ridge"] is None else (float(options["ridge"]),)
            tried = []
            for ridge in ridges:
                maps = _maps(visual, textual, parts[0], ridge, count)
                tried.append((_correlations(visual, textual, maps, parts[1]).mean(), ridge, maps))
            best, ridge, maps = max(tried, key=lambda entry: (round(float(entry[0]), 12), entry[1]))
            found = _correlations(visual, textual, maps, parts[2])
        warnings = []
        if count < options["components"]:
            warnings.append(f"cca: {count} components, not {options['components']}: a side has no more directions")
        details = {
            "components": count,
            "dimensions": [len(visual.variance), len(textual.variance)],
            "ridge": ridge,
            "validation": float(best),
            "correlations": found.tolist(),
            "items": [len(part) for part in parts],
        }
        return Score(float(found.mean()), chance=0.0, details=details, warnings=tuple(warnings))

    def _reduced(self, rows: Floats, train: NDArray[np.int64], options: Mapping[str, Any], seed: int) -> _Side:
        mean = rows[train].mean(axis=0)
        centred = rows - mean
        found = leading(centred[train], int(options["dimensions"]))
        variance = found.values**2 / (len(train) - 1)
        if not len(variance) or np.sqrt(variance[0]) <= _CONSTANT * np.linalg.norm(mean):
            raise metric_error(self.name, f"all {len(train)} items of the training part (seed {seed}) are equal")
        return _Side(centred @ found.right, variance)


@dataclass(frozen=True)
class _Side:
    """Principal scores of all items (n, p), and the variance of each on the training part, where they do not covary."""

    scores: Floats
    variance: Floats


def split(items: NDArray[Any], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Training, validation and test positions: 60, 20 and 20 percent of the drawn order of the ids."""
    n = len(items)
    train, validation, test = np.split(drawn_order(items, seed, "cca"), [6 * n // 10, 8 * n // 10])
    return train, validation, test


def _maps(visual: _Side, textual: _Side, train: NDArray[np.int64], ridge: float, count: int) -> tuple[Floats, Floats]:
    """The leading canonical directions of each side, (p, count)."""
    weights = [1 / np.sqrt(side.variance + ridge * side.variance.mean()) for side in (visual, textual)]
    cross = visual.scores[train].T @ textual.scores[train] / (len(train) - 1)
    left, _, right = np.linalg.svd(weights[0][:, None] * cross * weights[1], full_matrices=False)
    return weights[0][:, None] * left[:, :count], weights[1][:, None] * right[:count].T


def _correlations(visual: _Side, textual: _Side, maps: tuple[Floats, Floats], part: NDArray[np.int64]) -> Floats:
    """Pearson's r of each component on a part of the items, (count,); 0 where one is constant."""
    first, second = visual.scores[part] @ maps[0], textual.scores[part] @ maps[1]
    sizes = [np.abs(side).max(axis=0) for side in (first, second)]
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    norms = [np.sqrt(np.einsum("ij,ij->j", side, side)) for side in (first, second)]
    there = (norms[0] > _CONSTANT * sizes[0]) & (norms[1] > _CONSTANT * sizes[1])
    product = np.einsum("ij,ij->j", first, second)
    found: Floats = np.where(there, product / np.where(there, norms[0] * norms[1], 1.0), 0.0)
    return np.clip(found, -1.0, 1.0)
