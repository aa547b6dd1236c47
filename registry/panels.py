"""Panels of scores: import into them, list, show, and give out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import resolved
from optotype.schemas.errors import ConflictError, OptotypeError, UsageError
from optotype.schemas.names import check_array_name

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["export_panel", "import_scores", "list_panels", "show_panel"]


def import_scores(
    project: Project | str | Path | None,
    panel: str,
    paths: Sequence[str | Path],
    *,
    format: str = "auto",  # noqa: A002 - the word of the command line
    items: str | Path | None = None,
    models: str | Path | None = None,
    blind: Sequence[str | Path] = (),
    scales: Mapping[str, tuple[float, float]] | None = None,
    invalid_response: str | None = None,
    track: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Import scores into a panel of the project; one that is there gains what is new, and nothing of it is rewritten.

    Parameters
    ----------
    project : Project or path, optional
        By default the one that the working directory lies in.
    panel : str
        Name of the panel.
    paths : sequence of path
        Sample logs of lmms-eval, result files of VLMEvalKit, tidy or wide tables (CSV, TSV, Parquet, JSON lines;
        byte-order marks, gzip), or folders of them. May be empty if ``blind`` is not.
    format : {"auto", "lmms-eval", "vlmevalkit", "tidy", "wide"}
    items : path, optional
        Table of ``benchmark, item_id`` and, as far as known, ``category, sub_task, question, answer, n_choices, image,
        scoring, scale_min, scale_max``; other columns are kept. Its order is the catalogue order. With it, scores of an
        item that neither it nor the panel has are an error.
    models : path, optional
        Table of ``model`` and, as far as known, ``family, vendor, release_date, axis``; other columns are kept. With
        it, a model that neither it nor the panel has is an error; blind runs need not be in it.
    blind : sequence of path
        Runs without images, in the same formats.
    scales : mapping of str to (float, float), optional
        Lowest and highest score of benchmarks; of others what the items table or the panel says, else [0, 1].
    invalid_response : str, optional
        Regular expression; a record whose response it matches somewhere is missing.
    track : bool
        Whether DVC tracks the panel, where the project is one of DVC's.
    progress : Progress, optional
        Who is told; nobody by default.

    Returns
    -------
    dict
        Of the panel: ``models``, ``blind_models``, ``benchmarks``, ``items``, ``scores``, ``blind_scores``, ``missing``
        (cells without a score, of models on benchmarks of which they have a record), ``invalid`` and ``invalid_blind``
        (benchmark -> model -> reason -> count), ``parts``, ``digest``. Of the import: ``new_scores``,
        ``new_blind_scores``, ``repeats`` (records that said again what was known), ``blank_rows``, ``ignored_items``
        and ``ignored_models`` (rows of the tables that no score uses), ``repeated_table_rows``, ``notes``. And
        ``name``, ``path``.

    Raises
    ------
    InvalidDataError
        Everything that is wrong, at once: records that contradict each other or the panel, unknown items and models,
        scores off their scale, what is no number, no name, no date. Nothing is written then.
    UsageError, NotFoundError, FormatError, ConflictError
        Not a name or format; no such file; a file of no known format; something else is called so, or another process
        writes the same panel.
    """
    from optotype.pipelines.progress import SILENT
    from optotype.store import dvc
    from optotype.store.panels.importing import import_panel
    from optotype.store.project import Project

    if not isinstance(project, Project):
        project = Project.find(None if project is None else Path(project))
    if not paths and not blind:
        raise UsageError("no files to import", hint="optotype scores import PANEL PATH...")
    folder = project.scores / check_array_name(panel)
    progress = SILENT if progress is None else progress
    with progress(f"importing scores into {panel}", total=None, unit="files") as task:
        row = import_panel(
            folder,
            paths,
            format=format,
            items=None if items is None else Path(items),
            models=None if models is None else Path(models),
            blind=blind,
            scales=scales,
            invalid_response=invalid_response,
            on_path=task.advance,
        )
    if track:
        dvc.track(folder, root=project.root)
    return {"name": panel, "path": folder.relative_to(project.root).as_posix(), **row}


