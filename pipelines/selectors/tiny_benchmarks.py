"""tinyBenchmarks: weighted anchor items, and full scores estimated by item response theory (Polo et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.irt.abilities import abilities
from optotype.pipelines.irt.binarise import Binarisation, binarise
from optotype.pipelines.irt.two_parameter import TwoParameter, blocks, fit
from optotype.pipelines.kernels.cells import seed_of
from optotype.pipelines.selectors.anchor_points import item_means
from optotype.pipelines.selectors.anchors import all_known, anchors, in_fixed_order
from optotype.pipelines.selectors.irt_2pl import ResponseModel, fit_notes, response_model
from optotype.pipelines.selectors.order import seeded_keys
from optotype.pipelines.selectors.selector import Selection, check_budget, everything

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["GpIrt", "IrtSelection", "PIrt", "TinyAnchors", "TinyIrtAnchors", "blend", "irt_bias"]

_EVERY = 5  # every fifth build model validates the item response model
_FEWEST = 3  # build models to validate with
_GAIN = 4  # variance of random items over that of anchors


@dataclass(frozen=True, eq=False)
class IrtSelection(Selection):
    """Items whose model scores are completed by an item response model.

    Attributes
    ----------
    model : TwoParameter
        Of all items of the pool.
    cut : Binarisation
        Where scores become right or wrong.
    share : float
        λ of gp-IRT: what the weighted mean of the anchors counts against p-IRT; 0 is p-IRT alone.
    """

    model: TwoParameter | None = None
    cut: Binarisation | None = None
    share: float = 0.0

    def estimate(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Estimated mean score (m,) over the whole pool, from the kept columns of scores (m, n).

        p-IRT (equation of section 4.2): λ̂ · mean of the observed scores + (1 - λ̂) · mean over the unobserved items
        of what the model expects at the ability estimated from the observed items, λ̂ = observed / all items.
        gp-IRT (section 4.2): share · weighted mean of the anchors + (1 - share) · p-IRT.
        Kept items that a model lacks count among neither; a model that has none of them is NaN.
        """
        if self.model is None or self.cut is None:
            return super().estimate(scores)
        kept = np.asarray(scores, dtype=np.float64)[:, self.index]
        responses = self.cut.take(self.index)(kept)
        ability = abilities(self.model.take(self.index), responses)
        unseen = np.ones(len(self.model.slope), dtype=bool)
        unseen[self.index] = False
        expected = np.zeros(len(kept))
        for block in blocks(len(unseen)):
            items = np.arange(block.start, block.stop)[unseen[block]]
            chance = self.model.take(items).probability(ability)
            expected += self.cut.take(items).expected(chance).sum(axis=1)
        valid = ~np.isnan(kept)
        seen = valid.sum(axis=1)
        completed = (np.where(valid, kept, 0.0).sum(axis=1) + expected) / np.maximum(seen + unseen.sum(), 1)
        whole = self.share * super().estimate(scores) + (1 - self.share) * completed
        return np.where(seen > 0, whole, np.nan)


