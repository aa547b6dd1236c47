"""The items among which a selector chooses, with the scores of the build models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.embeddings import EmbeddingRows, vision_dependence
from optotype.pipelines.compression.scaled import scaled
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ALPHA", "Pool"]

ALPHA = 0.187
"""Weight of the vision dependence: 0.05 · √14 (Section 4.3)."""

Embedding = NDArray[np.floating[Any]] | EmbeddingRows


@dataclass(frozen=True, eq=False)
class Pool:
    """One category's items and what the build models did on them. Made by `Pool.of` or `Pool.of_panel`.

    Attributes
    ----------
    benchmark, item : ndarray (n,) of str
        In catalogue order. (benchmark, item) is unique.
    valid : ndarray (n,) int64
        Build models with a score on the item, M_i.
    variance : ndarray (n,) float64
        Plug-in variance v̂_i of the scaled scores over those models (divided by M_i); NaN where there are none.
    scoring : ndarray (n,) of str
        How the item is scored (``binary``, ``vqa``, ``soft``, ``judge``, …); "" where that is not known.
    matrix : NumPy or dask array (M, n)
        Scaled scores of the build models, NaN where missing. Read through ``scores``.
    response : ndarray (M, n) uint32, optional
        Digest of each answer, 0 for none.
    text, vision_text : ndarray (n, d) or EmbeddingRows, optional
        E^L and E^VL; a row of NaN is an item without one. Read through ``rows``.
    alpha : float
        α of Vision-Aware Variance.
    cell_seed : int, optional
        Seed of the coverage cells in place of a selector's own, so that cells stay as they are while other draws change
        (Appendix D.1: they use no model responses, so no split of the models moves them).
    """

    benchmark: NDArray[np.object_]
    item: NDArray[np.object_]
    valid: NDArray[np.int64]
    variance: NDArray[np.float64]
    scoring: NDArray[np.object_]
    matrix: Any
    response: Any = None
    text: Embedding | None = None
    vision_text: Embedding | None = None
    alpha: float = ALPHA
    cell_seed: int | None = None
    kept: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)
    """What depends on the items alone, such as cells: shared by the pools that `take` makes."""

    @classmethod
    def of(
        cls,
        scores: Any,
        *,
        benchmark: Sequence[str] | NDArray[Any],
        item: Sequence[str] | NDArray[Any] | None = None,
        scoring: Sequence[str] | NDArray[Any] | None = None,
        response: Any = None,
        text: Embedding | None = None,
        vision_text: Embedding | None = None,
        alpha: float = ALPHA,
        valid: NDArray[Any] | None = None,
        variance: NDArray[np.floating[Any]] | None = None,
    ) -> Pool:
        """A pool of arrays.

        Parameters
        ----------
        scores : NumPy or dask array (M, n)
            Scaled scores of the build models, NaN where missing; not read if ``valid`` and ``variance`` are given.
        benchmark, item, scoring : sequence (n,) of str
            ``item`` defaults to the position within the pool, ``scoring`` to "".
        response : array (M, n) uint32, optional
        text, vision_text : array (n, d) or EmbeddingRows, optional
        alpha : float
        valid, variance : ndarray (n,), optional
            Of the same models, where they are known already.

        Raises
        ------
        UsageError
            ``alpha`` is negative or not finite.
        InvalidDataError
            Arrays that do not fit together; all of them are listed.
        """
        if not np.isfinite(alpha) or alpha < 0:
            raise UsageError(f"alpha is a finite number >= 0, got {alpha!r}", hint=f"The usual value is {ALPHA}.")
        n = int(scores.shape[1])
        names = np.asarray(benchmark, dtype=object)
        ids = np.array([str(i) for i in range(n)], dtype=object) if item is None else np.asarray(item, dtype=object)
        kinds = np.full(n, "", dtype=object) if scoring is None else np.asarray(scoring, dtype=object)
        rows = {"benchmark": names, "item": ids, "scoring": kinds, "text": text, "vision_text": vision_text}
        problems = [
            Problem(what, "wrong-length", f"{array.shape[0]} items, where the scores have {n}")
            for what, array in {**rows, "valid": valid, "variance": variance}.items()
            if array is not None and array.shape[0] != n
        ]
        if response is not None and tuple(response.shape) != tuple(scores.shape):
            problems.append(
                Problem("response", "wrong-shape", f"{response.shape}, where the scores are {scores.shape}")
            )
        if problems:
            raise InvalidDataError("The arrays of a pool do not fit together", problems)
        pool = cls(
            benchmark=names,
            item=ids,
            valid=np.zeros(n, dtype=np.int64),
            variance=np.zeros(n),
            scoring=kinds,
            matrix=scores,
            response=response,
            text=text,
            vision_text=vision_text,
            alpha=float(alpha),
        )
        if valid is None or variance is None:
            return pool._counted()
        return replace(pool, valid=np.asarray(valid, np.int64), variance=np.asarray(variance, np.float64))

    @classmethod
    def of_panel(
        cls,
        panel: xr.Dataset,
        index: NDArray[np.integer[Any]],
        *,
        models: NDArray[np.integer[Any]] | None = None,
        text: Embedding | None = None,
        vision_text: Embedding | None = None,
        alpha: float = ALPHA,
        valid: NDArray[Any] | None = None,
        variance: NDArray[np.floating[Any]] | None = None,
    ) -> Pool:
        """The pool of some items of a panel.

        Parameters
        ----------
        panel : Dataset
            As `optotype.store.panels.open_panel` gives it.
        index : ndarray (n,) int
            Positions of the items in the panel, ascending.
        models : ndarray of int, optional
            Positions of the build models; all of them by default.
        text, vision_text : array or EmbeddingRows, optional
            Of every item of the panel, as `optotype.pipelines.compression.embeddings.aligned` gives them.
        alpha : float
        valid, variance : ndarray, optional
            Of every item of the panel, over the build models, where they are known already.
        """
        scores = scaled(panel)
        response = panel["response"].data if "response" in panel else None
        if models is not None:
            scores = scores[models]
            response = None if response is None else response[models]
        return cls.of(
            scores[:, index],
            benchmark=panel["benchmark"].values[index],
            item=panel["item"].values[index],
            scoring=panel["scoring"].values[index] if "scoring" in panel.coords else None,
            response=None if response is None else response[:, index],
            text=None if text is None else text[index],
            vision_text=None if vision_text is None else vision_text[index],
            alpha=alpha,
            valid=None if valid is None else valid[index],
            variance=None if variance is None else variance[index],
        )

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.benchmark)

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """Scaled scores of the build models, (M, n), NaN where missing; computed when first asked for, and kept."""
        matrix = self.matrix.compute(scheduler="synchronous") if hasattr(self.matrix, "compute") else self.matrix
        return np.asarray(matrix, dtype=np.float64)

    @cached_property
    def responses(self) -> NDArray[np.uint32] | None:
        """Digests of the answers, (M, n), 0 for none; None where the panel has no answers at all."""
        if self.response is None:
            return None
        found = self.response.compute(scheduler="synchronous") if hasattr(self.response, "compute") else self.response
        return np.asarray(found, dtype=np.uint32)

    @cached_property
    def groups(self) -> list[tuple[str, NDArray[np.int64]]]:
        """Benchmarks by first appearance, each with the positions of its items, ascending."""
        found: dict[str, list[int]] = {}
        for position, name in enumerate(self.benchmark):
            found.setdefault(str(name), []).append(position)
        return [(name, np.array(positions, dtype=np.int64)) for name, positions in found.items()]

    @property
    def delta(self) -> NDArray[np.float64]:
        """δ_i = 1 - cos(E^L_i, E^VL_i), (n,); 0 for an item that lacks one of the two."""
        if ("delta",) not in self.kept:
            self.kept["delta",] = vision_dependence(self.text, self.vision_text, n=self.n)
        delta: NDArray[np.float64] = self.kept["delta",]
        return delta

    @property
    def vaw(self) -> NDArray[np.float64]:
        """Ranked score of Vision-Aware Variance, q_i / √M_i = v̂_i + α/√M_i · δ_i (Section 4.3); NaN where M_i = 0."""
        root = np.sqrt(np.where(self.valid > 0, self.valid, np.nan))
        return self.variance + self.alpha / root * self.delta

    def take(self, models: NDArray[Any] | Sequence[int]) -> Pool:
        """The same items, with some of the models only: positions or a mask of the rows of ``scores``."""
        chosen = np.asarray(models)
        response = None if self.responses is None else self.responses[chosen]
        return replace(self, matrix=self.scores[chosen], response=response)._counted()

    def _counted(self) -> Pool:
        """With ``valid`` and ``variance`` of its own scores."""
        scores = self.scores
        present = ~np.isnan(scores)
        valid = present.sum(axis=0, dtype=np.int64)
        count = np.where(valid > 0, valid, np.nan)
        mean = np.where(present, scores, 0.0).sum(axis=0) / count
        deviation = np.where(present, scores - mean, 0.0)
        return replace(self, matrix=scores, valid=valid, variance=(deviation * deviation).sum(axis=0) / count)
