"""The interface of every ranking metric: what it is given, what it says it needs, and what it gives back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.schemas.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from optotype.pipelines.metrics.keypoints import Keypoints

__all__ = [
    "NEEDS",
    "Inputs",
    "Kind",
    "Metric",
    "Need",
    "Option",
    "PoolMetric",
    "Refusal",
    "Score",
    "checked_options",
    "hangs_on_pairing",
    "metric_error",
    "missing_needs",
    "reads_patches",
]

Kind = Literal["vision-only", "cross-modal", "trains"]
Need = Literal["states", "labels", "keypoints", "downstream", "captions", "language-model", "training"]

NEEDS: Mapping[str, tuple[str, str]] = {
    "states": ("states of a language model", "--states NAME"),
    "labels": ("a label for each image", "--labels TABLE"),
    "keypoints": ("keypoints of pairs of images", "--keypoints TABLE"),
    "downstream": ("downstream scores of the encoders", "--downstream TABLE"),
    "captions": ("the captions themselves", "--captions TABLE"),
    "language-model": ("the weights of the language model", "--language-model NAME=SOURCE"),
    "training": ("leave to train", "--train"),
}
"""Each need in words, and the option of ``optotype rank`` that meets it."""


@dataclass(frozen=True)
class Option:
    """One option of a metric, given as ``--set METRIC.NAME=VALUE``.

    Attributes
    ----------
    default : object
        Of type ``kind``, or None for "not given".
    kind : type
        ``int``, ``float``, ``str`` or ``bool``.
    text : str
        What it does, one line.
    choices : tuple, optional
        All values there are.
    minimum, maximum : float, optional
        Both ends are allowed.
    """

    default: Any
    kind: type
    text: str
    choices: tuple[Any, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, eq=False)
class Inputs:
    """One encoder, and one language model where there is one, over the same items.

    Attributes
    ----------
    encoder : str
    model : str or None
    items : ndarray (n,) object
        Ids as str, sorted; row i of everything below is ``items[i]``.
    pooled : ndarray (n, d) float64
        Mean of the stored patch tokens of each image (unweighted), then the chain in front of the features, fitted on
        these n rows. Not L2-normalised unless the chain says so.
    states : ndarray (n, t) float64, optional
        States of the captions, then the chain in front of the states, fitted on these n rows.
    features : Dataset
        Lazy patches of these items, ``patches(token, channel)``, ``row_size(image)``, coordinate ``image`` sorted: γ
        and the chain in front of the features applied, fitted on all these patches.
    labels : ndarray (n,) object, optional
        Str; ``""`` for an image without one.
    keypoints : Keypoints, optional
    downstream : mapping of (encoder, model) to float, optional
    captions : ndarray (n,) object, optional
        Str.
    language_model : str, optional
        Source of the language model's weights.
    """

    encoder: str
    model: str | None
    items: NDArray[np.object_]
    pooled: NDArray[np.float64]
    states: NDArray[np.float64] | None
    features: xr.Dataset
    labels: NDArray[np.object_] | None = None
    keypoints: Keypoints | None = None
    downstream: Mapping[tuple[str, str], float] | None = None
    captions: NDArray[np.object_] | None = None
    language_model: str | None = None


@dataclass(frozen=True, eq=False)
class Score:
    """What a metric says of one encoder (and one language model).

    Attributes
    ----------
    value : float
        Higher is better, always. Never NaN: a metric that cannot score raises.
    chance : float, optional
        What an encoder that knows nothing would get, where that is known.
    per_item : ndarray float64, optional
        One value an item (all, or those held out); their mean is ``value``. With it an interval can be given.
    details : mapping
        JSON-ready.
    warnings : tuple of str
        Sentences for the reader.
    """

    value: float
    chance: float | None = None
    per_item: NDArray[np.float64] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """Why a metric over the whole pool has no score for one member of it, and what to do."""

    why: str
    hint: str | None = None


class _Described(Protocol):
    """What is known of a metric before it scores anything.

    Attributes
    ----------
    name : str
        As in `optotype.pipelines.metrics.catalogue.METRICS`.
    kind : {"vision-only", "cross-modal", "trains"}
        A vision-only metric reads nothing of the language model, so its score is the same for all of them.
    needs : frozenset of str
        Keys of `NEEDS`.
    options : mapping of str to Option
    source : str
        Where the definition is from, one line.

    Notes
    -----
    A metric may also have ``patches``, a bool: whether it reads ``Inputs.features``, so that γ has a say. Without it
    those that train are taken to read them, and the others are not.

    A cross-modal metric may have ``pairing``, a bool: whether it matters which text stands beside which image. Without
    it that is taken to matter; where it does not, shuffled pairings have the same score, and there is no null.

    A metric may have ``check(n, options)``, which yields each `optotype.pipelines.metrics.misfits.Misfit` that is known
    from the number of items alone, so that it is told before anything is computed; ``score`` refuses them as well.
    """

    name: str
    kind: Kind
    needs: frozenset[Need]
    options: Mapping[str, Option]
    source: str


class Metric(_Described, Protocol):
    """A score of one encoder for one language model.

    The score is a function of the inputs, the options and the seed alone: no clock, no thread count, no global state.
    """

    def score(self, inputs: Inputs, options: Mapping[str, Any], *, seed: int) -> Score:
        """Score ``inputs``; options as `checked_options` gives them.

        Raises
        ------
        UsageError
            By `metric_error`: something that the metric needs is not there, or an option does not fit the inputs.
        InvalidDataError
            Values that cannot be scored, all named.
        """


class PoolMetric(_Described, Protocol):
    """A metric whose scores hang on the whole pool of encoders (AC policy); ``over_pool`` is True."""

    over_pool: Literal[True]

    def scores(self, pool: Sequence[Inputs], options: Mapping[str, Any], *, seed: int) -> Sequence[Score | Refusal]:
        """A score or a refusal for each member of ``pool``, in its order; errors as for `Metric.score`."""


def metric_error(name: str, why: str, hint: str | None = None) -> UsageError:
    """The error with which metric ``name`` refuses; ``why`` is what came and what is wanted, ``hint`` what to type."""
    return UsageError(f"metric {name}: {why}", hint=hint)


def missing_needs(needs: Iterable[str], met: Iterable[str]) -> list[str]:
    """``needs`` that are not among ``met``, in the order of `NEEDS`."""
    wanted, there = set(needs), set(met)
    return [need for need in NEEDS if need in wanted and need not in there]


def reads_patches(metric: _Described) -> bool:
    """Whether γ and a front on patches have a say in the score of ``metric``."""
    return bool(getattr(metric, "patches", metric.kind == "trains"))


def hangs_on_pairing(metric: _Described) -> bool:
    """Whether it matters for the score of ``metric`` which text stands beside which image."""
    return bool(getattr(metric, "pairing", metric.kind != "vision-only"))


def checked_options(metric: _Described, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every option of ``metric``: as given, else its default.

    Parameters
    ----------
    given : mapping
        Values, or texts that stand for them: ``"3"`` for an int, ``"true"`` and ``"false"`` for a bool, ``"none"`` for
        an option that is not set by default.

    Raises
    ------
    UsageError
        An unknown option, or a value of another type, out of range or not among the choices.
    """
    given = given or {}
    for name in given:
        if name not in metric.options:
            names = list(metric.options)
            hint = did_you_mean(name, names) if names else f"{metric.name} has no options."
            raise metric_error(metric.name, f"there is no option {name!r}", hint)
    return {
        name: _value(metric.name, name, option, given[name]) if name in given else option.default
        for name, option in metric.options.items()
    }


