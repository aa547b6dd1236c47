"""The plots of retrieval, each an inline SVG about as wide as a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from optotype.registry.report.lanes import WIDTH, lanes, legend, limits
from optotype.registry.report.retrieval.tables import LANGUAGES, TASKS
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["difference_plot", "language_plot"]

_DASHED = (0, (3, 2))
_LOOKS = (("c1", "o"), ("c2", "s"), ("c3", "D"), ("c4", "^"))

Row = Mapping[str, Any]


def language_plot(
    lines: Sequence[tuple[str, Sequence[Row]]], chance: Mapping[str, float], top: float, *, name: str, what: str
) -> str:
    """P@1 by language, with its interval; one mark for each style, the level of chance below.

    Parameters
    ----------
    lines : sequence of (style, rows)
        Means of each style, by language, in one order.
    chance : mapping of str to float
        By language.
    top : float
        Where the axis ends: the same in all plots of a page.
    what : str
        For those who cannot see it: what is plotted.
    """
    with styled():
        figure = Figure(figsize=(WIDTH, 2.5))
        axes = figure.add_axes((0.115, 0.26, 0.86, 0.71))
        languages = list(chance)
        handles: list[Any] = []
        for number, (words, rows) in enumerate(lines):
            colour, marker = _LOOKS[number % len(_LOOKS)]
            ink, shift = COLOURS[colour], 0.16 * (number - (len(lines) - 1) / 2)
            for row in rows:
                x = languages.index(row["language"]) + shift
                if row["low"] is not None:
                    axes.plot([x, x], [row["low"], row["high"]], color=ink, linewidth=1.6, solid_capstyle="butt")
                axes.plot(x, row["value"], marker, color=ink, ms=5, mec=COLOURS["paper"], mew=0.6)
            handles.append(Line2D([], [], color=ink, marker=marker, ms=5, linewidth=1.6, label=words))
        for place, language in enumerate(languages):
            ends = [place - 0.36, place + 0.36]
            axes.plot(ends, [chance[language]] * 2, color=COLOURS["muted"], linewidth=1.1, linestyle=_DASHED)
        style: Any = _DASHED
        handles.append(Line2D([], [], color=COLOURS["muted"], linewidth=1.1, linestyle=style, label="by chance"))
        axes.set_xlim(-0.5, len(languages) - 0.5)
        axes.set_ylim(0, top)
        axes.set_xticks(range(len(languages)), [LANGUAGES.get(language, language) for language in languages])
        axes.grid(axis="x", visible=False)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.set_ylabel("P@1, %", loc="top", labelpad=2)
        legend(figure, handles, 3)
        told = []
        for words, rows in lines:
            told.append(f"{words} " + ", ".join(f"{row['value']:.1f} {row['language']}" for row in rows))
        return inline_svg(figure, name=name, label=f"{what}: {'; '.join(told)} percent. The table holds the numbers.")


def difference_plot(rows: Sequence[Row], *, name: str, what: str) -> str:
    """Interval of each difference; filled where it excludes 0.

    Parameters
    ----------
    rows : sequence of mappings
        Contrasts over all languages.
    what : str
        Of what the differences are.
    """
    with styled():
        names = [f"{row['language_model']}, {TASKS.get(row['task'], row['task'])}" for row in rows]
        if len({row["fitted_on"] for row in rows}) > 1:
            names = [f"{text}, on {row['fitted_on']}" for text, row in zip(names, rows, strict=True)]
        figure, axes = lanes(names, 0)
        style: Any = _DASHED
        axes.axvline(0, color=COLOURS["muted"], linewidth=1, linestyle=style, zorder=0.9)
        values = [0.0]
        for lane, row in enumerate(rows):
            clear = False
            if row["low"] is not None:
                axes.plot([row["low"], row["high"]], [lane, lane], color=COLOURS["c1"], linewidth=1.8)
                clear = row["low"] > 0 or row["high"] < 0
                values += [row["low"], row["high"]]
            face = COLOURS["c1"] if clear else COLOURS["paper"]
            axes.plot(row["value"], lane, "o", ms=6, mfc=face, mec=COLOURS["c1"], mew=1.4)
            values.append(row["value"])
        limits(axes, values)
        axes.set_xlabel("percentage points", loc="right", labelpad=1)
        told = [f"{text} {row['value']:.1f}" for text, row in zip(names, rows, strict=True)]
        return inline_svg(figure, name=name, label=f"{what}: {'; '.join(told)}. The table holds the numbers.")
