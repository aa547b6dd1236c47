"""The plots of a judgement, each an inline SVG about as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from optotype.registry.report.lanes import WIDTH, lanes, legend, shortened
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["AXES", "cost_plot", "forest_plot", "points_plot", "pool_plot", "sensitivity_plot"]

AXES = {"k": "neighbours k", "eps": "ε", "gamma": "γ", "n": "items n", "layer": "layer"}
_LOG = ("k", "eps", "n")
_DASHED: Any = (0, (3, 2))
_LOOKS = (("c2", "s"), ("c3", "D"), ("c4", "^"))
_MOST_TICKS = 7
_NEAR = 8.5  # points: a number further from its point has a line to it

Row = Mapping[str, Any]


def forest_plot(rows: Sequence[Row], over: str, *, name: str) -> str:
    """ρ of each metric with its interval, and r; one lane a metric, in the order given."""
    with styled():
        figure, axes = lanes([row["metric"] for row in rows], 1)
        axes.axvline(0, color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        for lane, row in enumerate(rows):
            if row["rho"] is None:
                continue
            if row["rho_low"] is not None:
                axes.plot([row["rho_low"], row["rho_high"]], [lane, lane], color=COLOURS["c1"], linewidth=1.8)
            axes.plot(row["rho"], lane, "o", ms=6, color=COLOURS["c1"])
            if row["r"] is not None:
                axes.plot(row["r"], lane, "D", ms=4.5, mfc=COLOURS["paper"], mec=COLOURS["c2"], mew=1.3)
        axes.set_xlim(-1.05, 1.05)
        axes.xaxis.set_major_locator(FixedLocator([-1, -0.5, 0, 0.5, 1]))
        handles = [
            Line2D([], [], color=COLOURS["c1"], marker="o", ms=6, linewidth=1.8, label="ρ and its interval"),
            Line2D([], [], marker="D", ms=4.5, mfc=COLOURS["paper"], mec=COLOURS["c2"], mew=1.3, ls="", label="r"),
        ]
        legend(figure, handles, 2)
        told = [f"{row['metric']} {row['rho']:.2f}" for row in rows if row["rho"] is not None]
        return inline_svg(
            figure, name=name, label=f"ρ by metric, {over}: {', '.join(told)}. The table holds the numbers."
        )


def pool_plot(own: Sequence[Row], others: Sequence[Sequence[Row]], low: float, *, name: str) -> str:
    """Mean ρ over random pools by their size, with the spread between pools; the other metrics in grey."""
    with styled():
        figure = Figure(figsize=(WIDTH, 2.2))
        axes = figure.add_axes((0.155, 0.205, 0.82, 0.675))
        for line in others:
            _line(axes, line, COLOURS["shade"], "", 1.1)
        x = np.array([row["x"] for row in own], dtype=float)
        ends = [np.array([row[end] for row in own], dtype=float) for end in ("rho_low", "rho_high")]
        axes.fill_between(x, ends[0], ends[1], color=COLOURS["c1"], alpha=0.18, linewidth=0)
        _line(axes, own, COLOURS["c1"], "o" if len(own) <= 12 else "", 1.8)
        axes.set_ylim(low, 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("encoders in the pool", loc="right", labelpad=1)
        _over(axes, "mean ρ")
        first, last = own[0], own[-1]
        label = (
            f"Mean ρ of {own[0]['metric']} over random pools: {first['rho']:.3f} with {first['x']:g} encoders, "
            f"{last['rho']:.3f} with {last['x']:g}. curves.csv holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def sensitivity_plot(curve: str, rows: Sequence[Row], models: Sequence[str], *, name: str) -> str:
    """ρ by one setting: the mean over language models with its interval, and each language model."""
    with styled():
        figure = Figure(figsize=(WIDTH, 2.7))
        shown = models if len(models) > 1 else []
        lines = 1 + (len(shown) + 1 + 1) // 2 if shown else 1
        bottom = 0.3 + 0.07 * (lines - 1)
        axes = figure.add_axes((0.155, bottom, 0.82, 0.9 - bottom))
        spread = "mean" if any(row["model"] == "mean" for row in rows) else models[0]
        main = [row for row in rows if row["model"] == spread]
        x = np.array([row["x"] for row in main], dtype=float)
        if main and all(row["rho_low"] is not None for row in main):
            ends = [np.array([row[end] for row in main], dtype=float) for end in ("rho_low", "rho_high")]
            axes.fill_between(x, ends[0], ends[1], color=COLOURS["c1"], alpha=0.16, linewidth=0)
        for at, model in enumerate(shown):
            colour, marker = _LOOKS[at] if at < len(_LOOKS) else ("muted", "v")
            _line(axes, [row for row in rows if row["model"] == model], COLOURS[colour], marker, 1.2, model)
        _line(axes, main, COLOURS["c1"], "o", 2, "mean and its interval" if shown else spread)
        values = sorted({float(row["x"]) for row in rows})
        if curve in _LOG and values[0] > 0:
            axes.set_xscale("log")
        if len(values) <= _MOST_TICKS:
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(AXES[curve], loc="right", labelpad=1)
        _over(axes, "ρ")
        handles = axes.get_legend_handles_labels()[0]
        legend(figure, [handles[-1], *handles[:-1]], 2)
        told = [f"{row['rho']:.3f} at {row['x']:g}" for row in main]
        label = f"ρ of {rows[0]['metric']} by {AXES[curve]}: {', '.join(told)}. curves.csv holds the numbers."
        return inline_svg(figure, name=name, label=label)


def cost_plot(rows: Sequence[Row], *, name: str) -> str:
    """ρ by FLOPs, both ends of the scale as they come; each point bears the number of its line in the table."""
    with styled():
        figure = Figure(figsize=(WIDTH, 3.1))
        axes = figure.add_axes((0.155, 0.145, 0.82, 0.77))
        axes.set_xscale("log")
        x, y = (np.array([row[key] for row in rows], dtype=float) for key in ("x", "rho"))
        axes.set_xlim(x.min() / 2.5, x.max() * 2.5)
        low, high = min(0.0, float(y.min())), max(0.0, float(y.max()))
        margin = 0.09 * (high - low) or 0.1
        axes.set_ylim(low - margin, high + margin)
        axes.axhline(0, color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        for at, (left, up) in zip(range(1, len(rows) + 1), _apart(axes, x, y), strict=True):
            axes.plot(x[at - 1], y[at - 1], "o", ms=3.5, color=COLOURS["c1"], zorder=2.2)
            axes.annotate(
                str(at), (x[at - 1], y[at - 1]), (left, up), textcoords="offset points", ha="center", va="center",
                fontsize=8.5, color=COLOURS["ink"], zorder=3,
                arrowprops={"arrowstyle": "-", "lw": 0.6, "color": COLOURS["muted"], "shrinkA": 4, "shrinkB": 2}
                if np.hypot(left, up) > _NEAR else None,
            )  # fmt: skip
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.set_xlabel("FLOPs", loc="right", labelpad=1)
        _over(axes, "mean ρ")
        told = [f"{row['metric']} {row['x']:.2g} FLOPs, ρ {row['rho']:.2f}" for row in rows]
        return inline_svg(figure, name=name, label=f"ρ by FLOPs: {'; '.join(told)}. The table holds the numbers.")


def _apart(axes: Axes, x: Any, y: Any) -> list[tuple[float, float]]:
    """Where the number of each point stands, in points from it: the first of eight places that no other thing takes."""
    width, height = (72 * side for side in (WIDTH * 0.82, 3.1 * 0.77))
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    places = np.column_stack(
        [
            (np.log(x) - np.log(left)) / (np.log(right) - np.log(left)) * width,
            (y - low) / (high - low) * height,
        ]
    )
    tried = [
        (r * np.cos(a), r * np.sin(a)) for r in (8, 13, 19) for a in np.pi / 4 * np.array([2, 0, 4, 6, 1, 3, 5, 7])
    ]
    taken: list[Any] = []
    found = []
    for place in places:
        best, room = (0.0, 8.0), -1.0
        for step in tried:
            spot = place + step
            gaps = [np.hypot(*((spot - other) * (1, 1.1))) for other in [*places, *taken]]
            free = min(min(gaps), 9.0)
            inside = 4 < spot[0] < width - 4 and 4 < spot[1] < height - 4
            if inside and free > room + 1e-9:
                best, room = (float(step[0]), float(step[1])), free
        taken.append(place + best)
        found.append(best)
    return found


def points_plot(points: Sequence[Row], row: Row, *, name: str) -> str:
    """Outcome by score, a point an encoder; the table names them."""
    with styled():
        figure = Figure(figsize=(WIDTH, 2.5))
        axes = figure.add_axes((0.175, 0.185, 0.8, 0.71))
        x, y = (np.array([point[key] for point in points], dtype=float) for key in ("score", "downstream"))
        axes.plot(x, y, "o", ms=5.5, color=COLOURS["c1"], alpha=0.85)
        axes.margins(0.09)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(shortened(f"score by {row['metric']}"), loc="right", labelpad=1)
        _over(axes, "downstream")
        label = (
            f"Downstream by score of {row['metric']} for {row['model']}, {len(points)} encoders: ρ {row['rho']:.3f}, "
            f"r {row['r']:.3f}. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def _over(axes: Axes, words: str) -> None:
    """What the y axis tells, above its upper end: beside it, it would stand on the top tick."""
    axes.annotate(
        words, (0, 1), (-4, 5), xycoords="axes fraction", textcoords="offset points", ha="left", va="bottom",
        fontsize=8.5, color=COLOURS["ink"], annotation_clip=False,
    )  # fmt: skip


def _line(axes: Axes, rows: Sequence[Row], colour: str, marker: str, width: float, label: str | None = None) -> None:
    there = [row for row in rows if row["rho"] is not None]
    axes.plot(
        [row["x"] for row in there], [row["rho"] for row in there], color=colour, marker=marker or None, ms=4.5,
        linewidth=width, label=label,
    )  # fmt: skip
