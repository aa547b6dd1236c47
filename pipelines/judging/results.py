"""Predictions sorted into results: one for each metric and each setting that it was computed under."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optotype.pipelines.judging.predictions import ATTRIBUTES, DEFAULTS, SETTINGS, Prediction, told
from optotype.schemas.errors import Problem

__all__ = ["Result", "results"]

Key = tuple[Any, ...]
Pair = tuple[str, str | None]


@dataclass(frozen=True)
class Result:
    """The scores of one metric under one setting.

    Attributes
    ----------
    metric : str
    settings : mapping
        All that is known, see `optotype.pipelines.judging.predictions.SETTINGS`; a layer or seed where it tells this
        result from another.
    varied : mapping
        Those of the settings in which the results of this metric differ, all of them.
    label : str
        The metric, and in brackets the settings in which this result differs from the main one.
    main : bool
        Whether it stands for its metric where one result is wanted.
    predictions : tuple of Prediction
        One for each pair.
    """

    metric: str
    settings: Mapping[str, Any]
    varied: Mapping[str, Any]
    label: str
    main: bool
    predictions: tuple[Prediction, ...]


def results(predictions: Sequence[Prediction]) -> tuple[list[Result], list[str], list[Problem]]:
    """Results of all metrics, each metric's main one first.

    A pair that two files tell alike (same settings, same score) counts once, which is noted; one that a single file
    tells twice, or that two files tell differently, is a problem, and so is one beside a score of the same encoder that
    names no language model, as that holds for it, too. Layers and seeds tell results apart only where a pair
    has several of them.

    The main result is the one with the most usual values: of each setting the value that most results have; of
    several such the default (k 100, ε 1e-4, γ 1, no chain, prenorm none and l2) or, for n, the largest, else the one
    most usual over all metrics, else the smallest. So the centre of sweeps in which one setting at a time is varied is
    found as such.

    Returns
    -------
    (list of Result, list of str, list of Problem)
        Metrics in the order in which they first come.
    """
    anywhere = {name: Counter(each.settings.get(name) for each in predictions) for name in (*SETTINGS, *ATTRIBUTES)}
    notes: list[str] = []
    problems: list[Problem] = []
    found: list[Result] = []
    for metric in dict.fromkeys(each.metric for each in predictions):
        own = [each for each in predictions if each.metric == metric]
        groups: dict[Key, list[Prediction]] = {}
        for each in own:
            groups.setdefault(_key(each, SETTINGS), []).append(each)
        merged = {key: _merged(group, notes) for key, group in groups.items()}
        apart = [name for name in ATTRIBUTES if any(_differs(group, name) for group in merged.values())]
        names = (*SETTINGS, *apart)
        split: dict[Key, list[Prediction]] = {}
        for group in merged.values():
            for each in group:
                split.setdefault(_key(each, names), []).append(each)
        for group in split.values():
            problems += _twice(metric, group)
        found += _labelled(metric, names, split, anywhere)
    return found, list(dict.fromkeys(notes)), problems


def _key(prediction: Prediction, names: Iterable[str]) -> Key:
    return tuple(prediction.settings.get(name) for name in names)


def _pairs(group: Sequence[Prediction]) -> dict[Pair, list[Prediction]]:
    pairs: dict[Pair, list[Prediction]] = {}
    for each in group:
        pairs.setdefault((each.encoder, each.model), []).append(each)
    return pairs


def _merged(group: Sequence[Prediction], notes: list[str]) -> list[Prediction]:
    """Predictions of one setting, without those that another file has told already."""
    kept: list[Prediction] = []
    seen: dict[Pair, list[Prediction]] = {}
    for each in group:
        pair = (each.encoder, each.model)
        same = [other for other in seen.get(pair, []) if _same(each, other)]
        if same:
            notes.append(f"{each.metric}: results that both {same[0].named} and {each.named} hold count once")
            continue
        seen.setdefault(pair, []).append(each)
        kept.append(each)
    return kept


def _same(one: Prediction, other: Prediction) -> bool:
    """Whether two files tell the same; an attribute that one of them leaves out may be any."""
    if one.source == other.source or one.score != other.score:
        return False
    both = [(one.settings.get(name), other.settings.get(name)) for name in ATTRIBUTES]
    return all(a == b or a is None or b is None for a, b in both)


def _differs(group: Sequence[Prediction], name: str) -> bool:
    """Whether some pair has several values of an attribute."""
    return any(len({each.settings.get(name) for each in several}) > 1 for several in _pairs(group).values())


def _twice(metric: str, group: Sequence[Prediction]) -> list[Problem]:
    problems = []
    pairs = _pairs(group)
    for (encoder, model), several in pairs.items():
        if len(several) > 1:
            message = f"is there {len(several)} times: {_places(several)}"
            problems.append(Problem(_pair(metric, encoder, model), "duplicate", message))
        elif model is not None and (encoder, None) in pairs:
            # Neither may silently stand for the other: which one is meant is not for the order of rows to say.
            both = [*pairs[encoder, None][:1], *several]
            message = f"is there twice, once for every language model: {_places(both)}"
            problems.append(Problem(_pair(metric, encoder, model), "duplicate", message))
    return problems


def _places(several: Sequence[Prediction]) -> str:
    return " and ".join(f"{each.place} ({each.score:g})" for each in several[:3])


def _pair(metric: str, encoder: str, model: str | None) -> str:
    return f"{metric}, {encoder}" + (f" x {model}" if model is not None else "")


def _labelled(
    metric: str,
    names: Sequence[str],
    split: Mapping[Key, Sequence[Prediction]],
    anywhere: Mapping[str, Mapping[Any, int]],
) -> list[Result]:
    keys = list(split)
    varied = [name for at, name in enumerate(names) if len({key[at] for key in keys}) > 1]
    usual = {name: _usual(name, [key[names.index(name)] for key in keys], anywhere[name]) for name in varied}

    def distance(key: Key) -> tuple[int, str]:
        return sum(key[names.index(name)] != usual[name] for name in varied), str(key)

    main = min(keys, key=distance)
    # With sweeps the others follow by their settings, not by the order of the file, which is that of the scores.
    ordered = [main, *sorted((key for key in keys if key != main), key=lambda key: [_order(value) for value in key])]
    made = []
    for key in ordered:
        settings = dict(zip(names, key, strict=True))
        # A setting in which this one is not the main one, or, for layers, in which there is no main one.
        off = [name for name in varied if key[names.index(name)] != main[names.index(name)] or name in ATTRIBUTES]
        label = metric + (f" ({', '.join(told(name, settings[name]) for name in off)})" if off else "")
        made.append(
            Result(metric, settings, {name: settings[name] for name in varied}, label, key == main, tuple(split[key]))
        )
    return made


def _usual(name: str, values: Sequence[Any], anywhere: Mapping[Any, int]) -> Any:
    times = Counter(values)
    most = [value for value, count in times.items() if count == max(times.values())]
    if name in DEFAULTS and DEFAULTS[name] in most:
        return DEFAULTS[name]
    if name == "n":
        return max(most, key=_order)
    return min(most, key=lambda value: (-anywhere[value], _order(value)))


def _order(value: Any) -> tuple[int, float, str]:
    """Numbers before texts, each among its own; what is not told first of all."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, (int, float)):
        return 1, float(value), ""
    return 2, 0.0, str(value)
