"""What of a request can be scored: needs, options and sizes, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence

from optotype.pipelines.metrics.catalogue import get_metric
from optotype.pipelines.metrics.metric import NEEDS, Metric, PoolMetric, metric_error, missing_needs, reads_patches
from optotype.pipelines.metrics.ravel import RavelFamily
from optotype.pipelines.metrics.settings import Request, Setting, settings
from optotype.pipelines.metrics.sources import Sources
from optotype.pipelines.operators.mixtures import is_interleaved
from optotype.pipelines.operators.neighbours import check_k
from optotype.pipelines.pool import Pool, first_items
from optotype.pipelines.progress import Progress
from optotype.schemas.errors import UsageError

__all__ = ["Planned", "fitting", "plan"]

Planned = tuple[Metric | PoolMetric, list[Setting]]


def plan(request: Request, sources: Sources, states: bool, progress: Progress) -> list[Planned]:
    """Every metric that can be scored, with its settings.

    Parameters
    ----------
    request : Request
    sources : Sources
    states : bool
        Whether there are states of a language model.
    progress : Progress
        Is told what is left out, where everything was asked for.

    Raises
    ------
    UsageError
        Metrics without something that they need, all in one message; an option out of range, or that has no say.
    NotFoundError
        A metric that there is not.
    """
    metrics = [get_metric(name) for name in dict.fromkeys(request.metrics)]
    planned = [(metric, settings(metric, request)) for metric in _able(metrics, request, sources.met(states), progress)]
    _check_asked(planned, request)
    return planned


def fitting(planned: Sequence[Planned], pool: Pool, request: Request, report: Progress) -> list[Planned]:
    """The plan, as far as the arrays can be scored so.

    Raises
    ------
    UsageError
        More neighbours or images than there are items, or a mixture of two spaces for a metric that takes one; noted
        instead where everything was asked for.
    """
    mixed = [encoder for encoder, array in pool.encoders.items() if is_interleaved(array)]
    kept: list[Planned] = []
    for metric, own in planned:
        try:
            for setting in own:
                count = len(pool.items)
                if setting.images is not None:
                    count = len(first_items(pool.items, setting.images, request.seed))
                if isinstance(metric, RavelFamily):
                    check_k(setting.options["k"], count)
            if mixed and (not isinstance(metric, RavelFamily) or metric.pooled):
                raise metric_error(
                    metric.name,
                    f"{mixed[0]} is an interleaved mixture, whose tokens lie in two spaces",
                    "Leave it out.",
                )
        except UsageError as error:
            if not request.everything:
                raise
            report.note(f"Left out: {metric.name}: {error.message}")
        else:
            kept.append((metric, own))
    if not kept:
        raise UsageError("no metric can be scored on these arrays")
    return kept


def _able(
    metrics: Sequence[Metric | PoolMetric], request: Request, met: set[str], report: Progress
) -> list[Metric | PoolMetric]:
    """Metrics whose needs are met; the others are refused in one message, or noted where everything was asked for."""
    lacking = {metric.name: missing_needs(metric.needs, met) for metric in metrics}
    lines = [
        f"{name} needs " + " and ".join(f"{NEEDS[need][0]} ({NEEDS[need][1]})" for need in needs)
        for name, needs in lacking.items()
        if needs
    ]
    able = [metric for metric in metrics if not lacking[metric.name]]
    if lines and not request.everything:
        options = dict.fromkeys(NEEDS[need][1] for needs in lacking.values() for need in needs)
        raise UsageError("; ".join(lines), hint=f"Give {', '.join(options)}.")
    for line in lines:
        report.note(f"Left out: {line}")
    if not able:
        raise UsageError("no metric can be scored with what was given", hint="Give --states NAME, or --labels TABLE.")
    return able


def _check_asked(planned: Sequence[Planned], request: Request) -> None:
    """UsageError where something was set or swept that none of the metrics reads."""
    there = {metric.name for metric, _ in planned}
    if not request.everything:
        for name in request.options:
            if name not in there:
                get_metric(name)  # one that there is not is named as such
                raise UsageError(f"--set {name}: it is not among the metrics", hint=f"Add --metric {name}.")
    for key in ("k", "eps"):
        if key in request.sweep and not any(key in metric.options for metric, _ in planned):
            raise UsageError(f"--sweep {key}: none of the metrics has {key}")
    if ("gamma" in request.sweep or request.gamma != 1) and not any(reads_patches(metric) for metric, _ in planned):
        raise UsageError("gamma has no say: none of the metrics reads patches")
