"""The report of mixtures: ``mixtures.html``, the same numbers as ``mixtures.json``, and ``mixtures.csv`` to plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from optotype.registry.rankings import RANKING_FORMAT
from optotype.registry.report.files import write_page
from optotype.registry.report.formats import rendered, template_text
from optotype.registry.report.mixtures.plots import sweep_plot
from optotype.registry.report.mixtures.sweeps import CSV_COLUMNS, csv_rows, sweeps, verdict
from optotype.registry.report.sources import read_document
from optotype.registry.results import write_csv
from optotype.schemas.errors import FormatError

__all__ = ["write_mixtures_report"]

MIXTURES_FORMAT = 1
_RANK = "optotype rank --features MIXTURES --states NAME --bootstrap 1000 --out DIR"


def write_mixtures_report(ranking: Path, out: Path, *, title: str = "Mixtures of features") -> dict[str, Any]:
    """Write ``out/mixtures.html``, ``out/mixtures.json`` and ``out/mixtures.csv``.

    Parameters
    ----------
    ranking : Path
        ``ranking.json`` of a ranking of virtual encoders, as ``optotype rank --out`` writes it.
    out : Path
        A folder, made if missing.
    title : str
        Heading of the page.

    Returns
    -------
    dict
        ``html``, ``json``, ``csv`` (paths as strings), ``sweeps``, ``points`` (counts). The same input gives the same
        bytes.

    Raises
    ------
    NotFoundError, FormatError
        There is no ranking, or none of mixtures.
    """
    path = Path(ranking)
    document = read_document(path, kind="ranking", newest=RANKING_FORMAT, needs=("rows",), hint=_RANK)
    try:
        made = sweeps(document["rows"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: not whole ({error!r})", hint=f"Make it again: {_RANK}") from error
    if not made:
        raise FormatError(
            f"{path}: no row of this ranking is of a mixture",
            hint="Mix two encoders and rank the result: optotype features mix additive A B --alpha 1,0.5,0 --as NAME",
        )
    page = rendered(
        template_text("optotype.registry.report.mixtures", "mixtures.html"),
        title=title,
        contents=[("sweeps", "Sweeps"), ("numbers", "Numbers"), ("reading", "How to read it")],
        sheets=["suites.css"],
        sweeps=[
            {**sweep, "plot": Markup(sweep_plot(sweep, name=f"sweep{number}"))} for number, sweep in enumerate(made)
        ],
        verdicts=[verdict(sweep) for sweep in made],
        pairs=list(dict.fromkeys((sweep["a"], sweep["b"]) for sweep in made)),
    )
    numbers = {"format_version": MIXTURES_FORMAT, "kind": "mixtures-report", "sweeps": made}
    html, json_file = write_page(Path(out), "mixtures", page, numbers)
    rows = csv_rows(made)
    table = Path(out) / "mixtures.csv"
    write_csv(rows, CSV_COLUMNS, table)
    return {"html": str(html), "json": str(json_file), "csv": str(table), "sweeps": len(made), "points": len(rows)}
