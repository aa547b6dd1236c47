"""Sets of variants of one model, such as checkpoints or learning rates, that no selection has seen (section I.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.compression.scaled import unit_scale
from optotype.pipelines.kernels.spearman import spearman_rows
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["CEILING", "LEAST_VARIANTS", "VariantSet", "ceiling", "read_variants"]

CEILING = 0.90
"""A set whose own full ranking is less stable than this supports no conclusion."""

LEAST_VARIANTS = 3
_RESAMPLES = 1_000
_BLOCK = 1 << 22  # weights at a time
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class VariantSet:
    """Variants to be ranked against each other.

    Attributes
    ----------
    name : str
    models : tuple of str
    scores : ndarray (variants, n) float64
        In [0, 1], in the order of the panel's items; NaN where a variant has none.
    """

    name: str
    models: tuple[str, ...]
    scores: NDArray[np.float64]


def read_variants(path: Path, panel: xr.Dataset) -> list[VariantSet]:
    """Read sets of variants from a table, CSV or Parquet.

    With the columns ``set, model, benchmark, item_id, score`` the table brings the scores of models that are not in the
    panel, on the scale of their benchmark. With ``set, model`` alone the variants are models of the panel, which then
    take no part in the selection.

    Raises
    ------
    NotFoundError
        No such file.
    FormatError
        Not a table.
    InvalidDataError
        Missing columns, unknown models or items, variants that are models of the panel, sets of fewer than three,
        repeats, and scores off the scale; all are listed.
    """
    table = _read(path)
    wanted = ["set", "model", "benchmark", "item_id", "score"]
    brings = any(name in table for name in wanted[2:])
    missing = [name for name in (wanted if brings else wanted[:2]) if name not in table]
    if missing:
        raise InvalidDataError(
            f"{path} is not a table of variants",
            [Problem(name, "missing-column", "there is no such column") for name in missing],
            hint="Columns are set, model, benchmark, item_id, score; or set, model for models of the panel",
        )
    for name in ("set", "model"):
        table[name] = table[name].astype(str)
    found = _with_scores(path, table, panel) if brings else _of_panel(path, table, panel)
    small = [
        Problem(s.name, "few-variants", f"{len(s.models)} variant(s), {LEAST_VARIANTS} or more make a ranking")
        for s in found
        if len(s.models) < LEAST_VARIANTS
    ]
    if small:
        raise InvalidDataError(f"{path}: sets that are too small", small)
    return found


def ceiling(scores: NDArray[np.float64], seed: int, resamples: int = _RESAMPLES) -> float | None:
    """Mean ρ between a set's ranking on all items and on items drawn with replacement; None where undefined.

    The paper speaks of the bootstrap ρ of the full-test ranking and leaves the number of resamples open: 1,000 here.

    Parameters
    ----------
    scores : ndarray (variants, n) float64
        NaN where missing.
    seed, resamples : int
    """
    there = np.isfinite(scores)
    values, present = np.where(there, scores, 0.0).T, there.T.astype(np.float64)
    n = scores.shape[1]
    if n == 0:
        return None
    rng = np.random.default_rng(seed)
    full = _means(np.ones((1, n)), values, present)
    step = max(1, _BLOCK // n)
    rhos = []
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        weights = rng.multinomial(n, np.full(n, 1 / n), size=count).astype(np.float64)
        rhos.append(spearman_rows(_means(weights, values, present), full))
    found = np.concatenate(rhos)
    finite = found[np.isfinite(found)]
    return float(finite.mean()) if len(finite) else None


def _means(
    weights: NDArray[np.float64], values: NDArray[np.float64], present: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weighted mean over the items of each variant, (resamples, variants)."""
    mass = weights @ present
    return np.where(mass > 0, (weights @ values) / np.maximum(mass, 1), np.nan)


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd

    if not path.is_file():
        raise NotFoundError(f"there is no file {path}")
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(
            path, dtype={"set": str, "model": str, "benchmark": str, "item_id": str}, encoding="utf-8-sig"
        )
    except (ValueError, OSError) as error:
        raise FormatError(f"{path}: not a CSV or Parquet table ({' '.join(str(error).split())})") from error


