"""Rankings by one metric or several, under one setting or several, and the files that keep them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import expand, project_for
from optotype.registry.results import write_json
from optotype.schemas.errors import UsageError
from optotype.store.drafts import draft_file

if TYPE_CHECKING:
    from optotype.pipelines.progress import Progress
    from optotype.store.project import Project

__all__ = ["COMBINATIONS", "RANKING_FORMAT", "main_rows", "rank", "write_ranking"]

RANKING_FORMAT = 1
_NO_MODEL = "no model"
_SWEPT = {"n": None, "k": 100, "eps": 1e-4, "gamma": 1.0}
_PLOTTED = ("encoder", "model", "score", "chance", "adjusted")

# (features, states): the default comes first
COMBINATIONS = (("none", "l2"), ("none", "none"), ("l2", "l2"), ("l2", "none"))


def rank(
    features: Sequence[str],
    states: Sequence[str] = (),
    *,
    project: Project | str | Path | None = None,
    metric: str | Sequence[str] = "ravel",
    k: int = 100,
    eps: float = 1e-4,
    prenorm_features: str = "none",
    prenorm_states: str = "l2",
    all_prenorms: bool = False,
    null: int = 0,
    seed: int = 0,
    bootstrap: int = 0,
    common: bool = False,
    scheduler: str = "threads",
    options: Mapping[str, Mapping[str, Any]] | None = None,
    post_features: str = "none",
    post_states: str = "none",
    gamma: float = 1.0,
    images: int | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    labels: str | Path | None = None,
    label_column: str = "group",
    keypoints: str | Path | None = None,
    downstream: str | Path | None = None,
    captions: str | Path | None = None,
    language_models: Mapping[str, str] | None = None,
    train: bool = False,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Rank vision encoders for language models: every FEATURES against every STATES, best score first.

    Parameters
    ----------
    features, states : sequence of str
        Arrays, one or more of each: names, paths or URLs; the name of a bundle stands for all its arrays, and
        ``@FILE:KEY`` for the names in a YAML file. Metrics of vision alone need no states.
    project : Project or path, optional
        Where names are looked up and graphs are kept. By default the one that the working directory lies in; none is
        needed where all references are paths or URLs.
    metric : str or sequence of str
        Names in `optotype.pipelines.metrics.catalogue.METRICS`; ``all`` for those whose needs are met.
    k : int
        Neighbours per item of RAVEL and its ablations, less than the items.
    eps : float
        Added to every eigenvalue when they whiten.
    prenorm_features, prenorm_states : {"none", "l2"}
        Rows before whitening: as they are, or L2-normalised.
    all_prenorms : bool
        All four combinations of the two instead, each in rows of its own.
    null, bootstrap : int
        Shuffles for the permutation null and resamplings for the interval; 0 for none.
    seed : int
        Of both.
    common : bool
        Use the ids that all arrays have instead of asking for equal sets.
    scheduler : str
        ``threads``, ``processes`` or the address of a dask.distributed scheduler. Same bytes.
    options : mapping of metric to mapping of option to value, optional
        Of single metrics.
    post_features, post_states : str
        Post-processing in front of the metrics, such as ``centre+abtt:3+l2`` (see
        `optotype.pipelines.postprocessing.chain.parse_chain`); fitted on the rows that a metric compares, before any
        prenorm and whitening of its own.
    gamma : float
        Patches are drawn to the mean of their image first, p <- m + γ (p - m); 1 leaves them.
    images : int, optional
        Rank over so many items alone: the first of a permutation drawn by ``seed``.
    sweep : mapping of {"k", "eps", "gamma", "images"} to sequence, optional
        A ranking under each of the values, together in one table.
    labels, keypoints, downstream, captions : path, optional
        Tables that metrics need; see `optotype.pipelines.metrics.sources.read_sources`.
    label_column : str
        Of the table of labels.
    language_models : mapping of str to str, optional
        Sources of weights, by the names of the states.
    train : bool
        Whether metrics that train a network may.
    out : path, optional
        Folder for the files of `write_ranking`.
    progress : Progress, optional
        Who is told; nobody by default.

    Returns
    -------
    list of dict
        By ravel alone, with no option from ``options`` to ``sweep``: see `optotype.pipelines.rank.rank`; ties by
        encoder, model and prenorms. Otherwise see `optotype.pipelines.metrics.ranking.rank_metrics`, whose rows say
        more.

    Raises
    ------
    OptotypeError
        As `optotype.pipelines.rank.rank` does; nothing is written then.
    """
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise UsageError(f"{out} is a file; --out takes a folder")
    project = project_for(project, (*features, *states))
    encoders, models = expand(project, "features", features), expand(project, "states", states)
    metrics = tuple(dict.fromkeys([metric] if isinstance(metric, str) else metric))
    prenorms = COMBINATIONS if all_prenorms else ((prenorm_features, prenorm_states),)
    plain = metrics == ("ravel",) and gamma == 1 and images is None
    if plain and not options and not sweep and {post_features, post_states} == {"none"}:
        rows = _plain(
            project,
            encoders,
            models,
            prenorms,
            {"k": k, "eps": eps, "null": null, "seed": seed, "bootstrap": bootstrap, "common": common},
            scheduler,
            progress,
        )
    else:
        from optotype.pipelines.metrics.catalogue import METRICS
        from optotype.pipelines.metrics.ranking import rank_metrics
        from optotype.pipelines.metrics.settings import Request
        from optotype.pipelines.metrics.sources import read_sources

        request = Request(
            tuple(METRICS) if "all" in metrics else metrics,
            everything="all" in metrics,
            k=k,
            eps=eps,
            prenorms=prenorms,
            gamma=gamma,
            images=images,
            sweep=sweep or {},
            options=options or {},
            post_features=post_features,
            post_states=post_states,
            null=null,
            seed=seed,
            bootstrap=bootstrap,
        )
        sources = read_sources(
            labels=labels,
            label_column=label_column,
            keypoints=keypoints,
            downstream=downstream,
            captions=captions,
            language_models=language_models,
            train=train,
        )
        rows = rank_metrics(
            project, encoders, models, request, sources, common=common, scheduler=scheduler, progress=progress
        )
    if out is not None:
        write_ranking(rows, Path(out))
    return rows


