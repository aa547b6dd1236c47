"""Capability frontiers, and the files that keep them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import open_reference
from optotype.registry.results import check_out, write_json, write_table

if TYPE_CHECKING:
    from optotype.store.project import Project

__all__ = ["FRONTIER_FORMAT", "frontier"]

FRONTIER_FORMAT = 1


def frontier(
    panel: str,
    *,
    project: Project | str | Path | None = None,
    gain: float | None = None,
    axis: str | None = None,
    category_by: str = "category",
    scheduler: str = "threads",
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Items that most models of every family fail, and that still tell models apart.

    Parameters
    ----------
    panel : str
        Name, path or URL of the scores.
    project : Project or path, optional
        Where names are looked up; by default the one that the working directory lies in.
    gain : float, optional
        Share of the items in band that is kept. By default the largest accuracy gain per step along the axes of the
        models table.
    axis : str, optional
        The axis whose gain is taken.
    category_by, scheduler
        As for `optotype.registry.compressions.compress`.
    out : path, optional
        Folder for ``items.parquet`` (``benchmark, item_id, category, mean, variance, score, families_below, rank``, in
        catalogue order) and ``frontier.json`` (what this function returns).

    Returns
    -------
    dict
        ``format_version, kind, panel, parameters, items, candidates, in_band, kept, gain, axis, axes, families,
        warnings``; JSON-ready, ``items`` a number per benchmark.

    Raises
    ------
    OptotypeError
        As `optotype.pipelines.compression.frontier.frontier` and the store do; nothing is written then.
    """
    from optotype.pipelines.compression.frontier import frontier as run
    from optotype.pipelines.scheduler import scheduler as open_scheduler

    folder = None if out is None else check_out(out, ("items.parquet", "frontier.json"))
    scores = open_reference(project, "scores", panel)
    with open_scheduler(scheduler):
        done = run(scores, gain=gain, axis=axis, category_by=category_by)
    counts: dict[str, int] = {}
    for name in done.items["benchmark"]:
        counts[str(name)] = counts.get(str(name), 0) + 1
    document = {
        "format_version": FRONTIER_FORMAT,
        "kind": "frontier",
        "panel": {"name": str(scores.attrs.get("name", "")), "digest": str(scores.attrs.get("digest", ""))},
        "parameters": {"gain": gain, "axis": axis, "category_by": category_by},
        "candidates": done.candidates,
        "in_band": done.in_band,
        "kept": done.kept,
        "gain": done.gain,
        "axis": None if done.axis is None else asdict(done.axis),
        "axes": [asdict(axis) for axis in done.axes],
        "families": done.families,
        "items": counts,
        "warnings": done.warnings,
    }
    if folder is not None:
        write_table(done.items, folder / "items.parquet")
        write_json(document, folder / "frontier.json")
    return document
