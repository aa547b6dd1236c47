"""What retrieval over emoji is given, and whether it belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.finite import state_problems
from optotype.pipelines.emoji.probe.maps import PROBES
from optotype.pipelines.emoji.probe.table import Pairs
from optotype.pipelines.ravel import id_differences
from optotype.schemas.errors import InvalidDataError, Problem, UsageError, did_you_mean

__all__ = ["NamesArray", "check_arguments", "check_inputs", "embeddings_asked"]

_SHOWN = 5


@dataclass(frozen=True)
class NamesArray:
    """Names of emoji as one language model has them in one style.

    Attributes
    ----------
    language_model, style : str
    states : Dataset
        As `optotype.store.states.open_states` gives it; ids ``<language>/<emoji>``.
    """

    language_model: str
    style: str
    states: xr.Dataset


def embeddings_asked(tasks: xr.Dataset) -> set[str]:
    """Ids of all vectors that the task set asks for."""
    return {str(name) for side in ("query", "candidate") for name in tasks[f"{side}_embedding"].values}


def check_arguments(features: Sequence[xr.Dataset], names: Sequence[NamesArray], probe: str) -> None:
    """UsageError unless there are encoders, each once, and every language model in the same styles."""
    if probe not in PROBES:
        hint = did_you_mean(probe, list(PROBES)) or f"There are: {', '.join(PROBES)}."
        raise UsageError(f"{probe!r} is no kind of probe", hint=hint)
    if not features or not names:
        raise UsageError("retrieval takes one encoder and one array of names, or more of each")
    encoders = [str(array.attrs["name"]) for array in features]
    twice = sorted({name for name in encoders if encoders.count(name) > 1})
    if twice:
        raise UsageError(f"--features: more than one array is called {', '.join(twice)}")
    there = [(array.language_model, array.style) for array in names]
    repeated = sorted({f"{model}:{style}" for model, style in there if there.count((model, style)) > 1})
    if repeated:
        raise UsageError(f"--names: given twice: {', '.join(repeated)}")
    models, styles = (list(dict.fromkeys(part)) for part in zip(*there, strict=True))
    missing = [f"{model}:{style}" for model in models for style in styles if (model, style) not in there]
    if missing:
        raise UsageError(
            f"--names: {', '.join(missing)} is missing; every language model is compared in the same styles",
            hint=f"optotype encode texts NAME --texts data/names/names.csv --template bare --style {styles[-1]} ...",
        )


def check_inputs(
    pairs: Pairs,
    features: Sequence[xr.Dataset],
    names: Sequence[NamesArray],
    tasks: xr.Dataset,
    in_train: NDArray[np.bool_],
) -> None:
    """InvalidDataError unless all is of these pairs, and the task set of those that are not fitted on."""
    problems = []
    for array in features:
        ids = {str(value) for value in array["image"].values}
        problems += id_differences(set(pairs.ids), ids, ("the pairs", f"features {array.attrs['name']}"))
    half = dict(zip(pairs.ids, in_train.tolist(), strict=True))
    asked = embeddings_asked(tasks)
    for one in names:
        ids = {str(name) for name in one.states["text"].values}
        lacking = sorted(name for name in asked if "/" in name and name not in ids)
        if lacking:
            message = f"{len(lacking)} names that the task set asks for are not in it: {_some(lacking)}"
            problems.append(Problem(f"names {one.language_model}:{one.style}", "missing-name", message))
        problems += state_problems(one.states)
    of = {name: name.rpartition("/")[2] for name in asked}
    unknown = sorted(name for name in asked if of[name] not in half)
    fitted = sorted(name for name in asked if half.get(of[name], False))
    if unknown:
        message = f"{len(unknown)} of its {len(asked)} embeddings are of no emoji of the pairs: {_some(unknown)}"
        problems.append(Problem("tasks", "other-emoji", message))
    if fitted:
        message = (
            f"{len(fitted)} of its {len(asked)} embeddings are of the half that is fitted on (--seed): {_some(fitted)}"
        )
        problems.append(Problem("tasks", "training-half", message))
    if problems:
        hint = "Of one --seed: optotype emoji names, optotype tasks import, optotype emoji retrieval"
        if {problem.kind for problem in problems} == {"not-finite"}:
            raise InvalidDataError("Retrieval over emoji takes states that are finite", problems)
        raise InvalidDataError("These do not belong together", problems, hint=hint)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
