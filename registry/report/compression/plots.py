"""The plots of the compression report, each an inline SVG about as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from optotype.registry.report.compression.probes import CHANCE
from optotype.registry.report.formats import count
from optotype.registry.report.lanes import WIDTH, lanes, legend, limits
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["CHANCE", "candidate_plot", "family_plot", "funnel_plot", "probe_plot", "rank_plot"]

_DASHED = (0, (3, 2))
_MARKERS = ("o", "s", "D", "^")


def funnel_plot(stages: Sequence[Mapping[str, Any]], *, name: str) -> str:
    """Items before the first stage and after each."""
    sizes = [stages[0]["items_in"], *(stage["items_out"] for stage in stages)]
    words = [
        f"all: {count(sizes[0])} items",
        *(f"after stage {stage['stage']}: {count(stage['items_out'])} items" for stage in stages),
    ]
    with styled():
        figure, axes = lanes(words, 0)
        for lane, size in enumerate(sizes):
            colour = COLOURS["shade"] if lane == 0 else COLOURS["c1"]
            axes.barh(lane, size, height=0.3, color=colour, linewidth=0)
        axes.set_xlim(0, sizes[0] * 1.02)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: count(value)))
        axes.set_xlabel("items", loc="right", labelpad=1)
        label = "Items left after each stage: " + "; ".join(words) + "."
        return inline_svg(figure, name=name, label=label)


def candidate_plot(rows: Sequence[Mapping[str, Any]], target: float, *, name: str) -> str:
    """ρ of every candidate against its category mean, of the one that was chosen, and with its supplements."""
    with styled():
        figure, axes = lanes([row["category"] for row in rows], 2)
        axes.axvline(target, color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        values = [target]
        ring: dict[str, Any] = {"linestyle": "none", "marker": "o", "mew": 1.4, "ms": 5.5, "mec": COLOURS["c1"]}
        diamond: dict[str, Any] = {"linestyle": "none", "marker": "D", "mew": 1.4, "ms": 5.5, "mec": COLOURS["c2"]}
        for lane, row in enumerate(rows):
            found = [rho for rho in row["candidates"].values() if rho is not None]
            axes.plot(found, [lane] * len(found), mfc=COLOURS["paper"], **ring)
            if row["rho"] is not None:
                if row["supplements"] and row["rho_pooled"] is not None:
                    axes.plot([row["rho"], row["rho_pooled"]], [lane, lane], color=COLOURS["c2"], linewidth=1)
                    axes.plot(row["rho_pooled"], lane, mfc="none", **diamond)
                    found.append(row["rho_pooled"])
                axes.plot(row["rho"], lane, mfc=COLOURS["c1"], **ring)
            values += found
        limits(axes, values)
        axes.set_xlabel("ρ against the category mean", loc="right", labelpad=1)
        handles = [
            Line2D([], [], label="representative", mfc=COLOURS["c1"], **ring),
            Line2D([], [], label="other candidate", mfc=COLOURS["paper"], **ring),
            Line2D([], [], label="with supplements", mfc="none", **diamond),
            Line2D([], [], label=f"target {target:g}", color=COLOURS["muted"], linestyle=_DASHED),
        ]
        legend(figure, handles, 2)
        label = (
            f"ρ of the benchmarks of {len(rows)} categories against the category mean, and of the representative with "
            "its supplements. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def rank_plot(rows: Sequence[Mapping[str, Any]], numbered: int, *, words: tuple[str, str], name: str) -> str:
    """Rank before against rank after; the first ``numbered`` rows carry their number."""
    with styled():
        figure = Figure(figsize=(WIDTH, WIDTH))
        axes = figure.add_axes((0.11, 0.115, 0.86, 0.86))
        most = len(rows)
        axes.plot([1, most], [1, most], color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        rest = rows[numbered:]
        axes.plot(
            [row["rank_before"] for row in rest],
            [row["rank_after"] for row in rest],
            "o", ms=5, mfc=COLOURS["c1"], mec=COLOURS["paper"], mew=0.6,
        )  # fmt: skip
        for number, row in enumerate(rows[:numbered], start=1):
            x, y = row["rank_before"], row["rank_after"]
            axes.plot([x, x], [x, y], color=COLOURS["c2"], linewidth=1)
            axes.plot(x, y, "o", ms=5.5, mfc=COLOURS["c2"], mec=COLOURS["paper"], mew=0.6)
            up = y < x
            axes.annotate(
                str(number), (x, y), xytext=(0, 4 if up else -4), textcoords="offset points", ha="center",
                va="bottom" if up else "top", fontsize=8.5,
            )  # fmt: skip
        margin = 0.06 * most
        axes.set_xlim(1 - margin, most + margin)
        axes.set_ylim(most + margin, 1 - margin)
        ticks = [tick for tick in MaxNLocator(6, integer=True).tick_values(1, most) if 1 < tick <= most]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator([1, *ticks]))
        axes.set_xlabel(f"rank on {words[0]}", loc="right", labelpad=2)
        axes.set_ylabel(f"rank on {words[1]}", loc="top", labelpad=2)
        still = sum(row["move"] == 0 for row in rows)
        label = (
            f"Ranks of {most} models on {words[0]} and on {words[1]}: {still} keep their place, the largest move is "
            f"{abs(rows[0]['move']):g} places. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def family_plot(rows: Sequence[Mapping[str, Any]], *, name: str) -> str:
    """Mean score of every family on all items and on those of the frontier."""
    with styled():
        figure, axes = lanes([f"{row['family']} ({row['models']})" for row in rows], 1)
        dot: dict[str, Any] = {"linestyle": "none", "marker": "o", "mec": COLOURS["c1"], "mew": 1.4, "ms": 6}
        axes.axvline(0.5, color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        values = [0.0, 0.5]
        for lane, row in enumerate(rows):
            there = [row[side] for side in ("all_items", "frontier") if row[side] is not None]
            axes.plot(there, [lane] * len(there), color=COLOURS["c1"], linewidth=1)
            for side, face in (("all_items", COLOURS["paper"]), ("frontier", COLOURS["c1"])):
                if row[side] is not None:
                    axes.plot(row[side], lane, mfc=face, **dot)
            values += there
        limits(axes, values)
        axes.set_xlabel("mean score", loc="right", labelpad=1)
        handles = [
            Line2D([], [], mfc=COLOURS["paper"], label="all items", **dot),
            Line2D([], [], mfc=COLOURS["c1"], label="frontier items", **dot),
        ]
        legend(figure, handles, 2)
        label = f"Mean scores of {len(rows)} families on all items and on the frontier. The table holds the numbers."
        return inline_svg(figure, name=name, label=label)


def probe_plot(
    kind: str,
    encoders: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    styles: Sequence[tuple[str, str]],
    untrained: str | None,
    span: tuple[float, float],
    *,
    name: str,
) -> str:
    """Accuracy of every probe on one kind of wrong answers, a lane for each encoder and one for the blind runs."""
    with styled():
        blind = [row for row in rows if row["modality"] == "blind"]
        words = [f"{encoder}, never trained" if encoder == untrained else encoder for encoder in encoders]
        figure, axes = lanes([*words, *(["blind runs, options alone"] if blind else [])], (len(styles) + 3) // 2)
        axes.axvline(CHANCE, color=COLOURS["muted"], linewidth=1, linestyle=_DASHED, zorder=0.9)
        handles: list[Any] = []
        for number, (model, probe) in enumerate(styles):
            colour = COLOURS[f"c{number % 4 + 1}"]
            look: dict[str, Any] = {
                "linestyle": "none", "marker": _MARKERS[number % 4], "mec": colour, "mew": 1.4, "ms": 5.5,
                "mfc": colour if number % 2 == 0 else "none",
            }  # fmt: skip
            lift = 0.07 * (number - (len(styles) - 1) / 2)
            found = [row for row in rows if (row["language_model"], row["probe"]) == (model, probe)]
            found = [row for row in found if row["encoder"] in encoders]
            axes.plot(
                [row["accuracy"] for row in found], [encoders.index(row["encoder"]) + lift for row in found], **look
            )
            handles.append(Line2D([], [], label=f"{model}, {probe}", **look))
        if blind:
            look = {"linestyle": "none", "marker": "o", "mec": COLOURS["muted"], "mfc": "none", "mew": 1.2, "ms": 5}
            axes.plot([row["accuracy"] for row in blind], [len(encoders)] * len(blind), **look)
            handles.append(Line2D([], [], label="blind run", **look))
        handles.append(Line2D([], [], color=COLOURS["muted"], linestyle=_DASHED, label="chance"))
        axes.set_xlim(*span)
        axes.set_xlabel("accuracy", loc="right", labelpad=1)
        legend(figure, handles, 2)
        seen = [row["accuracy"] for row in rows if row["modality"] == "image"]
        runs = f", and of {len(blind)} blind runs" if blind else ""
        label = (
            f"Accuracy with {kind} wrong answers of {len(seen)} probes, {min(seen):.3f} to {max(seen):.3f}, by encoder"
            f"{runs}; chance is {CHANCE:g}. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)
