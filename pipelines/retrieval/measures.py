"""P@1, hit@k, reciprocal rank and nDCG@k of queries under three policies for ties, from ranks alone.

Candidates of equal similarity are a tied group: with A of the list above it and E in it, it fills the ranks A + 1 to
A + E. The policies:

- ``expected``: the mean over all orders of the tied groups, each as likely, in closed form;
- ``optimistic``: what is relevant comes first in its group, larger grades before smaller;
- ``pessimistic``: it comes last, smaller grades first.

For one query, R of whose group's E members are relevant, its best relevant candidate being in the group:

- hit@k = [a relevant one among the first k]; expected, with m = k - A places left for the group (0 < m < E):
  1 - C(E - R, m) / C(E, m). P@1 is hit@1: R / E if A = 0, else 0.
- reciprocal rank = 1 / rank of the first relevant one; expected: sum over j of P(j) / (A + j), where
  P(j) = C(E - j, R - 1) / C(E, R) is the chance that the first relevant one stands at place j of its group.
- nDCG@k = DCG@k / ideal DCG@k, DCG@k = sum over ranks i <= k of grade_i / log2(i + 1), gains linear as in
  scikit-learn's ``ndcg_score`` (Järvelin & Kekäläinen 2002); expected, as there (McSherry & Najork 2008): each relevant
  one gets the mean of the discounts of its group's ranks. The ideal order has all that is relevant, found or not.

What has no vector has no rank and adds nothing, so that a query without one has 0 everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.retrieval.ranks import NOT_FOUND, Relevant

__all__ = ["POLICIES", "Measures", "measure"]

POLICIES = ("expected", "optimistic", "pessimistic")

Values = dict[str, NDArray[np.float64]]
"""Of each policy, (q,)."""


@dataclass(frozen=True)
class Measures:
    """Of q queries, each between 0 and 1.

    Attributes
    ----------
    p1, reciprocal : dict of str to ndarray (q,)
        By policy.
    hit, ndcg : dict of int to dict of str to ndarray (q,)
        By k and policy.
    """

    p1: Values
    reciprocal: Values
    hit: dict[int, Values]
    ndcg: dict[int, Values]


def measure(relevant: Relevant, at: Sequence[int]) -> Measures:
    """Measure each query that ``relevant`` names, in rising order of queries.

    Parameters
    ----------
    relevant : Relevant
        Each query has a row at least.
    at : sequence of int
        Values of k, 1 or more.
    """
    _, query = np.unique(relevant.query, return_inverse=True)
    queries = int(query.max(initial=-1)) + 1
    found = np.flatnonzero(relevant.above != NOT_FOUND)
    # By group, the largest grade first: the order of the optimist.
    order = found[np.lexsort((-relevant.grade[found], relevant.above[found], query[found]))]
    own, above, size = query[order], relevant.above[order], relevant.size[order]
    starts = np.flatnonzero(_changes(own) | _changes(above))
    count = np.diff(np.append(starts, len(order)))
    first = np.zeros(len(starts), bool)
    first[_changes(own[starts])] = True  # the best group of its query
    best = _Groups(own[starts[first]], above[starts[first]], size[starts[first]], count[first])
    place = np.arange(len(order)) - np.repeat(starts, count) if len(order) else np.empty(0, np.int64)
    last = size - 1 - place  # the largest grade comes last
    ranks = {"optimistic": above + place + 1, "pessimistic": above + last + 1}
    grade = relevant.grade[order]
    return Measures(
        _hit(best, 1, queries),
        _reciprocal(best, queries),
        {k: _hit(best, k, queries) for k in at},
        {k: _ndcg(query, relevant.grade, own, above, size, grade, ranks, k, queries) for k in at},
    )


@dataclass(frozen=True)
class _Groups:
    """The best group of each query that has one: query, candidates above, its size, relevant ones in it."""

    query: NDArray[np.int64]
    above: NDArray[np.int64]
    size: NDArray[np.int64]
    relevant: NDArray[np.int64]


def _changes(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a value differs from the one before; true at the first."""
    changes = np.ones(len(values), bool)
    changes[1:] = values[1:] != values[:-1]
    return changes


