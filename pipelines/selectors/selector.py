"""The interface of every item selector, what a selector gives back, and the names they are known by."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import NotFoundError, UsageError, did_you_mean

if TYPE_CHECKING:
    from optotype.pipelines.selectors.pool import Pool

__all__ = ["SELECTORS", "Selection", "Selector", "check_budget", "everything", "get_selector"]


@dataclass(frozen=True, eq=False)
class Selection:
    """Items of a pool that a selector keeps, and how a model is scored on them.

    Attributes
    ----------
    index : ndarray (K,) int64
        Positions in the pool, ascending, without repeats.
    weight : ndarray (K,) float64, optional
        Of each kept item, in the order of ``index``; positive. Without one every item counts the same.
    cell : ndarray (K,) int32, optional
        Coverage cell of each kept item, numbered from 0 within its benchmark; -1 for an item that is in none.
    score : ndarray (n,) float64, optional
        What the items of the whole pool were ranked by, the highest first; NaN for an item that cannot be ranked.
    notes : tuple of str
        Sentences for the reader: what was missing and what was done instead.
    details : mapping
        JSON-ready account of the selection, for a report; selectors with shares give ``benchmarks``, a list.
    """

    index: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None
    cell: NDArray[np.int32] | None = None
    score: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def estimate(self, scores: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Score of each model on the kept items.

        Parameters
        ----------
        scores : ndarray (m, n)
            Scaled scores of any models on the whole pool, NaN where missing. Only the kept columns are read.

        Returns
        -------
        ndarray (m,) float64
            Weighted mean over the kept items that the model has; NaN for a model that has none of them.
        """
        kept = np.asarray(scores, dtype=np.float64)[:, self.index]
        weight = np.ones(len(self.index)) if self.weight is None else self.weight
        valid = ~np.isnan(kept)
        total = (np.where(valid, kept, 0.0) * weight).sum(axis=1)
        mass = (valid * weight).sum(axis=1)
        mean: NDArray[np.float64] = np.divide(total, mass, out=np.full(len(kept), np.nan), where=mass > 0)
        return mean


class Selector(Protocol):
    """A way to choose K items of a pool from the scores of the build models.

    The choice is a function of the pool, the budget and the seed alone: no clock, no thread count, no global state. A
    selector never sees a model that the pool does not hold.

    Attributes
    ----------
    name : str
        As in `SELECTORS`.
    needs : frozenset of str
        What it reads beyond ``valid`` and ``variance``, of ``scores``, ``responses``, ``text`` and ``vision_text``.
        A pool without it is not an error: the selector does what it can, and its notes say so.
    """

    name: str
    needs: frozenset[str]

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        """Keep ``budget`` items of ``pool``, or all of them where it holds no more.

        Raises
        ------
        UsageError
            ``budget`` or ``seed`` is negative.
        """


SELECTORS: Mapping[str, str] = MappingProxyType(
    {
        "vaw": "optotype.pipelines.selectors.vaw:VisionAwareVariance",
        "variance": "optotype.pipelines.selectors.variance:Variance",
        "random": "optotype.pipelines.selectors.random_items:RandomItems",
        "disco": "optotype.pipelines.selectors.disco:Disco",
        "datbench": "optotype.pipelines.selectors.datbench:DatBench",
        "irt-2pl": "optotype.pipelines.selectors.irt_2pl:Irt2pl",
        "anchor-points": "optotype.pipelines.selectors.anchor_points:AnchorPoints",
        "tiny-anchors": "optotype.pipelines.selectors.tiny_benchmarks:TinyAnchors",
        "tiny-irt-anchors": "optotype.pipelines.selectors.tiny_benchmarks:TinyIrtAnchors",
        "p-irt": "optotype.pipelines.selectors.tiny_benchmarks:PIrt",
        "gp-irt": "optotype.pipelines.selectors.tiny_benchmarks:GpIrt",
        "dpp": "optotype.pipelines.selectors.dpp:Dpp",
        "shares-only": "optotype.pipelines.selectors.shares:SharesOnly",
        "random-partition": "optotype.pipelines.selectors.partitions:RandomPartition",
        "text-cells": "optotype.pipelines.selectors.partitions:TextCells",
    }
)
"""Name of each selector and where it is: ``module:class``, imported when it is asked for."""


def get_selector(name: str) -> Selector:
    """The selector of a name.

    Raises
    ------
    NotFoundError
        No selector has that name.
    """
    if name not in SELECTORS:
        known = ", ".join(SELECTORS)
        raise NotFoundError(
            f"no selector is called {name!r}; there are: {known}", hint=did_you_mean(name, list(SELECTORS))
        )
    module, _, kind = SELECTORS[name].partition(":")
    selector: Selector = getattr(importlib.import_module(module), kind)()
    return selector


def check_budget(pool: Pool, budget: int, seed: int) -> int:
    """``budget``, or the size of the pool where that is less; UsageError for a negative budget or seed."""
    if budget < 0:
        raise UsageError(f"a budget is a number of items, 0 or more; got {budget}")
    if seed < 0:
        raise UsageError(f"seed is 0 or more, got {seed}")
    return min(int(budget), pool.n)


def everything(pool: Pool, *, score: NDArray[np.float64] | None = None, notes: tuple[str, ...] = ()) -> Selection:
    """The whole pool, each item counting the same: what a budget of the pool's size or more gives."""
    return Selection(np.arange(pool.n, dtype=np.int64), score=score, notes=notes)
