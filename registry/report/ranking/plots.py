"""The plots of the ranking report, each an inline SVG about as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator
from PIL import Image

from optotype.registry.report.lanes import WIDTH, lanes, legend, limits
from optotype.registry.report.ranking.patch_match import PatchMatch
from optotype.registry.report.ranking.rows import COMBINATIONS, combination
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["combination_plot", "heat_plot", "line_plot", "paint_plot", "score_plot", "spectrum_plot"]

_MARKERS = ("o", "s", "D", "^")
_PARTS = (3, 4)  # of an image, rows and columns: one line each
_PIXELS = 192  # longer side of an image in a plot


def score_plot(model: str, table: Sequence[Mapping[str, Any]], marks: Sequence[str], *, name: str) -> str:
    """Scores of one language model's table against chance, with bootstrap intervals and the null's spread."""
    with styled():
        nulls = any(row["null"] for row in table)
        intervals = any(row["interval"] for row in table)
        figure, axes = lanes([row["encoder"] for row in table], 2)
        chance = table[0]["chance"]
        values = [chance]
        axes.axvline(chance, color=COLOURS["muted"], linewidth=1, linestyle=(0, (3, 2)), zorder=0.9)
        for lane, (row, mark) in enumerate(zip(table, marks, strict=True)):
            if row["null"]:
                mean, sd = row["null"]["mean"], row["null"]["sd"]
                axes.barh(lane, 4 * sd, left=mean - 2 * sd, height=0.3, color=COLOURS["shade"], linewidth=0)
                axes.plot([mean, mean], [lane - 0.15, lane + 0.15], color=COLOURS["muted"], linewidth=1)
                values += [mean - 2 * sd, mean + 2 * sd]
            if row["interval"]:
                axes.plot(row["interval"], [lane, lane], color=COLOURS["c1"], linewidth=1.6)
                values += row["interval"]
            face = COLOURS["c1"] if mark != "below" else COLOURS["paper"]
            axes.plot(row["score"], lane, "o", ms=6, mfc=face, mec=COLOURS["c1"], mew=1.4)
            values.append(row["score"])
        limits(axes, values)
        axes.set_xlabel("score", loc="right", labelpad=1)
        dot: dict[str, Any] = {"linestyle": "none", "marker": "o", "mec": COLOURS["c1"], "mew": 1.4, "ms": 6}
        handles: list[Any] = [Line2D([], [], color=COLOURS["muted"], linestyle=(0, (3, 2)), label="chance")]
        if nulls:
            handles.append(Patch(color=COLOURS["shade"], linewidth=0, label="null, mean ± 2 sd"))
        if intervals:
            handles.insert(0, Line2D([], [], mfc=COLOURS["c1"], label="best, or tied with it", **dot))
            handles.insert(1, Line2D([], [], mfc=COLOURS["paper"], label="below the best", **dot))
        else:
            handles.insert(0, Line2D([], [], mfc=COLOURS["c1"], label="score", **dot))
        legend(figure, handles, 2)
        best, last = table[0], table[-1]
        label = (
            f"Scores of {len(table)} encoders with {model}, best first: {best['score']:.3f} ({best['encoder']}) "
            f"to {last['score']:.3f} ({last['encoder']}); chance is {chance:.3f}. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def combination_plot(model: str, encoders: Sequence[str], rows: Sequence[Mapping[str, Any]], *, name: str) -> str:
    """Scores of every encoder with ``model`` under each combination of row normalisations there is."""
    with styled():
        figure, axes = lanes(encoders, 2)
        lane = {encoder: position for position, encoder in enumerate(encoders)}
        present = [wanted for wanted in COMBINATIONS if any(combination(row) == wanted for row in rows)]
        chance = rows[0]["chance"]
        axes.axvline(chance, color=COLOURS["muted"], linewidth=1, linestyle=(0, (3, 2)), zorder=0.9)
        values = [chance]
        handles = []
        for number, wanted in enumerate(present):
            colour = COLOURS[f"c{number + 1}"]
            these = [row for row in rows if combination(row) == wanted]
            style: dict[str, Any] = {
                "linestyle": "none",
                "marker": _MARKERS[number],
                "mec": colour,
                "mew": 1.4,
                "mfc": colour if number == 0 else "none",
                "ms": 5.5,
            }
            lift = 0.07 * (number - (len(present) - 1) / 2)  # equal scores stay apart
            axes.plot([row["score"] for row in these], [lane[row["encoder"]] + lift for row in these], **style)
            handles.append(Line2D([], [], label=f"{wanted[0]} / {wanted[1]}", **style))
            values += [row["score"] for row in these]
        limits(axes, values)
        axes.set_xlabel("score", loc="right", labelpad=1)
        legend(figure, handles, 4, title="features / states")
        label = (
            f"Scores of {len(encoders)} encoders with {model} under {len(present)} combinations of row normalisation "
            f"before whitening; the dashed line is chance, {chance:.3f}. The table holds the numbers."
        )
        return inline_svg(figure, name=name, label=label)


def spectrum_plot(
    before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray], eps: float, *, name: str, label: str
) -> str:
    """Variance per direction before and after whitening, log scale, with ε drawn."""
    with styled():
        figure = Figure(figsize=(WIDTH, 2.5))
        axes = figure.add_axes((0.13, 0.27, 0.83, 0.69))
        axes.set_yscale("log")
        axes.plot(*before, color=COLOURS["c1"], linewidth=1.6, label="before")
        axes.plot(*after, color=COLOURS["c2"], linewidth=1.6, linestyle=(0, (5, 1.5)), label="after")
        axes.axhline(eps, color=COLOURS["muted"], linewidth=1, linestyle=(0, (1, 2)), label=f"ε = {eps:g}")
        axes.yaxis.set_major_locator(LogLocator(10, numticks=6))
        axes.yaxis.set_minor_locator(LogLocator(10, subs=(), numticks=6))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
        axes.margins(x=0.01)
        axes.set_xlabel("direction, largest variance first", loc="right", labelpad=1)
        legend(figure, axes.get_legend_handles_labels()[0], 3)
        return inline_svg(figure, name=name, label=label)


def _pair_axes(height: float = 2.05) -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(WIDTH, height))
    width, edge = 0.45, 0.025  # numbers at the rim of an image stand out by as much
    tall, top = width * WIDTH / height, 1 - edge * WIDTH / height
    panels = [figure.add_axes((left, top - tall, width, tall)) for left in (edge, 1 - edge - width)]
    for axes in panels:
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_visible(True)
    return figure, panels[0], panels[1]


def _caption(axes: Axes, text: str) -> None:
    axes.set_xlabel(text, labelpad=4, fontsize=8.5)


def _picture(axes: Axes, image: Image.Image, grid: int) -> None:
    """``image`` under its patch grid: patch (row, column) covers the unit square at (column, row)."""
    scale = _PIXELS / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    axes.imshow(np.asarray(image.resize(size, Image.Resampling.LANCZOS)), **_over(grid))


def _over(grid: int) -> dict[str, Any]:
    """Options of an image that covers a grid of patches, its first row on top."""
    return {"extent": (0, grid, grid, 0), "interpolation": "none", "aspect": "auto"}


def _centre(patch: int, grid: int) -> tuple[float, float]:
    row, column = divmod(patch, grid)
    return column + 0.5, row + 0.5


def line_plot(match: PatchMatch, images: tuple[Image.Image, Image.Image], *, name: str) -> str:
    """The strongest patch matches as numbered lines from image A to image B."""
    with styled():
        figure, left, right = _pair_axes()
        for axes, image, grid in zip((left, right), images, match.grids, strict=True):
            _picture(axes, image, grid)
            axes.set_xlim(0, grid)
            axes.set_ylim(grid, 0)
        chosen = match.strongest(*_PARTS)
        to_figure = figure.transFigure.inverted()
        for number, patch in enumerate(chosen, start=1):
            ends = []
            for axes, which, grid in (
                (left, patch, match.grids[0]),
                (right, int(match.best_of_a[patch]), match.grids[1]),
            ):
                point = _centre(which, grid)
                ends.append(to_figure.transform(axes.transData.transform(point)))
            xs, ys = zip(*ends, strict=True)
            colour = COLOURS[f"c{(number - 1) % 4 + 1}"]
            figure.add_artist(Line2D(xs, ys, color=COLOURS["paper"], linewidth=2.6, alpha=0.75))
            figure.add_artist(Line2D(xs, ys, color=colour, linewidth=1.3))
            for x, y in ends:
                figure.text(
                    x,
                    y,
                    str(number),
                    fontsize=7,
                    ha="center",
                    va="center_baseline",
                    bbox={"boxstyle": "circle,pad=0.22", "fc": COLOURS["paper"], "ec": colour, "lw": 1},
                )
        _caption(left, "A")
        _caption(right, "B")
        label = (
            f"Image A ({match.items[0]}) and image B ({match.items[1]}): numbered lines join the best match of each of "
            f"{len(chosen)} parts of A, similarity {match.best_a[chosen[0]]:.2f} to {match.best_a[chosen[-1]]:.2f}."
        )
        return inline_svg(figure, name=name, label=label)


def _key(grid: int) -> np.ndarray:
    """One colour per patch of a grid, from its place: hue turns with the angle, saturation grows with the radius."""
    from matplotlib.colors import hsv_to_rgb

    rows, columns = np.divmod(np.arange(grid * grid), grid)
    x, y = (columns + 0.5) / grid * 2 - 1, (rows + 0.5) / grid * 2 - 1
    hue = (np.arctan2(y, x) / (2 * np.pi)) % 1
    radius = np.clip(np.hypot(x, y) / np.sqrt(2), 0, 1)
    rgb: np.ndarray = hsv_to_rgb(np.stack([hue, 0.15 + 0.85 * radius, 0.95 - 0.15 * radius], axis=-1))
    return rgb


def paint_plot(match: PatchMatch, images: tuple[Image.Image, Image.Image], *, name: str) -> str:
    """Each patch of A painted in the colour that its best match has in B."""
    with styled():
        figure, left, right = _pair_axes()
        key = _key(match.grids[1])
        painted = (key[match.best_of_a], key)
        for axes, image, grid, colours in zip((left, right), images, match.grids, painted, strict=True):
            _picture(axes, image.convert("L").convert("RGB"), grid)
            axes.imshow(colours.reshape(grid, grid, 3), alpha=0.72, **_over(grid))
        _caption(left, "A, colour of its match")
        _caption(right, "B, colour by place")
        share = len(set(match.best_of_a.tolist())) / match.grids[1] ** 2
        label = (
            f"Image A ({match.items[0]}) with every patch painted in the colour of its best match in image B "
            f"({match.items[1]}); {share:.0%} of B's patches are somebody's best match."
        )
        return inline_svg(figure, name=name, label=label)


def heat_plot(match: PatchMatch, *, name: str) -> str:
    """The similarity of every patch to its best match in the other image, both ways."""
    with styled():
        figure, left, right = _pair_axes(2.55)
        values = (match.best_a, match.best_b)
        low, high = min(v.min() for v in values), max(v.max() for v in values)
        if high - low < 1e-9:
            low, high = low - 0.5, high + 0.5
        for axes, value, grid in zip((left, right), values, match.grids, strict=True):
            drawn = axes.imshow(value.reshape(grid, grid), vmin=low, vmax=high, cmap="cividis", **_over(grid))
        _caption(left, "patches of A")
        _caption(right, "patches of B")
        bar = figure.colorbar(drawn, cax=figure.add_axes((0.02, 0.11, 0.96, 0.035)), orientation="horizontal")
        bar.outline.set_linewidth(0.6)
        bar.ax.xaxis.set_major_locator(MaxNLocator(6))
        label = (
            f"Heat maps of the similarity of each patch to its best match: A to B mean {match.best_a.mean():.3f}, "
            f"B to A mean {match.best_b.mean():.3f}; their average {match.chamfer:.3f} is the similarity of the pair."
        )
        return inline_svg(figure, name=name, label=label)
