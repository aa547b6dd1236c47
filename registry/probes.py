"""The default project's own panel: arrays of the project in, tables of scores out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import expand, project_for
from optotype.schemas.errors import UsageError

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["probe_panel"]

MOST_REPEATS = 1_000_000


def probe_panel(
    pairs: str | Path,
    features: Sequence[str],
    states: Sequence[str],
    *,
    out: str | Path,
    project: Project | str | Path | None = None,
    nearest_by: str | None = None,
    min_items: int = 10,
    bootstrap: int = 10_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Turn every (encoder, language model) pair into panel models and write how they answer questions.

    Parameters
    ----------
    pairs : path
        Table that ``optotype emoji pairs`` wrote.
    features, states : sequence of str
        Arrays, one or more of each: names, paths or URLs; the name of a bundle stands for all its arrays, and
        ``@FILE:KEY`` for the names in a YAML file.
    out : path
        Folder for the files of `optotype.pipelines.emoji.probe.files.write_panel`.
    project : Project or path, optional
        Where names are looked up; by default the one that the working directory lies in, if any name needs one.
    nearest_by : str, optional
        Language model whose cosines choose wrong captions of kind ``nearest``; the first of ``states`` by default.
    min_items : int
        Held-out pairs that a group needs to be asked about.
    bootstrap : int
        Resamples of the images, 1 to a million.
    seed : int
        Of everything random.
    progress : Progress, optional

    Returns
    -------
    dict
        The content of ``SOURCE.json``: parameters, digests, sizes of benchmarks, settings and accuracies of models.

    Raises
    ------
    OptotypeError
        As `optotype.pipelines.emoji.probe.panel.probe_panel` does; nothing is written then.
    """
    from optotype.pipelines.emoji.probe.files import write_panel
    from optotype.pipelines.emoji.probe.panel import probe_panel as fit_panel
    from optotype.pipelines.emoji.probe.table import read_pairs
    from optotype.pipelines.graphs import open_array

    if Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"{out} is a file; --out takes a folder")
    for option, value, least, most in (
        ("seed", seed, 0, None),
        ("min-items", min_items, 1, None),
        ("bootstrap", bootstrap, 1, MOST_REPEATS),
    ):
        if value < least or (most is not None and value > most):
            allowed = f"{least} or more" if most is None else f"from {least} to {most}"
            raise UsageError(f"--{option} is {allowed}, got {value}")
    project = project_for(project, (*features, *states))
    encoders, models = expand(project, "features", features), expand(project, "states", states)
    panel = fit_panel(
        read_pairs(pairs),
        [open_array(project, "features", reference) for reference in encoders],
        [open_array(project, "states", reference) for reference in models],
        nearest_by=nearest_by,
        min_items=min_items,
        seed=seed,
        progress=progress,
    )
    return write_panel(panel, Path(out), seed=seed, min_items=min_items, repeats=bootstrap)
