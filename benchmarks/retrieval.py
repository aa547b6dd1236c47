"""Retrieval of a few hundred queries among 1 M candidates x 1,024 in the store: product limit, reading, memory.

    python -m benchmarks.retrieval [--json] [--candidates 1000000] [--channels 1024] [--queries 512] [--threads 2]

The candidates are normal float32 rows, written to the store as an array of states (4 GB in a temporary folder, by a
process of its own, so that its memory is not in the figures); a query is its truth and noise, so that some are found
and some are not, and one candidate in a hundred shares its target with another. Times are CPU times of the whole
process.

- The peak is the best of a 4096-cube product and the tile's own shape, by as many Python threads with one BLAS thread
  each as retrieval uses; it is taken before and after.
- ``fraction_of_sgemm`` counts 2 x queries x candidates x channels operations over everything that ``evaluate`` does:
  looking ids up, reading the array twice, scaling, products, ties, measures. ``fraction_without_reading`` leaves out
  what reading the array twice costs by itself, which is measured alone.
- Memory is the high-water mark of this process: the task set (ids as Python strings) and all. ``memory_of_ids_mb`` is
  what the process held when the task set and the arrays were open and nothing was computed.
- The results of some queries are compared with float64 products of all candidates.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from benchmarks.chamfer import CUBE, _cube, _high_water_mb
from optotype.pipelines.retrieval.embeddings import BLOCK, Embeddings
from optotype.pipelines.retrieval.evaluate import evaluate
from optotype.pipelines.scheduler import Scheduler, cpu_count, scheduler
from optotype.store.states import open_states, write_states

N, D, QUERIES = 1_000_000, 1_024, 512
PART = 8_192  # rows that are made at a time
NOISE = 6.0  # of a query, against a truth of the same length: about half are found
COPY = 100  # one candidate in so many has the target of the one before
CHECKED = 4
PRODUCTS = 8


def rows(start: int, stop: int, channels: int) -> NDArray[np.float32]:
    """Candidates ``start:stop`` of one part; the same whoever makes them."""
    return np.random.default_rng((1, start)).standard_normal((stop - start, channels), dtype=np.float32)


def _parts(candidates: int) -> list[tuple[int, int]]:
    return [(start, min(start + PART, candidates)) for start in range(0, candidates, PART)]


def _names(count: int) -> list[str]:
    return [f"{number:08}" for number in range(count)]


def write(folder: Path, candidates: int, channels: int) -> None:
    """The array of candidates, in the store."""
    blocks: Iterator[Any] = (rows(start, stop, channels) for start, stop in _parts(candidates))
    write_states(folder, ids=_names(candidates), blocks=blocks, inputs={"operation": "benchmark"})


def queries_of(candidates: int, channels: int, queries: int) -> tuple[NDArray[np.int64], xr.Dataset]:
    """Truths and vectors of the queries."""
    generator = np.random.default_rng(2)
    truths = np.sort(generator.choice(candidates, queries, replace=False))
    vectors = np.empty((queries, channels), np.float32)
    for start, stop in _parts(candidates):
        a, b = np.searchsorted(truths, [start, stop])
        if b > a:
            vectors[a:b] = rows(start, stop, channels)[truths[a:b] - start]
    vectors += np.float32(NOISE) * generator.standard_normal(vectors.shape, dtype=np.float32)
    ids = np.array(_names(queries), dtype=object)
    return truths, xr.Dataset({"states": (("text", "channel"), vectors)}, coords={"text": ids})


def task_set(candidates: int, truths: NDArray[np.int64]) -> xr.Dataset:
    """All candidates in one list, in the form of `open_tasks`."""
    queries = len(truths)
    names = np.array(_names(candidates), dtype=object)
    same = np.arange(candidates)
    same[COPY::COPY] -= 1

    def all_of(count: int, value: str) -> NDArray[np.object_]:
        return np.full(count, value, dtype=object)

    ids = np.array(_names(queries), dtype=object)
    of_queries = {"task": "t2i", "language": "en", "item": "", "query_text": "", "query_image": ""}
    of_candidates = {"candidate_item": "", "candidate_text": "", "candidate_image": ""}
    return xr.Dataset(
        {
            **{name: ("query", all_of(queries, value)) for name, value in of_queries.items()},
            "query_embedding": ("query", ids),
            "query_list": ("query", np.zeros(queries, np.int64)),
            "relevance_size": ("query", np.ones(queries, np.int64)),
            **{name: ("candidate", all_of(candidates, value)) for name, value in of_candidates.items()},
            "candidate_embedding": ("candidate", names),
            "target": ("candidate", names[same]),
            "list_size": ("list", np.array([candidates])),
            "list_candidate": ("entry", np.arange(candidates)),
            "relevant": ("relevance", truths),
            "grade": ("relevance", np.ones(queries, np.float32)),
        },
        coords={"query": ids, "candidate": names},
    )


def _products(
    shared: tuple[NDArray[np.float32], NDArray[np.float32], list[NDArray[np.float32]], int], number: int
) -> None:
    a, stack, outs, products = shared
    for i in range(products):
        b = (i + number) % (len(stack) // BLOCK)
        np.matmul(a, stack[b * BLOCK : (b + 1) * BLOCK].T, out=outs[number])


def _cpu_seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _peak(place: Scheduler, queries: int, channels: int, cube: int, products: int) -> dict[str, float]:
    """GFLOP per CPU second of bare products."""
    generator = np.random.default_rng(4)
    threads = place.workers
    square = generator.standard_normal((cube, cube), dtype=np.float32)
    cubes = (square, [np.empty_like(square) for _ in range(threads)])
    made = generator.standard_normal((4 * BLOCK + queries, channels), dtype=np.float32)
    tiles = (made[:queries], made[queries:], [np.empty((queries, BLOCK), np.float32) for _ in range(threads)], products)
    of_cubes = _cpu_seconds(lambda: list(place.map(_cube, cubes, range(threads))))
    of_tiles = _cpu_seconds(lambda: list(place.map(_products, tiles, range(threads))))
    return {
        "cube": threads * 2.0 * cube**3 / of_cubes / 1e9,
        "tile": threads * products * 2.0 * queries * BLOCK * channels / of_tiles / 1e9,
    }


def _read(array: Embeddings, span: tuple[int, int]) -> int:
    return len(array.read(*span))


def _check(
    found: NDArray[np.float64], truths: NDArray[np.int64], vectors: NDArray[np.float32], candidates: int
) -> bool:
    """Whether P@1 of the first queries is that of float64 products of all candidates."""
    asked = vectors[:CHECKED].astype(np.float64)
    best, own = np.full(CHECKED, -np.inf), np.empty(CHECKED)
    for start, stop in _parts(candidates):
        part = rows(start, stop, vectors.shape[1]).astype(np.float64)
        cosines = asked @ (part / np.linalg.norm(part, axis=1)[:, None]).T
        best = np.maximum(best, cosines.max(axis=1))
        inside = np.flatnonzero((truths[:CHECKED] >= start) & (truths[:CHECKED] < stop))
        own[inside] = cosines[inside, truths[inside] - start]
    return bool((found[:CHECKED] == (own >= best)).all())


def measure(
    candidates: int, channels: int, queries: int, threads: int, *, cube: int = CUBE, products: int = PRODUCTS
) -> dict[str, Any]:
    """All of it; see the module."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="optotype-retrieval-") as folder:
        target = Path(folder) / "candidates"
        process = multiprocessing.get_context("spawn").Process(target=write, args=(target, candidates, channels))
        process.start()
        process.join()
        truths, asked = queries_of(candidates, channels, queries)
        tasks = task_set(candidates, truths)
        offered = open_states(target)
        ids = _high_water_mb()
        with scheduler("threads", workers=threads) as place:
            before = _peak(place, queries, channels, cube, products)
        done: list[Any] = []
        seconds = _cpu_seconds(lambda: done.append(evaluate(tasks, [asked], [offered], workers=threads)))
        memory = _high_water_mb()
        with scheduler("threads", workers=threads) as place:
            after = _peak(place, queries, channels, cube, products)
            array = Embeddings([offered], "candidates")
            spans = array.blocks(np.arange(candidates))
            reading = _cpu_seconds(lambda: sum(place.map(_read, array, spans)))
    peak = max(np.mean([rates[name] for rates in (before, after)]) for name in before)
    flops = 2.0 * queries * candidates * channels
    (cell,) = done[0].cells
    return {
        "fraction_of_sgemm": round(flops / seconds / 1e9 / peak, 3),
        "fraction_without_reading": round(flops / (seconds - 2 * reading) / 1e9 / peak, 3),
        "peak_mb": memory,
        "memory_of_ids_mb": ids,
        "array_mb": round(4 * candidates * channels / 2**20, 1),
        "cpu_seconds": {"all": round(seconds, 1), "reading_once": round(reading, 1)},
        "gflops_per_cpu_second": {
            "retrieval": round(flops / seconds / 1e9, 1),
            **{name: [round(rates[name], 1) for rates in (before, after)] for name in before},
        },
        "p_at_1": cell["p1"],
        "distinct_candidates": cell["candidates"],
        "equal_to_float64_products": _check(done[0].p1, truths, asked["states"].values, candidates),
        "case": {"candidates": candidates, "channels": channels, "queries": queries},
        "threads": threads,
        "seconds": round(time.perf_counter() - began, 1),
    }


def lines(result: dict[str, Any]) -> Iterator[str]:
    """What :func:`measure` gave, for reading."""
    for name in ("fraction_of_sgemm", "fraction_without_reading", "peak_mb", "memory_of_ids_mb", "array_mb"):
        yield f"{name:24} {result[name]:8.3f}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Retrieval against the product.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--candidates", type=int, default=N)
    parser.add_argument("--channels", type=int, default=D)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--threads", type=int, default=cpu_count())
    options = parser.parse_args()
    result = measure(options.candidates, options.channels, options.queries, options.threads)
    print(json.dumps(result, indent=2) if options.json else "\n".join(lines(result)))


if __name__ == "__main__":
    main()
