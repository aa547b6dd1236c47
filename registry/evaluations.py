"""Evaluations of item selectors, and the files that keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optotype.registry.references import open_reference, project_for
from optotype.registry.results import check_out, write_csv, write_json

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["evaluate", "write_evaluation"]


def evaluate(
    panel: str,
    *,
    project: Project | str | Path | None = None,
    selectors: Sequence[str] | str = "all",
    retention: Sequence[float] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    splits: int = 20,
    seed: int = 0,
    protocols: Sequence[str] | None = None,
    category_by: str = "category",
    floor: int = 100,
    min_held_out: int = 10,
    tau: float = 2 / 3,
    alpha: float = 0.187,
    k: int = 5,
    normalise: Literal["none", "zscore"] = "none",
    rho_target: float = 0.95,
    resamples: int = 10_000,
    embeddings: str | None = None,
    variants: str | Path | None = None,
    workers: int | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge item selectors on models that they have not seen, by every protocol that the panel allows.

    Parameters
    ----------
    panel : str
        Name, path or URL of the scores.
    project : Project or path, optional
        Where names are looked up and where results of units are kept (``.optotype/cache/evaluate``), so that a run
        that was stopped goes on. Without one nothing is kept.
    selectors : sequence of str or str
        Names, or ``all``.
    retention : sequence of float
        Shares of a category's items that are kept, each in (0, 1].
    splits : int
        Random halves of the models.
    seed : int
        Of everything random: splits, selectors, resamples.
    protocols : sequence of str, optional
        Some of ``held-out, chronological, end-to-end, shelf-life, left-out, cross-family, variants, intervals,
        spectrum``. By default all that the panel allows; the others are named in the warnings. One that is asked for
        here and that the panel does not allow is an error.
    category_by, floor, tau, alpha, k, normalise, rho_target
        As for `optotype.registry.compressions.compress`.
    min_held_out : int
        Fewest held-out models that a ρ is taken over.
    resamples : int
        Of the bootstrap over models.
    embeddings : str, optional
        Name, path or URL of the item embeddings.
    variants : path, optional
        Table (CSV or Parquet) of sets of variants: ``set, model, benchmark, item_id, score``, or ``set, model`` for
        models of the panel.
    workers : int, optional
        Processes; one per CPU by default. The same result for any number.
    out : path, optional
        Folder for the files of `write_evaluation`.
    progress : Progress, optional
        Who is told; nobody by default.

    Returns
    -------
    dict
        See `optotype.pipelines.evaluation.evaluate.evaluate`.

    Raises
    ------
    OptotypeError
        As the pipeline and the store do; nothing is written then.
    """
    from optotype.pipelines.evaluation.evaluate import evaluate as run
    from optotype.pipelines.evaluation.plan import PROTOCOLS, Options, chosen_selectors

    folder = None if out is None else check_out(out, ("metrics.json", "evaluation.json"))
    project = project_for(project, [name for name in (panel, embeddings) if name is not None])
    options = Options(
        selectors=chosen_selectors(selectors),
        retentions=tuple(retention),
        protocols=PROTOCOLS if protocols is None else tuple(protocols),
        splits=splits,
        seed=seed,
        category_by=category_by,
        floor=floor,
        min_held_out=min_held_out,
        tau=tau,
        alpha=alpha,
        k=k,
        normalise=normalise,
        rho_target=rho_target,
        resamples=resamples,
    )
    document = run(
        open_reference(project, "scores", panel),
        options,
        embeddings=None if embeddings is None else open_reference(project, "embeddings", embeddings),
        variants=None if variants is None else Path(variants),
        workers=workers,
        cache=None if project is None else project.cache / "evaluate",
        optional=protocols is None,
        progress=progress,
    )
    if folder is not None:
        write_evaluation(document, folder)
    return document


def write_evaluation(document: Mapping[str, Any], out: Path) -> list[Path]:
    """Write an evaluation into the folder ``out``; equal documents give equal bytes.

    - ``evaluation.json``: the document, with all tables.
    - ``TABLE.csv``: each table; what is a list or mapping in a cell is joined to one text.
    - ``metrics.json``: ``{protocol: {selector: {retention: mean ρ}}}`` for ``dvc metrics``.

    Returns
    -------
    list of Path
        The files written, ``evaluation.json`` last: with it the folder is whole.
    """
    check_out(out, [f"{name}.csv" for name in document["tables"]])
    written = []
    for name, rows in document["tables"].items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        if columns:
            path = out / f"{name}.csv"
            write_csv([{column: _cell(row.get(column)) for column in columns} for row in rows], columns, path)
            written.append(path)
    for name, content in (("metrics.json", _metrics(document["tables"])), ("evaluation.json", dict(document))):
        write_json(content, out / name)
        written.append(out / name)
    return written


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return " | ".join(f"{name}: {'' if entry is None else entry}" for name, entry in value.items())
    return " | ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _metrics(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    for table in ("held_out_summary", "end_to_end_summary"):
        for row in tables.get(table, ()):
            protocol = row["protocol"] if row.get("stage_3", True) else f"{row['protocol']} without stage 3"
            metrics.setdefault(protocol, {}).setdefault(row["selector"], {})[f"{row['retention']:g}"] = row["mean"]
    return metrics