def _spread(values: NDArray[np.float64], query: NDArray[np.int64], queries: int) -> NDArray[np.float64]:
    result = np.zeros(queries)
    result[query] = values
    return result


def _hit(best: _Groups, k: int, queries: int) -> Values:
    room = k - best.above
    expected = np.where(room >= best.size, 1.0, 0.0)
    split = np.flatnonzero((room > 0) & (room < best.size))
    size, relevant, left = best.size[split], best.relevant[split], room[split]
    miss = np.ones(len(split))
    for step in range(int(left.max(initial=0))):
        going = step < left
        miss[going] *= np.maximum(0, size - relevant - step)[going] / (size - step)[going]
    # One relevant, or one place: a quotient, which is exact where the product of quotients is not.
    plain = np.where(relevant == 1, left / size, relevant / size)
    expected[split] = np.where((relevant == 1) | (left == 1), plain, 1 - miss)
    values = {
        "expected": expected,
        "optimistic": np.where(room >= 1, 1.0, 0.0),
        "pessimistic": np.where(room >= best.size - best.relevant + 1, 1.0, 0.0),
    }
    return {policy: _spread(value, best.query, queries) for policy, value in values.items()}


def _reciprocal(best: _Groups, queries: int) -> Values:
    kept: dict[tuple[int, int, int], float] = {}
    expected = np.zeros(len(best.query))
    for number, key in enumerate(zip(best.above.tolist(), best.size.tolist(), best.relevant.tolist(), strict=True)):
        if key not in kept:
            kept[key] = _expected_reciprocal(*key)
        expected[number] = kept[key]
    values = {
        "expected": expected,
        "optimistic": 1 / (best.above + 1),
        "pessimistic": 1 / (best.above + best.size - best.relevant + 1),
    }
    return {policy: _spread(value, best.query, queries) for policy, value in values.items()}


def _expected_reciprocal(above: int, size: int, relevant: int) -> float:
    if size == relevant:
        return 1 / (above + 1)
    place = np.arange(1, size - relevant + 2)
    if relevant == 1:
        return math.fsum(1 / (above + place)) / size
    # P(1) = R / E, P(j + 1) = P(j) (E - R - j + 1) / (E - j)
    ratio = (size - relevant - place[:-1] + 1) / (size - place[:-1])
    chance = relevant / size * np.cumprod(np.concatenate([[1.0], ratio]))
    return math.fsum(chance / (above + place))


def _ndcg(
    query: NDArray[np.int64],
    grades: NDArray[np.float64],
    own: NDArray[np.int64],
    above: NDArray[np.int64],
    size: NDArray[np.int64],
    grade: NDArray[np.float64],
    ranks: dict[str, NDArray[np.int64]],
    k: int,
    queries: int,
) -> Values:
    most = int(max(0, min(k, max(len(query), int((above + size).max(initial=0))))))
    discount = np.concatenate([1 / np.log2(np.arange(2, most + 2)), [0.0]])  # of rank i at i - 1; beyond k nothing
    total = np.concatenate([[0.0], np.cumsum(discount[:-1])])
    order = np.lexsort((-grades, query))
    place = np.arange(len(order)) - offsets_of(np.bincount(query, minlength=queries))[query[order]]
    ideal = np.bincount(query[order], grades[order] * discount[np.minimum(place, most)], queries)
    gains = {
        "expected": grade * (total[np.minimum(above + size, most)] - total[np.minimum(above, most)]) / size,
        **{policy: grade * discount[np.minimum(rank - 1, most)] for policy, rank in ranks.items()},
    }
    # Additions in another order may differ in the last digit: an ideal order is 1, not a hair more.
    return {policy: np.minimum(1, np.bincount(own, gain, queries) / ideal) for policy, gain in gains.items()}
