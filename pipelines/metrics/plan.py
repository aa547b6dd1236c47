"""What of a request can be scored: needs, options and sizes, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence

from optotype.pipelines.metrics.catalogue import get_metric
from optotype.pipelines.metrics.metric import NEEDS, Metric, PoolMetric, metric_error, missing_needs, reads_patches
from optotype.pipelines.metrics.misfits import Misfit, misfits
from optotype.pipelines.metrics.ravel import RavelFamily
from optotype.pipelines.metrics.settings import Request, Setting, settings
from optotype.pipelines.metrics.sources import Sources
from optotype.pipelines.operators.mixtures import is_interleaved
from optotype.pipelines.pool import Pool, first_items
from optotype.pipelines.problems import together
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
        Options that do not fit the number of items, more images than there are, or a mixture of two spaces for a
        metric that takes one: all of them in one message. Where everything was asked for they are noted instead, and
        the settings that fit are kept.
    """
    mixed = [encoder for encoder, array in pool.encoders.items() if is_interleaved(array)]
    kept: list[Planned] = []
    errors: list[UsageError] = []
    for metric, own in planned:
        found = [_misfits(metric, setting, pool, request) for setting in own]
        if mixed and (not isinstance(metric, RavelFamily) or metric.pooled):
            why = f"{mixed[0]} is an interleaved mixture, whose tokens lie in two spaces"
            found = [[metric_error(metric.name, why, "Leave it out.")] for _ in own]
        errors += [error for each in found for error in each]
        fit = [setting for setting, each in zip(own, found, strict=True) if not each]
        if fit:
            kept.append((metric, fit))
    if errors and not request.everything:
        raise together(errors)
    for message in dict.fromkeys(error.message.removeprefix("metric ") for error in errors):
        report.note(f"Left out: {message}")
    if not kept:
        raise UsageError("no metric can be scored on these arrays", hint=errors[0].hint if errors else None)
    return kept


def _misfits(metric: Metric | PoolMetric, setting: Setting, pool: Pool, request: Request) -> list[UsageError]:
    """What keeps ``metric`` from scoring the pool under one setting, each with what mends it."""
    count = len(pool.items)
    if setting.images is not None:
        try:
            count = len(first_items(pool.items, setting.images, request.seed))
        except UsageError as error:
            return [error]
    return [
        metric_error(metric.name, misfit.why, _hint(metric, misfit, setting, request))
        for misfit in misfits(metric, count, setting.options)
    ]


def _hint(metric: Metric | PoolMetric, misfit: Misfit, setting: Setting, request: Request) -> str | None:
    """What to type instead: the sweep, ``-k`` or ``--set``, by where the value came from."""
    name, largest = misfit.option, misfit.largest
    if name is None or largest is None:
        return misfit.hint
    if name in request.sweep:
        values = ",".join(f"{value:g}" for value in request.sweep[name])
        return f"Leave {setting.options[name]} out of --sweep {name}={values}: the largest allowed here is {largest}"
    if name == "k" and isinstance(metric, RavelFamily) and name not in request.options.get(metric.name, {}):
        return f"The largest k allowed here: -k {largest}"
    return f"The largest {name} allowed here: --set {metric.name}.{name}={largest}"


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
    if len(request.prenorms) > 1 and not any("prenorm-features" in metric.options for metric, _ in planned):
        raise UsageError("--all-prenorms has no say: none of the metrics whitens", hint="Add --metric ravel.")
