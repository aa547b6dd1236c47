"""What a ranking report is made from, gathered from a project and checked as a whole before anything is drawn."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optotype.pipelines.graphs import features_graph, states_graph
from optotype.pipelines.kernels.rows import BlockCache, RowReader, spans_of_rows
from optotype.pipelines.kernels.whitening import check_prenorm, fit, merge, moments, whiten
from optotype.schemas.errors import InvalidDataError, OptotypeError, Problem
from optotype.store.dataset import read_images, read_texts
from optotype.store.features import open_features, select_images
from optotype.store.project import Kind, Project
from optotype.store.states import open_states

__all__ = ["Graph", "Inputs", "Pairs", "gather", "read_pairs", "whitened_patches"]

_SHOWN = 5
_SUMMARY = "the report cannot be made"
_STALE_HINT = "Rank these arrays again: optotype rank ... --out DIR"
_KINDS: tuple[tuple[Kind, str, Callable[[Any], Any]], ...] = (
    ("features", "encoder", open_features),
    ("states", "model", open_states),
)


@dataclass(frozen=True)
class Graph:
    """One side's neighbours: ``neighbours`` and ``similarity`` (n, k), nearest first, and its spectrum."""

    neighbours: np.ndarray
    similarity: np.ndarray
    eigenvalues: np.ndarray
    whitened_variance: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """The image file and the caption of every item, by id."""

    paths: Mapping[str, Path]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Inputs:
    """Everything of the main combination that is not in the rows.

    Attributes
    ----------
    ids : tuple of str
        The n items that were ranked, sorted; index i of every graph is ``ids[i]``.
    pairs : Pairs
        Images and captions, of these ids at least.
    encoders, models : mapping of str to Graph
        Neighbours per encoder and per language model.
    arrays : mapping of str to Any
        The lazily opened patch features (xarray Dataset) per encoder.
    """

    ids: tuple[str, ...]
    pairs: Pairs
    encoders: Mapping[str, Graph]
    models: Mapping[str, Graph]
    arrays: Mapping[str, Any]


def read_pairs(table: Path) -> Pairs:
    """Images and captions of ``table`` (columns id, image, text; image paths relative to the table).

    Raises
    ------
    InvalidDataError
        Lists every problem of both columns, missing images among them.
    """
    problems: list[Problem] = []
    images = texts = None
    try:
        images = read_images(table)
    except InvalidDataError as error:
        problems += error.problems
    try:
        texts = read_texts(table)
    except InvalidDataError as error:
        problems += [problem for problem in error.problems if problem not in problems]
    if problems or images is None or texts is None:
        raise InvalidDataError(f"{Path(table).name}: {len(problems)} problems", problems)
    return Pairs(
        {item: Path(path) for item, path in zip(images.ids, images.paths, strict=True)},
        dict(zip(texts.ids, texts.texts, strict=True)),
    )


