"""Time and memory of the four stages on a panel of 265 models x 400,000 items.

    python -m benchmarks.compression [--items N] [--channels D] [--json]

43 benchmarks in 18 categories, 5 % of the scores missing, 3 blind runs. Scores and item embeddings are made as they are
read, chunk by chunk, so that only the pipeline itself takes memory; the time includes making them, which is given, too.
Every figure is of a process of its own: wall time, CPU time, high-water mark of its memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.chamfer import ROOT, _high_water_mb

if TYPE_CHECKING:
    import xarray as xr

MODELS, ITEMS, BENCHMARKS, CATEGORIES, BLIND = 265, 400_000, 43, 18, 3
CHUNK = 16_384
MISSING = 0.05
JOBS = ("read", "stage 0", "stage 1", "stage 2", "stage 2 with cells", "stage 3")


def _scores(shape: tuple[int, int], first: int) -> NDArray[np.float32]:
    """Right or wrong by ability and difficulty; the same for the same place."""
    abilities = np.random.default_rng(0).normal(size=(shape[0], 1)).astype(np.float32)
    generator = np.random.default_rng((shape[0], first))
    draw = generator.random(shape, dtype=np.float32)
    difficulty = generator.normal(size=shape[1]).astype(np.float32)
    scores: NDArray[np.float32] = (draw < 1 / (1 + np.exp(difficulty - abilities))).astype(np.float32)
    scores[generator.random(shape, dtype=np.float32) < MISSING] = np.nan
    return scores


def _score_block(block_info: Any = None) -> NDArray[np.float32]:
    (low, high), (first, last) = block_info[None]["array-location"]
    return _scores((high - low, last - first), first)


def _embedding_block(block_info: Any = None) -> NDArray[np.float32]:
    (first, last), (low, high) = block_info[None]["array-location"]
    return np.random.default_rng(first).standard_normal((last - first, high - low), dtype=np.float32)


def panel(items: int, models: int = MODELS) -> xr.Dataset:
    """The panel, its scores made when they are read."""
    import dask.array as da
    import xarray as xr

    sizes = np.random.default_rng(1).dirichlet(np.full(BENCHMARKS, 2.0)) * items
    cuts = np.append(np.cumsum(sizes).astype(int)[:-1], items)
    number = np.searchsorted(cuts, np.arange(items), side="right")
    chunks = tuple(min(CHUNK, items - first) for first in range(0, items, CHUNK))

    def lazy(count: int) -> Any:
        return da.map_blocks(_score_block, chunks=((count,), chunks), dtype=np.float32, meta=np.empty((0, 0), "f4"))

    return xr.Dataset(
        {"score": (("model", "item"), lazy(models)), "blind": (("blind_model", "item"), lazy(BLIND))},
        coords={
            "model": ("model", np.array([f"model-{m:03d}" for m in range(models)], object)),
            "item": ("item", np.array([f"{i:06d}" for i in range(items)], object)),
            "benchmark": ("item", np.array([f"benchmark-{b:02d}" for b in range(BENCHMARKS)], object)[number]),
            "category": ("item", np.array([f"c{b % CATEGORIES:02d}" for b in range(BENCHMARKS)], object)[number]),
            "scale_min": ("item", np.zeros(items)),
            "scale_max": ("item", np.ones(items)),
        },
        attrs={"name": "synthetic", "digest": "", "invalid": "{}"},
    )


def embeddings(scores: xr.Dataset, channels: int) -> xr.Dataset:
    """Embeddings of every item, made when they are read."""
    import dask.array as da
    import xarray as xr

    items = scores.sizes["item"]
    chunks = tuple(min(CHUNK, items - first) for first in range(0, items, CHUNK))
    meta = np.empty((0, 0), np.float32)
    lazy = da.map_blocks(_embedding_block, chunks=(chunks, (channels,)), dtype=np.float32, meta=meta)
    names = {name: ("item", scores[name].to_numpy()) for name in ("benchmark", "item")}
    return xr.Dataset(dict.fromkeys(("text", "vision_text"), (("item", "channel"), lazy)), coords=names)


def run(job: str, items: int, channels: int, models: int = MODELS) -> dict[str, Any]:
    """One job in this process."""
    from optotype.pipelines.compression.compress import compress
    from optotype.pipelines.compression.item_statistics import item_statistics
    from optotype.pipelines.scheduler import scheduler

    scores = panel(items, models)
    vectors = embeddings(scores, channels) if job == "stage 2 with cells" else None
    start, cpu = time.perf_counter(), time.process_time()
    rows: list[dict[str, Any]] = []
    if job == "read":
        with scheduler("threads"):
            item_statistics(scores)
    else:
        rows = compress(scores, stop_after=int(job.split()[1]), embeddings=vectors).stages
    result = {
        "job": job,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": _high_water_mb(),
    }
    if rows:
        result |= {name: rows[-1][name] for name in ("items_in", "items_out", "categories_out", "rho")}
    return result


def measure(items: int, channels: int, jobs: Sequence[str] = JOBS) -> Iterator[dict[str, Any]]:
    """Each job in a process of its own."""
    for job in jobs:
        words = ["--job", job, "--items", str(items), "--channels", str(channels)]
        command = [sys.executable, "-m", "benchmarks.compression", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT)
        yield json.loads(done.stdout)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Time and memory of compressing a large panel.")
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--channels", type=int, default=1024, help="of the item embeddings")
    parser.add_argument("--job", choices=JOBS, help="one job, in this process")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(run(arguments.job, arguments.items, arguments.channels)))
        return
    rows = []
    for row in measure(arguments.items, arguments.channels):
        rows.append(row)
        if not arguments.json:
            print(json.dumps(rows[-1]), flush=True)
    if arguments.json:
        case = {"models": MODELS, "items": arguments.items, "benchmarks": BENCHMARKS, "channels": arguments.channels}
        print(json.dumps({"case": case, "jobs": rows}, indent=1))


if __name__ == "__main__":
    main()
