"""Writes rows of floats under ids: what features and states have in common. Every problem is listed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import FiniteScan, check_ids, check_row_size, stored_dtype
from optotype.store.manifest import Manifest
from optotype.store.reading import BFLOAT16, DTYPE_ATTRIBUTE
from optotype.store.writer import ArrayWriter

__all__ = ["FEATURES", "INVALID_ROWS", "STATES", "Inputs", "RowKind", "write_rows"]

Inputs = Mapping[str, Any] | Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class RowKind:
    """How a kind of array names its parts.

    Attributes
    ----------
    kind : str
        Kind of the array.
    item : str
        Name of the ids' coordinate and of what has an id.
    values : str
        Name of the array of values.
    row : str
        Dimension of its rows.
    """

    kind: str
    item: str
    values: str
    row: str


INVALID_ROWS = "invalid_rows"
"""Attribute of states that hold rows of NaN, which stand for no vector: how many."""

FEATURES = RowKind("features", item="image", values="patches", row="token")
STATES = RowKind("states", item="text", values="states", row="text")


def write_rows(
    kind: RowKind,
    target: Path,
    *,
    ids: Sequence[str],
    row_size: Any | None,
    blocks: Iterable[Any],
    dtype: Any,
    inputs: Inputs,
    attrs: Mapping[str, Any] | None,
    blank: bool = False,
) -> Manifest:
    """Check and write; see `write_features` and `write_states`, whose parameters these are.

    With ``blank`` a row may be NaN throughout: it stands for no vector. Any other value has to be finite.
    """
    stored, dtype_name = stored_dtype(dtype)
    ids = list(ids)
    problems = check_ids(ids)
    if row_size is not None:
        problems += check_row_size(row_size, len(ids), None)
    rows = _count(ids, row_size)
    checked = _Checked(kind, ids, row_size, dtype_name, rows, problems, blank=blank)
    stream = iter(blocks)
    first = next(stream, None)
    if first is None:
        checked.problems.append(Problem(kind.values, "empty", "there are no values"))
        raise checked.error(target)
    blocks = checked.blocks(chain([first], stream), stored)
    if checked.problems or np.ndim(first) != 2 or not np.shape(first)[1]:
        with suppress(_Refused):
            for _ in blocks:  # nothing will be written; the rest is read for its problems
                pass
        raise checked.error(target)

    with ArrayWriter(Path(target), kind.kind, attrs) as writer:
        dims = (kind.row, "channel")
        marks = {DTYPE_ATTRIBUTE: BFLOAT16} if dtype_name == BFLOAT16 else {}
        try:
            writer.add_rows(kind.values, dims, (rows or 0, int(np.shape(first)[1])), stored, blocks, marks)
        except _Refused:
            raise checked.error(target) from None
        if row_size is not None:
            sizes = np.asarray(row_size).astype(np.int64)
            sample = {"sample_dimension": kind.row, "long_name": f"number of {kind.row}s of each {kind.item}"}
            writer.add_rows("row_size", (kind.item,), sizes.shape, np.dtype("<i8"), [sizes], sample)
        writer.add_strings(kind.item, (kind.item,), ids)
        return writer.commit(inputs)


def _count(ids: Sequence[str], row_size: Any | None) -> int | None:
    """Rows that are announced; None if that cannot be told."""
    if row_size is None:
        return len(ids)
    sizes = np.asarray(row_size)
    return sum(sizes.ravel().tolist()) if sizes.dtype.kind in "iu" else None


class _Refused(Exception):  # noqa: N818 - a signal inside this module, never seen outside
    """The blocks have problems; the writer is to stop."""


class _Checked:
    """Passes blocks on while they are sound; after the first problem only looks for more."""

    def __init__(
        self,
        kind: RowKind,
        ids: list[str],
        row_size: Any | None,
        dtype: str,
        rows: int | None,
        problems: list[Problem],
        *,
        blank: bool = False,
    ) -> None:
        self.problems = problems
        self._kind = kind
        self._dtype = dtype
        self._rows = rows
        sound = not problems  # else rows cannot be told apart by item
        self._scan = FiniteScan(ids if sound else [], row_size if sound else None, dtype, blank=blank)

    def blocks(self, source: Iterable[Any], stored: np.dtype[Any]) -> Iterator[Any]:
        """The blocks in the dtype of the store; raises `_Refused` at the end if there was a problem."""
        seen, width = 0, None
        where = self._kind.values
        for block in source:
            block = np.asarray(block)
            if (problem := self._misfit(block, width)) is not None:
                if problem not in self.problems:
                    self.problems.append(problem)
                seen += len(block) if block.ndim else 0
                continue
            width = block.shape[1]
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is reported as infinite
                block = np.ascontiguousarray(block, dtype=stored)
            self._scan.add(block)
            seen += len(block)
            if (
                self._rows is not None
                and seen <= self._rows
                and not self.problems
                and not self._scan.problems(where, self._kind.item)
            ):
                yield block
        if self._rows is not None and seen != self._rows:
            message = f"{seen} {self._kind.row}s of values, ids and row_size announce {self._rows}"
            self.problems.append(Problem(where, "length", message))
        self.problems += self._scan.problems(where, self._kind.item)
        if self.problems:
            raise _Refused

    def error(self, target: Path) -> InvalidDataError:
        """What to raise."""
        return InvalidDataError(f"{self._kind.kind} for {target} refused, nothing was written:", self.problems)

    def _misfit(self, block: Any, width: int | None) -> Problem | None:
        where = self._kind.values
        if block.ndim != 2:
            return Problem(where, "wrong-rank", f"blocks have shape (rows, channels), got shape {block.shape}")
        if block.shape[1] == 0:
            return Problem(where, "zero-channels", "there are 0 channels; there must be at least one")
        if width is not None and block.shape[1] != width:
            return Problem(where, "channels", f"{block.shape[1]} channels in one block, {width} in another")
        wanted = "u" if self._dtype == BFLOAT16 else "f"
        if block.dtype.kind != wanted or (wanted == "u" and block.dtype.itemsize != 2):
            return Problem(where, "wrong-dtype", f"values for {self._dtype} are floats, got {block.dtype}")
        return None
