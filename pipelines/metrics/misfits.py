"""What keeps a metric from scoring so many items, known before anything is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from optotype.pipelines.metrics.metric import Metric, PoolMetric, metric_error

__all__ = ["Misfit", "check_fit", "misfits", "too_few", "too_large"]


@dataclass(frozen=True)
class Misfit:
    """Why a metric cannot score so many items under its options, whatever they hold.

    Attributes
    ----------
    why : str
        What came and what is allowed.
    option : str, optional
        Whose value does not fit; None where there are too few items for any.
    largest : int, optional
        Of that option, the largest that does.
    hint : str, optional
        What to type, where that is not a smaller value of the option.
    """

    why: str
    option: str | None = None
    largest: int | None = None
    hint: str | None = None


def misfits(metric: Metric | PoolMetric, n: int, options: Mapping[str, Any]) -> list[Misfit]:
    """All that keeps ``metric`` from scoring ``n`` items under ``options``, as far as its ``check`` tells."""
    check = getattr(metric, "check", None)
    return [] if check is None else list(check(n, options))


def check_fit(metric: Metric | PoolMetric, n: int, options: Mapping[str, Any]) -> None:
    """UsageError unless ``metric`` can score ``n`` items under ``options``."""
    for misfit in misfits(metric, n, options):
        hint = misfit.hint
        if misfit.option is not None and misfit.largest is not None:
            hint = f"The largest {misfit.option} allowed here: --set {metric.name}.{misfit.option}={misfit.largest}"
        raise metric_error(metric.name, misfit.why, hint)


def too_few(n: int, fewest: int) -> Iterator[Misfit]:
    """A `Misfit` where ``n`` items are below ``fewest``."""
    if n < fewest:
        yield Misfit(f"it needs {fewest} items or more, got {n}")


def too_large(k: int, n: int, fewest: int = 2) -> Iterator[Misfit]:
    """As `too_few`, or else a `Misfit` where an item has fewer than ``k`` others."""
    yield from too_few(n, fewest)
    if n >= fewest and k >= n:
        yield Misfit(f"k is from 1 to {n - 1} (n = {n} items, without the item itself), got {k}", "k", n - 1)
