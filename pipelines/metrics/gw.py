"""Gromov-Wasserstein discrepancy: how well one cloud of items can be laid over the other, pairings unknown."""

from __future__ import annotations

import os
import warnings as python_warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.topk import DECIMALS
from optotype.pipelines.metrics.held_out import drawn_order
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, too_few
from optotype.pipelines.metrics.paired_rows import paired_unit_rows

__all__ = ["MOST_ITEMS", "Gw"]

Floats = NDArray[np.float64]

MOST_ITEMS = 4000
"""Largest that may be asked for: six matrices of 128 MB, and minutes."""

_SAME = 1e-12
_UNUSED_BACKENDS = ("PYTORCH", "JAX", "CUPY", "TENSORFLOW")


class Gw:
    """Minus the Gromov-Wasserstein discrepancy of angular distances, square loss, uniform weights.

    Distances are arccos(cosine) / π, in [0, 1] (cosines rounded to 12 decimals, so that equal items are at 0); the
    visual ones are multiplied by median(textual) / median(visual) over all pairs. The plan is found by POT's
    conditional gradient from the uniform plan, and is a *local* optimum: the true discrepancy may be smaller. Which
    image belongs to which text is not used.

    Time grows with n³ and memory with n²: a subsample of ``items`` items, drawn by id, is taken where there are more,
    the same for every encoder and model over the same items.

    FLOPs: n²·(d + t) + 8·n³ an iteration (``details`` holds their number), n the items used; the transport problem of
    each iteration is not counted.
    """

    name = "gw"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    pairing = False
    options: Mapping[str, Option] = MappingProxyType(
        {
            "items": Option(1000, int, "most items; a seeded subsample beyond", minimum=3, maximum=MOST_ITEMS),
            "iterations": Option(10_000, int, "most iterations", minimum=1),
        }
    )
    source = "Mémoli 2011; Peyré, Cuturi & Solomon 2016, solved by POT (ot.gromov)"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """There are 3 items or more."""
        yield from too_few(n, 3)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value of 0 at most; see the class."""
        visual, textual = paired_unit_rows(self.name, inputs, fewest=3)
        n = len(visual)
        used = min(n, int(options["items"]))
        if used < n:
            chosen = np.sort(drawn_order(inputs.items, seed, "gw")[:used])
            visual, textual = visual[chosen], textual[chosen]
        with one_thread():
            sides = _angles(visual), _angles(textual)
            above = np.triu_indices(used, 1)
            medians = [float(np.median(side[above])) for side in sides]
            for side, median in zip(("visual", "textual"), medians, strict=True):
                if median == 0:
                    raise metric_error(
                        self.name,
                        f"half of the pairs of items or more are equal on the {side} side, so it has no scale",
                    )
            scale = medians[1] / medians[0]
            value, iterations, told = _discrepancy(sides[0] * scale, sides[1], int(options["iterations"]))
        warnings = [f"gw: {message}" for message in told]
        true_plan = float(np.mean((sides[0] * scale - sides[1]) ** 2))
        if true_plan < value - _SAME:
            warnings.append(
                f"gw: a local optimum: the true pairing has {true_plan:.4g}, less than the {value:.4g} found"
            )
        if used < n:
            warnings.append(f"gw: {used} of {n} items (seed {seed}); --set gw.items=N takes more")
        details = {
            "items": used,
            "iterations": iterations,
            "scale": scale,
            "discrepancy_of_pairing": true_plan,
            "start": "uniform plan",
        }
        return Score(0.0 - value, details=details, warnings=tuple(warnings))


def _angles(unit: Floats) -> Floats:
    cosines = np.clip(np.round(unit @ unit.T, DECIMALS), -1.0, 1.0)
    np.fill_diagonal(cosines, 1.0)
    angles: Floats = np.arccos(cosines) / np.pi
    return angles


def _discrepancy(first: Floats, second: Floats, most: int) -> tuple[float, int, list[str]]:
    """Discrepancy, iterations, and what the solver warned about."""
    with _without_other_backends():
        from ot.gromov import gromov_wasserstein2
    with python_warnings.catch_warnings(record=True) as caught:
        python_warnings.simplefilter("always")
        value, log = gromov_wasserstein2(first, second, loss_fun="square_loss", symmetric=True, log=True, max_iter=most)
    told = sorted({str(warning.message) for warning in caught})
    iterations = len(log["loss"]) - 1
    if iterations >= most:
        told.append(f"stopped after {most} iterations")
    return max(0.0, float(value)), iterations, told


@contextmanager
def _without_other_backends() -> Iterator[None]:
    """POT imports torch and the like where they are installed, seconds and hundreds of megabytes for nothing."""
    names = [f"POT_BACKEND_DISABLE_{backend}" for backend in _UNUSED_BACKENDS]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: "1" for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
