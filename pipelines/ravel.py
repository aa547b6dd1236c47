"""RAVEL: how much the visual and the textual neighbours of the same items overlap (arXiv 2610.05413)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels import overlap
from optotype.pipelines.progress import SILENT, Progress
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = ["MOST_REPEATS", "RavelScore", "check_repeats", "id_differences", "score"]

MOST_REPEATS = 1_000_000
"""Of the null and of the bootstrap: p and the interval have three digits long before."""

_SHOWN = 5
_WORTH_A_BAR = 10**8  # look-ups of a null, about a second


@dataclass(frozen=True)
class RavelScore:
    """A score and what it is to be judged by.

    Attributes
    ----------
    score : float
        Mean over items of |N_v(i) ∩ N_t(i)| / k, in [0, 1].
    chance : float
        k / (n - 1), the expected score of unrelated graphs.
    adjusted : float
        (score - chance) / (1 - chance).
    n, k : int
    null_mean, null_sd, null_p : float or None
        Scores of random pairings, and the share of them that reach the score ((1 + hits) / (1 + repeats)).
    interval : tuple of float or None
        95 % bootstrap interval over items, their neighbours held fixed.
    """

    score: float
    chance: float
    adjusted: float
    n: int
    k: int
    null_mean: float | None = None
    null_sd: float | None = None
    null_p: float | None = None
    interval: tuple[float, float] | None = None


def id_differences(first: set[str], second: set[str], names: tuple[str, str]) -> list[Problem]:
    """What each of two id sets has that the other lacks: counts and the first few, both ways."""
    problems = []
    for have, lack, where, other in ((first, second, *names), (second, first, *names[::-1])):
        extra = sorted(have - lack)
        if extra:
            shown = ", ".join(map(repr, extra[:_SHOWN]))
            more = f" and {len(extra) - _SHOWN} more" if len(extra) > _SHOWN else ""
            problems.append(
                Problem(where, "unmatched-id", f"{len(extra)} of its {len(have)} ids are not in {other}: {shown}{more}")
            )
    return problems


def check_repeats(null: int, seed: int, bootstrap: int) -> None:
    """UsageError unless ``null`` and ``bootstrap`` are from 0 to a million and ``seed`` is 0 or more."""
    for name, value in (("null", null), ("bootstrap", bootstrap)):
        if not 0 <= value <= MOST_REPEATS:
            raise UsageError(f"{name} is from 0 to {MOST_REPEATS}, got {value}")
    if seed < 0:
        raise UsageError(f"seed is 0 or more, got {seed}")


def score(
    visual: xr.Dataset,
    textual: xr.Dataset,
    *,
    null: int = 0,
    seed: int = 0,
    bootstrap: int = 0,
    progress: Progress | None = None,
) -> RavelScore:
    """Score a visual against a textual neighbour graph.

    Parameters
    ----------
    visual, textual : Dataset
        ``neighbours(item, rank)`` with coordinate ``item``. Items are joined by id; the order of the two may differ.
    null : int
        Random pairings for the permutation null; 0 for none.
    seed : int
        Of the pairings and of the bootstrap.
    bootstrap : int
        Resamples for the interval; 0 for none.
    progress : Progress, optional
        Told about a null that takes more than a moment.

    Raises
    ------
    InvalidDataError
        The two have different ids; both differences are listed.
    UsageError
        Different k, or a number of repeats below 0 or above a million.
    """
    check_repeats(null, seed, bootstrap)
    if visual.sizes["rank"] != textual.sizes["rank"]:
        raise UsageError(f"the graphs have different k: {visual.sizes['rank']} and {textual.sizes['rank']}")
    first, second = _in_id_order(visual), _in_id_order(textual)
    problems = id_differences(set(first[0]), set(second[0]), ("visual graph", "textual graph"))
    if problems:
        raise InvalidDataError("The two graphs are not over the same items", problems)
    found = overlap.matches(first[1], second[1])
    n, k = visual.sizes["item"], visual.sizes["rank"]
    value = int(found.sum()) / (n * k)
    level = overlap.chance(n, k)
    spread = None
    if null:
        report = progress if progress is not None and null * n * k >= _WORTH_A_BAR else SILENT
        with report("permutation null", total=null, unit="shuffles") as task:
            spread = overlap.permutation_null(first[1], second[1], repeats=null, seed=seed, advance=task.advance)
    return RavelScore(
        score=value,
        chance=level,
        adjusted=overlap.adjusted(value, level),
        n=n,
        k=k,
        null_mean=spread.mean if spread else None,
        null_sd=spread.sd if spread else None,
        null_p=spread.p if spread else None,
        interval=overlap.bootstrap_interval(found, k, repeats=bootstrap, seed=seed) if bootstrap else None,
    )


def _in_id_order(graph: xr.Dataset) -> tuple[list[str], NDArray[np.int64]]:
    """Ids, sorted, and the graph with its items numbered in that order."""
    ids = [str(value) for value in graph["item"].values]
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__))
    number = np.empty(len(ids), dtype=np.int64)
    number[order] = np.arange(len(ids))
    return [ids[i] for i in order], number[graph["neighbours"].values[order]]
