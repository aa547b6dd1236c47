"""The names by which metrics are known; a metric is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from optotype.schemas.errors import NotFoundError, did_you_mean

if TYPE_CHECKING:
    from optotype.pipelines.metrics.metric import Metric, PoolMetric

__all__ = ["METRICS", "get_metric"]

_PACKAGE = "optotype.pipelines.metrics"

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "ravel": "ravel:Ravel",
        "ravel-pooled-raw": "ravel:RavelPooledRaw",
        "ravel-pooled-whitened": "ravel:RavelPooledWhitened",
        "ravel-patch-raw": "ravel:RavelPatchRaw",
        "linear-probing": "linear_probing:LinearProbing",
        "knn-classification": "knn_classification:KnnClassification",
        "rsa": "rsa:Rsa",
        "cca": "cca:Cca",
        "mutual-nn": "mutual_nn:MutualNn",
        "mutual-nn-ties": "mutual_nn:MutualNnTies",
        "gw": "gw:Gw",
        "cka": "cka:Cka",
        "cka-unbiased": "cka:CkaUnbiased",
        "cknna": "cknna:Cknna",
        "svcca": "svcca:Svcca",
        "cycle-knn": "cycle_knn:CycleKnn",
        "alignment-probing": "alignment_probing:AlignmentProbing",
        "ac-policy": "ac_policy:AcPolicy",
        "mid-training-loss": "mid_training_loss:MidTrainingLoss",
    }
)
"""Name and ``module:Class`` below this package, in the order in which ``--metric all`` scores them."""


def get_metric(name: str) -> Metric | PoolMetric:
    """The metric called ``name``.

    Raises
    ------
    NotFoundError
        No such metric; the closest is named.
    """
    if name not in METRICS:
        raise NotFoundError(f"no metric is called {name!r}", hint=did_you_mean(name, list(METRICS)))
    module, _, attribute = METRICS[name].partition(":")
    metric: Metric | PoolMetric = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), attribute)()
    return metric
