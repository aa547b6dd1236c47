"""Options of ``optotype rank`` that say by what metrics, under what settings and with what beside the arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from optotype.pipelines.metrics.catalogue import METRICS
from optotype.registry.cli import options
from optotype.schemas.errors import did_you_mean

__all__ = ["fronts", "metrics", "sources"]

_F = TypeVar("_F", bound=Callable[..., Any])


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # takes no type in older versions


class _Metric(_Choice):
    """One of the metrics; another is answered with the nearest."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """``value`` itself."""
        names = [str(choice) for choice in self.choices]
        if value not in names:
            self.fail(f"no metric is called {value!r}. {did_you_mean(value, names)}", param, ctx)
        return value


_TABLE = click.Path(path_type=Path, dir_okay=False)


def _pair(text: str, separator: str, form: str, ctx: click.Context, param: click.Parameter) -> tuple[str, str]:
    """``NAME=VALUE`` in two; neither is empty."""
    name, found, value = text.partition(separator)
    if not (found and name.strip() and value.strip()):
        raise click.BadParameter(f"{text!r} is not {form}", ctx, param)
    return name.strip(), value.strip()


def _set(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, dict[str, str]]:
    """``METRIC.NAME=VALUE``, by metric."""
    form = "METRIC.NAME=VALUE, for example mutual-nn.k=20"
    found: dict[str, dict[str, str]] = {}
    for text in values:
        name, value = _pair(text, "=", form, ctx, param)
        metric, option = _pair(name, ".", form, ctx, param)
        if option in found.setdefault(metric, {}):
            raise click.BadParameter(f"{metric}.{option} is set twice", ctx, param)
        found[metric][option] = value
    return found


def _sweep(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, list[str]]:
    """``KEY=V1,V2``, by key."""
    found: dict[str, list[str]] = {}
    for text in values:
        key, several = _pair(text, "=", "KEY=V1,V2, for example k=50,100,150", ctx, param)
        if key in found:
            raise click.BadParameter(f"{key} is swept twice", ctx, param)
        found[key] = [value.strip() for value in several.split(",")]
    return found


def _named(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``NAME=SOURCE``, by name."""
    return dict(_pair(text, "=", "NAME=SOURCE, for example qwen3=Qwen/Qwen3-1.7B", ctx, param) for text in values)


def _table(flag: str, text: str) -> Callable[[Any], Any]:
    return click.option(flag, type=_TABLE, metavar="TABLE", help=text)


def _all(flags: Sequence[Callable[[Any], Any]], function: _F) -> _F:
    """``function`` with all flags, shown in their order."""
    for flag in reversed(flags):
        function = flag(function)
    return function


def metrics(function: _F) -> _F:
    """``--metric`` and ``--set``."""
    flags = (
        click.option(
            "--metric",
            "metrics",
            multiple=True,
            type=_Metric([*METRICS, "all"]),
            default=["ravel"],
            show_default=True,
            metavar="METRIC",
            help=f"What is counted; repeatable, or all whose needs are met: {', '.join(METRICS)}, all.",
        ),
        click.option(
            "--set",
            "set_options",
            multiple=True,
            callback=_set,
            metavar="METRIC.NAME=VALUE",
            help="An option of one metric; repeatable.",
        ),
    )
    return _all(flags, function)


def fronts(function: _F) -> _F:
    """``--post-features``, ``--post-states``, ``--gamma``, ``--images`` and ``--sweep``."""
    flags = (
        click.option(
            "--post-features",
            default="none",
            show_default=True,
            metavar="CHAIN",
            help="Post-processing of features before the metric: steps joined by +, as in centre+abtt:3+l2.",
        ),
        click.option(
            "--post-states",
            default="none",
            show_default=True,
            metavar="CHAIN",
            help="Post-processing of states, likewise.",
        ),
        click.option(
            "--gamma",
            type=float,
            default=1.0,
            show_default=True,
            metavar="NUMBER",
            help="Draw patches to the mean of their image before all else: p <- m + gamma (p - m).",
        ),
        options.number(
            "--images", default=None, minimum=2, text="Rank over so many items, drawn by the seed; all by default."
        ),
        click.option(
            "--sweep",
            multiple=True,
            callback=_sweep,
            metavar="KEY=V1,V2",
            help="A ranking under each of several values of k, eps, gamma or images, in one table; repeatable.",
        ),
    )
    return _all(flags, function)


def sources(function: _F) -> _F:
    """Tables and weights that metrics need, and ``--train``."""
    flags = (
        _table("--labels", "Labels of the images: id and a column of labels."),
        click.option(
            "--label-column", default="group", show_default=True, metavar="NAME", help="Column of the labels."
        ),
        _table("--keypoints", "Keypoints of pairs of images: id_a, id_b, kp, x_a, y_a, x_b, y_b."),
        _table("--downstream", "Downstream scores: encoder, score, and perhaps model and benchmark."),
        _table("--captions", "Captions: id and text."),
        click.option(
            "--language-model",
            "language_models",
            multiple=True,
            callback=_named,
            metavar="NAME=SOURCE",
            help="Weights of the language model whose states are called NAME; repeatable.",
        ),
        click.option("--train", is_flag=True, help="Let metrics train that train a network."),
    )
    return _all(flags, function)
