"""Items that a two-parameter item response model calls the most informative."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.irt.abilities import abilities
from optotype.pipelines.irt.binarise import Binarisation, binarise
from optotype.pipelines.irt.two_parameter import TwoParameter, fit
from optotype.pipelines.selectors.order import seeded_keys, top
from optotype.pipelines.selectors.selector import Selection, check_budget

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["Irt2pl", "ResponseModel", "fit_notes", "response_model"]

_DECIMALS = 9  # the fit stops within 1e-3 of its limit; digits beyond these would rank equal items by rounding
_KEPT = 16
_fits: OrderedDict[bytes, TwoParameter] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True, eq=False)
class ResponseModel:
    """What an item response model says of a pool.

    Attributes
    ----------
    responses : ndarray (M, n) int8
        Of the build models: 1 right, 0 wrong, -1 missing.
    cut : Binarisation
        Where their scores were cut.
    model : TwoParameter
    """

    responses: NDArray[np.int8]
    cut: Binarisation
    model: TwoParameter


def response_model(pool: Pool) -> ResponseModel:
    """The 2PL of a pool, fitted to its binarised scores.

    Several selectors and every retention ask for the same fit; the latest 16 are remembered by the digest of their
    responses.
    """
    responses, cut = binarise(pool.scores, pool.benchmark, pool.scoring)
    key = hashlib.sha256(repr(responses.shape).encode() + responses.tobytes()).digest()
    with _lock:
        model = _fits.get(key)
    if model is None:
        model = fit(responses)
    with _lock:
        _fits[key] = model
        _fits.move_to_end(key)
        while len(_fits) > _KEPT:
            _fits.popitem(last=False)
    return ResponseModel(responses, cut, model)


def fit_notes(pool: Pool, fitted: ResponseModel) -> tuple[str, ...]:
    """What a reader of the fit should know."""
    notes = []
    if not fitted.model.converged:
        notes.append(
            f"the item response model was stopped after {fitted.model.iterations} iterations, before it settled"
        )
    unknown = int((fitted.model.answered == 0).sum())
    if unknown:
        notes.append(f"{unknown} of {pool.n} items have no valid score; the item response model knows nothing of them")
    binary = (fitted.cut.wrong == 0) & (fitted.cut.right == 1)
    if not binary.all():
        notes.append(f"graded scores of {int((~binary).sum())} of {pool.n} items were cut into right and wrong")
    return tuple(notes)


class Irt2pl:
    """The K items of the highest Fisher information under a two-parameter logistic model (PRIMEBench, "IRT 2PL";
    Kipnis et al., 2025, is its source there).

    Scores are binarised (`optotype.pipelines.irt.binarise`) and the model is fitted to the build models
    (`optotype.pipelines.irt.two_parameter.fit`). The paper ranks by information "at the panel's abilities" without
    saying how they are combined: here the score of an item is the mean of a² P (1 - P) over the build models, each at
    its expected ability. Items are taken over the whole pool, without shares; ties (to 9 decimals) in seeded random
    order; items that no build model has a valid score on come last. A model without any valid score in the pool has
    no ability and is left out.
    """

    name = "irt-2pl"
    needs = frozenset({"scores"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """The ``budget`` most informative items; without weights."""
        budget = check_budget(pool, budget, seed)
        fitted = response_model(pool)
        present = (fitted.responses >= 0).any(axis=1)
        known = fitted.model.answered > 0
        score = np.full(pool.n, np.nan)
        if known.any():
            ability = abilities(fitted.model, fitted.responses[present])
            score[known] = fitted.model.information(ability)[known].round(_DECIMALS)
        index = top(score, seeded_keys(pool, seed), budget)
        return Selection(index, score=score, notes=fit_notes(pool, fitted), details={"seed": seed})
