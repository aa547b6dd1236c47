"""Which models build a suite and which are held out from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.evaluation.seeds import derived_seed
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = ["Split", "chronological_split", "coverage_groups", "family_splits", "random_splits"]


@dataclass(frozen=True)
class Split:
    """Models on the two sides of a split.

    Attributes
    ----------
    name : str
        ``00``, ``01``, … of random splits, ``chronological``, or the family that is left out.
    build : tuple of int
        Positions of the models whose scores select items; ascending.
    held_out : tuple of int
        Positions of the models that are ranked; ascending, disjoint from ``build``.
    seed : int
        Of everything random that is done on this split.
    """

    name: str
    build: tuple[int, ...]
    held_out: tuple[int, ...]
    seed: int


def coverage_groups(covered: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Models that have scores in the same benchmarks, one group for each set of benchmarks.

    Parameters
    ----------
    covered : ndarray (models, benchmarks) bool
        Whether a model has a valid score on any item of a benchmark.

    Returns
    -------
    list of ndarray of int64
        Positions, ascending; groups by their first model. Models without any score are in none.
    """
    groups: dict[bytes, list[int]] = {}
    for position, row in enumerate(covered):
        if row.any():
            groups.setdefault(row.tobytes(), []).append(position)
    return [np.array(members, dtype=np.int64) for members in groups.values()]


def random_splits(covered: NDArray[np.bool_], count: int, seed: int) -> list[Split]:
    """Seeded random halves, balanced within each group of models of equal coverage (section D.3).

    The smaller half builds: of a group of odd size the odd model is held out, and a model that is alone in its coverage
    always is. The splits are drawn independently, so two of them may be alike in small panels.

    Parameters
    ----------
    covered : ndarray (models, benchmarks) bool
    count : int
        Number of splits, 1 or more. The first ones do not depend on it.
    seed : int

    Raises
    ------
    UsageError
        ``count`` below 1.
    InvalidDataError
        No group has two models.
    """
    if count < 1:
        raise UsageError(f"an evaluation takes 1 split or more, got {count}")
    groups = coverage_groups(covered)
    splits = []
    for number in range(count):
        rng = np.random.default_rng(derived_seed(seed, "split", number))
        shuffled = [rng.permutation(group) for group in groups]
        splits.append(_halves(f"{number:02d}", shuffled, derived_seed(seed, "selection", number)))
    _check_build(splits[0], groups)
    return splits


def chronological_split(covered: NDArray[np.bool_], dates: Sequence[str], seed: int) -> Split:
    """The oldest half of each group of equal coverage builds, the newest half is held out.

    Undated models (``""``) sort last and never build. Dates are compared as text, so ``2024`` comes before ``2024-05``;
    models of one date keep the order of the panel, which is that of their names.

    Raises
    ------
    InvalidDataError
        No group has a dated model in its older half.
    """
    groups = coverage_groups(covered)
    ordered = [np.array(sorted(group, key=lambda m: (not dates[m], dates[m], m)), dtype=np.int64) for group in groups]
    dated = np.array([bool(date) for date in dates])
    split = _halves("chronological", ordered, derived_seed(seed, "selection", "chronological"), dated)
    _check_build(split, groups)
    return split


def family_splits(families: Sequence[str], covered: NDArray[np.bool_], seed: int) -> list[Split]:
    """One split for each family: it is held out, and all other models with a score build.

    A model without a family ("") is a family of its own, called by nothing and never left out by itself.
    """
    scored = covered.any(axis=1)
    splits = []
    for family in dict.fromkeys(name for name in families if name):
        inside = np.array([name == family for name in families]) & scored
        build = scored & ~inside
        if inside.any() and build.any():
            splits.append(
                Split(family, _positions(build), _positions(inside), derived_seed(seed, "selection", "family", family))
            )
    return splits


def _halves(
    name: str, ordered: Sequence[NDArray[np.int64]], seed: int, may_build: NDArray[np.bool_] | None = None
) -> Split:
    """The first halves of the groups against the rest."""
    build: list[int] = []
    held_out: list[int] = []
    for group in ordered:
        first = [int(m) for m in group[: len(group) // 2] if may_build is None or may_build[m]]
        build += first
        held_out += sorted({int(m) for m in group} - set(first))
    return Split(name, tuple(sorted(build)), tuple(sorted(held_out)), seed)


def _positions(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(m) for m in np.flatnonzero(mask))


def _check_build(split: Split, groups: Sequence[NDArray[np.int64]]) -> None:
    if split.build:
        return
    sizes = sorted((len(group) for group in groups), reverse=True)
    text = f"{len(groups)} groups of models of equal coverage, of sizes {', '.join(map(str, sizes[:10])) or 'none'}"
    raise InvalidDataError(
        f"The {'dated ' if split.name == 'chronological' else ''}models cannot be split into build and held-out halves",
        [Problem("models", "no-build-models", f"{text}; a half needs two models that cover the same benchmarks")],
        hint="Look at what each model covers with `optotype scores show PANEL`",
    )
