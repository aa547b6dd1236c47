"""Options that the verbs over panels share: compress, frontier, evaluate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import click

from optotype.registry.cli import options
from optotype.registry.cli.project import complete_names
from optotype.schemas.errors import did_you_mean

__all__ = ["SELECTORS", "category_by", "embeddings", "floor", "normalise", "share", "tau", "unknown"]

_F = TypeVar("_F", bound=Callable[..., Any])

# As optotype.pipelines.selectors.selector has them, which is slow to import; a test compares the two.
SELECTORS = (
    "vaw",
    "variance",
    "random",
    "disco",
    "datbench",
    "irt-2pl",
    "anchor-points",
    "tiny-anchors",
    "tiny-irt-anchors",
    "p-irt",
    "gp-irt",
    "dpp",
    "shares-only",
    "random-partition",
    "text-cells",
)


def unknown(name: str, allowed: Sequence[str]) -> str:
    """What to say of a name that is not allowed: the one that was meant, and all that are."""
    hint = did_you_mean(name, allowed)
    return f"{name!r} is not one of {', '.join(allowed)}." + (f" {hint}" if hint.startswith("Did") else "")


def share(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A number above 0 and at most 1, written as a decimal or a fraction: 2/3 is the nearest float."""
    if value is None:
        return None
    try:
        number = float(Fraction(value.replace(" ", "")))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise click.BadParameter(f"{value!r} is not a number such as 0.05 or 2/3", ctx, param) from None
    if not 0 < number <= 1:
        raise click.BadParameter(f"{value} is not above 0 and at most 1", ctx, param)
    return number


def tau(text: str) -> Callable[[_F], _F]:
    """``--tau``."""
    return click.option("--tau", callback=share, default="2/3", show_default=True, metavar="NUMBER", help=text)


category_by = click.option(
    "--category-by",
    default="category",
    show_default=True,
    metavar="category|benchmark|COLUMN",
    help="What groups benchmarks: a column of the items table, or each benchmark by itself.",
)
embeddings = click.option(
    "--embeddings",
    metavar="NAME",
    shell_complete=complete_names("embeddings"),
    help="Item embeddings: name, path or URL. Without them items are kept by score alone.",
)
floor = options.number(
    "--floor", default=100, minimum=0, text="Items that a category keeps whatever the retention says."
)
normalise = click.option(
    "--normalise",
    type=click.Choice(["none", "zscore"]),
    default="none",
    show_default=True,
    help="Category scores before they are averaged: in [0, 1], or z-scored (where models lack categories).",
)
