"""Mining pairs out of all n (n - 1) / 2 cosines against the float32 product, its memory, and the cost of a large set.

    python -m benchmarks.pair_mining [--json] [--n 50000] [--threads 2]

The case is n = 50,000 images, d = 768 float32 pooled features in both spaces, made as they are read: 5,000 groups of
ten in the first space, around a cosine of 0.95, so that half of the 225,000 pairs within groups pass, many of them near
the threshold; the second space is noise. Times are CPU times of the whole process.

- The peak is the best of a 4096-cube product and the kernel's own tile shape, on normal data, by as many Python threads
  with one BLAS thread each as the kernel uses; it is taken before and after every sixth of the tiles, so that another
  load on the machine disturbs both sides alike.
- ``fraction_of_sgemm`` counts n (n - 1) d operations, all that the cosines i < j need, and everything from unit vectors
  to found pairs; ``fraction_with_pooling`` making, reading and pooling of both spaces, too.
- Memory is the high-water mark of this process, with the buffers of the peak in it.
- The pairs among the first images are compared with a float64 product of all of them.
- The figures for 1.28 M images are extrapolated: operations over the rate of this run, on one core and on two; for a
  GPU by the same fraction of a data sheet's float32 rate. No code here runs on a GPU; reading is not in the figures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from benchmarks.chamfer import CUBE, _cube, _high_water_mb
from optotype.pipelines.kernels.pair_mining import TILE, Criterion, Found
from optotype.pipelines.kernels.rows import BlockCache, pairs_of_blocks
from optotype.pipelines.pairs.mining import ABOVE, BELOW, _tile, _Work
from optotype.pipelines.pairs.pooling import PooledRows, pooled_rows
from optotype.pipelines.progress import SILENT
from optotype.pipelines.scheduler import Scheduler, cpu_count, scheduler

N, D, GROUP = 50_000, 768, 10
SPREAD = 0.2294  # of a group: cosines around 1 / (1 + SPREAD²) = 0.95
CHUNK = 4_000  # images, a multiple of GROUP
PARTS = 6
PRODUCTS = 8
CHECKED = 4_000
IMAGES = 1_280_000
GPU = ("H100 or H200 SXM, float32 without tensor cores, data sheet", 67e12)


def features(name: str, n: int, channels: int, seed: int, spread: float | None) -> xr.Dataset:
    """One token an image, in groups or (``spread`` None) without; the same values however they are read."""
    import dask.array as da

    def rows(block_info: Any = None) -> NDArray[np.float32]:
        (first, last), _ = block_info[None]["array-location"]
        generator = np.random.default_rng((seed, first))
        noise = generator.standard_normal((last - first, channels), dtype=np.float32)
        if spread is None:
            return noise
        centres = generator.standard_normal((-(-(last - first) // GROUP), channels), dtype=np.float32)
        return np.repeat(centres, GROUP, axis=0)[: last - first] + np.float32(spread) * noise

    chunks = tuple(min(CHUNK, n - start) for start in range(0, n, CHUNK))
    patches = da.map_blocks(rows, chunks=(chunks, (channels,)), dtype=np.float32, meta=np.empty((0, 0), np.float32))
    ids = np.array([f"{i:07}" for i in range(n)], dtype=object)
    return xr.Dataset(
        {"patches": (("token", "channel"), patches), "row_size": ("image", np.ones(n, np.int64))},
        coords={"image": ("image", ids)},
        attrs={"name": name},
    )


def _products(shared: tuple[NDArray[np.float32], list[NDArray[np.float32]], int], number: int) -> None:
    stack, outs, products = shared
    for i in range(products):
        a = (i + number) % (len(stack) // TILE)
        b = (2 * i + number + 1) % (len(stack) // TILE)
        np.matmul(stack[a * TILE : (a + 1) * TILE], stack[b * TILE : (b + 1) * TILE].T, out=outs[number])


def _cpu_seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


class Peak:
    """Rates of bare products, GFLOP per CPU second, taken again and again."""

    def __init__(self, place: Scheduler, channels: int, cube: int, products: int) -> None:
        generator = np.random.default_rng(4)
        threads = place.workers
        square = generator.standard_normal((cube, cube), dtype=np.float32)
        stack = generator.standard_normal((8 * TILE, channels), dtype=np.float32)
        cubes = (square, [np.empty_like(square) for _ in range(threads)])
        tiles = (stack, [np.empty((TILE, TILE), np.float32) for _ in range(threads)], products)
        self._jobs: dict[str, tuple[Callable[[], Any], float]] = {
            "cube": (lambda: list(place.map(_cube, cubes, range(threads))), threads * 2.0 * cube**3),
            "tile": (
                lambda: list(place.map(_products, tiles, range(threads))),
                threads * products * 2.0 * TILE**2 * channels,
            ),
        }
        self.rates: dict[str, list[float]] = {name: [] for name in self._jobs}

    def measure(self) -> None:
        """One more rate of each."""
        for name, (run, flops) in self._jobs.items():
            self.rates[name].append(flops / _cpu_seconds(run) / 1e9)


def _check(spaces: list[PooledRows], found: Found) -> bool:
    """Whether the pairs among the first images are those of a float64 product."""
    count = min(CHECKED, spaces[0].images)
    similar, different = (space.block(0, count) for space in spaces)
    a, b = similar @ similar.T, different @ different.T
    expected = np.argwhere(np.triu((a.round(12) > ABOVE) & (b.round(12) < BELOW), 1))
    inside = (found.first < count) & (found.second < count)
    got = np.stack([found.first[inside], found.second[inside]], axis=1)
    return bool(np.array_equal(got[np.lexsort((got[:, 1], got[:, 0]))], expected))


def measure(n: int, threads: int, *, channels: int = D, cube: int = CUBE, products: int = PRODUCTS) -> dict[str, Any]:
    """All of it; see the module."""
    began = time.perf_counter()
    with scheduler("threads", workers=threads) as place:
        peak = Peak(place, channels, cube, products)
        spaces: list[PooledRows] = []
        data = [features("grouped", n, channels, 1, SPREAD), features("noise", n, channels, 2, None)]
        pooling = _cpu_seconds(lambda: spaces.extend(pooled_rows(each, "", None, place, SILENT) for each in data))
        work = _Work(spaces[0], spaces[1], (Criterion(ABOVE, BELOW),), BlockCache())
        pairs = list(pairs_of_blocks(-(-n // TILE)))
        step = -(-len(pairs) // PARTS)
        parts: list[Found] = []
        seconds = []
        peak.measure()
        for start in range(0, len(pairs), step):
            some = pairs[start : start + step]
            seconds.append(_cpu_seconds(lambda some=some: parts.extend(place.map(_tile, work, some))))  # type: ignore[misc]
            peak.measure()
        found = Found.joined(parts, 1)
        memory = _high_water_mb()
        equal = _check(spaces, found)
        for space in spaces:
            space.close()
    median = {name: float(np.median(values)) for name, values in peak.rates.items()}
    best = max(median, key=median.__getitem__)
    flops = n * (n - 1.0) * channels
    rate = flops / sum(seconds) / 1e9
    large = IMAGES * (IMAGES - 1.0) * channels
    return {
        "fraction_of_sgemm": round(rate / median[best], 3),
        "fraction_with_pooling": round(flops / (sum(seconds) + pooling) / 1e9 / median[best], 3),
        "peak_mb": memory,
        "cpu_seconds": {"tiles": round(sum(seconds), 1), "pooling_of_both": round(pooling, 1)},
        "gflops_per_cpu_second": {
            "mining": round(rate, 1),
            **{
                name: {"median": round(median[name], 1), "min": round(min(v), 1), "max": round(max(v), 1)}
                for name, v in peak.rates.items()
            },
        },
        "peak_is": best,
        "passed": int(found.passed[0]),
        "found": len(found.first),
        "equal_to_float64_product": equal,
        "extrapolated_to_1.28M_images": {
            "operations": large,
            "hours_on_1_core": round(large / (rate * 1e9) / 3600, 2),
            "hours_on_2_cores": round(large / (2 * rate * 1e9) / 3600, 2),
            "seconds_on_one_gpu": round(large / (GPU[1] * rate / median[best]), 0),
            "gpu": GPU[0],
            "file_of_pooled_features_gb_per_encoder": round(8 * IMAGES * channels / 1e9, 1),
        },
        "case": {"n": n, "channels": channels, "above": ABOVE, "below": BELOW},
        "threads": threads,
        "seconds": round(time.perf_counter() - began, 1),
    }


def lines(result: dict[str, Any]) -> Iterator[str]:
    """What :func:`measure` gave, for reading."""
    for name in ("fraction_of_sgemm", "fraction_with_pooling", "peak_mb"):
        yield f"{name:24} {result[name]:8.3f}"
    for name, value in result["extrapolated_to_1.28M_images"].items():
        yield f"{name:40} {value}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Mining of pairs against the product.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--n", type=int, default=N, help="images")
    parser.add_argument("--threads", type=int, default=cpu_count())
    options = parser.parse_args()
    result = measure(options.n, options.threads)
    print(json.dumps(result, indent=2) if options.json else "\n".join(lines(result)))


if __name__ == "__main__":
    main()
