"""What every array must satisfy before it is stored: sound ids, finite values, the right ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from optotype.schemas.errors import Problem
from optotype.schemas.names import id_problems

__all__ = ["FLOATS", "FiniteScan", "blanked", "check_ids", "check_row_size", "limited", "stored_dtype"]

FLOATS = ("float16", "float32", "float64", "bfloat16")
_SHOWN = 5


def limited(problems: Iterable[Problem], most: int = 20) -> list[Problem]:
    """``problems`` with at most ``most`` of each kind, and the number of those left out."""
    seen: Counter[str] = Counter()
    kept = []
    for problem in problems:
        seen[problem.kind] += 1
        if seen[problem.kind] <= most:
            kept.append(problem)
    rest = [(kind, times - most) for kind, times in seen.items() if times > most]
    return kept + [Problem("…", kind, f"and {times} more of the kind {kind}") for kind, times in rest]


def check_ids(ids: Sequence[object], where: str = "ids") -> list[Problem]:
    """Everything wrong with the ids of rows that are about to be stored, their order included."""
    problems = id_problems(ids, where)
    if not ids:
        problems.append(Problem(where, "empty", "there are no rows; an array has at least one"))
    if not problems:
        at = next((i for i in range(1, len(ids)) if ids[i - 1] > ids[i]), None)  # type: ignore[operator]
        if at is not None:
            problems.append(
                Problem(where, "unsorted-ids", f"{ids[at]!r} follows {ids[at - 1]!r}; rows are stored sorted")
            )
    return limited(problems)


def check_row_size(row_size: Any, rows: int, tokens: int | None, where: str = "row_size") -> list[Problem]:
    """Everything wrong with the token counts of ``rows`` images that have ``tokens`` tokens in all (None: unknown)."""
    sizes = np.asarray(row_size)
    if sizes.ndim != 1:
        return [Problem(where, "wrong-rank", f"one count for each image, shape (n,), got shape {sizes.shape}")]
    if sizes.dtype.kind not in "iu":
        return [Problem(where, "wrong-dtype", f"counts are integers, got {sizes.dtype}")]
    problems = []
    if len(sizes) != rows:
        problems.append(Problem(where, "length", f"{len(sizes)} counts for {rows} ids"))
    bad = np.flatnonzero(sizes < 1)
    if len(bad):
        first = ", ".join(f"[{i}] = {sizes[i]}" for i in bad[:_SHOWN])
        problems.append(Problem(where, "row-size-range", f"{len(bad)} counts below 1, first {first}"))
    # Python integers: a sum of hostile int64 counts may not wrap around.
    total = sum(sizes.tolist())
    if tokens is not None and total != tokens:
        problems.append(Problem(where, "row-size-sum", f"counts add up to {total}, there are {tokens} tokens"))
    return problems


def stored_dtype(dtype: Any) -> tuple[np.dtype[Any], str]:
    """The dtype on disk and the name of the dtype that is meant: bfloat16 is stored as its bits, in uint16.

    Raises
    ------
    ValueError
        Not one of float16, float32, float64, bfloat16.
    """
    name = "bfloat16" if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype).name
    if name not in FLOATS:
        raise ValueError(f"dtype is one of {', '.join(FLOATS)}, got {name!r}")
    return (np.dtype("<u2"), name) if name == "bfloat16" else (np.dtype(name).newbyteorder("<"), name)


def _special(block: Any, dtype: str) -> Any:
    """Where a block (rows, channels) holds NaN or an infinity: of bfloat16, where all bits of the exponent are set."""
    return (block & 0x7F80) == 0x7F80 if dtype == "bfloat16" else ~np.isfinite(block)


def blanked(block: Any, dtype: str) -> tuple[Any, int]:
    """A block (rows, channels) whose rows that hold NaN or infinity are NaN throughout, and how many those are.

    The block itself is left as it is; ``bfloat16`` comes and goes as its bits.
    """
    rows = _special(block, dtype).any(axis=1)
    if not rows.any():
        return block, 0
    block = np.array(block)
    block[rows] = 0x7FC0 if dtype == "bfloat16" else np.nan
    return block, int(rows.sum())


class FiniteScan:
    """Looks for NaN and infinity in blocks of rows and remembers which items hold them.

    Parameters
    ----------
    ids : sequence
        Ids of the items.
    row_size : ndarray of int, optional
        Rows of each item; one each if not given.
    dtype : str
        Name of the dtype; the bits of ``bfloat16`` come as uint16.
    blank : bool
        Whether rows that are NaN throughout are taken as they are.
    """

    def __init__(self, ids: Sequence[object], row_size: Any | None, dtype: str, *, blank: bool = False) -> None:
        self._ids = ids
        self._blank = blank
        self._ends = None if row_size is None else np.cumsum(np.asarray(row_size, dtype=np.int64))
        self._dtype = dtype
        self._rows = 0
        self._items: dict[str, set[int]] = {"nan": set(), "infinite": set()}
        self._values = {"nan": 0, "infinite": 0}

    def add(self, block: Any) -> None:
        """Look at the next rows, shape (rows, channels)."""
        start, self._rows = self._rows, self._rows + len(block)
        special = _special(block, self._dtype)
        if not special.any():
            return
        nan = special & ((block & 0x7F) != 0) if self._dtype == "bfloat16" else np.isnan(block)
        infinite = special & ~nan
        if self._blank:
            nan &= ~nan.all(axis=1, keepdims=True)
        for kind, mask in (("nan", nan), ("infinite", infinite)):
            self._values[kind] += int(np.count_nonzero(mask))
            rows = start + np.flatnonzero(mask.any(axis=1))
            items = rows if self._ends is None else np.searchsorted(self._ends, rows, side="right")
            self._items[kind].update(np.unique(items).tolist())

    def problems(self, where: str, noun: str) -> list[Problem]:
        """What was found, by kind; ``noun`` is what an item is called ("image")."""
        found = []
        for kind, word in (("nan", "NaN"), ("infinite", "infinite values")):
            items = sorted(self._items[kind], key=self._label)
            if items:
                first = ", ".join(self._label(i) for i in items[:_SHOWN])
                more = ", …" if len(items) > _SHOWN else ""
                message = f"{word} ({self._values[kind]}) in {len(items)} {noun}{'s' * (len(items) > 1)}: {first}{more}"
                found.append(Problem(where, kind, message))
        return found

    def _label(self, item: int) -> str:
        return repr(self._ids[item]) if item < len(self._ids) else f"row {item}"
