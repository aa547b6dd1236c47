"""Compressed suites, and the files that keep them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optotype.registry.references import open_reference
from optotype.registry.results import check_out, write_csv, write_json, write_table

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["COMPRESSION_FORMAT", "compress"]

COMPRESSION_FORMAT = 1
_FILES = ("items.parquet", "models.csv", "metrics.json", "compression.json")
_MODEL_COLUMNS = (
    "model",
    "score_all",
    "rank_all",
    "score_reference",
    "rank_reference",
    "score_compressed",
    "rank_compressed",
)


def compress(
    panel: str,
    *,
    project: Project | str | Path | None = None,
    stop_after: int = 3,
    tau: float = 2 / 3,
    retention: float = 0.05,
    k: int = 5,
    alpha: float = 0.187,
    seed: int = 0,
    category_by: str = "category",
    floor: int = 100,
    normalise: Literal["none", "zscore"] = "none",
    rho_target: float = 0.95,
    embeddings: str | None = None,
    selector: str = "vaw",
    greedy: bool = False,
    scheduler: str = "threads",
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Compress a panel of scores: clean it, choose representatives, prune items, choose k categories.

    Parameters
    ----------
    panel : str
        Name, path or URL of the scores.
    project : Project or path, optional
        Where names are looked up. By default the one that the working directory lies in; none is needed where all
        references are paths or URLs.
    stop_after : {0, 1, 2, 3}
        The last stage that runs.
    tau, retention, k, alpha, seed, category_by, floor, normalise, rho_target, selector, greedy, scheduler
        See `optotype.pipelines.compression.compress.compress`.
    embeddings : str, optional
        Name, path or URL of the item embeddings.
    out : path, optional
        Folder for the files:

        - ``items.parquet``: ``benchmark, item_id, category, vaw, variance, delta, cell, weight`` of the items that are
          left, in catalogue order.
        - ``compression.json``: what this function returns.
        - ``models.csv``: scores and ranks of every model on all items, the cleaned items, and the compressed suite.
        - ``metrics.json``: items, categories and ρ of every stage, for ``dvc metrics``.

        The same input, parameters and versions give the same bytes.
    progress : Progress, optional
        Who is told; nobody by default.

    Returns
    -------
    dict
        ``format_version, kind, panel, embeddings, parameters, versions, stages, models, warnings``; JSON-ready.

    Raises
    ------
    OptotypeError
        As the pipeline and the store do; nothing is written then.
    """
    from optotype.pipelines.compression.compress import compress as run

    folder = None if out is None else check_out(out, _FILES)
    scores = open_reference(project, "scores", panel)
    vectors = None if embeddings is None else open_reference(project, "embeddings", embeddings)
    done = run(
        scores,
        stop_after=stop_after,
        tau=tau,
        retention=retention,
        k=k,
        alpha=alpha,
        seed=seed,
        category_by=category_by,
        floor=floor,
        normalise=normalise,
        rho_target=rho_target,
        selector=selector,
        embeddings=vectors,
        greedy=greedy,
        scheduler=scheduler,
        progress=progress,
    )
    document = {
        "format_version": COMPRESSION_FORMAT,
        "kind": "compression",
        "panel": _named(scores),
        "embeddings": None if vectors is None else _named(vectors),
        "parameters": done.parameters,
        "versions": _versions(),
        "stages": done.stages,
        "models": done.models,
        "warnings": done.warnings,
    }
    if folder is not None:
        write_table(done.items, folder / "items.parquet")
        write_csv(done.models, _MODEL_COLUMNS, folder / "models.csv")
        write_json(_metrics(done.stages), folder / "metrics.json")
        write_json(document, folder / "compression.json")  # last: with it the folder is whole
    return document


def _named(array: Any) -> dict[str, Any]:
    return {"name": str(array.attrs.get("name", "")), "digest": str(array.attrs.get("digest", ""))}


def _versions() -> dict[str, str]:
    """Of what the choice of items hangs on."""
    from importlib.metadata import version

    import optotype

    return {"optotype": optotype.__version__, **{name: version(name) for name in ("numpy", "scikit-learn")}}


def _metrics(stages: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("items_out", "benchmarks_out", "categories_out", "rho", "rho_to_reference")
    return {f"stage_{stage['stage']}": {name: stage[name] for name in names} for stage in stages}