def _of_panel(path: Path, table: pd.DataFrame, panel: xr.Dataset) -> list[VariantSet]:
    from optotype.pipelines.compression.scaled import scaled

    place = {str(name): m for m, name in enumerate(panel["model"].values)}
    unknown = sorted(set(table["model"]) - set(place))
    if unknown:
        problems = [Problem(name, "unknown-model", "is not in the panel") for name in unknown]
        raise InvalidDataError(
            f"{path} names models that the panel lacks", problems, hint="Add the columns benchmark, item_id, score"
        )
    found = []
    for name, rows in table.groupby("set", sort=False):
        models = tuple(dict.fromkeys(rows["model"]))
        chosen = scaled(panel)[[place[model] for model in models]]
        found.append(VariantSet(str(name), models, np.asarray(chosen, dtype=np.float64)))
    return found


def _with_scores(path: Path, table: pd.DataFrame, panel: xr.Dataset) -> list[VariantSet]:
    known = {str(name) for name in panel["model"].to_numpy()}
    problems = [
        Problem(name, "in-panel", "is a model of the panel, so that selections have seen it")
        for name in sorted(set(table["model"]) & known)
    ]
    items = {
        (str(b), str(i)): n
        for n, (b, i) in enumerate(zip(panel["benchmark"].values, panel["item"].values, strict=True))
    }
    keys = list(zip(table["benchmark"].astype(str), table["item_id"].astype(str), strict=True))
    place = np.array([items.get(key, -1) for key in keys], dtype=np.int64)
    problems += _listed([f"{b} {i}" for (b, i), p in zip(keys, place, strict=True) if p < 0], "unknown-item", "no item")
    scores = np.asarray(table["score"], dtype=np.float64) if table["score"].dtype.kind in "fiub" else None
    if scores is None:
        problems.append(Problem("score", "not-a-number", f"has type {table['score'].dtype}"))
        raise InvalidDataError(f"{path} cannot be used", problems)
    low, high = (np.asarray(panel[name].values, dtype=np.float64) for name in ("scale_min", "scale_max"))
    off = (place >= 0) & np.isfinite(scores) & ((scores < low[place]) | (scores > high[place]))
    where = [" ".join(keys[row]) for row in np.flatnonzero(off)]
    problems += _listed(where, "off-scale", "a score off the benchmark's scale")
    repeated = table.duplicated(["set", "model", "benchmark", "item_id"])
    where = [" ".join((str(table["model"].iloc[row]), *keys[row])) for row in np.flatnonzero(repeated)]
    problems += _listed(where, "repeated-score", "more than one score")
    if problems:
        raise InvalidDataError(f"{path} cannot be used", problems)
    values = unit_scale(scores, low[place], high[place])
    found = []
    for name, rows in table.groupby("set", sort=False).indices.items():
        models = tuple(dict.fromkeys(table["model"].iloc[rows]))
        number = {model: v for v, model in enumerate(models)}
        matrix = np.full((len(models), len(low)), np.nan)
        matrix[[number[model] for model in table["model"].iloc[rows]], place[rows]] = values[rows]
        found.append(VariantSet(str(name), models, matrix))
    order = {str(name): n for n, name in enumerate(dict.fromkeys(table["set"]))}
    return sorted(found, key=lambda s: order[s.name])


def _listed(where: Sequence[str], kind: str, message: str) -> list[Problem]:
    """A problem for each of the first few places, and how many more there are."""
    problems = [Problem(place, kind, message) for place in where[:_SHOWN]]
    if len(where) > _SHOWN:
        problems.append(Problem("more", kind, f"{message}, {len(where) - _SHOWN} times more"))
    return problems
