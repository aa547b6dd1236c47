"""Plots with one lane per name, and what all plots of the reports share: their width, limits and legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from optotype.registry.report.svg import COLOURS

__all__ = ["WIDTH", "lanes", "legend", "limits", "shortened"]

WIDTH = 3.7  # inches, 266 points: on a phone, where it fills 358 px, text of 8.5 points is 11 px high
_LANE = 0.36


def shortened(name: str, most: int = 40) -> str:
    """``name``, its middle left out where it is long."""
    return name if len(name) <= most else f"{name[: most - 16]}…{name[-15:]}"


def lanes(names: Sequence[str], legend_rows: int) -> tuple[Figure, Axes]:
    """A figure with one lane per name, first on top; names stand over their lanes, so they may be long."""
    body = _LANE * len(names)
    top, bottom = 0.08, 0.5 + 0.2 * legend_rows
    height = top + body + bottom
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.035, bottom / height, 0.93, body / height))
    axes.set_ylim(len(names) - 0.3, -0.7)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    for lane, name in enumerate(names):
        axes.annotate(
            shortened(name),
            (0, lane - 0.36),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8.5,
            color=COLOURS["ink"],
            bbox={"boxstyle": "square,pad=0.15", "fc": COLOURS["paper"], "ec": "none"},
            zorder=1.5,  # over the grid, under the marks
        )
    return figure, axes


def limits(axes: Axes, values: Sequence[float]) -> None:
    """The x axis from the least to the largest value, and a little further on both sides."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.01
    axes.set_xlim(low - margin, high + margin)


def legend(figure: Figure, handles: Sequence[Any], columns: int, title: str | None = None) -> None:
    """A legend below the axes."""
    figure.legend(
        handles=handles,
        loc="lower left",
        ncols=columns,
        bbox_to_anchor=(0.0, 0.0),
        borderaxespad=0.2,
        columnspacing=1.0,
        handlelength=1.4,
        handletextpad=0.4,
        title=title,
        title_fontsize=8.5,
        alignment="left",
    )
