"""The plots of the evaluation report, each an inline SVG about as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator

from optotype.registry.report.formats import count
from optotype.registry.report.lanes import WIDTH, lanes, legend, limits
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["curve_plot", "difference_plot", "left_out_plot", "rho_limits", "shelf_plot"]

_DASHED = (0, (3, 2))

Row = Mapping[str, Any]


def rho_limits(rows: Sequence[Row]) -> tuple[float, float]:
    """One scale for the curves of all selectors: their means and spreads, and a little more."""
    ends = [row["mean"] + side * (row["sd"] or 0) for row in rows if row["mean"] is not None for side in (-1, 1)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    margin = 0.05 * (high - low) or 0.05
    return max(-1.0, low - margin), min(1.0, high + margin)


def curve_plot(
    selector: str, rows: Sequence[Row], baseline: Sequence[Row], span: tuple[float, float], *, name: str
) -> str:
    """Mean ρ of a selector by retention with a band of one sd, over the same of the baseline.

    Parameters
    ----------
    selector : str
    rows, baseline : sequence of mappings
        Of the summary, by rising retention; the baseline's may be none, or those of the selector itself.
    span : (float, float)
        Of the ρ axis.
    """
    with styled():
        figure = Figure(figsize=(WIDTH, 2.35))
        axes = figure.add_axes((0.155, 0.35, 0.82, 0.62))
        own = [row for row in rows if row["mean"] is not None]
        other = [row for row in baseline if row["mean"] is not None] if selector != _name(baseline) else []
        _band(axes, other, "muted", "s", 0.22, _name(baseline))
        _band(axes, own, "c1", "o", 0.25, selector)
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(
            [row["retention"] for row in rows],
            [f"{100 * row['retention']:g} %\nK {count(row['K'])}" for row in rows],
            fontsize=7.5 if len(rows) > 4 else 8.5,
        )
        if len(rows) == 1:
            axes.set_xlim(rows[0]["retention"] / 2, rows[0]["retention"] * 2)
        axes.set_ylim(*span)
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("mean ρ", loc="top", labelpad=2)
        legend(figure, axes.get_legend_handles_labels()[0], 2)
        told = [f"{row['mean']:.3f} at {100 * row['retention']:g} %" for row in own]
        label = (
            f"Mean ρ of {selector} on held-out models: {', '.join(told) or 'undefined'}. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def _name(rows: Sequence[Row]) -> str:
    return str(rows[0]["selector"]) if rows else ""


def _band(axes: Axes, rows: Sequence[Row], colour: str, marker: str, alpha: float, label: str) -> None:
    if not rows:
        return
    x = np.array([row["retention"] for row in rows])
    mean, sd = (np.array([row[key] or 0.0 for row in rows]) for key in ("mean", "sd"))
    ink = COLOURS[colour]
    if sd.any():
        axes.fill_between(x, mean - sd, mean + sd, color=ink, alpha=alpha, linewidth=0)
        if len(rows) == 1:
            axes.plot([x[0], x[0]], [mean[0] - sd[0], mean[0] + sd[0]], color=ink, linewidth=1.4)
    style: Any = "-" if colour == "c1" else _DASHED
    axes.plot(x, mean, color=ink, marker=marker, ms=4.5, linewidth=1.6, linestyle=style, label=label)


def difference_plot(rows: Sequence[Row], baseline: str, *, name: str) -> str:
    """Bootstrap interval of each selector's ρ minus the baseline's."""
    with styled():
        figure, axes = lanes([row["selector"] for row in rows], 0)
        axes.axvline(0, color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        values = [0.0]
        for lane, row in enumerate(rows):
            ends = [row["low"], row["high"]]
            clear = ends[0] > 0 or ends[1] < 0
            axes.plot(ends, [lane, lane], color=COLOURS["c1"], linewidth=1.8)
            face = COLOURS["c1"] if clear else COLOURS["paper"]
            axes.plot(row["gap"], lane, "o", ms=6, mfc=face, mec=COLOURS["c1"], mew=1.4)
            values += [*ends, row["gap"]]
        limits(axes, values)
        axes.set_xlabel(f"ρ minus that of {baseline}", loc="right", labelpad=1)
        off = [row["selector"] for row in rows if row["low"] > 0 or row["high"] < 0]
        label = (
            f"Bootstrap intervals of ρ minus that of {baseline} for {len(rows)} selectors; those of "
            f"{', '.join(off) or 'none'} exclude 0. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def left_out_plot(rows: Sequence[Row], mean: Sequence[Row], *, name: str) -> str:
    """Error of the prediction of each left-out benchmark by number of training models, and the mean over them."""
    with styled():
        figure = Figure(figsize=(WIDTH, 2.75))
        axes = figure.add_axes((0.145, 0.3, 0.83, 0.67))
        targets = list(dict.fromkeys(row["target"] for row in rows))
        for target in targets:
            own = [row for row in rows if row["target"] == target]
            axes.plot(
                [row["training"] for row in own], [row["mae"] for row in own], color=COLOURS["shade"], linewidth=1.2
            )
        x = [row["training"] for row in mean]
        axes.plot(x, [row["mae"] for row in mean], "o-", color=COLOURS["c1"], ms=4.5, linewidth=1.8)
        axes.plot(
            x, [row["mae_of_mean"] for row in mean], "s", color=COLOURS["c2"], ms=4, linewidth=1.4, linestyle=_DASHED
        )
        sizes = sorted({row["training"] for row in rows})
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("training models", loc="right", labelpad=1)
        axes.set_ylabel("mean absolute error", loc="top", labelpad=2)
        handles = [
            Line2D([], [], color=COLOURS["c1"], marker="o", ms=4.5, linewidth=1.8, label="Ridge, mean"),
            Line2D([], [], color=COLOURS["shade"], linewidth=1.2, label="each benchmark"),
            Line2D([], [], color=COLOURS["c2"], marker="s", ms=4, linestyle=_DASHED, label="training mean alone"),
        ]
        legend(figure, handles, 2)
        ends = f"{mean[0]['mae']:.3f} with {x[0]} to {mean[-1]['mae']:.3f} with {x[-1]} training models" if mean else ""
        label = f"Error of predicting {len(targets)} left-out benchmarks: {ends}. The table holds the numbers."
        return inline_svg(figure, name=name, label=label)


def shelf_plot(rows: Sequence[Row], *, name: str) -> str:
    """ρ of the frozen subset, of the best one and of the average one, as the panel grows."""
    with styled():
        figure = Figure(figsize=(WIDTH, 2.5))
        axes = figure.add_axes((0.155, 0.29, 0.82, 0.68))
        looks = (
            ("best_subset_rho", "best, refitted", "c3", "D", "-"),
            ("rho", "frozen", "c1", "o", "-"),
            ("mean_subset_rho", "average subset", "muted", "s", _DASHED),
        )
        for key, words, colour, marker, line in looks:
            there = [row for row in rows if row[key] is not None]
            style: Any = line
            axes.plot(
                [row["models"] for row in there], [row[key] for row in there], color=COLOURS[colour], marker=marker,
                ms=4.5, linewidth=1.6, linestyle=style, label=words,
            )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel("dated models, oldest first", loc="right", labelpad=1)
        axes.set_ylabel("ρ", loc="top", labelpad=2)
        legend(figure, axes.get_legend_handles_labels()[0], 3)
        told = [f"{row['rho']:.3f} over {row['models']}" for row in rows if row["rho"] is not None]
        label = f"ρ of the frozen subset as the panel grows: {', '.join(told)} models. The table holds the numbers."
        return inline_svg(figure, name=name, label=label)
