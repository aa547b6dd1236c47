"""Lists of candidates: which rows stand for which distinct candidate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited

__all__ = ["CandidateList", "Lists"]

NO_ITEM = -1


@dataclass(frozen=True)
class CandidateList:
    """The distinct candidates of one list: those with equal targets are one, numbered 0, 1, ...

    Attributes
    ----------
    target : ndarray (g,) int64
        Code of each one's target, rising.
    row, group : ndarray (e,) int64
        Rows of embeddings and the candidate each stands for, each pair once; rising by candidate. A candidate without
        an embedding has none, one with several ids may have several.
    start : ndarray (g + 1,) int64
        Rows of candidate i are ``row[start[i]:start[i + 1]]``.
    single, several : tuple of ndarray (row, number), each rising by row
        Candidates with one row, by their number; and candidates with more, by their place in ``numbers``.
    numbers : ndarray (s,) int64
        Candidates that have several rows.
    """

    target: NDArray[np.int64]
    row: NDArray[np.int64]
    group: NDArray[np.int64]
    start: NDArray[np.int64]
    single: tuple[NDArray[np.int64], NDArray[np.int64]]
    several: tuple[NDArray[np.int64], NDArray[np.int64]]
    numbers: NDArray[np.int64]


class Lists:
    """The lists of a task set, made one at a time.

    Parameters
    ----------
    tasks : Dataset
        As `optotype.store.tasks.open_tasks` gives it.
    row : ndarray (candidate,) int64
        Row of each candidate's embedding, -1 where there is none.

    Attributes
    ----------
    size : ndarray (list,) int64
        Entries of each.
    item : list of str
        What a candidate may be about, by code, sorted; :meth:`items` gives codes.

    Raises
    ------
    InvalidDataError
        The sizes do not add up, or an index is out of range.
    """

    def __init__(self, tasks: xr.Dataset, row: NDArray[np.int64]) -> None:
        import pandas as pd

        self.size = np.asarray(tasks["list_size"].values, np.int64)
        self._entry = np.asarray(tasks["list_candidate"].values, np.int64)
        self._offset = offsets_of(self.size)
        self._row = row
        self._target = np.asarray(pd.factorize(tasks["target"].values)[0], np.int64)
        codes, names = pd.factorize(tasks["candidate_item"].values, sort=True)
        self.item = [str(name) for name in names]
        nothing = self.item.index("") if "" in self.item else None
        self._item = np.where(codes == nothing, len(names), codes) if nothing is not None else codes.astype(np.int64)
        problems = []
        if self._offset[-1] != len(self._entry):
            message = f"adds up to {self._offset[-1]}, there are {len(self._entry)} entries"
            problems.append(Problem("list_size", "sum", message))
        if len(self._entry) and not 0 <= self._entry.min() <= self._entry.max() < len(row):
            problems.append(Problem("list_candidate", "out-of-range", f"indices are 0 to {len(row) - 1}"))
        if problems:
            raise InvalidDataError("This is not a task set", problems)

    def members(self, number: int) -> NDArray[np.int64]:
        """Candidates of a list, as they stand there."""
        return self._entry[self._offset[number] : self._offset[number + 1]]

    def get(self, number: int) -> CandidateList:
        """One list."""
        members = self.members(number)
        target, group = np.unique(self._target[members], return_inverse=True)
        row = self._row[members]
        there = row >= 0
        rows = int(self._row.max(initial=0)) + 1
        group, row = np.divmod(np.unique(group[there] * rows + row[there]), rows)
        count = np.bincount(group, minlength=len(target))
        numbers = np.flatnonzero(count > 1)
        alone = count[group] == 1
        return CandidateList(
            target,
            row,
            group,
            offsets_of(count),
            _by_row(row[alone], group[alone]),
            _by_row(row[~alone], np.searchsorted(numbers, group[~alone])),
            numbers,
        )

    def places(self, number: int, own: CandidateList, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which distinct candidate of a list each of ``candidates`` is.

        Raises
        ------
        InvalidDataError
            One that is not in the list.
        """
        outside = candidates[~np.isin(candidates, self.members(number))]
        if len(outside):
            raise InvalidDataError(
                "This is not a task set",
                limited(
                    Problem(f"list {number}", "not-in-list", f"candidate {c} is relevant and not in the list")
                    for c in np.unique(outside)
                ),
            )
        return np.searchsorted(own.target, self._target[candidates])

    def items(self, number: int, own: CandidateList) -> NDArray[np.int64]:
        """(g,) What each distinct candidate is about, the first of its members' items; NO_ITEM if none is known."""
        members = self.members(number)
        item = np.full(len(own.target), len(self.item), np.int64)
        np.minimum.at(item, np.searchsorted(own.target, self._target[members]), self._item[members])
        return np.where(item == len(self.item), NO_ITEM, item)

    def distinct(self, numbers: NDArray[np.int64]) -> int:
        """Distinct targets of all these lists together."""
        seen = np.zeros(len(self._target), bool)
        for number in np.unique(numbers):
            seen[self._target[self.members(int(number))]] = True
        return int(seen.sum())


def _by_row(row: NDArray[np.int64], number: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.argsort(row, kind="stable")
    return row[order], number[order]