def _value(metric: str, name: str, option: Option, given: Any) -> Any:
    allowed = _allowed(option)
    refusal = metric_error(
        metric, f"{name} is {allowed}; got {given!r}", f"Give it as --set {metric}.{name}=VALUE: {option.text}"
    )
    if option.default is None and (given is None or given == "none"):
        return None
    value: Any = given
    if option.kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        value = words.get(given.lower()) if isinstance(given, str) else given
        if not isinstance(value, bool):
            raise refusal
        return value
    if isinstance(given, bool) or given is None:
        raise refusal
    try:
        value = option.kind(given)
    except (TypeError, ValueError, OverflowError):
        raise refusal from None
    if option.kind is int and not isinstance(given, str) and value != given:
        raise refusal
    if option.kind in (int, float):
        if not math.isfinite(value):
            raise refusal
        if option.minimum is not None and value < option.minimum:
            raise refusal
        if option.maximum is not None and value > option.maximum:
            raise refusal
    if option.choices is not None and value not in option.choices:
        raise refusal
    return value


def _allowed(option: Option) -> str:
    """What an option takes, in words."""
    if option.choices is not None:
        return f"one of {', '.join(map(str, option.choices))}"
    what = {int: "a whole number", float: "a number", bool: "true or false"}.get(option.kind, "a text")
    if option.minimum is not None and option.maximum is not None:
        what += f" from {option.minimum:g} to {option.maximum:g}"
    elif option.minimum is not None:
        what += f" of {option.minimum:g} or more"
    elif option.maximum is not None:
        what += f" of {option.maximum:g} at most"
    return f"{what} or none" if option.default is None else what
