"""What every metric has to satisfy, as checks that can be run on any of them."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from optotype.pipelines.metrics.keypoints import Keypoints
from optotype.pipelines.metrics.metric import (
    NEEDS,
    Inputs,
    Metric,
    Option,
    PoolMetric,
    Refusal,
    Score,
    checked_options,
    hangs_on_pairing,
    reads_patches,
)
from optotype.pipelines.metrics.misfits import misfits
from optotype.schemas.errors import OptotypeError, Problem, UsageError

__all__ = ["CHECKS", "conformance_problems", "planted_inputs", "planted_pool"]

_BROKEN = (OptotypeError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, Warning)
_ITEMS = 120
_CLASSES = 4
_WORDS = ("red", "blue", "green", "tree")  # plain ones, which small vocabularies hold
_GRID = 2
_SIZES = (2, 3, 4, 7, 19)

AnyMetric = Metric | PoolMetric
Options = Mapping[str, Any]


def planted_inputs(
    seed: int, *, noise: float = 0.3, encoder: str = "encoder", n: int = _ITEMS, language_model: str | None = None
) -> Inputs:
    """Images and texts that tell of the same hidden things, as clearly as ``noise`` leaves it.

    Each item has a class and a place within it, in 6 hidden dimensions. States and the mean of the 4 patches of an
    image (a 2 x 2 grid) are linear in them, in 12 and 10 channels, with noise in the patches alone. Classes are labels,
    captions name the class (a word) and a half of the first dimension. Keypoints join each item with the next: a patch
    stands for itself.
    """
    generator = np.random.default_rng(seed)
    classes = generator.permutation(np.arange(n) % _CLASSES)
    centres = 3 * generator.standard_normal((_CLASSES, 6))
    hidden = centres[classes] + generator.standard_normal((n, 6))
    states = hidden @ generator.standard_normal((6, 12)) + 0.5
    means = hidden @ generator.standard_normal((6, 10)) - 0.5
    corners = 4 * generator.standard_normal((_GRID**2, 10))
    corners -= corners.mean(axis=0)
    tokens = means[:, None] + corners + noise * 10 * np.random.default_rng([seed, 1]).standard_normal((n, _GRID**2, 10))
    items = np.array([f"item-{number:03}" for number in range(n)], dtype=object)
    animals = np.where(hidden[:, 0] > np.median(hidden[:, 0]), "dog", "cat")
    features = xr.Dataset(
        {
            "patches": (("token", "channel"), tokens.reshape(-1, 10)),
            "row_size": ("image", np.full(n, _GRID**2), {"sample_dimension": "token"}),
        },
        coords={"image": ("image", items)},
        attrs={"grid": [_GRID, _GRID], "name": encoder},
    )
    return Inputs(
        encoder=encoder,
        model="model",
        items=items,
        pooled=tokens.mean(axis=1),
        states=states,
        features=features,
        labels=np.array([f"class-{value}" for value in classes], dtype=object),
        keypoints=_keypoints(items),
        captions=np.array(
            [f"{_WORDS[value]} {animal}" for value, animal in zip(classes, animals, strict=True)], dtype=object
        ),
        language_model=language_model,
    )


def _keypoints(items: np.ndarray[Any, Any]) -> Keypoints:
    pairs = list(itertools.pairwise(items))
    centres = [((place % _GRID + 0.5) / _GRID, (place // _GRID + 0.5) / _GRID) for place in range(_GRID**2)]
    rows = [(first, second, str(place)) for first, second in pairs for place in range(_GRID**2)]
    places = np.array(centres * len(pairs))
    first, second, names = zip(*rows, strict=True)
    return Keypoints(first, second, names, places, places.copy())


def planted_pool(seed: int, *, language_model: str | None = None, encoders: int = 10) -> list[Inputs]:
    """Encoders of rising noise, with downstream scores that fall with it."""
    pool = [
        planted_inputs(seed, noise=0.2 * number, encoder=f"encoder-{number:02}", language_model=language_model)
        for number in range(encoders)
    ]
    downstream = {(inputs.encoder, "model"): 0.9 - 0.05 * number for number, inputs in enumerate(pool)}
    return [replace(inputs, downstream=downstream) for inputs in pool]


def _shuffled(inputs: Inputs, seed: int) -> Inputs:
    """The same images with the texts, labels and keypoints of others."""
    order = np.random.default_rng([seed, 2]).permutation(len(inputs.items))
    points = inputs.keypoints
    if points is not None:
        points = replace(points, b=points.b[np.random.default_rng([seed, 3]).permutation(len(points.b))])
    return replace(
        inputs,
        states=None if inputs.states is None else inputs.states[order],
        labels=None if inputs.labels is None else inputs.labels[order],
        captions=None if inputs.captions is None else inputs.captions[order],
        keypoints=points,
    )


def _turned(inputs: Inputs, seed: int) -> Inputs:
    """The same pairs in another order, under the same ids in rising order: which item is called what has no say."""
    order = np.random.default_rng([seed, 4]).permutation(len(inputs.items))
    tokens = inputs.features["patches"].values.reshape(len(order), _GRID**2, -1)[order]
    features = inputs.features.assign(patches=(("token", "channel"), tokens.reshape(-1, tokens.shape[-1])))
    return replace(
        inputs,
        pooled=inputs.pooled[order],
        states=None if inputs.states is None else inputs.states[order],
        features=features,
        labels=None if inputs.labels is None else inputs.labels[order],
        captions=None if inputs.captions is None else inputs.captions[order],
    )


def _scores(metric: AnyMetric, pool: Sequence[Inputs], options: Options, seed: int) -> list[Score]:
    """Scores of members of a pool; a refusal is a problem."""
    if not getattr(metric, "over_pool", False):
        return [metric.score(inputs, options, seed=seed) for inputs in pool]  # type: ignore[union-attr]
    results = metric.scores(pool, options, seed=seed)  # type: ignore[union-attr]
    for result in results:
        if isinstance(result, Refusal):
            raise UsageError(result.why, hint=result.hint)
    return [result for result in results if isinstance(result, Score)]


class _Case:
    """A metric with the options and the data of its checks, scored once."""

    def __init__(self, metric: AnyMetric, seed: int, options: Options, language_model: str | None) -> None:
        self.metric, self.seed, self.given = metric, seed, dict(options)
        self.options = checked_options(metric, options)
        self.over_pool = bool(getattr(metric, "over_pool", False))
        self.pool = planted_pool(seed, language_model=language_model)
        if not self.over_pool:
            self.pool = self.pool[1:2]
        self.first = self.score(self.pool)

    def score(self, pool: Sequence[Inputs]) -> list[Score]:
        return _scores(self.metric, pool, self.options, self.seed)


def _described(case: _Case) -> Iterator[str]:
    metric = case.metric
    if metric.kind not in ("vision-only", "cross-modal", "trains"):
        yield f"kind is vision-only, cross-modal or trains; got {metric.kind!r}"
    if unknown := set(metric.needs) - set(NEEDS):
        yield f"needs are among {', '.join(NEEDS)}; got {', '.join(sorted(unknown))}"
    if metric.kind == "vision-only" and metric.needs & {"states", "captions", "language-model"}:
        yield "a vision-only metric needs nothing of a language model"
    if metric.kind == "cross-modal" and "states" not in metric.needs:
        yield "a cross-modal metric needs states"
    if not metric.source.strip() or "\n" in metric.source:
        yield "source is one line"


def _form(case: _Case) -> Iterator[str]:
    for score in case.first:
        if not isinstance(score.value, float) or not math.isfinite(score.value):
            yield f"a score is a finite float; got {score.value!r}"
        if score.chance is not None and not math.isfinite(score.chance):
            yield f"chance is finite or None; got {score.chance!r}"
        json.dumps(dict(score.details), allow_nan=False)
        if not all(isinstance(text, str) and text for text in score.warnings):
            yield "warnings are sentences"
        items = score.per_item
        if items is not None and (items.ndim != 1 or items.dtype != np.float64 or not np.isfinite(items).all()):
            yield "per_item is one finite float64 an item"
        elif items is not None and not math.isclose(float(items.mean()), score.value, rel_tol=1e-9, abs_tol=1e-12):
            yield f"the mean of per_item is the score; got {items.mean()} and {score.value}"


def _repeatable(case: _Case) -> Iterator[str]:
    before = [(inputs.pooled.copy(), None if inputs.states is None else inputs.states.copy()) for inputs in case.pool]
    again = case.score(case.pool)
    for one, other in zip(case.first, again, strict=True):
        if one.value != other.value or json.dumps(dict(one.details)) != json.dumps(dict(other.details)):
            yield f"the same inputs, options and seed give the same score; got {one.value} and {other.value}"
    for inputs, (pooled, states) in zip(case.pool, before, strict=True):
        if not np.array_equal(pooled, inputs.pooled) or not (
            states is None or inputs.states is None or np.array_equal(states, inputs.states)
        ):
            yield "the inputs are not written to"


def _planted(case: _Case) -> Iterator[str]:
    """What is planted scores above the same images with the texts and labels of others, unless pairings have no say."""
    if case.over_pool:
        wanted = [inputs.downstream[inputs.encoder, "model"] for inputs in case.pool if inputs.downstream]
        got = [score.value for score in case.first]
        if not np.corrcoef(np.argsort(np.argsort(got)), np.argsort(np.argsort(wanted)))[0, 1] > 0.5:
            yield f"encoders of rising noise are ordered so; got {got}"
        return
    (aligned,), (shuffled,) = case.first, case.score([_shuffled(inputs, case.seed) for inputs in case.pool])
    if case.metric.kind == "cross-modal" and not hangs_on_pairing(case.metric):
        if not math.isclose(aligned.value, shuffled.value, rel_tol=1e-6, abs_tol=1e-9):
            yield (
                "a metric with pairing = False scores shuffled pairs as it does true ones; got "
                f"{aligned.value} and {shuffled.value}"
            )
        return
    if not aligned.value > shuffled.value:
        yield f"what is aligned scores above what is shuffled; got {aligned.value} and {shuffled.value}"


def _unrelated(case: _Case) -> Iterator[str]:
    """What is planted scores above states without any structure."""
    if case.over_pool or case.metric.kind != "cross-modal":
        return
    noise = np.random.default_rng([case.seed, 5]).standard_normal
    pool = [
        replace(inputs, states=None if inputs.states is None else noise(inputs.states.shape)) for inputs in case.pool
    ]
    (aligned,), (unrelated,) = case.first, case.score(pool)
    if not aligned.value > unrelated.value:
        yield f"states that are alike score above noise; got {aligned.value} and {unrelated.value}"


def _joint_order(case: _Case) -> Iterator[str]:
    """Which pair stands where is no matter, but for sums of another order."""
    if case.over_pool or case.metric.kind == "trains":
        return
    turned = case.score([_turned(inputs, case.seed) for inputs in case.pool])
    for one, other in zip(case.first, turned, strict=True):
        if not math.isclose(one.value, other.value, rel_tol=1e-6, abs_tol=1e-9):
            yield f"the order of the pairs has no say; got {one.value} and {other.value}"


def _needs(case: _Case) -> Iterator[str]:
    fields = {
        "states": {"states": None},
        "labels": {"labels": None},
        "captions": {"captions": None},
        "language-model": {"language_model": None},
        "downstream": {"downstream": None},
        "keypoints": {"keypoints": None},
    }
    for need in case.metric.needs:
        if need not in fields:
            continue
        try:
            case.score([replace(inputs, **fields[need]) for inputs in case.pool])  # type: ignore[arg-type]
        except UsageError as error:
            if not error.hint:
                yield f"the refusal without {need} tells what to type; got only {error.message!r}"
            continue
        yield f"without {need} it is refused with a UsageError"


def _options(case: _Case) -> Iterator[str]:
    metric = case.metric
    for name, option in metric.options.items():
        if option.default is not None:
            checked_options(metric, {name: option.default})
            checked_options(metric, {name: str(option.default)})
        if not option.text.strip():
            yield f"option {name} says what it does"
        for wrong in _wrong(option):
            try:
                checked_options(metric, {name: wrong})
            except UsageError:
                continue
            yield f"option {name} refuses {wrong!r}"
    try:
        checked_options(metric, {"no-such-option": 1})
    except UsageError:
        return
    yield "an option that there is not is refused"


def _wrong(option: Option) -> list[Any]:
    wrong: list[Any] = [] if option.kind is str and option.choices is None else ["not-a-value"]
    if option.minimum is not None:
        wrong.append(option.minimum - 1)
    if option.maximum is not None:
        wrong.append(option.maximum + 1)
    return wrong


def _patches(case: _Case) -> Iterator[str]:
    """A metric that does not say that it reads patches does not."""
    if reads_patches(case.metric) or case.over_pool:
        return
    empty = [replace(inputs, features=xr.Dataset()) for inputs in case.pool]
    for one, other in zip(case.first, case.score(empty), strict=True):
        if one.value != other.value:
            yield "a metric whose score hangs on patches has patches = True"


def _sizes(case: _Case) -> Iterator[str]:
    """What is known from the number of items is told beforehand, and not told where it is no matter."""
    metric, count = case.metric, len(case.pool[0].items)
    for misfit in misfits(metric, count, case.options):
        yield f"{count} items are scored, and check refuses them: {misfit.why}"
    for n in _SIZES:
        for misfit in (found := misfits(metric, n, case.options)):
            if misfit.option is not None and misfit.largest is not None:
                smaller = {**case.options, misfit.option: misfit.largest}
                if any(other.option == misfit.option for other in misfits(metric, n, smaller)):
                    yield f"check refuses its own largest {misfit.option}, {misfit.largest}, for {n} items"
        if not found or case.over_pool:
            continue
        few = planted_inputs(case.seed, n=n, language_model=case.pool[0].language_model)
        try:
            case.score([few])
        except UsageError:
            continue
        yield f"check refuses {n} items, and they are scored"


CHECKS: Mapping[str, Callable[[_Case], Iterator[str]]] = MappingProxyType(
    {
        "described": _described,
        "form": _form,
        "repeatable": _repeatable,
        "planted": _planted,
        "unrelated": _unrelated,
        "joint-order": _joint_order,
        "needs": _needs,
        "options": _options,
        "patches": _patches,
        "sizes": _sizes,
    }
)
"""Name of each check, and the check: it yields what is wrong, in words."""


def conformance_problems(
    metric: AnyMetric,
    seed: int = 0,
    *,
    options: Options | None = None,
    language_model: str | None = None,
    skip: frozenset[str] = frozenset(),
) -> list[Problem]:
    """All that is wrong with a metric; empty if nothing is.

    Parameters
    ----------
    metric : Metric or PoolMetric
    seed : int
        Of the data and of the scores.
    options : mapping, optional
        Of the metric, for checks in little time; otherwise its defaults.
    language_model : str, optional
        Source of weights for a metric that needs them.
    skip : frozenset of str
        Names of `CHECKS` that do not apply. ``joint-order`` is one for a metric that splits its items by id.

    Notes
    -----
    A warning of Python counts as a problem. 120 items in 4 classes; ten encoders for a metric over the pool.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            case = _Case(metric, seed, options or {}, language_model)
        except _BROKEN as error:
            return [Problem(metric.name, "scores", f"{type(error).__name__}: {error}")]
        problems = []
        for name, check in CHECKS.items():
            if name in skip:
                continue
            try:
                problems += [Problem(metric.name, name, text) for text in check(case)]
            except _BROKEN as error:
                problems.append(Problem(metric.name, name, f"{type(error).__name__}: {error}"))
    return problems
