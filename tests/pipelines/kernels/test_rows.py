"""Cuts of the work, and the reader and cache that serve it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import dask.array as da
import numpy as np
import pytest

from optotype.pipelines.kernels import rows
from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.kernels.rows import BlockCache, RowReader, blocks_of_images, pairs_of_blocks, spans_of_rows


def test_spans_cover_all_rows() -> None:
    assert spans_of_rows(5, 2**22) == [(0, 4), (4, 5)]
    assert spans_of_rows(3, 2**40) == [(0, 1), (1, 2), (2, 3)]


def test_blocks_hold_whole_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TILE_ROWS", 4)
    monkeypatch.setattr(rows, "_BLOCK_BYTES", 4 * 10)
    offsets = offsets_of(np.array([3, 3, 30, 1, 1, 1, 1, 1, 1, 1, 1, 1]))
    assert blocks_of_images(offsets, 1) == [(0, 2), (2, 3), (3, 11), (11, 12)]
    monkeypatch.setattr(rows, "_BLOCK_IMAGES", 5)
    assert blocks_of_images(offsets, 1) == [(0, 2), (2, 3), (3, 8), (8, 12)]


@pytest.mark.parametrize("count", [1, 2, 8, 9, 21])
def test_each_pair_of_blocks_once_diagonal_first(count: int) -> None:
    pairs = list(pairs_of_blocks(count))
    assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i, count)]
    assert pairs[:count] == [(i, i) for i in range(count)]


@pytest.mark.parametrize("chunks", [(4, 3), (7, -1), ((1, 10, 2, 10), -1), None])
def test_reader_reads_any_span(chunks: object) -> None:
    values = np.random.default_rng(0).standard_normal((23, 5)).astype(np.float16)
    reader = RowReader(values if chunks is None else da.from_array(values, chunks=chunks), "t")
    cache = BlockCache()
    for start in range(23):
        for stop in range(start + 1, 24):
            found = reader.read(start, stop, cache)
            assert found.dtype == np.float16
            np.testing.assert_array_equal(found, values[start:stop])


def test_cache_makes_once_and_forgets_the_oldest() -> None:
    cache = BlockCache(limit=20)
    made: list[int] = []

    def get(key: int) -> int:
        def make() -> int:
            made.append(key)
            return key

        return int(cache.get(("t", key), make, lambda _: 10))

    assert [get(1), get(2), get(1), get(3), get(1), get(2)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]
    cache.drop("t")
    get(1)
    assert made == [1, 2, 3, 2, 1]


def test_threads_that_want_one_thing_make_it_once() -> None:
    cache = BlockCache()
    calls: list[int] = []
    gate = threading.Event()

    def make() -> int:
        calls.append(1)
        gate.wait(5)
        return 7

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(cache.get, "key", make, lambda _: 8) for _ in range(4)]
        gate.set()
        assert [future.result() for future in waiting] == [7] * 4
    assert len(calls) == 1


def test_a_failure_is_passed_on_and_not_kept() -> None:
    cache = BlockCache()

    def fail() -> int:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        cache.get("key", fail, lambda _: 8)
    assert cache.get("key", lambda: 3, lambda _: 8) == 3