def _plain(
    project: Project | None,
    encoders: Sequence[str],
    models: Sequence[str],
    prenorms: Sequence[tuple[str, str]],
    options: Mapping[str, Any],
    scheduler: str,
    progress: Progress | None,
) -> list[dict[str, Any]]:
    """Rows by ravel under each combination of prenorms."""
    from optotype.pipelines.rank import rank as rank_once

    rows: list[dict[str, Any]] = []
    for visual, textual in prenorms:
        rows += rank_once(
            project,
            encoders,
            models,
            metric="ravel",
            prenorm_features=visual,
            prenorm_states=textual,
            scheduler=scheduler,
            progress=progress,
            **options,
        )
    return sorted(rows, key=_order)


def write_ranking(rows: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    """Write a ranking into the folder ``out``; equal rows give equal bytes, and each file takes its place in one step.

    - ``ranking.json``: ``{"format_version": 1, "kind": "ranking", "rows": [...]}``, the rows as they are.
    - ``ranking.csv``: one line a row, nested values in columns ``a.b``.
    - ``metrics.json``: ``{model: {encoder: {"score": ..., "adjusted": ...}}}`` for ``dvc metrics``, of one combination
      of prenorms: none for features and l2 for states if it is there, else that of the best row. With metrics other
      than ravel that of each stands under its name; of a sweep it is the default value if it is there, else that of the
      best row, and of numbers of images the largest.
    - ``scores.csv``: ``pair,encoder,model,score,chance,adjusted`` of the same rows, best first, for ``dvc plots``; with
      metrics other than ravel ``metric`` comes first.

    Returns
    -------
    list of Path
        The files written.
    """
    by_metric: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_metric.setdefault(row.get("metric", "ravel"), []).append(row)
    main = {metric: main_rows(own) for metric, own in by_metric.items()}
    several = set(main) != {"ravel"} and bool(main)
    metrics = {metric: _metrics(own) for metric, own in main.items()}
    documents = {
        "ranking.json": {"format_version": RANKING_FORMAT, "kind": "ranking", "rows": list(rows)},
        "metrics.json": metrics if several else metrics.get("ravel", {}),
    }
    tables = {
        "ranking.csv": _csv(rows),
        "scores.csv": _csv(
            [
                {**({"metric": metric} if several else {}), **_plotted(row)}
                for metric, own in main.items()
                for row in own
            ]
        ),
    }
    for name, document in documents.items():
        write_json(document, out / name)
    for name, text in tables.items():
        with draft_file(out / name) as file:
            file.write(text.encode())
    return [out / name for name in (*documents, *tables)]


def main_rows(rows: Sequence[Mapping[str, Any]], *, each_prenorm: bool = False) -> list[Mapping[str, Any]]:
    """The rows of one metric that stand for it, in their order: of the main prenorms, and of one value of what varies.

    Parameters
    ----------
    rows : sequence of mapping
    each_prenorm : bool
        Keep all combinations of prenorms.
    """
    there = [(row.get("prenorm_features"), row.get("prenorm_states")) for row in rows]
    main = COMBINATIONS[0] if COMBINATIONS[0] in there else next(iter(there), None)
    chosen = [row for row, prenorms in zip(rows, there, strict=True) if each_prenorm or prenorms == main]
    for name, default in _SWEPT.items():
        values = [row.get(name) for row in chosen]
        if len(set(values)) > 1:
            wanted = default if default in values else values[0]
            if name == "n":
                wanted = max((value for value in values if isinstance(value, int)), default=None)
            chosen = [row for row in chosen if row.get(name) == wanted]
    return chosen


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Score and adjusted score by model and encoder; under ``no model`` for metrics that were given none."""
    metrics: dict[str, Any] = {}
    for row in sorted(rows, key=lambda row: (row["model"] or "", row["encoder"])):
        values = {"score": row["score"], "adjusted": row["adjusted"]}
        metrics.setdefault(row["model"] or _NO_MODEL, {})[row["encoder"]] = values
    return metrics


def _plotted(row: Mapping[str, Any]) -> dict[str, Any]:
    pair = row["encoder"] if row["model"] is None else f"{row['encoder']} x {row['model']}"
    return {"pair": pair, **{name: row[name] for name in _PLOTTED if name in row}}


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    flat = [dict(_flat(row)) for row in rows]
    nested = {name for row in rows for name, value in row.items() if isinstance(value, Mapping)}
    columns = [name for name in dict.fromkeys(name for row in flat for name in row) if name not in nested]
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return table.getvalue()


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (-row["score"], row["encoder"], row["model"], row["prenorm_features"], row["prenorm_states"])


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of a row with nested mappings unfolded; lists become one text."""
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, (list, tuple)):
            yield prefix + name, " | ".join(str(entry) for entry in value)
        else:
            yield prefix + name, "" if value is None else value
