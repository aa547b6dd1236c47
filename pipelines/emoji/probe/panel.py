"""Every (encoder, language model, probe) as a panel model that answers the same questions, with blind runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.blind import blind_runs
from optotype.pipelines.emoji.probe.directions import unit
from optotype.pipelines.emoji.probe.finite import state_problems
from optotype.pipelines.emoji.probe.fitting import Fit, Side, fit_pair
from optotype.pipelines.emoji.probe.halves import folds, halves, repeats
from optotype.pipelines.emoji.probe.maps import PROBES
from optotype.pipelines.emoji.probe.pooling import pooled
from optotype.pipelines.emoji.probe.questions import CHOICES, Question, cosines, make_questions
from optotype.pipelines.emoji.probe.table import Pairs
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.ravel import id_differences
from optotype.schemas.errors import InvalidDataError, NotFoundError, Problem, UsageError, did_you_mean

__all__ = ["Member", "ProbePanel", "probe_panel"]

_FOLDS = 5
_FEWEST = 4 * CHOICES  # pairs in the training half: two folds that can be asked about, and as much to fit on


@dataclass(frozen=True)
class Member:
    """One panel model.

    Attributes
    ----------
    encoder, language_model, probe : str
    layer : object
        Attribute of the encoder's array.
    fit : Fit
    """

    encoder: str
    language_model: str
    probe: str
    layer: object
    fit: Fit

    @property
    def name(self) -> str:
        """Of the panel model."""
        return f"{self.encoder}/{self.language_model}/{self.probe}"


@dataclass(frozen=True)
class ProbePanel:
    """Answers of all panel models and blind runs.

    Attributes
    ----------
    pairs : Pairs
    train : ndarray (t,) int64
        Pairs of the training half.
    sets : ndarray (n,) int64
        See `optotype.pipelines.emoji.probe.halves.repeats`.
    questions : list of Question
    members : list of Member
    choices : ndarray (m, q) int64
        Place of the option that each panel model chose, the first of equals.
    blind : mapping of str to ndarray (q,) int64
        The same of the blind runs.
    nearest_by : str
        Language model whose states chose the wrong captions of kind ``nearest``.
    inputs : mapping
        Digests of pairs and arrays.
    notes : list of str
        What was left out.
    """

    pairs: Pairs
    train: NDArray[np.int64]
    sets: NDArray[np.int64]
    questions: list[Question]
    members: list[Member]
    choices: NDArray[np.int64]
    blind: Mapping[str, NDArray[np.int64]]
    nearest_by: str
    inputs: Mapping[str, object]
    notes: list[str] = field(default_factory=list)

    @property
    def answers(self) -> NDArray[np.int64]:
        """Place of the right option of each question, (q,)."""
        return np.array([question.answer for question in self.questions], dtype=np.int64)

    @property
    def clusters(self) -> NDArray[np.int64]:
        """Set of repeats that each question is about, (q,)."""
        return self.sets[[question.target for question in self.questions]]


def probe_panel(
    pairs: Pairs,
    features: Sequence[xr.Dataset],
    states: Sequence[xr.Dataset],
    *,
    nearest_by: str | None = None,
    min_items: int = 10,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProbePanel:
    """Fit a probe of each kind to each (encoder, language model) pair and let it answer the questions.

    Parameters
    ----------
    pairs : Pairs
    features : sequence of Dataset
        Patch features of the encoders, of exactly these pairs; names differ.
    states : sequence of Dataset
        Text states of their captions.
    nearest_by : str, optional
        Language model whose cosines choose the wrong captions of kind ``nearest``; by default the first.
    min_items : int
        See `optotype.pipelines.emoji.probe.questions.make_questions`.
    seed : int
        Of halves, folds and questions. Equal input gives equal bytes, whatever the number of threads.
    progress : Progress, optional

    Raises
    ------
    InvalidDataError
        Arrays of other ids than the pairs (all differences), too few pairs, or an array that does not vary.
    NotFoundError
        ``nearest_by`` is none of the language models.
    UsageError
        No encoder or language model, or two of one name.
    """
    from threadpoolctl import threadpool_limits

    report = progress or SILENT
    models = _names(states, "--states")
    _names(features, "--features")
    chosen = models[0] if nearest_by is None else nearest_by
    if chosen not in models:
        hint = did_you_mean(chosen, models) or f"There are: {', '.join(models)}."
        raise NotFoundError(f"wrong captions are to be chosen by {chosen!r}, which is not among --states", hint=hint)
    _check_ids(pairs, features, states)
    sets = repeats(pairs.texts, pairs.pixels)
    in_train = halves(pairs.groups, sets, seed)
    train, held_out = np.flatnonzero(in_train), np.flatnonzero(~in_train)
    different = len(np.unique(sets[train]))
    if different < _FEWEST:
        message = f"{different} different pairs in the training half; a probe needs {_FEWEST}"
        problem = Problem("pairs", "too-few-pairs", message)
        raise InvalidDataError("A probe cannot be fitted", [problem], hint="Make more: optotype emoji pairs --n 400")
    fold = folds(sets[train], min(_FOLDS, different // (2 * CHOICES)), seed)
    problems = [problem for array in states for problem in state_problems(array)]
    if problems:
        raise InvalidDataError("A panel takes states that are finite", problems)
    raw = {model: array["states"].values.astype(np.float64) for model, array in zip(models, states, strict=True)}
    similarity = cosines(raw[chosen][held_out])
    questions, notes = make_questions(pairs, held_out, sets, similarity, seed=seed, min_items=min_items)
    with threadpool_limits(1):  # BLAS with several threads adds up in another order
        members = _members(features, raw, train, fold, report)
    options = np.array([question.options for question in questions], dtype=np.int64)
    targets = np.array([question.target for question in questions], dtype=np.int64)
    choices = [np.argmax(member.fit.similarity[targets[:, None], options], axis=1) for member in members]
    by_probe: dict[tuple[str, str], list[NDArray[np.float64]]] = {}
    for member in members:
        by_probe.setdefault((member.language_model, member.probe), []).append(member.fit.similarity)
    blind = {name: np.argmax(scores, axis=1) for name, scores in blind_runs(raw, by_probe, train, options).items()}
    inputs = {
        "pairs": pairs.digest,
        "features": {str(array.attrs["name"]): array.attrs["digest"] for array in features},
        "states": {str(array.attrs["name"]): array.attrs["digest"] for array in states},
    }
    return ProbePanel(pairs, train, sets, questions, members, np.stack(choices), blind, chosen, inputs, notes)


def _members(
    features: Sequence[xr.Dataset],
    raw: Mapping[str, NDArray[np.float64]],
    train: NDArray[np.int64],
    fold: NDArray[np.int64],
    report: Progress,
) -> list[Member]:
    """All panel models, by encoder, language model and probe in the order given. Pairs are fitted side by side."""
    texts = {model: Side.of(unit(rows), train, fold, f"states {model}") for model, rows in raw.items()}
    members = []
    total = len(features) * len(texts)
    with report("fitting probes", total=total, unit="pairs") as task, ThreadPoolExecutor(_workers()) as pool:

        def fitted(images: Side, side: Side) -> Mapping[str, Fit]:
            fits = fit_pair(images, side, train, fold, list(PROBES))
            task.advance()
            return fits

        for array in features:
            name = str(array.attrs["name"])
            images = Side.of(pooled(array), train, fold, f"features {name}")
            jobs = {model: pool.submit(fitted, images, side) for model, side in texts.items()}
            members += [
                Member(name, model, probe, array.attrs.get("layer"), fit)
                for model, job in jobs.items()
                for probe, fit in job.result().items()
            ]
    return members


def _workers() -> int:
    return min(4, os.cpu_count() or 1)


def _names(arrays: Sequence[xr.Dataset], option: str) -> list[str]:
    names = [str(array.attrs["name"]) for array in arrays]
    if not names:
        raise UsageError(f"a panel takes one {option} or more")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{option}: more than one array is called {', '.join(twice)}; panel models need other names")
    return names


def _check_ids(pairs: Pairs, features: Sequence[xr.Dataset], states: Sequence[xr.Dataset]) -> None:
    """InvalidDataError unless every array has exactly the ids of the pairs (sorted, as these are)."""
    problems = []
    for kind, label, arrays in (("features", "image", features), ("states", "text", states)):
        for array in arrays:
            ids = {str(value) for value in array[label].values}
            problems += id_differences(set(pairs.ids), ids, ("the pairs", f"{kind} {array.attrs['name']}"))
    if problems:
        raise InvalidDataError(
            "The arrays are not of these pairs", problems, hint="Encode them again: optotype encode images, texts"
        )
