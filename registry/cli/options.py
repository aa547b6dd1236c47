"""Options that several verbs share, and the types of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from optotype.registry.cli.project import complete_names

__all__ = [
    "arrays",
    "as_json",
    "device",
    "eps",
    "layers",
    "neighbours",
    "number",
    "out_folder",
    "scheduler",
    "seed",
]

_F = TypeVar("_F", bound=Callable[..., Any])


def _finite_positive(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """``value`` if it is above 0 and neither NaN nor infinite."""
    if not math.isfinite(value) or value <= 0:
        raise click.BadParameter(f"{value} is not a finite number above 0", ctx, param)
    return value


def _can_be_folder(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """``value`` if it is a folder or can become one: nothing above it is a file."""
    above = () if value is None else value.absolute().parents
    for folder in above:
        if folder.exists() and not folder.is_dir():
            raise click.BadParameter(f"{folder} is a file, so {value} cannot be a folder in it", ctx, param)
    return value


def _layers(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[int | None]:
    """Comma-separated hidden layers, repeated or not: integers, or ``final`` (None) for the model's output."""
    layers: list[int | None] = []
    for part in ",".join(values).split(",") if values else ():
        text = part.strip()
        try:
            layers.append(None if text == "final" else int(text))
        except ValueError:
            message = f"{text!r} is not a layer: an integer (8, -2) or final; several as 8,10,12"
            raise click.BadParameter(message, ctx, param) from None
    repeated = sorted({"final" if layer is None else str(layer) for layer in layers if layers.count(layer) > 1})
    if repeated:
        raise click.BadParameter(f"given twice: {', '.join(repeated)}", ctx, param)
    return layers


def as_json(function: _F) -> _F:
    """``--json``: stdout holds one JSON document and nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")(function)


def number(*flags: str, default: int | None, minimum: int, maximum: int | None = None, text: str) -> Callable[[_F], _F]:
    """A whole number with a lower bound, and perhaps an upper one."""
    return click.option(
        *flags,
        type=click.IntRange(min=minimum, max=maximum),
        default=default,
        show_default=default is not None,
        metavar="INTEGER",
        help=text,
    )


def neighbours(function: _F) -> _F:
    """``-k``, with a long form for files that spell options out."""
    return number("-k", "--k", "k", default=100, minimum=1, text="Neighbours per item; less than the items.")(function)


def eps(function: _F) -> _F:
    """``--eps``."""
    text = "Added to every eigenvalue when whitening; absolute, so it depends on the features' scale."
    flag = click.option(
        "--eps",
        type=float,
        callback=_finite_positive,
        default=1e-4,
        show_default=True,
        metavar="NUMBER",
        help=text,
    )
    return flag(function)


def layers(function: _F) -> _F:
    """``--layers``, which is also called ``--layer``."""
    return click.option(
        "--layers",
        "--layer",
        "layers",
        multiple=True,
        callback=_layers,
        metavar="LAYERS",
        help="Hidden layers, comma-separated or repeated: 8,10,12; final is the model's output.  [default: final]",
    )(function)


def seed(function: _F) -> _F:
    """``--seed``."""
    return number("--seed", default=0, minimum=0, text="Seed of everything random.")(function)


def scheduler(function: _F) -> _F:
    """``--scheduler``."""
    return click.option(
        "--scheduler",
        default="threads",
        show_default=True,
        metavar="threads|processes|ADDRESS",
        help="What computes: this process, several, or a dask.distributed cluster (tcp://host:8786). Same bytes.",
    )(function)


def device(function: _F) -> _F:
    """``--device``."""
    text = "Where the model runs: cpu, cuda, cuda:1, mps."
    return click.option("--device", default="cpu", show_default=True, metavar="NAME", help=text)(function)


class _Folder(click.Path):
    """Where a folder is or can be made: not the empty text, which would be the working directory, nor a dead link."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) == "":
            self.fail("it is empty: give a folder; . is the working directory", param, ctx)
        for place in (Path(value), *Path(value).absolute().parents):
            if place.is_symlink() and not place.exists():
                self.fail(f"{place} is a link to nothing", param, ctx)
        return super().convert(value, param, ctx)


def out_folder(text: str, *, required: bool = True) -> Callable[[_F], _F]:
    """``--out DIR``."""
    return click.option(
        "--out",
        type=_Folder(path_type=Path, file_okay=False),
        callback=_can_be_folder,
        required=required,
        metavar="DIR",
        help=text,
    )


def arrays(kind: Literal["features", "states"], text: str) -> Callable[[_F], _F]:
    """``--features`` or ``--states``: one or more, names completed."""
    return click.option(
        f"--{kind}", multiple=True, required=True, metavar="NAME", shell_complete=complete_names(kind), help=text
    )
