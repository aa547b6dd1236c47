"""Means of a panel's benchmarks, in one pass over blocks of items."""

from __future__ import annotations

import numpy as np

from optotype.store.panels.parts import OpenPanel

__all__ = ["benchmark_means"]

_BLOCK_BYTES = 16 << 20


def benchmark_means(panel: OpenPanel, matrix: str) -> dict[str, float]:
    """Mean of all scores of each benchmark, scaled to [0, 1] (float64 sums); benchmarks without a score are left out.

    Parameters
    ----------
    panel : OpenPanel
    matrix : {"score", "blind"}
    """
    values = panel.matrix(matrix)
    if values is None:
        return {}
    names = [entry["name"] for entry in panel.document["benchmarks"]]
    scales = np.array([entry["scale"] for entry in panel.document["benchmarks"]], np.float64)
    place = {name: number for number, name in enumerate(names)}
    benchmark = np.array([place[name] for name, _ in panel.items], np.int64)
    sums, counts = np.zeros(len(names)), np.zeros(len(names), np.int64)
    step = max(1, _BLOCK_BYTES // (4 * max(1, values.shape[0])))
    for start in range(0, len(benchmark), step):
        stop = min(len(benchmark), start + step)
        block = values.read(start, stop)
        here = benchmark[start:stop]
        sums += np.bincount(here, np.nansum(block, axis=0, dtype=np.float64), len(names))
        counts += np.bincount(here, np.count_nonzero(~np.isnan(block), axis=0), len(names)).astype(np.int64)
    return {
        name: float((sums[number] / counts[number] - scales[number, 0]) / (scales[number, 1] - scales[number, 0]))
        for name, number in place.items()
        if counts[number]
    }
