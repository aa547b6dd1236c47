"""The report of a compression: ``compression.html``, self-contained, and ``compression.json`` with the same numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.report.compression import plots
from optotype.registry.report.compression.inputs import Inputs, gather
from optotype.registry.report.compression.movers import moves
from optotype.registry.report.compression.page import MOVERS, candidate_rows, probe_styles, render
from optotype.registry.report.energy import energy_plot
from optotype.registry.report.files import write_page
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["write_compression_report"]

_FORMAT_VERSION = 1


def write_compression_report(
    suite: Path,
    panel: str,
    out: Path,
    *,
    frontier: Path | None = None,
    probe: Path | None = None,
    project: Project | str | Path | None = None,
    title: str = "A compressed suite",
) -> dict[str, Any]:
    """Write ``out/compression.html`` and ``out/compression.json``; both or neither.

    Parameters
    ----------
    suite : Path
        Folder that `optotype.compress` has written.
    panel : str
        Name, path or URL of the scores that the suite was made from.
    out : Path
        A folder, made if missing; another one than the suite's, whose own document has the same name.
    frontier : Path, optional
        Folder that `optotype.frontier` has written, of the same panel.
    probe : Path, optional
        Folder of ``optotype emoji panel``, whose scores are the panel.
    project : Project or path, optional
        Where ``panel`` is looked up; by default the one that the working directory lies in.
    title : str
        Heading of the page.

    Returns
    -------
    dict
        ``html`` and ``json`` (paths as strings), ``stages``, ``items``, ``models``, ``warnings`` (counts). The files
        hold no clock, path or random id: the same input gives the same bytes.

    Raises
    ------
    UsageError
        ``out`` is the suite's own folder.
    NotFoundError, FormatError
        A file is not there, or not what it should be.
    InvalidDataError
        The suite or the frontier was made from another panel, or from another state of it.
    """
    if Path(out).absolute().resolve() == Path(suite).absolute().resolve():
        raise UsageError(
            f"{out} is the folder of the suite, whose compression.json the report would replace",
            hint="Give another folder: --out reports",
        )
    inputs = gather(Path(suite), panel, frontier=frontier, probe=probe, project=project)
    document = _document(inputs, title)
    html, numbers = write_page(Path(out), "compression", render(document, _figures(document)), document)
    stages = inputs.suite["stages"]
    return {
        "html": str(html),
        "json": str(numbers),
        "stages": len(stages),
        "items": stages[-1]["items_out"],
        "models": len(inputs.suite["models"]),
        "warnings": len(inputs.suite["warnings"]),
    }


def _document(inputs: Inputs, title: str) -> dict[str, Any]:
    before = "reference" if len(inputs.suite["stages"]) > 1 else "all"
    return {
        "format_version": _FORMAT_VERSION,
        "kind": "compression-report",
        "title": title,
        "panel": inputs.panel,
        "suite": inputs.suite,
        "moves": {"before": before, "rows": moves(inputs.suite["models"], inputs.family, before)},
        "frontier": inputs.frontier,
        "probe": inputs.probe,
    }


def _figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """Every plot of the page as inline SVG; those without data are not there."""
    stages = document["suite"]["stages"]
    figures: dict[str, Any] = {"funnel": plots.funnel_plot(stages, name="funnel")}
    if len(stages) > 1:
        details = stages[1]["details"]
        rows = candidate_rows(details["categories"])
        if rows:
            figures["candidates"] = plots.candidate_plot(rows, details["rho_target"], name="candidates")
    if len(stages) > 3:
        energy = stages[3]["details"]["spectrum"]["energy"]
        if energy and energy[0] is not None:
            figures["energy"] = energy_plot(energy, name="energy")
    moved = document["moves"]["rows"]
    if moved:
        after = "the compressed suite" if len(stages) > 1 else "the cleaned items"
        words = ("all items" if document["moves"]["before"] == "all" else "the cleaned items", after)
        numbered = sum(row["move"] != 0 for row in moved[:MOVERS])
        figures["ranks"] = plots.rank_plot(moved, numbered, words=words, name="ranks")
    if document["frontier"] is not None:
        figures["families"] = plots.family_plot(document["frontier"]["family_means"], name="families")
    if document["probe"] is not None:
        figures["probes"] = _probe_figures(document["probe"])
    return figures


def _probe_figures(probe: Mapping[str, Any]) -> dict[str, str]:
    encoders = list(dict.fromkeys(row["encoder"] for row in probe["rows"] if row["modality"] == "image"))
    single = [row["accuracy"] for row in probe["rows"] if row["kind"] in probe["kinds"]]
    span = (max(0.0, min(*single, plots.CHANCE) - 0.04), min(1.0, max(single) + 0.04))
    return {
        kind: plots.probe_plot(
            kind,
            encoders,
            [row for row in probe["rows"] if row["kind"] == kind],
            probe_styles(probe["rows"]),
            probe["untrained"],
            span,
            name=f"probe{number}",
        )
        for number, kind in enumerate(probe["kinds"])
    }
