"""What a metric is given of an encoder and a language model, made from stored arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.metrics.fronts import fronted_features, fronted_rows, patch_chain
from optotype.pipelines.metrics.metric import Inputs
from optotype.pipelines.metrics.sources import Sources
from optotype.pipelines.operators.mixtures import is_interleaved, select
from optotype.pipelines.pairs.pooling import pooled_rows
from optotype.pipelines.pool import Pool
from optotype.pipelines.postprocessing.chain import Chain
from optotype.pipelines.progress import Progress
from optotype.pipelines.scheduler import scheduler
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = ["Maker"]

_SHOWN = 5
_KEPT_BYTES = 256 << 20


class Maker:
    """Makes the inputs of a pool, and keeps what was read for the next metric.

    In memory: pooled features, 8·n·d bytes an encoder, of as many as fit into 256 MiB (and of one in any case); states
    of all language models, 8·n·t bytes each; patches stay lazy. A metric over the whole pool has the pooled features of
    all encoders in memory at once.

    Parameters
    ----------
    pool : Pool
    sources : Sources
    features, states : Chain
        Post-processing in front of either side.
    progress : Progress
    """

    def __init__(self, pool: Pool, sources: Sources, features: Chain, states: Chain, progress: Progress) -> None:
        self._pool, self._sources = pool, sources
        self._fronts = {"features": features, "states": states}
        self._progress = progress
        self._pooled: dict[str, NDArray[np.float64]] = {}
        self._patches: dict[tuple[str, tuple[str, ...], str], xr.Dataset] = {}
        self._states: dict[str, NDArray[np.float64]] = {}

    def inputs(
        self, encoder: str, model: str | None, items: Sequence[str], *, gamma: float = 1.0, patches: bool = True
    ) -> Inputs:
        """Inputs over ``items``, sorted ids of the pool; fronts are fitted on these items alone.

        Parameters
        ----------
        gamma : float
            Of the shrinkage of patches toward their image's mean.
        patches : bool
            Whether the metric reads patches; if not, they come as they are stored, and no front is fitted on them.

        Raises
        ------
        UsageError
            An interleaved mixture, whose tokens lie in two spaces.
        InvalidDataError
            Values that are not finite, or items without a caption where captions were given.
        """
        features = self._pool.encoders[encoder]
        if is_interleaved(features):
            raise UsageError(
                f"{encoder} is an interleaved mixture: its tokens lie in two spaces, and this metric takes one",
                hint="Only --metric ravel and ravel-patch-raw take it; for others name one of its parts.",
            )
        ids = np.array(list(items), dtype=object)
        rows = self._rows(encoder, ids)
        states = None if model is None else self._texts(model)[_places(self._pool.models[model]["text"].values, ids)]
        with one_thread():
            pooled = fronted_rows(rows, self._fronts["features"], "features")
            if states is not None:
                states = fronted_rows(states, self._fronts["states"], "states")
        sources = self._sources
        name = None if model is None else self._pool.label("states", model)
        models = [self._pool.label("states", other) for other in self._pool.models]
        return Inputs(
            encoder=self._pool.label("features", encoder),
            model=name,
            items=ids,
            pooled=pooled,
            states=states,
            features=self._front(encoder, ids, gamma, fitted=patches),
            labels=None if sources.labels is None else _named(sources.labels, ids),
            keypoints=sources.keypoints,
            downstream=sources.outcomes(models),
            captions=None if sources.captions is None else self._captions(ids),
            language_model=(sources.language_models or {}).get(name or ""),
        )

    def _rows(self, encoder: str, ids: NDArray[np.object_]) -> NDArray[np.float64]:
        """Mean patches of ``ids``."""
        if encoder not in self._pooled:
            features = self._pool.encoders[encoder]
            places = _places(features["image"].values, np.array(self._pool.items, dtype=object))
            name = str(features.attrs["name"])
            with scheduler("threads") as threads:
                made = pooled_rows(features, name, places.tolist(), threads, self._progress, unit=False)
            fresh = np.array(made.block(0, made.images))
            made.close()
            while self._pooled and fresh.nbytes + sum(rows.nbytes for rows in self._pooled.values()) > _KEPT_BYTES:
                del self._pooled[next(iter(self._pooled))]  # the oldest
            self._pooled[encoder] = fresh
        return self._pooled[encoder][_places(np.array(self._pool.items, dtype=object), ids)]

    def _texts(self, model: str) -> NDArray[np.float64]:
        if model not in self._states:
            values = np.asarray(self._pool.models[model]["states"].values).astype(np.float64)
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad):
                texts = self._pool.models[model]["text"].values
                problems = [Problem(str(texts[row]), "not-finite", "holds NaN or Inf") for row in bad[:_SHOWN]]
                raise InvalidDataError(f"states of {model}: {len(bad)} text(s) are not finite", problems)
            self._states[model] = values
        return self._states[model]

    def _front(self, encoder: str, ids: NDArray[np.object_], gamma: float, *, fitted: bool) -> xr.Dataset:
        chain = patch_chain(self._fronts["features"], gamma) if fitted else Chain()
        key = (encoder, tuple(ids), str(chain))
        if key not in self._patches:
            features = self._pool.encoders[encoder]
            places = _places(features["image"].values, ids)
            part = features if len(places) == features.sizes["image"] else select(features, places)
            if chain and len(self._patches) > 1:
                self._patches = {}  # a fitted front is d x d numbers
            self._patches[key] = fronted_features(part, chain)
        return self._patches[key]

    def _captions(self, ids: NDArray[np.object_]) -> NDArray[np.object_]:
        captions = self._sources.captions or {}
        missing = [str(item) for item in ids if item not in captions]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            message = f"has no {', '.join(map(repr, missing[:_SHOWN]))}{more}"
            raise InvalidDataError(
                f"{len(missing)} ranked items have no caption", [Problem("captions", "missing-id", message)]
            )
        return _named(captions, ids)


def _named(values: Mapping[str, str], ids: NDArray[np.object_]) -> NDArray[np.object_]:
    """Text of each id, ``""`` for one that has none."""
    return np.array([values.get(str(item), "") for item in ids], dtype=object)


def _places(stored: NDArray[np.object_], ids: NDArray[np.object_]) -> NDArray[np.int64]:
    """Where ``ids`` stand in the stored ids; both are sorted, so the places rise."""
    place = {str(value): number for number, value in enumerate(stored)}
    return np.array([place[str(item)] for item in ids], dtype=np.int64)
