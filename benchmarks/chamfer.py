"""All-pairs Chamfer similarity against the float32 product, a loop and the fastest MaxSim package.

    python -m benchmarks.chamfer [--json]

The case is n = 512 images, M = 256 patches (ragged: 128 to 384), d = 384 float32, only i < j. All times are CPU
times of the whole process over interleaved rounds, so that another load on the machine disturbs all sides alike;
ratios are taken of medians, and their spread over the rounds is reported.

- The peak is the best of a 4096-cube product and the kernel's own block shape, on normal data, by as many Python
  threads with one BLAS thread each as the kernel uses.
- The kernel is timed from whitened float32 arrays to top-k indices, near-ties scored again included, on a seeded
  subset of the tiles: one group of images against a seeded choice of runs of other groups.
- The indices are compared with a float64 loop over the same pairs.
- Memory is the high-water mark of processes of their own that run `feature_neighbours` on features that are made as
  they are read, for n and 2 n images: the whitening, then every block with itself and three pairs of unlike blocks,
  which fills all caches, and no more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import TILE_ROWS, Group, chamfer_block, chamfer_pair, groups, offsets_of
from optotype.pipelines.kernels.topk import WINDOW, Candidates, top_k
from optotype.pipelines.operators.neighbours import feature_neighbours
from optotype.pipelines.scheduler import Scheduler, cpu_count, scheduler

if TYPE_CHECKING:
    import xarray as xr

ROOT = Path(__file__).resolve().parents[1]
CUBE = 4096
MEMORY_PAIRS = 3

Floats = NDArray[np.float32]
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Sizes:
    """How large everything is; the defaults are the benchmark.

    Attributes
    ----------
    n, patches, channels, k : int
        Images, patches an image (ragged: half to one and a half of that), channels, neighbours.
    runs, tiles_a_run : int
        Runs of other images that the anchor is compared with, and groups in each.
    cube, products, stacks : int
        Side of the cube; products of the kernel's block shape that are timed at once, and the blocks they take.
    rounds, most_rounds : int
        Rounds that are always run, and that are never exceeded.
    seconds, reserve : float
        What everything should take, and what is kept of it for the check and the memory runs.
    """

    n: int = 512
    patches: int = 256
    channels: int = 384
    k: int = 100
    runs: int = 6
    tiles_a_run: int = 3
    cube: int = CUBE
    products: int = 12
    stacks: int = 32
    rounds: int = 5
    most_rounds: int = 15
    seconds: float = 45.0
    reserve: float = 20.0


SIZES = Sizes()


@dataclass
class Case:
    """Whitened images: those of one tile's side (``anchor``) against runs of other images, all i < j or j < i once.

    Attributes
    ----------
    row_size : ndarray (n,)
    rows : ndarray (sum of row_size, d) float32
        Unit vectors.
    anchor : range
        Images of one group.
    runs : list of range
        Images of three consecutive groups each; none holds the anchor.
    """

    row_size: NDArray[np.int64]
    rows: Floats
    anchor: range
    runs: list[range]

    def __post_init__(self) -> None:
        self.offsets = offsets_of(self.row_size)
        self.pairs = [(i, j) for run in self.runs for i in self.anchor for j in run]
        self.flops = float(sum(2.0 * self.row_size[i] * self.row_size[j] * self.rows.shape[1] for i, j in self.pairs))

    @classmethod
    def make(cls, row_size: NDArray[np.int64], seed: int, sizes: Sizes) -> Case:
        """Patches around 64 shared directions, in other shares in each image; one seed for patches and tiles."""
        generator = np.random.default_rng(seed)
        shared = generator.standard_normal((64, sizes.channels), dtype=np.float32)
        rows = generator.standard_normal((int(row_size.sum()), sizes.channels), dtype=np.float32)
        offsets = offsets_of(row_size)
        for i in range(len(row_size)):
            palette = generator.integers(0, len(shared), 8)
            rows[offsets[i] : offsets[i + 1]] += shared[generator.choice(palette, row_size[i])]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cut = groups(offsets)
        step = sizes.tiles_a_run
        starts = list(range(0, len(cut) - step + 1, step))
        chosen = [starts[i] for i in generator.permutation(len(starts))]
        own = cut[chosen[0]]
        spans = [cut[start : start + step] for start in sorted(chosen[1 : sizes.runs + 1])]
        return cls(row_size, rows, range(own.first, own.last), [range(s[0].first, s[-1].last) for s in spans])

    def image(self, number: int) -> Floats:
        """The rows of one image."""
        return self.rows[self.offsets[number] : self.offsets[number + 1]]

    def stack(self, images: range) -> tuple[Floats, list[Group]]:
        """Consecutive images as a stack of their own."""
        offsets = self.offsets[images.start : images.stop + 1]
        return self.rows[offsets[0] : offsets[-1]], groups(offsets - offsets[0])


def _similarities(case: Case, run: range) -> NDArray[np.float64]:
    return chamfer_block(*case.stack(case.anchor), *case.stack(run))


def kernel(case: Case, k: int, place: Scheduler) -> NDArray[np.int32]:
    """From whitened arrays to the top-k indices of the anchor's images."""

    def exact(row: int, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        own = case.image(case.anchor[row]).astype(np.float64)
        return np.array([chamfer_pair(own, case.image(int(j)).astype(np.float64)) for j in columns])

    found = Candidates(len(case.anchor), k, items=len(case.row_size), window=WINDOW, exact=exact)
    rows = np.arange(len(case.anchor))
    for run, block in zip(case.runs, place.map(_similarities, case, case.runs), strict=True):
        found.add(rows, np.arange(run.start, run.stop), block)
    return found.finish((row, columns, exact(row, columns)) for row, columns in found.undecided())[0]


def loop_reference(case: Case, k: int) -> NDArray[np.int32]:
    """The same by a plain float64 loop over the pairs."""
    similarity = np.full((len(case.anchor), len(case.row_size)), np.nan)
    for i, j in case.pairs:
        product = case.image(i).astype(np.float64) @ case.image(j).astype(np.float64).T
        similarity[i - case.anchor.start, j] = 0.5 * (product.max(axis=1).mean() + product.max(axis=0).mean())
    return top_k(similarity, k)[0]


def _loop_part(case: Case, pairs: list[tuple[int, int]]) -> list[float]:
    result = []
    for i, j in pairs:
        product = case.image(i) @ case.image(j).T
        result.append(0.5 * (product.max(axis=1).mean(dtype=float) + product.max(axis=0).mean(dtype=float)))
    return result


def loop(case: Case, place: Scheduler) -> None:
    """A float32 loop, one product a pair, in the same threads."""
    pairs = case.pairs
    step = 16
    for _ in place.map(_loop_part, case, [pairs[start : start + step] for start in range(0, len(pairs), step)]):
        pass


def fast_maxsim(case: Case) -> NDArray[np.float64]:
    """The same pairs by fast-maxsim, a call for each direction: (anchor's images, other images). Its own threads."""
    import fast_maxsim as package

    anchors = np.stack([case.image(i) for i in case.anchor])
    parts = []
    for run in case.runs:
        others = np.stack([case.image(j) for j in run])
        forward = np.stack([package.maxsim_scores(one, others) for one in anchors])
        backward = np.stack([package.maxsim_scores(one, anchors) for one in others], axis=1)
        parts.append(0.5 * (forward + backward) / anchors.shape[1])
    return np.concatenate(parts, axis=1)


def _cube(shared: tuple[Floats, list[Floats]], number: int) -> None:
    np.matmul(shared[0], shared[0], out=shared[1][number])


def _products(shared: tuple[Floats, list[Floats], int], number: int) -> None:
    rows, outs, products = shared
    stacks = len(rows) // TILE_ROWS
    for i in range(products):
        places = ((2 * i + number) % stacks, (2 * i + number + 7) % stacks)
        a, b = (rows[place * TILE_ROWS : (place + 1) * TILE_ROWS] for place in places)
        np.matmul(a, b.T, out=outs[number])


def _cpu_seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def timings(sizes: Sizes, began: float, threads: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """GFLOP per CPU second of everything in every round, and what the results were compared with."""
    n, patches, cube, k = sizes.n, sizes.patches, sizes.cube, sizes.k
    fixed = Case.make(np.full(n, patches), 1, sizes)
    third = replace(fixed, runs=fixed.runs[::3])  # what is slow gets fewer of the same pairs, for more rounds
    row_size = np.random.default_rng(2).integers(patches // 2, patches + patches // 2, n, endpoint=True)
    ragged = Case.make(row_size, 3, sizes)
    square = np.random.default_rng(4).standard_normal((cube, cube), dtype=np.float32)
    cubes = (square, [np.empty_like(square) for _ in range(threads)])
    normal = np.random.default_rng(5).standard_normal((sizes.stacks * TILE_ROWS, sizes.channels), dtype=np.float32)
    tiles = (normal, [np.empty((TILE_ROWS, TILE_ROWS), np.float32) for _ in range(threads)], sizes.products)
    with scheduler("threads", workers=threads) as place:
        everyone = range(threads)
        jobs: dict[str, tuple[Callable[[], Any], float]] = {
            "cube": (lambda: list(place.map(_cube, cubes, everyone)), threads * 2.0 * cube**3),
            "tile": (
                lambda: list(place.map(_products, tiles, everyone)),
                threads * sizes.products * 2.0 * TILE_ROWS**2 * sizes.channels,
            ),
            "fixed": (lambda: kernel(fixed, k, place), fixed.flops),
            "ragged": (lambda: kernel(ragged, k, place), ragged.flops),
            "loop": (lambda: loop(third, place), third.flops),
            "fast_maxsim": (lambda: fast_maxsim(third), third.flops),
        }
        rates: dict[str, list[float]] = {name: [] for name in jobs}
        longest = 0.0
        while len(rates["cube"]) < sizes.most_rounds:
            left = sizes.seconds - sizes.reserve - (time.perf_counter() - began)
            if len(rates["cube"]) >= sizes.rounds and left < longest:
                break
            start = time.perf_counter()
            for name, (run, flops) in jobs.items():
                rates[name].append(flops / _cpu_seconds(run) / 1e9)
            longest = max(longest, time.perf_counter() - start)
        equal = {
            name: bool(np.array_equal(kernel(case, k, place), loop_reference(case, k)))
            for name, case in (("fixed", fixed), ("ragged", ragged))
        }
    ours = np.concatenate([_similarities(fixed, run) for run in fixed.runs], axis=1)
    return rates, {
        "top_k_equal_to_float64_loop": equal,
        "largest_difference_to_fast_maxsim": float(np.abs(ours - fast_maxsim(fixed)).max()),
    }


def measure(sizes: Sizes = SIZES) -> dict[str, Any]:
    """All of it; see the module."""
    began = time.perf_counter()
    threads = cpu_count()
    rates, compared = timings(sizes, began, threads)
    memory = _memory((sizes.n, 2 * sizes.n), sizes)
    median = {name: float(np.median(values)) for name, values in rates.items()}
    best = max(("cube", "tile"), key=median.__getitem__)

    def spread(top: str, bottom: str) -> list[float]:
        ratios = np.array(rates[top]) / np.array(rates[bottom])
        return [round(float(value), 3) for value in (ratios.min(), ratios.max())]

    return {
        "fraction_of_sgemm": round(median["fixed"] / median[best], 3),
        "ragged_fraction_of_sgemm": round(median["ragged"] / median[best], 3),
        "speedup_vs_loop": round(median["fixed"] / median["loop"], 3),
        "speedup_vs_fast_maxsim": round(median["fixed"] / median["fast_maxsim"], 3),
        "peak_mb": memory[sizes.n],
        "peak_mb_twice_n": memory[2 * sizes.n],
        "spread": {
            "fraction_of_sgemm": spread("fixed", best),
            "ragged_fraction_of_sgemm": spread("ragged", best),
            "speedup_vs_loop": spread("fixed", "loop"),
            "speedup_vs_fast_maxsim": spread("fixed", "fast_maxsim"),
        },
        "gflops_per_cpu_second": {
            name: {"median": round(median[name], 1), "min": round(min(v), 1), "max": round(max(v), 1)}
            for name, v in rates.items()
        },
        "peak_is": best,
        **compared,
        "case": {
            **{name: asdict(sizes)[name] for name in ("n", "patches", "channels", "k")},
            "tiles": sizes.runs * sizes.tiles_a_run,
            "seed": 1,
        },
        "rounds": len(rates["cube"]),
        "threads": threads,
        "seconds": round(time.perf_counter() - began, 1),
    }


def _memory(counts: tuple[int, ...], sizes: Sizes) -> dict[int, float]:
    """High-water marks in MB of processes that run the job for so many images, side by side."""
    shape = ["--patches", str(sizes.patches), "--channels", str(sizes.channels), "--k", str(sizes.k)]
    command = [sys.executable, "-m", "benchmarks.chamfer", *shape, "--memory"]
    running = {n: subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True, cwd=ROOT) for n in counts}
    result = {}
    for n, process in running.items():
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"the memory run for n = {n} failed")
        result[n] = float(out)
    return result


class EnoughError(Exception):
    """What was to be measured has run."""


class Some:
    """A scheduler that runs the whitening, then pairs of blocks, and stops after a few pairs of unlike ones.

    Every block comes with itself first, so that all caches are full by then. It stops by an ``EnoughError``, unless
    there were no more pairs.

    Attributes
    ----------
    compared : int
        Pairs of blocks whose similarities were taken.
    """

    def __init__(self, place: Scheduler) -> None:
        self._place = place
        self._calls = 0
        self.workers = place.workers
        self.compared = 0

    def map(self, function: Callable[[S, T], R], shared: S, tasks: Iterable[T]) -> Iterator[R]:
        """As any scheduler's: of the first call all tasks, of the second some."""
        self._calls += 1
        return self._some(function, shared, tasks) if self._calls == 2 else self._place.map(function, shared, tasks)

    def _some(self, function: Callable[[S, T], R], shared: S, tasks: Iterable[Any]) -> Iterator[R]:
        pairs = list(tasks)
        wanted = sum(i == j for i, j in pairs) + MEMORY_PAIRS
        for result in self._place.map(function, shared, islice(pairs, wanted)):
            self.compared += 1
            yield result
        if wanted < len(pairs):
            raise EnoughError


def lazy_features(n: int, patches: int, channels: int) -> xr.Dataset:
    """Normal float16 patches of ``n`` images, made when they are read, in chunks of 64 MiB."""
    import dask.array as da
    import xarray as xr

    def rows(block_info: Any = None) -> NDArray[np.float16]:
        (first, last), _ = block_info[None]["array-location"]
        drawn = np.random.default_rng(first).standard_normal((last - first, channels), dtype=np.float32)
        return drawn.astype(np.float16)

    step = 64 * 2**20 // (2 * channels)
    chunks = tuple(min(step, n * patches - start) for start in range(0, n * patches, step))
    made = da.map_blocks(rows, chunks=(chunks, (channels,)), dtype=np.float16, meta=np.empty((0, 0), np.float16))
    return xr.Dataset(
        {"patches": (("token", "channel"), made), "row_size": ("image", np.full(n, patches))},
        coords={"image": ("image", np.array([f"{i:06}" for i in range(n)], dtype=object))},
    )


def search_some(n: int, patches: int, channels: int, k: int) -> int:
    """Run what the memory is measured of; how many pairs of blocks were compared."""
    with scheduler("threads") as place:
        some = Some(place)
        with suppress(EnoughError):
            feature_neighbours(lazy_features(n, patches, channels), k=min(k, n - 1), run=some)
    return some.compared


def _high_water_mb() -> float:
    """Largest resident size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: its figure includes what the parent held when this process was started.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return round(int(line.split()[1]) / 1024, 1)
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


def lines(result: dict[str, Any]) -> Iterator[str]:
    """What :func:`measure` gave, for reading."""
    for name in ("fraction_of_sgemm", "ragged_fraction_of_sgemm", "speedup_vs_loop", "speedup_vs_fast_maxsim"):
        low, high = result["spread"][name]
        yield f"{name:26} {result[name]:7.3f}   ({low} to {high} over {result['rounds']} rounds)"
    yield f"{'peak_mb':26} {result['peak_mb']:7.1f}   ({result['peak_mb_twice_n']} for twice as many images)"


def main(words: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="All-pairs Chamfer similarity against the product.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--memory", type=int, metavar="N", help=argparse.SUPPRESS)
    for name in ("patches", "channels", "k"):  # of the memory run
        parser.add_argument(f"--{name}", type=int, default=getattr(SIZES, name), help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.memory:
        search_some(options.memory, options.patches, options.channels, options.k)
        print(_high_water_mb())
        return
    result = measure()
    print(json.dumps(result, indent=2) if options.json else "\n".join(lines(result)))


if __name__ == "__main__":
    main()
