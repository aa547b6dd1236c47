"""Rank vision encoders for language models: every encoder against every model, one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from optotype.pipelines.degeneracy import degeneracy
from optotype.pipelines.graphs import features_graph, states_graph
from optotype.pipelines.kernels.whitening import check_eps, check_prenorm
from optotype.pipelines.operators.neighbours import check_k
from optotype.pipelines.pool import Pool, open_pool
from optotype.pipelines.problems import naming
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.ravel import check_repeats, score
from optotype.pipelines.scheduler import scheduler as open_scheduler
from optotype.schemas.errors import UsageError
from optotype.store.project import Project

__all__ = ["degeneracy", "graph_row", "rank"]


def rank(
    project: Project | None,
    features: Sequence[str],
    states: Sequence[str],
    *,
    metric: str = "ravel",
    k: int = 100,
    eps: float = 1e-4,
    prenorm_features: str = "none",
    prenorm_states: str = "l2",
    null: int = 0,
    seed: int = 0,
    bootstrap: int = 0,
    common: bool = False,
    scheduler: str = "threads",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Score every encoder against every language model.

    The graph of each array is computed once (or found): one more encoder costs its own graph and seconds of scoring.
    All references, id sets and options are checked before anything is computed.

    Parameters
    ----------
    project : Project or None
        Where names are looked up and graphs are kept. Without one, references are paths or URLs.
    features, states : sequence of str
        Patch features of the encoders, states of the language models; one or more of each.
    metric : {"ravel"}
    k, eps, prenorm_features, prenorm_states
        As for :func:`optotype.pipelines.operators.neighbours.feature_neighbours`.
    null, seed, bootstrap
        As for :func:`optotype.pipelines.ravel.score`.
    common : bool
        Use the ids that all arrays have, instead of asking for equal sets.
    scheduler : str
        ``threads``, ``processes`` or the address of a dask.distributed scheduler.
    progress : Progress, optional

    Returns
    -------
    list of dict
        By falling score, ties by encoder and model. JSON-ready; ``n_over_d`` is rows of the whitening fit (patches,
        texts) over channels; ``cosine_spread`` is over all pairs i < j. Rows of a virtual encoder alone have
        ``mixture``: its ``kind``, ``alpha`` (weight of A, None if interleaved), ``ssl_ratio`` (1 - alpha), ``a`` and
        ``b``; what is said of their features is said of both spaces together, if interleaved.

    Raises
    ------
    UsageError
        An option out of range; k >= n.
    InvalidDataError
        Different id sets (all differences), or data that cannot be whitened.
    NotFoundError, ConflictError, FormatError, IntegrityError, ExternalError
        From the store.
    """
    report = progress or SILENT
    _check_options(metric, features, states, null, seed, bootstrap)
    check_eps(eps)
    norms = {
        "features": check_prenorm(prenorm_features, "prenorm of features"),
        "states": check_prenorm(prenorm_states, "prenorm of states"),
    }
    pool = open_pool(project, features, states, common=common)
    items = pool.items
    check_k(k, len(items))
    if common:
        report.note(f"{len(items)} ids are common to all arrays")
    with open_scheduler(scheduler) as place:
        options: dict[str, Any] = {"k": k, "eps": eps, "scheduler": place, "progress": report}
        visual, textual = {}, {}
        for reference in pool.encoders:
            with naming(metric, f"features of {pool.label('features', reference)}"):
                visual[reference] = features_graph(
                    project, reference, prenorm=norms["features"], images=items, **options
                )
        for reference in pool.models:
            with naming(metric, f"states of {pool.label('states', reference)}"):
                textual[reference] = states_graph(project, reference, prenorm=norms["states"], texts=items, **options)
    asked = {"null": null, "seed": seed, "bootstrap": bootstrap}
    parameters = {"eps": float(eps), **{f"prenorm_{kind}": norm for kind, norm in norms.items()}}
    rows = [
        graph_row(pool, encoder, model, metric, visual[encoder], textual[model], parameters, asked, report)
        for encoder in pool.encoders
        for model in pool.models
    ]
    return sorted(rows, key=lambda row: (-row["score"], row["encoder"], row["model"]))


def graph_row(
    pool: Pool,
    encoder: str,
    model: str,
    metric: str,
    visual: xr.Dataset,
    textual: xr.Dataset,
    parameters: Mapping[str, Any],
    asked: Mapping[str, int],
    progress: Progress,
) -> dict[str, Any]:
    """The row of two graphs; see :func:`rank`.

    Parameters
    ----------
    encoder, model : str
        References.
    visual, textual : Dataset
        Their graphs.
    parameters : mapping
        ``eps``, ``prenorm_features``, ``prenorm_states``: None where rows were not whitened.
    asked : mapping of str to int
        ``null``, ``seed``, ``bootstrap``.
    """
    result = score(visual, textual, progress=progress, **asked)
    sides = {"features": visual.attrs, "states": textual.attrs}
    return {
        "encoder": pool.label("features", encoder),
        "model": pool.label("states", model),
        "metric": metric,
        "score": result.score,
        "chance": result.chance,
        "adjusted": result.adjusted,
        "n": result.n,
        "k": result.k,
        **{name: parameters[name] for name in ("eps", "prenorm_features", "prenorm_states")},
        "null": {
            "mean": result.null_mean,
            "sd": result.null_sd,
            "p": result.null_p,
            "repeats": asked["null"],
            "seed": asked["seed"],
        }
        if asked["null"]
        else None,
        "interval": list(result.interval) if result.interval else None,
        "bootstrap": asked["bootstrap"],
        **pool.facts(encoder, model),
        "n_over_d": {side: attrs["rows_over_channels"] for side, attrs in sides.items()},
        "share_below_eps": {side: attrs.get("share_below_eps") for side, attrs in sides.items()},
        "cosine_spread": {
            side: {name: attrs[f"similarity_{name}"] for name in ("mean", "sd", "min", "max")}
            for side, attrs in sides.items()
        },
        "warnings": [
            message for graph in (visual, textual) for message in degeneracy(graph.attrs, graph["similarity"].values)
        ],
        **pool.mixture(encoder),
    }


def _check_options(
    metric: str, features: Sequence[str], states: Sequence[str], null: int, seed: int, bootstrap: int
) -> None:
    if metric != "ravel":
        raise UsageError(f"metric is one of ravel; got {metric!r}", hint="Others: optotype.pipelines.metrics.ranking.")
    if not features or not states:
        missing = "--features" if not features else "--states"
        raise UsageError(f"a ranking takes one {missing} or more")
    check_repeats(null, seed, bootstrap)
