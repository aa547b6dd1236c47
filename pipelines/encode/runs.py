"""One encoding run: what is there already, parts that survive a kill, arrays written at the end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from optotype.pipelines.encode.batches import batches
from optotype.pipelines.progress import Progress
from optotype.schemas.documents import cache_key
from optotype.schemas.errors import ConflictError, FormatError, IntegrityError, NotFoundError, UsageError
from optotype.store.manifest import Manifest, read_manifest, verify
from optotype.store.staging import Staging

__all__ = [
    "FORMAT_VERSION",
    "BatchRows",
    "EncodedArray",
    "check_positive",
    "fill",
    "flushed_share",
    "note_replaced",
    "standing",
    "standing_digest",
]

FORMAT_VERSION = 1
"""Of the numbers that encoding writes: raised whenever the same inputs give others. In every key."""

# A part is kept at the end of a batch, once it is this large or has taken this long. It decides how much a kill can
# cost, and never what is written.
PART_BYTES = 8 << 20
PART_SECONDS = 10.0


@dataclass(frozen=True)
class EncodedArray:
    """What became of one array.

    Attributes
    ----------
    name : str
    path : Path
        Its folder.
    manifest : Manifest
    resumed : bool
        Part of it came from an earlier run that had been stopped.
    skipped : bool
        It was there, made of the same inputs: nothing was done.
    notes : tuple of str
        What is worth knowing about the values: texts cut, values flushed to zero.
    """

    name: str
    path: Path
    manifest: Manifest
    resumed: bool = False
    skipped: bool = False
    notes: tuple[str, ...] = ()


@dataclass
class BatchRows:
    """Rows of one batch, for each output (layer) of the run.

    Attributes
    ----------
    values : list of list of ndarray, shape (tokens, channels)
        ``values[output][item]``, in the stored type.
    counts : dict of str to list of int
        Summed over the run, one number for each output (``flushed``: values that became zero).
    grids : list of set of (rows, columns)
        The grids met, for each output; None among them where there was none.
    """

    values: list[list[npt.NDArray[Any]]]
    counts: dict[str, list[int]] = field(default_factory=dict)
    grids: list[set[tuple[int, int] | None]] = field(default_factory=list)


def check_positive(**numbers: int | None) -> None:
    """Refuse what must be at least 1, all of it at once.

    Raises
    ------
    UsageError
        One of the numbers is below 1.
    """
    bad = [
        f"{name.replace('_', '-')} is at least 1, got {value}"
        for name, value in numbers.items()
        if value is not None and value < 1
    ]
    if bad:
        raise UsageError("; ".join(bad))


def standing(target: Path, inputs: Mapping[str, Any], progress: Progress) -> Manifest | None:
    """The manifest of the array at ``target`` if it is whole and was made of the same inputs."""
    try:
        manifest = read_manifest(target)
    except (NotFoundError, FormatError, IntegrityError):
        return None
    if manifest.key != cache_key(inputs):
        return None
    problems = verify(target)
    if problems:
        progress.note(f"{target.name}: damaged ({problems[0]}), encoded again")
        return None
    return manifest


def note_replaced(name: str, former: str | None, manifest: Manifest, progress: Progress) -> None:
    """Say that an array took the place of another one, whose `standing_digest` was ``former``."""
    if former is not None and former != manifest.digest:
        progress.note(f"{name}: replaced what was there ({former})")


def standing_digest(target: Path) -> str | None:
    """Digest of the array at ``target``, ``unreadable`` if it is damaged, None if there is none."""
    try:
        return read_manifest(target).digest
    except NotFoundError:
        return None
    except (FormatError, IntegrityError):
        return "unreadable"


def sweep(staging_root: Path, key: str) -> None:
    """Remove parts that a run left because it was killed after its arrays stood."""
    if (staging_root / key).exists():
        with contextlib.suppress(ConflictError):  # someone else is at it, and will
            Staging(staging_root, key).discard()


def fill(
    staging: Staging,
    rows: int,
    batch_size: int,
    encode: Callable[[range], BatchRows],
    progress: Progress,
    *,
    title: str,
    unit: str,
) -> None:
    """Encode what is not finished yet, batch by batch in the order of the rows, and keep it part by part.

    Parameters
    ----------
    staging : Staging
        Of this run.
    rows : int
        In all.
    batch_size : int
        Rows of a batch; cut from row 0, whatever was done before.
    encode : callable
        Positions of a batch -> its rows. Called once for each batch that is not finished.
    progress, title, unit
        How it is reported.
    """
    start = staging.done()
    kept = _Part(staging)
    with progress(title, total=rows, unit=unit, done=start) as task:
        for batch in batches(rows, batch_size, start):
            kept.add(encode(batch))
            if batch.stop == rows or kept.is_full():
                kept.flush()
            task.advance(len(batch))


class _Part:
    """Batches that are encoded and not on disk yet."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._clear()

    def add(self, batch: BatchRows) -> None:
        self._batches.append(batch)
        self._bytes += sum(array.nbytes for output in batch.values for array in output)

    def is_full(self) -> bool:
        return self._bytes >= PART_BYTES or time.monotonic() - self._since >= PART_SECONDS

    def flush(self) -> None:
        outputs = range(len(self._batches[0].values))
        items = [[array for batch in self._batches for array in batch.values[output]] for output in outputs]
        counts = {
            name: [sum(batch.counts[name][output] for batch in self._batches) for output in outputs]
            for name in self._batches[0].counts
        }
        grids = [
            sorted(set().union(*(batch.grids[output] for batch in self._batches)), key=lambda grid: grid or (0, 0))
            for output in range(len(self._batches[0].grids))
        ]
        self._staging.add(
            [np.concatenate(arrays) for arrays in items],
            [np.array([len(array) for array in arrays], dtype=np.int64) for arrays in items],
            {"counts": counts, "grids": grids},
        )
        self._clear()

    def _clear(self) -> None:
        self._batches: list[BatchRows] = []
        self._bytes = 0
        self._since = time.monotonic()


def count(staging: Staging, name: str, output: int) -> int:
    """Sum of one of `BatchRows.counts` over all finished parts."""
    return sum(int(notes["counts"][name][output]) for notes in staging.notes())


def common_grid(staging: Staging, output: int) -> list[int] | None:
    """(rows, columns) of the token grid if all items have the same one."""
    met: Iterable[Any] = (grid for notes in staging.notes() for grid in notes["grids"][output])
    distinct = {None if grid is None else tuple(grid) for grid in met}
    grid = distinct.pop() if len(distinct) == 1 else None
    return None if grid is None else list(grid)


def flushed_share(staging: Staging, output: int, values: int) -> float:
    """Share of all values that were not zero before the cast and are after it."""
    return count(staging, "flushed", output) / values


def flushed_notes(share: float, dtype: str) -> list[str]:
    """The sentence about values that the cast turned into zero; none if there are none."""
    if not share:
        return []
    return [f"{100 * share:.2g} % of the values are too small for {dtype} and were stored as zero"]


def layer_names(name: str, layers: Sequence[int | None]) -> list[str]:
    """Names of the arrays of a run: ``name`` itself for one layer, ``name-l8``, ``name-final`` for several."""
    if len(layers) == 1:
        return [name]
    return [f"{name}-final" if layer is None else f"{name}-l{layer}" for layer in layers]
