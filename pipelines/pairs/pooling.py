"""One unit vector an image: the mean of its stored tokens, in memory or in a file of its own.

The mean is unweighted over the tokens as they are stored, neither centred nor whitened; it is taken and scaled to
length 1 in float64. Up to 128 MiB the vectors of an encoder stay in memory; beyond that they go to a file without a
name (8 x n x d bytes), which the system removes when the process ends, however it ends.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.kernels.rows import BlockCache, RowReader, blocks_of_images
from optotype.pipelines.kernels.whitening import normalise_rows
from optotype.pipelines.progress import Progress
from optotype.pipelines.scheduler import Scheduler
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["PooledRows", "pooled_rows"]

_IN_MEMORY = 128 * 2**20
_CACHE = 128 * 2**20
_SPARSE = 4  # one row in so many: read the whole stretch, not row by row
_SHOWN = 5


class PooledRows:
    """Unit vectors of images in float64; several threads may read at a time.

    Parameters
    ----------
    images, channels : int
    folder : Path, optional
        Where a file may be made, if one is needed; the system's folder for temporary files by default.

    Attributes
    ----------
    images, channels : int
    """

    def __init__(self, images: int, channels: int, folder: Path | None = None) -> None:
        self.images, self.channels = images, channels
        self._written = 0
        self._array: NDArray[np.float64] | None = None
        self._file: IO[bytes] | None = None
        if 8 * images * channels <= _IN_MEMORY:
            self._array = np.empty((images, channels))
        else:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as this object

    def append(self, rows: NDArray[np.float64]) -> None:
        """The next rows (k, d), in order."""
        if self._array is not None:
            self._array[self._written : self._written + len(rows)] = rows
        elif self._file is not None:
            self._file.write(np.ascontiguousarray(rows).data)
        self._written += len(rows)

    def finish(self) -> PooledRows:
        """All rows are there."""
        if self._file is not None:
            self._file.flush()
        return self

    def close(self) -> None:
        """Let go of memory and file."""
        self._array = None
        if self._file is not None:
            self._file.close()

    def block(self, start: int, stop: int) -> NDArray[np.float64]:
        """Rows ``start:stop``."""
        if self._array is not None:
            return self._array[start:stop]
        if self._file is None:
            raise RuntimeError("these rows were closed")
        size = 8 * self.channels
        data = bytearray(size * (stop - start))
        done = 0
        while done < len(data):
            got = os.preadv(self._file.fileno(), [memoryview(data)[done:]], size * start + done)
            if not got:
                raise OSError(f"the file of pooled features ends after {size * start + done} bytes")
            done += got
        read: NDArray[np.float64] = np.frombuffer(data, np.float64).reshape(stop - start, self.channels)
        return read

    def rows(self, indices: NDArray[np.integer]) -> NDArray[np.float64]:
        """Rows at ``indices`` (m,), shape (m, d)."""
        if self._array is not None:
            taken: NDArray[np.float64] = self._array[indices]
            return taken
        if not len(indices):
            return np.empty((0, self.channels))
        distinct, place = np.unique(indices, return_inverse=True)
        low, high = int(distinct[0]), int(distinct[-1]) + 1
        if high - low <= _SPARSE * len(distinct):
            stretch: NDArray[np.float64] = self.block(low, high)[indices - low]
            return stretch
        single: NDArray[np.float64] = np.concatenate([self.block(int(row), int(row) + 1) for row in distinct])[place]
        return single


@dataclass(frozen=True)
class _Shared:
    reader: RowReader
    cache: BlockCache
    offsets: NDArray[np.int64]
    unit: bool


def _pool(shared: _Shared, block: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Vectors of a block of images, which of them are finite, and which have a direction if they need one."""
    first, last = block
    offsets = shared.offsets[first : last + 1]
    rows = shared.reader.read(int(offsets[0]), int(offsets[-1]), shared.cache)
    with np.errstate(all="ignore"):  # what is not finite is reported
        if len(rows) == last - first:  # one token each
            mean = rows.astype(np.float64)
        else:
            ends = (offsets - offsets[0]).tolist()
            mean = np.array([rows[a:b].mean(axis=0, dtype=np.float64) for a, b in itertools.pairwise(ends)])
    finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(mean), axis=1)
    mean[~finite] = 0
    if not shared.unit:
        return mean, finite, np.ones(len(mean), dtype=bool)
    unit, zero = normalise_rows(mean)
    return unit, finite, ~zero | ~finite


def pooled_rows(
    features: xr.Dataset,
    name: str,
    positions: Sequence[int] | None,
    place: Scheduler,
    progress: Progress,
    folder: Path | None = None,
    *,
    unit: bool = True,
) -> PooledRows:
    """Pool the tokens of every image in one pass.

    Parameters
    ----------
    features : Dataset
        ``patches(token, channel)``, ``row_size(image)``, coordinate ``image``; dask or NumPy, any float dtype.
    name : str
        For messages.
    positions : sequence of int, optional
        Rising: the images that are wanted; all by default.
    place : Scheduler
        Threads of this process.
    progress : Progress
    folder : Path, optional
        Where the vectors may lie in a file.
    unit : bool
        Whether the means are scaled to length 1; if not, they are given as they are.

    Raises
    ------
    InvalidDataError
        Values that are not finite, means without a direction (all zero) that are to be scaled, empty images; the images
        are named.
    """
    patches = features["patches"]
    ids = features["image"].values
    sizes = np.asarray(features["row_size"].values, dtype=np.int64)
    tokens, channels = patches.shape
    _check_sizes(name, sizes, tokens)
    offsets = offsets_of(sizes)
    wanted = np.zeros(len(ids), dtype=bool)
    wanted[slice(None) if positions is None else list(positions)] = True
    shared = _Shared(RowReader(patches.data, name), BlockCache(_CACHE), offsets, unit)
    blocks = [block for block in blocks_of_images(offsets, channels) if wanted[slice(*block)].any()]
    result = PooledRows(int(wanted.sum()), channels, folder)
    infinite: list[str] = []
    zero: list[str] = []
    try:
        with progress(f"pooling {name}", total=result.images, unit="images") as task:
            for block, (means, finite, directed) in zip(blocks, place.map(_pool, shared, blocks), strict=True):
                kept = wanted[slice(*block)]
                here = ids[slice(*block)]
                infinite += [str(value) for value in here[kept & ~finite]]
                zero += [str(value) for value in here[kept & ~directed]]
                result.append(means[kept])
                task.advance(int(kept.sum()))
        problems = _named(name, infinite, "not-finite", "hold NaN or Inf") + _named(
            name, zero, "no-direction", "have a mean of zero, which has no cosine"
        )
        if problems:
            raise InvalidDataError(f"The features of {name} cannot be compared by cosine", problems)
    except BaseException:
        result.close()
        raise
    return result.finish()


def _check_sizes(name: str, sizes: NDArray[np.int64], tokens: int) -> None:
    problems = []
    if sizes.size and sizes.min() < 1:
        problems.append(Problem("row_size", "empty-image", "every image has one token or more"))
    if int(sizes.sum()) != tokens:
        problems.append(Problem("row_size", "sum", f"adds up to {int(sizes.sum())}, there are {tokens} tokens"))
    if problems:
        raise InvalidDataError(f"{name}: these are not patch features", problems)


def _named(name: str, images: list[str], kind: str, message: str) -> list[Problem]:
    if not images:
        return []
    more = f" and {len(images) - _SHOWN} more" if len(images) > _SHOWN else ""
    return [Problem(name, kind, f"{len(images)} images {message}: {', '.join(images[:_SHOWN])}{more}")]