def list_panels(project: Project) -> list[dict[str, Any]]:
    """The panels of a project, sorted by name, from their documents alone.

    Returns
    -------
    list of dict
        ``name``, ``models``, ``blind_models``, ``benchmarks``, ``items``, ``scores``, ``parts``, ``digest``, ``path``,
        ``error`` (None; of a damaged one a str, and all else but name and path is None).
    """
    from optotype.store.panels.parts import read_document

    rows = []
    for name, folders in project.index("scores").items():
        row: dict[str, Any]
        try:
            row = {**_summary(read_document(folders[0])), "error": None}
        except OptotypeError as error:
            row = {**dict.fromkeys(_summary({"benchmarks": [], "parts": [], "digest": ""})), "error": error.message}
        rows.append({"name": name, **row, "path": folders[0].relative_to(project.root).as_posix()})
    return rows


def _summary(document: Mapping[str, Any]) -> dict[str, Any]:
    benchmarks = document["benchmarks"]
    return {
        "models": len({model for entry in benchmarks for model in (*entry["scores"], *entry["invalid"])}),
        "blind_models": len({model for entry in benchmarks for model in (*entry["blind"], *entry["invalid_blind"])}),
        "benchmarks": len(benchmarks),
        "items": sum(entry["items"] for entry in benchmarks),
        "scores": sum(sum(entry["scores"].values()) for entry in benchmarks),
        "parts": len(document["parts"]),
        "digest": document["digest"],
    }


def show_panel(project: Project | None, reference: str) -> dict[str, Any]:
    """What a panel holds, benchmark by benchmark; reads its scores once.

    Returns
    -------
    dict
        The row of `list_panels`, and ``benchmarks``: for each ``name``, ``items``, ``models`` (with a record),
        ``coverage`` (share of their cells with a score), ``blind_models``, ``mean`` (of all scores, scaled to [0, 1]),
        ``blind_mean``, ``scale``, ``circular``, ``invalid`` and ``invalid_blind`` (model -> reason -> count).

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, UsageError
        No such panel, or a damaged one.
    """
    from optotype.store.panels.parts import open_parts
    from optotype.store.panels.summary import benchmark_means

    source = resolved(project, "scores", reference)
    panel = open_parts(source)
    means = {name: benchmark_means(panel, name) for name in ("score", "blind")}
    rows = []
    for entry in panel.document["benchmarks"]:
        models = {*entry["scores"], *entry["invalid"]}
        scored = sum(entry["scores"].values())
        rows.append(
            {
                "name": entry["name"],
                "items": entry["items"],
                "models": len(models),
                "coverage": scored / (len(models) * entry["items"]) if models else None,
                "blind_models": len({*entry["blind"], *entry["invalid_blind"]}),
                "mean": means["score"].get(entry["name"]),
                "blind_mean": means["blind"].get(entry["name"]),
                "scale": entry["scale"],
                "circular": entry["circular"],
                "invalid": entry["invalid"],
                "invalid_blind": entry["invalid_blind"],
            }
        )
    path = source
    if project is not None and isinstance(source, Path) and source.resolve().is_relative_to(project.root):
        path = source.resolve().relative_to(project.root).as_posix()
    labels = {"item_columns": list(panel.item_labels), "model_columns": list(panel.model_labels)}
    return {"name": panel.name, **_summary(panel.document), "path": str(path), **labels, "benchmarks": rows}


def export_panel(
    project: Project | None,
    reference: str,
    file: str | Path,
    *,
    file_format: str | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """Write a panel for other programs.

    Parameters
    ----------
    reference : str
        Name, path or URL.
    file : path
        ``.parquet`` or ``.csv``: the tidy table, with ``STEM.items`` and ``STEM.models`` of the same kind beside it, so
        that importing the three gives the same panel (responses come out as digests only in ``.zarr``). ``.zarr``: the
        whole as one Zarr group, as `optotype.open_panel` shows it. Written whole or not at all.
    file_format : {"parquet", "csv", "zarr"}, optional
        By default the ending of ``file`` says.
    replace : bool
        Whether files that are there may be replaced.

    Returns
    -------
    dict
        ``name``, ``files``, ``format``, ``rows`` (of a table).

    Raises
    ------
    UsageError
        The ending says nothing and no format is given.
    ConflictError
        A file is there.
    """
    from optotype.store.panels.export import export_files, write_panel_files

    source = resolved(project, "scores", reference)
    target = Path(file)
    chosen = file_format or target.suffix.lower().removeprefix(".")
    files = export_files(target, chosen)
    for path in files:
        if path.exists() and not replace:
            raise ConflictError(f"{path} is there already", hint="Replace it with --force, or choose another name.")
    rows = write_panel_files(source, target, chosen)
    return {"name": reference, "files": [str(path) for path in files], "format": chosen, "rows": rows}