class TinyAnchors:
    """Anchors by k-means on the responses of the build models ("correctness" anchors, section 3.2 of the source).

    Every item is the vector of its scaled scores over the build models; k-means makes K clusters, the item nearest to
    each centre is kept and weighted by the size of its cluster (`optotype.pipelines.selectors.anchors.anchors`). A
    model's estimate is the weighted mean of its scores on the anchors. A missing score is filled with the item's mean
    over the models that have one; the source has no missing scores. An item that no build model has a score on is in no
    cluster; such items fill up a budget larger than the others, and then all kept items count the same.
    """

    name = "tiny-anchors"
    needs = frozenset({"scores"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """``budget`` anchors with weights that sum to 1."""
        budget = check_budget(pool, budget, seed)
        if budget == pool.n:
            return everything(pool)
        scores = in_fixed_order(pool.scores)
        known = ~np.isnan(scores)
        notes: tuple[str, ...] = ()
        if not known.all():
            notes = (f"{int((~known).sum())} missing scores were filled with the mean of their item",)
        filled = np.where(known, scores, item_means(scores))
        return _anchors(pool, filled.T, budget, seed, notes)


class TinyIrtAnchors:
    """Anchors by k-means on the parameters of an item response model (section 3.2 of the source, "IRT anchors").

    Every item is the pair (slope, intercept) of a two-parameter logistic model of the build models; else as
    `TinyAnchors`. The source fits a multidimensional model and chooses its dimension (up to 15) by validation; here
    it has one, and scores are binarised as for the IRT 2PL selector. The parameters are not standardised, as there.
    """

    name = "tiny-irt-anchors"
    needs = frozenset({"scores"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """``budget`` anchors with weights that sum to 1."""
        budget = check_budget(pool, budget, seed)
        fitted = response_model(pool)
        return _irt_anchors(pool, fitted, budget, seed)


class PIrt:
    """The items of `TinyIrtAnchors`, with the p-IRT estimate of the full score (section 4.2 of the source).

    Unobserved items count with the probability that the model gives them, at the ability estimated from the observed
    ones: see `IrtSelection.estimate`. Where the source is silent or differs: the ability is the posterior mean, which
    stays finite when every kept item is right (there: maximum likelihood, with bounds of the optimiser); the observed
    part is the plain mean of the observed scores, as the text derives it; for graded scores a probability is turned
    into a score by the mean scores of right and wrong responses of that benchmark.
    """

    name = "p-irt"
    needs = frozenset({"scores"})

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """``budget`` anchors; the estimate is `IrtSelection.estimate`."""
        return self._completed(pool, check_budget(pool, budget, seed), seed)[0]

    def _completed(self, pool: Pool, budget: int, seed: int) -> tuple[Selection, ResponseModel]:
        fitted = response_model(pool)
        chosen = _irt_anchors(pool, fitted, budget, seed)
        if budget in (0, pool.n):  # nothing to go by, or nothing to complete
            return chosen, fitted
        completed = IrtSelection(
            chosen.index,
            weight=chosen.weight,
            notes=chosen.notes,
            details=chosen.details,
            model=fitted.model,
            cut=fitted.cut,
        )
        return completed, fitted


class GpIrt(PIrt):
    """The items of `TinyIrtAnchors`, with the gp-IRT estimate (section 4.2 of the source, "generalised p-IRT").

    Z = λ · weighted mean of the anchors + (1 - λ) · p-IRT, with λ = b² / (v / (4 K) + b²): v is the mean over build
    models of the variance of their scores over items, v / (4 K) stands for the variance of the anchors' mean (the
    text has v / K for random items; the authors' code divides by 4 for anchors), and b is the error of the item
    response model by itself. As in that code, b is the mean absolute error on every fifth build model, of a model
    fitted to the others, whose abilities come from every second item, on the remaining items; here models are taken
    in an order of their scores, not of their names. With fewer than 3 build models there is nothing to validate with:
    λ = 1, and the notes say so.
    """

    name = "gp-irt"

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """``budget`` anchors; the estimate is `IrtSelection.estimate` with λ as ``share``."""
        chosen, _ = self._completed(pool, check_budget(pool, budget, seed), seed)
        if not isinstance(chosen, IrtSelection):
            return chosen
        bias = irt_bias(pool)
        if bias is None:
            note = f"gp-IRT needs {_FEWEST} build models to validate the item response model; anchors alone are used"
            return replace(chosen, share=1.0, notes=(*chosen.notes, note))
        share = blend(bias, _variance_over_items(pool.scores), len(chosen.index))
        return replace(chosen, share=share, details={**chosen.details, "anchors_share": share, "irt_error": bias})


def blend(bias: float, variance: float, anchors: int) -> float:
    """λ = b² / (v / (4 K) + b²) of gp-IRT; 1 where both are 0, and either estimate is exact."""
    noise = variance / (_GAIN * anchors)
    return bias**2 / (noise + bias**2) if noise + bias**2 > 0 else 1.0


def irt_bias(pool: Pool) -> float | None:
    """Mean absolute error of the item response model on build models that it was not fitted to (see `GpIrt`).

    None where fewer than 3 build models have a valid score, or no validation model has scores on both halves.
    """
    scores = in_fixed_order(pool.scores[~np.isnan(pool.scores).all(axis=1)])
    if len(scores) < _FEWEST:
        return None
    check = np.arange(len(scores)) % _EVERY == 0
    responses, cut = binarise(scores[~check], pool.benchmark, pool.scoring)
    model = fit(responses)
    seen, unseen = np.arange(0, pool.n, 2), np.arange(1, pool.n, 2)
    truth = scores[check][:, unseen]
    ability = abilities(model.take(seen), cut.take(seen)(scores[check][:, seen]))
    expected = cut.take(unseen).expected(model.take(unseen).probability(ability))
    known = ~np.isnan(truth)
    usable = known.any(axis=1) & ~np.isnan(scores[check][:, seen]).all(axis=1)
    if not usable.any():
        return None
    error = np.where(known, expected - truth, 0.0).sum(axis=1)[usable] / known.sum(axis=1)[usable]
    return float(np.abs(error).mean())


def _variance_over_items(scores: NDArray[np.float64]) -> float:
    """Mean over the models, with a score, of the plug-in variance of their valid scores."""
    known = ~np.isnan(scores)
    count = known.sum(axis=1)
    safe = np.maximum(count, 1)
    mean = np.where(known, scores, 0.0).sum(axis=1) / safe
    square = np.where(known, (scores - mean[:, None]) ** 2, 0.0).sum(axis=1) / safe
    return float(square[count > 0].mean())


def _irt_anchors(pool: Pool, fitted: ResponseModel, budget: int, seed: int) -> Selection:
    notes = fit_notes(pool, fitted)
    if budget == pool.n:
        return everything(pool, notes=notes)
    return _anchors(pool, np.stack([fitted.model.slope, fitted.model.intercept], axis=1), budget, seed, notes)


def _anchors(pool: Pool, vectors: NDArray[np.float64], budget: int, seed: int, notes: tuple[str, ...]) -> Selection:
    """Anchors among the items with a score; the others fill up a budget that is larger than these."""
    start, keys = seed_of(seed, "anchors"), seeded_keys(pool, seed)
    known = np.flatnonzero(pool.valid > 0)
    if budget <= len(known):
        place, weight = anchors(vectors[known], budget, keys=keys[known], seed=start)
        index = known[place]
    else:
        index, weight = all_known(pool.valid, budget, keys)
    return Selection(index.astype(np.int64), weight=weight, notes=notes, details={"seed": seed})
