"""Exhaustive search of category subsets against a loop over SciPy's spearmanr.

    python -m benchmarks.subsets [--json]

C(18, 5) = 8,568 and C(43, 5) = 962,598 subsets of a 30-model and a 265-model matrix, complete and with 5 % of the
scores missing. Wall time is that of `search`, greedy selection included; the loop is timed on a seeded sample of the
same subsets, whose correlations are compared with those of the search, and its time is scaled to all of them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.category_count import judged, search
from optotype.pipelines.kernels.subsets import subset_rho
from optotype.pipelines.scheduler import cpu_count

K = 5
CASES = ((30, 18), (30, 43), (265, 43))
SAMPLE = 2000
MISSING = 0.05


def loop(scores: NDArray[np.float64], reference: NDArray[np.float64], subsets: NDArray[np.int64]) -> list[float]:
    """ρ of each subset, one after the other."""
    from scipy.stats import spearmanr

    return [float(spearmanr(scores[:, subset].mean(axis=1).round(12), reference).statistic) for subset in subsets]


def case(models: int, categories: int, k: int = K, sample: int = SAMPLE) -> dict[str, Any]:
    """One matrix: abilities with a little noise, so that correlations are as high as those of real benchmarks."""
    generator = np.random.default_rng(models + categories)
    ability = generator.normal(size=(models, 1))
    scores = 1 / (1 + np.exp(-ability - generator.normal(size=(models, categories))))
    gaps = np.where(generator.random(scores.shape) < MISSING, np.nan, scores)
    start = time.perf_counter()
    found = search(scores, k)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    with_gaps = search(gaps, k, "zscore")
    seconds_gaps = time.perf_counter() - start
    bench = judged(scores)
    subsets = np.array([np.sort(generator.choice(categories, k, replace=False)) for _ in range(sample)])
    start = time.perf_counter()
    expected = loop(bench.scores, bench.reference, subsets)
    a_subset = (time.perf_counter() - start) / sample
    rhos, _ = subset_rho(bench.scores, subsets, bench.reference, bench.least)
    return {
        "models": models,
        "categories": categories,
        "subsets": math.comb(categories, k),
        "seconds": round(seconds, 3),
        "seconds_with_gaps": round(seconds_gaps, 3),
        "skipped_with_gaps": with_gaps.skipped,
        "loop_seconds": round(a_subset * math.comb(categories, k), 1),
        "speedup_vs_loop": round(a_subset * math.comb(categories, k) / seconds, 1),
        "largest_difference_to_loop": float(np.abs(rhos - np.array(expected)).max()),
        "rho": found.rho,
        "greedy_gap": found.greedy_gap,
    }


def measure(cases: Sequence[tuple[int, int]] = CASES, k: int = K, sample: int = SAMPLE) -> dict[str, Any]:
    """All of it; see the module."""
    rows = [case(*shape, k, sample) for shape in cases]
    return {"k": k, "sample": sample, "threads": cpu_count(), "cases": rows}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Exhaustive subset search against a loop.")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    arguments = parser.parse_args()
    result = measure()
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    for row in result["cases"]:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