def gather(rows: Sequence[Mapping[str, Any]], project: Project, pairs: Path, *, scheduler: str = "threads") -> Inputs:
    """Open everything that the rows of the main combination speak of.

    Neighbour graphs come out of the project (``data/neighbours``, or its cache) and are computed only where
    they are missing.

    Raises
    ------
    InvalidDataError
        Lists every array that is not the one that was ranked (its digest differs), every ranked item without
        an image or a caption, and all problems of the table of pairs.
    """
    problems: list[Problem] = []
    opened: dict[str, dict[str, Any]] = {"features": {}, "states": {}}
    for kind, column, opener in _KINDS:
        for name, digest in sorted({(str(row[column]), str(row[f"{kind}_digest"])) for row in rows}):
            try:
                opened[kind][name] = _open(project, kind, name, digest, opener)
            except InvalidDataError as error:
                problems += error.problems
            except OptotypeError as error:
                problems.append(Problem(name, "not-open", error.message))
    try:
        table = read_pairs(pairs)
    except InvalidDataError as error:
        raise InvalidDataError(_SUMMARY, [*problems, *error.problems]) from error
    if problems:
        raise InvalidDataError(_SUMMARY, problems, hint=_STALE_HINT)

    id_lists = [ds["image"].values.tolist() for ds in opened["features"].values()]
    id_lists += [ds["text"].values.tolist() for ds in opened["states"].values()]
    ids = tuple(sorted(set(map(str, id_lists[0])).intersection(*id_lists[1:])))
    first = rows[0]
    if len(ids) != int(first["n"]):
        message = f"it is over {first['n']} items, its arrays have {len(ids)} in common"
        problems.append(Problem("ranking", "stale-ranking", message))
    for what, known in (("image", table.paths), ("caption", table.texts)):
        missing = [item for item in ids if item not in known]
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            message = f"{len(missing)} ranked items have no {what}: {', '.join(missing[:_SHOWN])}{more}"
            problems.append(Problem(Path(pairs).name, f"missing-{what}", message))
    if problems:
        raise InvalidDataError(_SUMMARY, problems)

    options: dict[str, Any] = {"k": int(first["k"]), "eps": float(first["eps"]), "scheduler": scheduler}
    norms = {kind: str(first[f"prenorm_{kind}"]) for kind in opened}
    return Inputs(
        ids=ids,
        pairs=table,
        encoders={
            name: _graph(features_graph(project, name, prenorm=norms["features"], images=ids, **options))
            for name in opened["features"]
        },
        models={
            name: _graph(states_graph(project, name, prenorm=norms["states"], texts=ids, **options))
            for name in opened["states"]
        },
        arrays=opened["features"],
    )


def whitened_patches(
    features: Any, ids: Sequence[str], items: Sequence[str], *, eps: float, prenorm: str
) -> list[np.ndarray]:
    """Whitened, row-normalised patches of some items, as the ranking saw them.

    Parameters
    ----------
    features : Dataset
        As `open_features` gives it.
    ids : sequence of str
        The n ranked items; the whitening is fitted on all their patches.
    items : sequence of str
        Some of them.
    eps, prenorm
        Of the whitening.

    Returns
    -------
    list of ndarray, each (M_i, r) float64
        Rows of length 1.
    """
    known = {str(item): position for position, item in enumerate(features["image"].values.tolist())}
    if len(known) != len(ids):
        features = select_images(features, np.array([known[item] for item in ids]))
        known = {item: position for position, item in enumerate(ids)}
    norm = check_prenorm(prenorm)
    rows = features["patches"].data
    reader, cache = RowReader(rows, "report"), BlockCache()
    # The spans of the neighbour graphs: the same additions in the same order, so the same whitening.
    parts = (moments(reader.read(start, stop, cache), norm) for start, stop in spans_of_rows(*rows.shape))
    whitening = fit(functools.reduce(merge, parts), eps, norm)
    ends = np.cumsum(features["row_size"].values)
    whitened = []
    for item in items:
        end = int(ends[known[item]])
        start = end - int(features["row_size"].values[known[item]])
        whitened.append(whiten(reader.read(start, end, cache), whitening)[0])
    return whitened


def _open(project: Project, kind: Kind, name: str, digest: str, opener: Callable[[Any], Any]) -> Any:
    dataset = opener(project.resolve(kind, name))
    found = dataset.attrs.get("digest")
    if found != digest:
        message = f"these {kind} are not those that were ranked: digest {found}, in the ranking {digest}"
        raise InvalidDataError(_SUMMARY, [Problem(name, "stale-ranking", message)])
    return dataset


def _graph(dataset: Any) -> Graph:
    return Graph(
        np.asarray(dataset["neighbours"].values),
        np.asarray(dataset["similarity"].values, dtype=np.float64),
        np.asarray(dataset["eigenvalues"].values, dtype=np.float64),
        np.asarray(dataset["whitened_variance"].values, dtype=np.float64),
    )
