"""Which settings each metric is scored under: what was asked for, cut down to what has a say."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from optotype.pipelines.kernels.whitening import check_eps, check_prenorm
from optotype.pipelines.metrics.fronts import check_gamma
from optotype.pipelines.metrics.metric import Metric, PoolMetric, checked_options, metric_error, reads_patches
from optotype.pipelines.metrics.ravel import RavelFamily
from optotype.schemas.errors import UsageError, did_you_mean

__all__ = ["SWEPT", "Request", "Setting", "check_sweep", "settings"]

SWEPT = ("k", "eps", "gamma", "images")
"""What can be swept over."""

_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Request:
    """What a ranking was asked to do, beside its arrays.

    Attributes
    ----------
    metrics : tuple of str
        Names, in the order in which they are shown.
    everything : bool
        All metrics whose needs are met were asked for: what cannot be scored is noted, and no error.
    k, eps : int, float
        Of RAVEL and its ablations.
    prenorms : tuple of (str, str)
        Combinations for features and states, of those that whiten.
    gamma : float
    images : int, optional
        How many items; all by default.
    sweep : mapping of str to tuple
        Values of `SWEPT`, each instead of the single one.
    options : mapping of metric to mapping of option to value
        What was set for single metrics; it goes before ``k``, ``eps`` and ``prenorms``.
    post_features, post_states : str
        Chains of post-processing.
    null, seed, bootstrap : int
    """

    metrics: tuple[str, ...]
    everything: bool = False
    k: int = 100
    eps: float = 1e-4
    prenorms: tuple[tuple[str, str], ...] = (("none", "l2"),)
    gamma: float = 1.0
    images: int | None = None
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    post_features: str = "none"
    post_states: str = "none"
    null: int = 0
    seed: int = 0
    bootstrap: int = 0


@dataclass(frozen=True)
class Setting:
    """One way to score a metric.

    Attributes
    ----------
    options : mapping
        Of the metric, all of them.
    gamma : float or None
        None for a metric on which γ has no say.
    images : int or None
        None for all items.
    """

    options: Mapping[str, Any]
    gamma: float | None
    images: int | None


def check_sweep(sweep: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """``sweep`` with values of the right type, each once, in order.

    Raises
    ------
    UsageError
        Something that cannot be swept, no values, or values that are none.
    """
    checked: dict[str, tuple[Any, ...]] = {}
    for key, values in sweep.items():
        if key not in SWEPT:
            raise UsageError(f"a sweep is over one of {', '.join(SWEPT)}; got {key!r}", hint=did_you_mean(key, SWEPT))
        if not values:
            raise UsageError(f"a sweep over {key} has one value or more", hint=f"--sweep {key}=V1,V2")
        kind = int if key in ("k", "images") else float
        try:
            told = [kind(value) for value in values]
        except (TypeError, ValueError):
            what = "whole numbers" if kind is int else "numbers"
            raise UsageError(f"a sweep over {key} is over {what}; got {', '.join(map(str, values))}") from None
        for value in told:
            if key == "eps":
                check_eps(value)
            elif key == "gamma":
                check_gamma(value)
            elif value < 1:
                raise UsageError(f"a sweep over {key} is over numbers of 1 or more; got {value}")
        checked[key] = tuple(dict.fromkeys(told))
    return checked


def settings(metric: Metric | PoolMetric, request: Request) -> list[Setting]:
    """Every setting of ``metric``, each once: what differs in nothing that it reads is one setting.

    Raises
    ------
    UsageError
        An option that is not known or out of range, or one that is both set and swept.
    """
    own = dict(request.options.get(metric.name, _NONE))
    twice = [key for key in request.sweep if key in own]
    if twice:
        raise metric_error(metric.name, f"{twice[0]} is both set and swept", "Give one of --set and --sweep.")
    family = isinstance(metric, RavelFamily)
    shared: dict[str, Any] = {"k": request.k, "eps": request.eps} if family else {}
    prenorms: Sequence[tuple[str, str]] = request.prenorms if family and "eps" in metric.options else (("", ""),)
    swept = {key: values for key, values in request.sweep.items() if key in metric.options}
    gammas: Sequence[float | None] = request.sweep.get("gamma", (request.gamma,)) if reads_patches(metric) else (None,)
    counts: Sequence[int | None] = request.sweep.get("images", (request.images,))
    found: list[Setting] = []
    for norms, *values in itertools.product(prenorms, *swept.values()):
        given = {name: value for name, value in shared.items() if name in metric.options}
        if norms[0]:
            given |= {
                "prenorm-features": check_prenorm(norms[0], "prenorm of features"),
                "prenorm-states": check_prenorm(norms[1], "prenorm of states"),
            }
        options = checked_options(metric, {**given, **dict(zip(swept, values, strict=True)), **own})
        for gamma, images in itertools.product(gammas, counts):
            setting = Setting(options, gamma, images)
            if setting not in found:
                found.append(setting)
    return found
