"""Stored neighbour graphs as rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optotype.registry.references import expand

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["build_graphs"]


def build_graphs(
    project: Project,
    name: str,
    kind: Literal["features", "states"],
    arrays: Sequence[str],
    *,
    prenorms: Sequence[str],
    k: int = 100,
    eps: float = 1e-4,
    scheduler: str = "threads",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Write the graphs of one or more arrays (`optotype.pipelines.graphs.write_graphs`, whose errors these are).

    Returns
    -------
    list of dict
        One for each array and prenorm: ``name``, ``array``, ``kind``, ``prenorm``, ``n``, ``k``, ``eps``, ``digest``,
        ``key``, ``path``.
    """
    from optotype.pipelines.graphs import write_graphs

    arrays = expand(project, kind, arrays)
    folders = write_graphs(project, name, kind, arrays, prenorms, k=k, eps=eps, scheduler=scheduler, progress=progress)
    return [_row(folder, kind) for folder in folders]


def _row(folder: Path, kind: str) -> dict[str, Any]:
    from optotype.store.neighbours import open_neighbours

    graph = open_neighbours(folder)
    array, _, prenorm = folder.name.rpartition(".")
    return {
        "name": folder.name,
        "array": array,
        "kind": kind,
        "prenorm": prenorm,
        "n": graph.sizes["item"],
        "k": graph.sizes["rank"],
        "eps": graph.attrs["eps"],
        "digest": graph.attrs["digest"],
        "key": graph.attrs["key"],
        "path": str(folder),
    }
