"""Score matrices read in blocks of items, wherever dask computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.scaled import scaled

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Models", "map_blocks", "read_columns"]

Models = Sequence[int] | NDArray[np.integer] | None

_AT_A_TIME = 64  # blocks under way; results are small, but a graph of everything is not


def map_blocks(
    panel: xr.Dataset,
    function: Callable[..., Any],
    *per_item: NDArray[Any],
    variable: Literal["score", "blind"] = "score",
    models: Models = None,
    extra: Any = None,
) -> list[Any]:
    """``function(scores, *parts, extra)`` of every chunk of items, in catalogue order.

    Parameters
    ----------
    panel : Dataset
    function : callable
        At module level, so that processes and clusters can run it. Gets scaled scores (M, c) float64 of the chunk,
        and the chunk's part of each of ``per_item``.
    per_item : ndarray (n, ...)
    variable : {"score", "blind"}
    models : sequence of int, optional
        Positions of the rows to read; all by default.
    extra
        Handed to every call, small.
    """
    scores = da.asarray(scaled(panel, variable))
    scores = scores.rechunk({0: -1})
    stops = np.cumsum(scores.chunks[1])
    rows = None if models is None else np.asarray(models, dtype=np.int64)
    blocks = scores.to_delayed().ravel()
    results: list[Any] = []
    for first in range(0, len(blocks), _AT_A_TIME):
        tasks = []
        for number in range(first, min(first + _AT_A_TIME, len(blocks))):
            part = slice(int(stops[number] - scores.chunks[1][number]), int(stops[number]))
            tasks.append(dask.delayed(_call)(function, blocks[number], rows, [v[part] for v in per_item], extra))
        results += _compute(tasks)
    return results


def _compute(tasks: list[Any]) -> list[Any]:
    """Results in order. Under ``processes`` threads do it: dask would start anew for each call, and the sums of a chunk
    are cheaper than handing it over."""
    place = dask.config.get("scheduler", None)
    results: tuple[Any, ...] = dask.compute(*tasks, **({"scheduler": "threads"} if place == "processes" else {}))
    return list(results)


def _call(function: Callable[..., Any], scores: Any, rows: Any, parts: list[Any], extra: Any) -> Any:
    return function(scores if rows is None else scores[rows], *parts, extra)


def read_columns(
    panel: xr.Dataset,
    items: NDArray[np.integer],
    *,
    variable: Literal["score", "blind"] = "score",
    models: Models = None,
) -> NDArray[np.float64]:
    """Scaled scores of some items, (M, len(items)) float64, in the order asked for.

    Memory is that of the answer and of the chunks under way; chunks without any of the items are not read.
    """
    wanted = np.asarray(items, dtype=np.int64)
    order = np.argsort(wanted, kind="stable")
    rising = wanted[order]
    scores = da.asarray(scaled(panel, variable)).rechunk({0: -1})
    stops = np.cumsum(scores.chunks[1])
    blocks = scores.to_delayed().ravel()
    rows = None if models is None else np.asarray(models, dtype=np.int64)
    height = scores.shape[0] if rows is None else len(rows)
    found = np.empty((height, len(wanted)))
    cuts = np.searchsorted(rising, stops)
    begin, tasks = 0, []
    for number, end in enumerate(cuts.tolist()):
        if end > begin:
            local = rising[begin:end] - (stops[number] - scores.chunks[1][number])
            tasks.append((begin, end, dask.delayed(_take)(blocks[number], rows, local)))
        begin = end
    for first in range(0, len(tasks), _AT_A_TIME):
        some = tasks[first : first + _AT_A_TIME]
        for (begin, end, _), part in zip(some, _compute([task for _, _, task in some]), strict=True):
            found[:, order[begin:end]] = part
    return found


def _take(scores: Any, rows: Any, local: Any) -> Any:
    return scores[:, local] if rows is None else scores[np.ix_(rows, local)]
