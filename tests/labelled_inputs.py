"""Inputs of metrics that need labels, pairs or training: small, seeded, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from optotype.pipelines.metrics.metric import Inputs, checked_options


def make_inputs(
    pooled: Any, *, states: Any = None, patches: Sequence[Any] | None = None, grid: Any = None, **more: Any
) -> Inputs:
    """Inputs of the items ``i000``, ``i001``, …; one patch an image, its pooled row, unless ``patches`` are given."""
    rows = np.asarray(pooled, dtype=np.float64)
    ids = np.array([f"i{number:03}" for number in range(len(rows))], dtype=object)
    ids = more.pop("items", ids)
    each = [row[np.newaxis] for row in rows] if patches is None else [np.asarray(part) for part in patches]
    features = xr.Dataset(
        {
            "patches": (("token", "channel"), np.concatenate(each).astype(np.float32)),
            "row_size": ("image", np.array([len(part) for part in each]), {"sample_dimension": "token"}),
        },
        coords={"image": ("image", ids)},
        attrs={} if grid is None else {"grid": list(grid)},
    )
    named = {"encoder": "enc", "model": None if states is None else "lm", **more}
    for name in ("labels", "captions"):
        if named.get(name) is not None:
            named[name] = np.array(named[name], dtype=object)
    return Inputs(
        items=ids, pooled=rows, states=None if states is None else np.asarray(states), features=features, **named
    )


def run(metric: Any, inputs: Inputs, *, seed: int = 0, **options: Any) -> Any:
    """Its score, options by name with ``_`` for ``-``."""
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return metric.score(inputs, checked_options(metric, given), seed=seed)


def clusters(seed: int, n: int, channels: int, classes: int, spread: float = 0.3) -> tuple[np.ndarray, list[str]]:
    """Rows around one random centre for each class, and the names of their classes."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, channels))
    codes = rng.integers(0, classes, n)
    codes[:classes] = np.arange(classes)
    return centres[codes] + spread * rng.standard_normal((n, channels)), [f"c{code}" for code in codes]
