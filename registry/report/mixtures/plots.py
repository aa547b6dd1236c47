"""The plot of a sweep, an inline SVG about as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from optotype.registry.report.lanes import WIDTH, legend
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["sweep_plot"]

_DASHED = (0, (3, 2))


def sweep_plot(sweep: Mapping[str, Any], *, name: str) -> str:
    """Score by SSL ratio with its bootstrap interval; the interleaved mixture as a level."""
    points, level = sweep["additive"], sweep["interleaved"]
    with styled():
        figure = Figure(figsize=(WIDTH, 2.6))
        axes = figure.add_axes((0.205, 0.31, 0.755, 0.66))
        axes.set_xlim(-0.04, 1.04)
        if level is not None:
            if level["low"] is not None:
                axes.axhspan(level["low"], level["high"], color=COLOURS["c2"], alpha=0.13, linewidth=0)
            style: Any = _DASHED
            axes.axhline(level["score"], color=COLOURS["c2"], linewidth=1.6, linestyle=style, label="interleaved")
        if points:
            x, y = (np.array([point[key] for point in points]) for key in ("ssl_ratio", "score"))
            if all(point["low"] is not None for point in points):
                low, high = (np.array([point[key] for point in points]) for key in ("low", "high"))
                axes.fill_between(x, low, high, color=COLOURS["c1"], alpha=0.2, linewidth=0)
            axes.plot(x, y, "o-", color=COLOURS["c1"], ms=4.5, linewidth=1.6, label="additive")
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0\nA alone", "0.25", "0.5", "0.75", "1\nB alone"])
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel("RAVEL score", loc="top", labelpad=2)
        axes.set_xlabel("SSL ratio, 1 − α", labelpad=-8)
        legend(figure, axes.get_legend_handles_labels()[0], 2)
        told = [f"{point['score']:.4f} at {point['ssl_ratio']:g}" for point in points]
        told += [f"{level['score']:.4f} interleaved"] if level is not None else []
        label = (
            f"Score of mixtures of {sweep['a']} and {sweep['b']} against {sweep['model']} by SSL ratio: "
            f"{', '.join(told)}. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)
