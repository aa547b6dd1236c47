"""Matplotlib figures as inline SVG that follows the page: its colours, its font, its light and dark scheme."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

__all__ = ["COLOURS", "inline_svg", "styled"]

# Matplotlib knows no CSS variables: it draws with these stand-ins, and inline_svg puts the variables in.
COLOURS = {
    "ink": "#010101",
    "muted": "#010102",
    "rule": "#010103",
    "paper": "#010104",
    "shade": "#010105",
    "c1": "#010106",
    "c2": "#010107",
    "c3": "#010108",
    "c4": "#010109",
}
_VARIABLE = {value: f"var(--{name})" for name, value in COLOURS.items()}
_STAND_IN = re.compile("|".join(_VARIABLE))
_ID = re.compile(r' id="([^"]*)"')
_REFERENCE = re.compile(r'(?:xlink:href="#|url\(#)([^")]+)')
_FONT = re.compile(r"font: ([0-9.]+px) [^;\"]*")
_FAMILY = re.compile(r"font-family: [^;\"]*;?")


@contextmanager
def styled() -> Iterator[None]:
    """Matplotlib's own defaults under the report's style, whatever the user's matplotlibrc says."""
    ink, muted = COLOURS["ink"], COLOURS["muted"]
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "axes.axisbelow": True,
                "axes.edgecolor": COLOURS["rule"],
                "axes.facecolor": "none",
                "axes.grid": True,
                "axes.labelcolor": muted,
                "axes.labelsize": 9,
                "axes.linewidth": 0.8,
                "axes.spines.right": False,
                "axes.spines.top": False,
                "axes.unicode_minus": True,
                "figure.facecolor": "none",
                "font.family": "DejaVu Sans",  # comes with matplotlib: the same layout on every machine
                "font.size": 9,
                "grid.color": COLOURS["rule"],
                "grid.linewidth": 0.6,
                "legend.fontsize": 8.5,
                "legend.frameon": False,
                "legend.labelcolor": ink,
                "mathtext.fontset": "dejavusans",
                "savefig.facecolor": "none",
                "svg.fonttype": "none",
                "svg.hashsalt": "optotype",
                "text.color": ink,
                "xtick.color": COLOURS["rule"],
                "xtick.labelcolor": muted,
                "xtick.labelsize": 8.5,
                "ytick.color": COLOURS["rule"],
                "ytick.labelcolor": muted,
                "ytick.labelsize": 8.5,
            }
        )
        yield


def inline_svg(figure: Figure, *, name: str, label: str) -> str:
    """``figure`` as an ``<svg>`` element to stand in an HTML page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn with the stand-ins of `COLOURS`; saved under `styled`.
    name : str
        Prefix of the ids inside, unique on the page.
    label : str
        What the figure shows, for those who cannot see it.

    Returns
    -------
    str
        Text stays text; no clock, no random id, nothing that is loaded from elsewhere.
    """
    buffer = io.StringIO()
    metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
    FigureCanvasSVG(figure).print_svg(buffer, metadata=metadata)  # type: ignore[no-untyped-call]
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.S)
    used = set(_REFERENCE.findall(text))
    text = _ID.sub(lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", text)
    text = re.sub(r'xlink:href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = text.replace("xlink:href=", "href=")
    text = _STAND_IN.sub(lambda m: _VARIABLE[m[0]], text)
    text = _FONT.sub(lambda m: f"font-size: {m[1]}", text)
    text = _FAMILY.sub("", text)
    width, height = (72 * float(side) for side in figure.get_size_inches())
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}">'
    text = re.sub(r"^<svg[^>]*>", lambda _: head, text)
    return re.sub(r">\s+<", "><", text).strip()
