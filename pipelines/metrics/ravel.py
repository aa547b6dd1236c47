"""RAVEL and its ablations behind the interface of metrics: pooled features or patches, raw or whitened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from optotype.pipelines.degeneracy import degeneracy
from optotype.pipelines.forms import Form
from optotype.pipelines.kernels import overlap
from optotype.pipelines.metrics.metric import Inputs, Kind, Need, Option, Score, metric_error
from optotype.pipelines.metrics.misfits import Misfit, too_large
from optotype.pipelines.operators.neighbours import check_k, feature_neighbours, row_neighbours, state_neighbours

__all__ = ["Ravel", "RavelFamily", "RavelPatchRaw", "RavelPooledRaw", "RavelPooledWhitened"]

_RAW = {"k": Option(100, int, "neighbours per item, less than the items", minimum=1)}
_NORMS = ("none", "l2")
_WHITENED = {
    **_RAW,
    "eps": Option(1e-4, float, "added to every eigenvalue when whitening", minimum=0),
    "prenorm-features": Option("none", str, "scale the rows of features before whitening", choices=_NORMS),
    "prenorm-states": Option("l2", str, "scale states before whitening", choices=_NORMS),
}


class RavelFamily:
    """Mean share of the k nearest images of an item that are also among its k nearest texts.

    Images are compared by symmetric Chamfer similarity of their patches, or by cosine of the means of their patches;
    texts by cosine. Both sides are whitened, or both are raw: scaled to unit length and nothing else.

    ``per_item`` are all items, ``chance`` is k / (n - 1).

    FLOPs: n²·M²·d for the products of all pairs i < j of images with M patches (n²·d where pooled), n²·t for texts; the
    whitening adds n·M·d² + n·t² for the moments and as much for its application.

    Attributes
    ----------
    pooled, whitened : bool
    patches : bool
        Whether γ, the shrinkage of patches toward their image's mean, has a say: the mean does not change under it.
    """

    name: str
    kind: Kind = "cross-modal"
    needs: frozenset[Need] = frozenset({"states"})
    options: Mapping[str, Option] = MappingProxyType(_WHITENED)
    source = "RAVEL (arXiv 2610.05413), section 3 and the ablation in section 4"
    pooled = False
    whitened = True

    @property
    def patches(self) -> bool:
        """See the class."""
        return not self.pooled

    def forms(self) -> tuple[Form, Form]:
        """What is done to features and to states, without a front."""
        return Form(pooled=self.pooled, whitened=self.whitened), Form(whitened=self.whitened)

    def check(self, n: int, options: Mapping[str, Any]) -> Iterator[Misfit]:
        """k is less than the items."""
        yield from too_large(int(options["k"]), n)

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """See the class; nothing is drawn, so ``seed`` has no say. `optotype.pipelines.graphs` gives the same, cached.

        Raises
        ------
        UsageError
            No states, or k is not less than the number of items.
        InvalidDataError
            Values that are not finite, or rows without a direction.
        """
        if inputs.states is None:
            raise metric_error(self.name, "it needs states of a language model", "Give --states NAME.")
        k = int(options["k"])
        check_k(k, len(inputs.items))
        ids = [str(item) for item in inputs.items]
        settings: list[dict[str, Any]] = [{"k": k, "whitened": self.whitened} for _ in ("features", "states")]
        if self.whitened:
            for side, told in zip(("features", "states"), settings, strict=True):
                told |= {"eps": float(options["eps"]), "prenorm": options[f"prenorm-{side}"]}
        if self.pooled:
            visual = row_neighbours(inputs.pooled, ids, **settings[0])
        else:
            visual = feature_neighbours(inputs.features, **settings[0])
        states = xr.Dataset({"states": (("text", "channel"), inputs.states)}, coords={"text": ids})
        textual = state_neighbours(states, **settings[1])
        found = overlap.matches(visual["neighbours"].values, textual["neighbours"].values)
        per_item = found / k
        graphs = (visual, textual)
        return Score(
            float(found.sum() / (len(ids) * k)),
            chance=overlap.chance(len(ids), k),
            per_item=np.asarray(per_item, dtype=np.float64),
            warnings=tuple(text for graph in graphs for text in degeneracy(graph.attrs, graph["similarity"].values)),
        )


class Ravel(RavelFamily):
    """Whitened patches: the score itself."""

    name = "ravel"


class RavelPatchRaw(RavelFamily):
    """Patches and states as they are, each of unit length."""

    name = "ravel-patch-raw"
    options = MappingProxyType(_RAW)
    whitened = False


class RavelPooledWhitened(RavelFamily):
    """Mean patches and states, both whitened; the whitening of the means is fitted on the n means."""

    name = "ravel-pooled-whitened"
    pooled = True


class RavelPooledRaw(RavelFamily):
    """Mean patches and states as they are: MutualNN with k = 100."""

    name = "ravel-pooled-raw"
    options = MappingProxyType(_RAW)
    pooled = True
    whitened = False
