"""Retrieval over emoji in several languages, in the space of every encoder, language model and style of names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.emoji.names import name_id
from optotype.pipelines.emoji.probe.directions import unit
from optotype.pipelines.emoji.probe.fitting import Side
from optotype.pipelines.emoji.probe.halves import folds, halves, repeats
from optotype.pipelines.emoji.probe.pooling import pooled
from optotype.pipelines.emoji.probe.questions import CHOICES
from optotype.pipelines.emoji.probe.table import Pairs
from optotype.pipelines.emoji.retrieval.contrasts import ENGLISH, Setting, contrasts
from optotype.pipelines.emoji.retrieval.given import NamesArray, check_arguments, check_inputs, embeddings_asked
from optotype.pipelines.emoji.retrieval.rows import rows_of
from optotype.pipelines.emoji.retrieval.space import Space, fit_space
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.retrieval.evaluate import Retrieval, evaluate
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["EmojiRetrieval", "emoji_retrieval"]

_FOLDS = 5
_FEWEST = 4 * CHOICES  # different pairs in the training half, as for the panel of probes


@dataclass(frozen=True)
class EmojiRetrieval:
    """What was found.

    Attributes
    ----------
    rows : list of dict
        One per encoder, language model, style fitted on, style asked about, task and language; see `rows_of`.
    contrasts : list of dict
        See `optotype.pipelines.emoji.retrieval.contrasts.contrasts`.
    fits : list of dict
        ``encoder``, ``language_model``, ``fitted_on``, ``shrink``, ``penalty``, ``validation``.
    sizes : dict
        ``emoji``, ``train`` (pairs fitted on), ``held_out``.
    inputs : dict
        Digests of pairs, task set and arrays.
    notes : list of str
        What was left out, and what could not be used.
    """

    rows: list[dict[str, Any]]
    contrasts: list[dict[str, Any]]
    fits: list[dict[str, Any]]
    sizes: dict[str, int]
    inputs: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Job:
    """Everything that one fit needs besides the encoder."""

    model: str
    fitted_on: str
    side: Side
    vectors: Mapping[str, tuple[NDArray[np.object_], NDArray[np.float64]]]  # style -> ids and states of held-out names


@dataclass(frozen=True)
class _Settings:
    probe: str
    at: Sequence[int]
    bootstrap: int
    seed: int


def emoji_retrieval(
    pairs: Pairs,
    features: Sequence[xr.Dataset],
    names: Sequence[NamesArray],
    tasks: xr.Dataset,
    *,
    probe: str = "contrastive",
    at: Sequence[int] = (1, 5, 10),
    bootstrap: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> EmojiRetrieval:
    """Fit a joint space to English names of half of the emoji, and retrieve among the other half in every language.

    Each (encoder, language model, style) gives one space: a map from pooled image features to states of the English
    names in that style, all of it (whitening, penalties) by the training half. In it the images are compared with the
    names of each style, that of the fit and the others, in every language of the task set.

    Parameters
    ----------
    pairs : Pairs
    features : sequence of Dataset
        Patch features of the encoders, of exactly these pairs; names differ.
    names : sequence of NamesArray
        The same styles of every language model.
    tasks : Dataset
        As `optotype.store.tasks.open_tasks` gives it: the embedding of an image is called by the emoji's id, that of a
        name ``<language>/<emoji>``. Nothing in it may be of the training half.
    probe : str
        Kind of the map: ``contrastive`` or ``ridge``.
    at : sequence of int
        k of hit@k and nDCG@k.
    bootstrap : int
        Resamples for intervals; 0 for none.
    seed : int
        Of halves, folds and resamples. Equal input gives equal bytes, whatever the number of threads.
    progress : Progress, optional

    Raises
    ------
    InvalidDataError
        Features of other ids than the pairs, too few English names in the training half, an array that does not vary,
        or a task set about the training half or about other emoji (all problems).
    UsageError
        No encoder or names, two of one name, a language model without one of the styles, an unknown kind of probe.
    """
    from threadpoolctl import threadpool_limits

    report = progress or SILENT
    check_arguments(features, names, probe)
    sets = repeats(pairs.texts, pairs.pixels)
    in_train = halves(pairs.groups, sets, seed)
    check_inputs(pairs, features, names, tasks, in_train)
    models = list(dict.fromkeys(array.language_model for array in names))
    styles = list(dict.fromkeys(array.style for array in names))
    states = {(array.language_model, array.style): _rows(array.states) for array in names}
    train, notes = _train(pairs, states, in_train)
    different = len(np.unique(sets[train]))
    if different < _FEWEST:
        message = f"{different} different pairs with English names in the training half; a probe needs {_FEWEST}"
        raise InvalidDataError("A probe cannot be fitted", [Problem("names", "too-few-pairs", message)])
    fold = folds(sets[train], min(_FOLDS, different // (2 * CHOICES)), seed)
    with threadpool_limits(1):  # BLAS with several threads adds up in another order
        jobs = _jobs(pairs, models, styles, states, tasks, train, fold)
        settings = _Settings(probe, at, bootstrap, seed)
        rows: list[dict[str, Any]] = []
        fits: list[dict[str, Any]] = []
        outcomes: dict[Setting, dict[tuple[str, str], dict[str, float]]] = {}
        for encoder, job, space, retrieved in _run(pairs, features, jobs, tasks, train, fold, settings, report):
            head = {"encoder": encoder, "language_model": job.model, "fitted_on": job.fitted_on}
            fits.append({**head, **{name: getattr(space, name) for name in ("shrink", "penalty", "validation")}})
            for style, retrieval in retrieved.items():
                rows += rows_of({**head, "style": style}, retrieval)
                outcomes[encoder, job.model, job.fitted_on, style] = _outcomes(tasks, retrieval)
                notes += [note for note in retrieval.notes if note not in notes]
        clusters = {emoji: int(number) for emoji, number in zip(pairs.ids, sets, strict=True)}
        compared = contrasts(outcomes, clusters, bootstrap=bootstrap, seed=seed)
    sizes = {"emoji": len(pairs), "train": len(train), "held_out": int(np.count_nonzero(~in_train))}
    inputs = {
        "pairs": pairs.digest,
        "tasks": tasks.attrs["digest"],
        "features": {str(array.attrs["name"]): array.attrs["digest"] for array in features},
        "names": {f"{array.language_model}:{array.style}": array.states.attrs["digest"] for array in names},
    }
    return EmojiRetrieval(rows, compared, fits, sizes, inputs, notes)


def _run(
    pairs: Pairs,
    features: Sequence[xr.Dataset],
    jobs: Sequence[_Job],
    tasks: xr.Dataset,
    train: NDArray[np.int64],
    fold: NDArray[np.int64],
    settings: _Settings,
    report: Progress,
) -> Iterator[tuple[str, _Job, Space, dict[str, Retrieval]]]:
    """Fit side by side and retrieve, in the order of encoders, language models and styles."""
    wanted = embeddings_asked(tasks)
    shown = np.array([place for place, emoji in enumerate(pairs.ids) if emoji in wanted], dtype=np.int64)
    images_of = np.array([pairs.ids[place] for place in shown], dtype=object)
    total = len(features) * len(jobs)
    with report("fitting spaces", total=total, unit="spaces") as task, ThreadPoolExecutor(_workers()) as pool:
        sides: dict[str, Side] = {}
        waiting = []
        for array in features:
            name = str(array.attrs["name"])
            sides[name] = Side.of(pooled(array), train, fold, f"features {name}")
            for job in jobs:
                fitting = pool.submit(fit_space, sides[name], job.side, train, fold, settings.probe)
                waiting.append((name, job, fitting))
        for name, job, fitting in waiting:
            space = fitting.result()
            images = space.of_images(sides[name].rows[shown])
            retrieved = {}
            for style, (ids, rows) in job.vectors.items():
                joint = _joint(np.concatenate([images_of, ids]), np.concatenate([images, space.of_texts(rows)]))
                retrieved[style] = evaluate(
                    tasks,
                    [joint],
                    [joint],
                    at=settings.at,
                    bootstrap=settings.bootstrap,
                    seed=settings.seed,
                    workers=1,
                )
            task.advance()
            yield name, job, space, retrieved


def _jobs(
    pairs: Pairs,
    models: Sequence[str],
    styles: Sequence[str],
    states: Mapping[tuple[str, str], tuple[dict[str, int], NDArray[np.float64]]],
    tasks: xr.Dataset,
    train: NDArray[np.int64],
    fold: NDArray[np.int64],
) -> list[_Job]:
    wanted = embeddings_asked(tasks)
    vectors = {}
    for key, (place, rows) in states.items():
        ids = sorted(name for name in place if name in wanted)
        vectors[key] = np.array(ids, dtype=object), rows[[place[name] for name in ids]]
    jobs = []
    for model in models:
        for fitted_on in styles:
            place, rows = states[model, fitted_on]
            english = np.zeros((len(pairs), rows.shape[1]))
            for i in train:
                english[i] = rows[place[name_id(ENGLISH, pairs.ids[i])]]
            side = Side.of(english, train, fold, f"names {model}:{fitted_on}")
            jobs.append(_Job(model, fitted_on, side, {style: vectors[model, style] for style in styles}))
    return jobs


def _rows(states: xr.Dataset) -> tuple[dict[str, int], NDArray[np.float64]]:
    """Where each id is, and the states as rows of length 1."""
    place = {str(name): number for number, name in enumerate(states["text"].values)}
    return place, unit(states["states"].values)


def _joint(ids: NDArray[np.object_], rows: NDArray[np.float64]) -> xr.Dataset:
    return xr.Dataset({"states": (("text", "channel"), rows)}, coords={"text": ("text", ids)}, attrs={"name": "joint"})


def _train(
    pairs: Pairs,
    states: Mapping[tuple[str, str], tuple[dict[str, int], NDArray[np.float64]]],
    in_train: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], list[str]]:
    """Pairs to fit on: of the training half, those whose English name every array has."""
    named = np.array(
        [all(name_id(ENGLISH, emoji) in place for place, _ in states.values()) for emoji in pairs.ids], dtype=bool
    )
    left_out = int(np.count_nonzero(in_train & ~named))
    notes = [f"{left_out} emoji of the training half have no English name and are not fitted on"] if left_out else []
    return np.flatnonzero(in_train & named), notes


def _outcomes(tasks: xr.Dataset, retrieval: Retrieval) -> dict[tuple[str, str], dict[str, float]]:
    """P@1 (ties as chances) of every item, by task and language; of several queries about one item, the mean."""
    gathered: dict[tuple[str, str], dict[str, list[float]]] = {
        (cell["task"], cell["language"]): {} for cell in retrieval.cells
    }
    columns = (tasks[name].values for name in ("task", "language", "item"))
    for task, language, item, value in zip(*columns, retrieval.p1, strict=True):
        gathered[task, language].setdefault(item, []).append(float(value))
    return {
        cell: {item: sum(values) / len(values) for item, values in of_cell.items()}
        for cell, of_cell in gathered.items()
    }


def _workers() -> int:
    return min(4, os.cpu_count() or 1)
