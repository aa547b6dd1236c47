"""How an array of rows is cut into work, and read piece by piece with a bounded cache.

The cuts depend on the number of rows, their sizes and the channels alone: never on chunks, threads or workers. Equal
input therefore means equal additions in equal order, and equal bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import TILE_ROWS

__all__ = ["BlockCache", "RowReader", "blocks_of_images", "pairs_of_blocks", "spans_of_rows"]

_SPAN_BYTES = 64 * 2**20
_BLOCK_BYTES = 16 * 2**20
_BLOCK_IMAGES = 1024
_GROUP = 8
_CACHE_BYTES = 256 * 2**20


def spans_of_rows(rows: int, channels: int) -> list[tuple[int, int]]:
    """Consecutive spans of rows of about 64 MiB as float32, for one pass over an array."""
    step = max(1, _SPAN_BYTES // (4 * channels))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def blocks_of_images(offsets: NDArray[np.int64], channels: int) -> list[tuple[int, int]]:
    """Consecutive blocks of images of about 16 MiB as float32, 1024 images at most, one at least.

    Parameters
    ----------
    offsets : ndarray (n + 1,) int64
        Image i holds rows ``offsets[i]:offsets[i + 1]``.
    """
    # A whole number of tiles: what is left over at the end of a block makes small, slow products.
    limit = max(TILE_ROWS, _BLOCK_BYTES // (4 * channels) // TILE_ROWS * TILE_ROWS)
    result = []
    first = 0
    count = len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1
        last = min(max(last, first + 1), first + _BLOCK_IMAGES)
        result.append((first, last))
        first = last
    return result


def pairs_of_blocks(count: int) -> Iterator[tuple[int, int]]:
    """All pairs (i, j), i <= j < ``count``, in the order in which few blocks have to be in memory.

    First the diagonal, which sees every block once (and finds what is wrong with the data); then eight columns at a
    time, so that each block is made count / 16 times on average, not count / 2.
    """
    for i in range(count):
        yield i, i
    for left in range(0, count, _GROUP):
        right = min(left + _GROUP, count)
        for i in range(right):
            for j in range(max(left, i + 1), right):
                yield i, j


class BlockCache:
    """Keeps what was made last, up to a number of bytes; several threads that want one thing make it once."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._items: OrderedDict[Hashable, tuple[Future[Any], int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        """What stands under ``key``, made with ``make()`` if nothing does; ``size`` tells its bytes."""
        with self._lock:
            held = self._items.get(key)
            if held is not None:
                self._items.move_to_end(key)
            else:
                future: Future[Any] = Future()
                self._items[key] = (future, 0)
        if held is not None:
            return held[0].result()
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                self._items.pop(key, None)
            future.set_exception(error)
            raise
        future.set_result(made)
        with self._lock:
            if key in self._items:
                self._items[key] = (future, size(made))
                self._bytes += size(made)
                self._evict(key)
        return made

    def _evict(self, newest: Hashable) -> None:
        """Forget what was used longest ago until the limit holds; what is being made or was just made stays."""
        for key, (_, freed) in list(self._items.items()):
            if self._bytes <= self._limit:
                return
            if freed and key != newest:
                del self._items[key]
                self._bytes -= freed

    def drop(self, prefix: object) -> None:
        """Forget every entry whose key is a tuple that begins with ``prefix``."""
        with self._lock:
            for key in [key for key in self._items if isinstance(key, tuple) and key[0] == prefix]:
                self._bytes -= self._items.pop(key)[1]


class RowReader:
    """Reads spans of rows of a dask or NumPy array (rows, d), a whole dask chunk at a time.

    A slice of a dask array reads all of every chunk it touches (here a shard of 64 MiB), so the last chunks are kept.

    Parameters
    ----------
    array : dask array or ndarray (rows, d)
    token : hashable
        Names the array in the cache.
    """

    def __init__(self, array: Any, token: Hashable) -> None:
        if hasattr(array, "dask"):
            step = max(1, 2 * _SPAN_BYTES // (array.dtype.itemsize * array.shape[1]))
            if array.numblocks[1] > 1 or max(array.chunks[0]) > step:
                array = array.rechunk({0: step, 1: -1})
        self._array = array
        self._token = token
        self._edges = _chunk_edges(array)

    def read(self, start: int, stop: int, cache: BlockCache) -> NDArray[np.floating]:
        """Rows ``start:stop`` as they are stored, C-contiguous."""
        if self._edges is None:
            return np.ascontiguousarray(self._array[start:stop])
        first = int(np.searchsorted(self._edges, start, side="right")) - 1
        parts = []
        while start < stop:
            edge = int(self._edges[first])
            end = int(self._edges[first + 1])
            if end > start:
                chunk = self._chunk(first, cache)
                parts.append(chunk[start - edge : min(stop, end) - edge])
                start = min(stop, end)
            first += 1
        return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)

    def _chunk(self, number: int, cache: BlockCache) -> NDArray[np.floating]:
        def make() -> NDArray[np.floating]:
            # Always here: inside a worker the default scheduler would be the cluster itself.
            return np.asarray(self._array.blocks[number].compute(scheduler="synchronous"))

        chunk: NDArray[np.floating] = cache.get((self._token, "chunk", number), make, lambda made: int(made.nbytes))
        return chunk


def _chunk_edges(array: Any) -> NDArray[np.int64] | None:
    if not hasattr(array, "dask"):
        return None
    edges = np.zeros(len(array.chunks[0]) + 1, dtype=np.int64)
    np.cumsum(array.chunks[0], out=edges[1:])
    return edges
