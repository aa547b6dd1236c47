"""Vectors of one side of a retrieval: several arrays taken as one, read block by block."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.candidate_ranks import float_rows, unit_rows
from optotype.pipelines.kernels.rows import BlockCache, RowReader
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["BLOCK", "Embeddings", "one_space"]

BLOCK = 2048
"""Rows that are read and multiplied together, at most."""

_CACHE = 128 * 2**20
_UNKNOWN = 255
_SHOWN = 5


class Embeddings:
    """Rows of several arrays, one after the other; threads may read at a time.

    Memory: the ids while they are looked up, a byte a row, and 128 MiB of what was read last.

    Parameters
    ----------
    arrays : sequence of Dataset
        ``states(text, channel)``, coordinate ``text``; dask or NumPy, any float type; as many channels each.
    side : str
        For messages: queries or candidates.

    Attributes
    ----------
    channels, count : int
        Of a row; rows of all arrays.

    Raises
    ------
    InvalidDataError
        No array, other numbers of channels, an id twice.
    """

    def __init__(self, arrays: Sequence[xr.Dataset], side: str) -> None:
        self.side = side
        self._arrays = list(arrays)
        _check(self._arrays, side)
        sizes = [int(array.sizes["text"]) for array in self._arrays]
        self.channels = int(self._arrays[0].sizes["channel"])
        self._edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.count = int(self._edges[-1])
        self._cache = BlockCache(_CACHE)
        self._readers = [RowReader(array["states"].data, number) for number, array in enumerate(self._arrays)]
        self._state = np.full(self.count, _UNKNOWN, np.uint8)

    def find(self, ids: NDArray[np.object_]) -> NDArray[np.int64]:
        """Number of the row of each id, -1 where there is none."""
        import pandas as pd

        result = np.full(len(ids), -1, np.int64)
        for first, array in zip(self._edges[:-1], self._arrays, strict=True):
            place = pd.Index(np.asarray(array["text"].values, dtype=object), dtype=object).get_indexer(
                pd.Index(ids, dtype=object)
            )
            result = np.where(place >= 0, place + first, result)
        return result

    def blocks(self, rows: NDArray[np.int64], block: int = BLOCK) -> list[tuple[int, int]]:
        """Spans of at most ``block`` rows, each within one array, that hold all ``rows``; rising."""
        number = np.searchsorted(self._edges, rows, side="right") - 1
        start = self._edges[number] + (rows - self._edges[number]) // block * block
        spans = np.unique(np.stack([start, np.minimum(start + block, self._edges[number + 1])], axis=1), axis=0)
        return [(int(a), int(b)) for a, b in spans]

    def read(self, start: int, stop: int) -> NDArray[np.floating]:
        """Rows ``start:stop`` of one array, as they are stored."""
        number = int(np.searchsorted(self._edges, start, side="right")) - 1
        first = int(self._edges[number])
        return self._readers[number].read(start - first, stop - first, self._cache)

    def scaled(self, start: int, stop: int) -> tuple[NDArray[np.floating], NDArray[np.float32], NDArray[np.uint8]]:
        """Rows ``start:stop``: as they are stored, of length 1 in float32, and what each is, which is kept in mind."""
        stored = self.read(start, stop)
        made, state = float_rows(stored)
        self._state[start:stop] = state
        return stored, made, state

    def units(
        self, rows: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.uint8]]]:
        """Distinct ``rows``, rising, block by block: their numbers, unit vectors in float64, and what each is."""
        distinct = np.unique(rows)
        for start, stop in self.blocks(distinct):
            a, b = np.searchsorted(distinct, [start, stop])
            here = distinct[a:b]
            unit, state = unit_rows(self.read(start, stop)[here - start])
            self._state[here] = state
            yield here, unit, state

    def state(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """What each row is; those that nobody has looked at yet are read for it."""
        for _ in self.units(rows[self._state[rows] == _UNKNOWN]):
            pass
        known: NDArray[np.uint8] = self._state[rows]
        return known


def one_space(queries: Embeddings, candidates: Embeddings) -> None:
    """InvalidDataError unless both sides have as many channels."""
    if queries.channels != candidates.channels:
        raise InvalidDataError(
            "Queries and candidates are not of one space",
            [Problem("channel", "channels", f"queries have {queries.channels}, candidates {candidates.channels}")],
            hint="Both sides have to be vectors of one model.",
        )


def _check(arrays: Sequence[xr.Dataset], side: str) -> None:
    import pandas as pd

    names = [str(array.attrs.get("name") or f"array {number}") for number, array in enumerate(arrays, 1)]
    problems = []
    if not arrays:
        problems.append(Problem(side, "empty", "there is no array; give one or more"))
    channels = {int(array.sizes["channel"]) for array in arrays}
    if len(channels) > 1:
        each = ", ".join(f"{name} {array.sizes['channel']}" for name, array in zip(names, arrays, strict=True))
        problems.append(Problem(side, "channels", f"the arrays have other numbers of channels: {each}"))
    ids = [pd.Index(np.asarray(array["text"].values, dtype=object), dtype=object) for array in arrays]
    for name, own in zip(names, ids, strict=True):
        if not own.is_unique:
            problems.append(Problem(name, "duplicate-id", f"{int(own.duplicated().sum())} ids are there twice"))
    for (name, own), (other, others) in itertools.combinations(zip(names, ids, strict=True), 2):
        shared = sorted(map(str, own.intersection(others)))
        if shared:
            more = f" and {len(shared) - _SHOWN} more" if len(shared) > _SHOWN else ""
            message = f"{len(shared)} ids are in both: {', '.join(shared[:_SHOWN])}{more}"
            problems.append(Problem(f"{name} and {other}", "duplicate-id", message))
    if problems:
        raise InvalidDataError(f"The arrays of the {side} cannot be taken as one", problems)
