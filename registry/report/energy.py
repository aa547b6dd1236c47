"""The plot of a spectrum: how much of a matrix its first components hold."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from optotype.registry.report.lanes import WIDTH, legend
from optotype.registry.report.svg import COLOURS, inline_svg, styled

__all__ = ["energy_plot"]

_SHARE = 0.95


def energy_plot(energy: Sequence[float], *, name: str) -> str:
    """Share of each component and of all up to it, with a line at 95 %.

    Parameters
    ----------
    energy : sequence of float
        Cumulative shares, rising to 1.
    name : str
        Prefix of the ids inside, unique on the page.
    """
    own = [after - before for before, after in zip([0.0, *energy], energy, strict=False)]
    place = list(range(1, len(energy) + 1))
    with styled():
        figure = Figure(figsize=(WIDTH, 2.5))
        axes = figure.add_axes((0.135, 0.27, 0.835, 0.69))
        axes.bar(place, own, width=0.7, color=COLOURS["shade"], linewidth=0, label="of the component")
        axes.plot(place, energy, "o-", color=COLOURS["c1"], ms=3.5, linewidth=1.6, label="up to it")
        axes.axhline(_SHARE, color=COLOURS["muted"], linewidth=1, linestyle=(0, (3, 2)), label="95 %")
        axes.set_ylim(0, 1.03)
        axes.set_xlim(0.4, len(energy) + 0.6)
        axes.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        axes.set_xlabel("component", loc="right", labelpad=1)
        legend(figure, axes.get_legend_handles_labels()[0], 3)
        reached = next((n for n, value in zip(place, energy, strict=True) if value >= _SHARE - 1e-12), len(energy))
        label = (
            f"Share of energy of {len(energy)} components: the first holds {100 * energy[0]:.0f} %, "
            f"{reached} hold 95 %."
        )
        return inline_svg(figure, name=name, label=label)
