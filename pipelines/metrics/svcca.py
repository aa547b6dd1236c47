"""Singular vector canonical correlation: how far the leading directions of the two sides span the same space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.principal import Principal, leading
from optotype.pipelines.kernels.whitening import moments
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score
from optotype.pipelines.metrics.misfits import Misfit, check_fit, too_few
from optotype.pipelines.metrics.paired_rows import paired_unit_rows
from optotype.pipelines.postprocessing.chain import Step
from optotype.pipelines.postprocessing.steps import fit_step

__all__ = ["Svcca"]

_TIED = 1e-9


class Svcca:
    """Mean canonical correlation between the leading ``dimensions`` left singular vectors of the two sides.

    Rows are scaled to length 1, then every channel to mean 0 and variance 1 (constant channels are left out). The
    singular vectors are orthonormal and centred, so their canonical correlations are the singular values of U_vᵀU_t:
    exact where the source takes a random projection and an iterative solver, and no seed is needed. Not held out: with
    n of the order of ``dimensions``² it is high by chance alone; no ``chance`` is given.

    FLOPs: each side of w channels 2·n·w·min(n, w) + 4/3·min(n, w)³, and 2·n·dimensions².
    """

    name = "svcca"
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType(
        {"dimensions": Option(10, int, "leading singular vectors of each side", minimum=1)}
    )
    source = "Raghu et al. 2017, arXiv 1706.05806; 10 dimensions as in Huh et al. 2024, arXiv 2405.07987"

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """Two items more than dimensions are the least, and 3."""
        yield from too_few(n, 3)
        wanted = int(options["dimensions"])
        if n >= 3 and wanted > n - 2:
            yield Misfit(f"{wanted} dimensions need {wanted + 2} items or more, got {n}", "dimensions", n - 2)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Value in [0, 1]; see the class."""
        sides = paired_unit_rows(self.name, inputs, fewest=3)
        wanted = int(options["dimensions"])
        check_fit(self, len(sides[0]), options)
        warnings = []
        found: list[Principal] = []
        with one_thread():
            for side, rows in zip(("visual", "textual"), sides, strict=True):
                part = leading(_standardised(rows, f"{side} rows"), wanted)
                count = len(part.values)
                if count < wanted:
                    warnings.append(f"svcca: the {side} side has {count} directions, not {wanted}")
                elif part.next_value >= part.values[-1] * (1 - _TIED):
                    warnings.append(
                        f"svcca: directions {count} and {count + 1} of the {side} side are equally strong, so which "
                        "of them counts is arbitrary"
                    )
                found.append(part)
            correlations = np.linalg.svd(found[0].left.T @ found[1].left, compute_uv=False)
        correlations = np.clip(correlations, 0.0, 1.0)
        details = {"dimensions": [len(part.values) for part in found], "correlations": correlations.tolist()}
        return Score(float(correlations.mean()), details=details, warnings=tuple(warnings))


def _standardised(rows: NDArray[np.float64], where: str) -> NDArray[np.float64]:
    step = fit_step(Step("zscore"), moments(rows), where=where)
    return step.apply(rows)
