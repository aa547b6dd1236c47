"""Rank vision encoders for language models: every encoder against every model, one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.graphs import Kind, features_graph, open_array, states_graph
from optotype.pipelines.kernels.whitening import check_eps, check_prenorm
from optotype.pipelines.operators.mixtures import SPACES, is_interleaved
from optotype.pipelines.operators.neighbours import check_k
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.ravel import check_repeats, id_differences, score
from optotype.pipelines.scheduler import scheduler as open_scheduler
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.project import Project

__all__ = ["METRICS", "degeneracy", "rank"]

METRICS = ("ravel",)

# Where whitening has made the rows nearly equidistant: r effective directions for N rows leave each row its own.
_FULL = 0.9
# Where the similarities hardly differ, their order is rounding and sampling noise.
_FLAT = 1e-3
# Where so much of the variance lies in directions with λ < ε, whitening leaves them as they are.
_UNTOUCHED = 0.5
# Similarities are rounded to 12 decimals; identical rows reach 1 up to rounding of the products.
_SAME = 1 - 1e-6
_CONSTANT = 1e-12


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
    norms: dict[Kind, str] = {
        "features": check_prenorm(prenorm_features, "prenorm of features"),
        "states": check_prenorm(prenorm_states, "prenorm of states"),
    }
    asked: dict[Kind, list[str]] = {"features": list(dict.fromkeys(features)), "states": list(dict.fromkeys(states))}
    opened: dict[tuple[Kind, str], xr.Dataset] = {
        (kind, reference): open_array(project, kind, reference, spaces=True)
        for kind in asked
        for reference in asked[kind]
    }
    items = _items(opened, common)
    check_k(k, len(items))
    if common:
        report.note(f"{len(items)} ids are common to all arrays")
    graphs: dict[tuple[Kind, str], xr.Dataset] = {}
    with open_scheduler(scheduler) as place:
        for kind, reference in opened:
            if kind == "features":
                graphs[kind, reference] = features_graph(
                    project,
                    reference,
                    k=k,
                    eps=eps,
                    prenorm=norms[kind],
                    images=items,
                    scheduler=place,
                    progress=report,
                )
            else:
                graphs[kind, reference] = states_graph(
                    project, reference, k=k, eps=eps, prenorm=norms[kind], texts=items, scheduler=place, progress=report
                )
    labels = {**_labels(opened, "features"), **_labels(opened, "states")}
    rows = []
    for encoder in asked["features"]:
        for model in asked["states"]:
            visual, textual = graphs["features", encoder], graphs["states", model]
            result = score(visual, textual, null=null, seed=seed, bootstrap=bootstrap, progress=report)
            sides = {"features": visual.attrs, "states": textual.attrs}
            rows.append(
                {
                    "encoder": labels["features", encoder],
                    "model": labels["states", model],
                    "metric": metric,
                    "score": result.score,
                    "chance": result.chance,
                    "adjusted": result.adjusted,
                    "n": result.n,
                    "k": result.k,
                    "eps": float(eps),
                    "prenorm_features": norms["features"],
                    "prenorm_states": norms["states"],
                    "null": {
                        "mean": result.null_mean,
                        "sd": result.null_sd,
                        "p": result.null_p,
                        "repeats": null,
                        "seed": seed,
                    }
                    if null
                    else None,
                    "interval": list(result.interval) if result.interval else None,
                    "bootstrap": bootstrap,
                    "features_dtype": _dtype(opened["features", encoder], "patches"),
                    "states_dtype": _dtype(opened["states", model], "states"),
                    "features_digest": opened["features", encoder].attrs["digest"],
                    "states_digest": opened["states", model].attrs["digest"],
                    "n_over_d": {side: attrs["rows_over_channels"] for side, attrs in sides.items()},
                    "share_below_eps": {side: attrs["share_below_eps"] for side, attrs in sides.items()},
                    "cosine_spread": {
                        side: {name: attrs[f"similarity_{name}"] for name in ("mean", "sd", "min", "max")}
                        for side, attrs in sides.items()
                    },
                    "warnings": [
                        message
                        for graph in (visual, textual)
                        for message in degeneracy(graph.attrs, graph["similarity"].values)
                    ],
                    **_mixture(opened["features", encoder]),
                }
            )
    return sorted(rows, key=lambda row: (-row["score"], row["encoder"], row["model"]))


def degeneracy(attrs: Mapping[Any, Any], similarity: NDArray[np.float64]) -> list[str]:
    """What makes the neighbours of a graph unreliable, in words, each with what mends it.

    Parameters
    ----------
    attrs : mapping
        Attributes of a graph (see :func:`optotype.pipelines.operators.neighbours.feature_neighbours`).
    similarity : ndarray (n, k) float64
        Of each item to its neighbours, as the graph holds it.
    """
    side, eps, prenorm = attrs["kind"], attrs["eps"], attrs["prenorm"]
    n = len(similarity)
    found = []
    fits = _spaces(attrs)
    found += [
        _equidistant(f"{side}{where}", side, fit, n, eps, prenorm)
        for where, fit in fits
        if fit["rows"] > 1 and fit["effective_directions"] / (fit["rows"] - 1) > _FULL
    ]
    if attrs["similarity_sd"] < _FLAT:
        if attrs["similarity_sd"] < _CONSTANT and attrs["similarity_mean"] > _SAME:
            mend = "different items: these are identical"
        elif n == 2:
            mend = "more items"
        else:
            mend = "a larger --eps" if prenorm == "l2" else f"--prenorm-{side} l2 or a larger --eps"
        found.append(
            f"{side}: similarities hardly differ (sd {attrs['similarity_sd']:.2g}), neighbours are a matter of noise; "
            f"mend with {mend}"
        )
    found += _ties(side, similarity)
    for where, fit in fits:
        if fit["variance_below_eps"] > _UNTOUCHED:
            mend = f"--prenorm-{side} none or a smaller --eps" if prenorm == "l2" else "a smaller --eps"
            found.append(
                f"{side}{where}: {fit['variance_below_eps']:.0%} of the variance lies in directions with λ < ε = "
                f"{eps:g}, which whitening leaves nearly as they are; mend with {mend}"
            )
    return found


def _spaces(attrs: Mapping[Any, Any]) -> list[tuple[str, Mapping[Any, Any]]]:
    """What the whitening of each space did: of the one there is, or of the two of an interleaved mixture."""
    if f"{SPACES[0]}_rows" not in attrs:
        return [("", attrs)]
    return [
        (
            f" (space {suffix})",
            {name[2:]: value for name, value in attrs.items() if str(name).startswith(f"{suffix}_")},
        )
        for suffix in SPACES
    ]


def _equidistant(where: str, side: str, fit: Mapping[Any, Any], n: int, eps: float, prenorm: str) -> str:
    rows = "patches" if side == "features" else "texts"
    mend = f"--prenorm-{side} l2, " if prenorm == "none" else ""
    mend = "more items" if n == 2 else f"{mend}a larger --eps or more items"
    return (
        f"{where}: whitening {fit['rows']} {rows} in {fit['channels']} channels (median λ "
        f"{fit['median_eigenvalue']:.2g}, ε {eps:g}) leaves them nearly equidistant, their neighbours are mostly "
        f"noise; mend with {mend}"
    )


def _ties(side: str, similarity: NDArray[np.float64]) -> list[str]:
    """A warning where most items are equally similar to all their neighbours, so that the order of ids chose them."""
    n, k = similarity.shape
    if k < 2 or k == n - 1:  # one value is no tie, and all items are neighbours whatever their order
        return []
    tied = similarity[:, 0] == similarity[:, -1]  # falling
    if np.mean(tied) <= 0.5:
        return []
    text = f"{side}: ties decide: {np.mean(tied):.0%} of the items have equally similar neighbours"
    if np.mean(similarity[tied, 0] > _SAME) > 0.5:
        return [
            f"{text} (many identical rows); neighbours are settled by id order; no option mends it: remove duplicate "
            "items"
        ]
    return [f"{text}; neighbours are settled by id order"]


def _check_options(
    metric: str, features: Sequence[str], states: Sequence[str], null: int, seed: int, bootstrap: int
) -> None:
    if metric not in METRICS:
        raise UsageError(f"metric is one of {', '.join(METRICS)}; got {metric!r}")
    if not features or not states:
        missing = "--features" if not features else "--states"
        raise UsageError(f"a ranking takes one {missing} or more")
    check_repeats(null, seed, bootstrap)


def _ids(kind: Kind, array: xr.Dataset) -> list[str]:
    return [str(value) for value in array["image" if kind == "features" else "text"].values]


def _items(opened: Mapping[tuple[Kind, str], xr.Dataset], common: bool) -> list[str]:
    """Ids to rank over, sorted: those of every array, which must be equal unless ``common``."""
    sets = {reference: set(_ids(reference[0], array)) for reference, array in opened.items()}
    (first, reference_set), *others = sets.items()
    if common:
        shared = set.intersection(*sets.values())
        if len(shared) < 2:
            problems = [Problem(reference, "no-common-id", f"{len(ids)} ids") for (_, reference), ids in sets.items()]
            raise InvalidDataError(
                f"The arrays have {len(shared)} id(s) in common; two or more are needed",
                problems,
                hint="Ids are common where they are equal strings; look at them with `optotype features show NAME` and "
                "`optotype states show NAME`",
            )
        return sorted(shared)
    problems = []
    for other, ids in others:
        problems += id_differences(reference_set, ids, (_call(first), _call(other)))
    if problems:
        raise InvalidDataError(
            "The arrays are not over the same items", problems, hint="Rank over the ids that all of them have: --common"
        )
    return sorted(reference_set)


def _call(reference: tuple[Kind, str]) -> str:
    return f"{reference[0]} {reference[1]}"


def _labels(opened: Mapping[tuple[Kind, str], xr.Dataset], kind: Kind) -> dict[tuple[Kind, str], str]:
    """Names of the arrays; the whole reference where two are called the same."""
    names = {reference: str(array.attrs["name"]) for reference, array in opened.items() if reference[0] == kind}
    taken = list(names.values())
    return {reference: name if taken.count(name) == 1 else reference[1] for reference, name in names.items()}


def _dtype(array: xr.Dataset, member: str) -> str:
    """Dtype of the values on disk; of each space, where there are two and they differ."""
    names = [f"{member}_{suffix}" for suffix in SPACES] if is_interleaved(array) else [member]
    dtypes = (str(array[name].attrs.get("stored_dtype", array[name].dtype)) for name in names)
    return ", ".join(dict.fromkeys(dtypes))


def _mixture(array: xr.Dataset) -> dict[str, Any]:
    """What a row says of a virtual encoder; nothing of a stored one."""
    told = array.attrs.get("mixture")
    if told is None:
        return {}
    alpha = told["alpha"]
    ratio = None if alpha is None else round(1.0 - alpha, 12)
    return {"mixture": {"kind": told["kind"], "alpha": alpha, "ssl_ratio": ratio, "a": told["a"], "b": told["b"]}}
