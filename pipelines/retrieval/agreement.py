"""Whether a query is answered alike in two languages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from optotype.pipelines.retrieval.lists import NO_ITEM
from optotype.pipelines.retrieval.measures import POLICIES
from optotype.pipelines.retrieval.ranks import Prediction

__all__ = ["agreement", "by_item"]

Answers = Mapping[str, list[int]]
"""Queries of each item; "" for those of which it is not known."""


def agreement(own: Answers, other: Answers, predictions: Mapping[int, Prediction | None]) -> dict[str, Any]:
    """Share of items, in percent, that are answered with the same item in both languages.

    An answer is what the candidate in first place is about. Where several are tied, with p and q the shares of each
    item in the two ties: ``expected`` is the sum of p q, the chance that two draws agree; ``optimistic`` is 1 if the
    ties have an item in common; ``pessimistic`` is 1 if both are about one and the same item. An item with several
    queries counts once, by the mean over pairs of its queries. A query without an answer (no vector) agrees with none
    and counts.

    Parameters
    ----------
    own, other : mapping of str to list of int
        Queries of each item in either language.
    predictions : mapping of int to Prediction or None
        As `optotype.pipelines.retrieval.ranks.Ranks` has them.

    Returns
    -------
    dict
        The three policies, each None if no item is left; ``items``; ``left_out``: items in one language alone and
        queries without an item (``no_counterpart``), pairs of answers of which it is not known what they are about
        (``unknown``), ties too large to keep (``undecided``).
    """
    shared = sorted(name for name in own if name and name in other)
    alone = sum(1 for name in {*own, *other} - {""} if not (name in own and name in other))
    left = {"no_counterpart": alone + len(own.get("", [])), "unknown": 0, "undecided": 0}
    values: list[list[float]] = []
    for name in shared:
        pairs = []
        reasons = []
        for a in own[name]:
            for b in other[name]:
                found = _pair(a, b, predictions)
                if isinstance(found, str):
                    reasons.append(found)
                else:
                    pairs.append(found)
        if pairs:
            values.append([math.fsum(each) / len(pairs) for each in zip(*pairs, strict=True)])
        else:
            left["undecided" if "undecided" in reasons else "unknown"] += 1
    means: list[float | None] = [None] * len(POLICIES)
    if values:
        means = [100 * math.fsum(each) / len(values) for each in zip(*values, strict=True)]
    return {**dict(zip(POLICIES, means, strict=True)), "items": len(values), "left_out": left}


def by_item(items: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    """Queries of each item."""
    result: dict[str, list[int]] = {}
    for query, name in items:
        result.setdefault(name, []).append(query)
    return result


def _pair(a: int, b: int, predictions: Mapping[int, Prediction | None]) -> tuple[float, float, float] | str:
    """Agreement of two queries under each policy, or why there is none to speak of."""
    if a not in predictions or b not in predictions:
        return 0.0, 0.0, 0.0
    first, second = predictions[a], predictions[b]
    if first is None or second is None:
        return "undecided"
    one_each = len(first.item) == len(second.item) == 1
    if one_each:
        same = int(first.item[0]) == int(second.item[0])
        if same and int(first.item[0]) == NO_ITEM:
            return "unknown"
        return (1.0, 1.0, 1.0) if same else (0.0, 0.0, 0.0)
    item, at, place = np.intersect1d(first.item, second.item, assume_unique=True, return_indices=True)
    known = item != NO_ITEM
    expected = float(np.sum(first.share[at[known]] * second.share[place[known]]))
    return expected, float(known.any()), 0.0
