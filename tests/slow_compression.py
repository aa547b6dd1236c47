"""Slow, obvious references of the compression stages: plain Python over one model, item and subset at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import xarray as xr
from scipy.stats import rankdata

__all__ = [
    "matrix",
    "slow_categories",
    "slow_clean",
    "slow_leaderboard",
    "slow_representatives",
    "slow_search",
    "slow_slices",
    "slow_spearman",
    "slow_zscore",
]


def matrix(panel: xr.Dataset, variable: str = "score") -> np.ndarray:
    """Scaled scores, (models, items)."""
    low, high = panel["scale_min"].to_numpy(), panel["scale_max"].to_numpy()
    raw = np.asarray(panel[variable].to_numpy(), dtype=np.float64)
    return np.round((raw - low) / (high - low), 6)  # what float32 holds


def slow_spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson of average ranks over the places where both are there."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if not (math.isnan(a) or math.isnan(b))]
    if len(pairs) < 2:
        return math.nan
    one, other = (rankdata([round(pair[side], 12) for pair in pairs]) for side in (0, 1))
    if len(set(one)) == 1 or len(set(other)) == 1:
        return math.nan
    return float(np.corrcoef(one, other)[0, 1])


def _mean(values: Sequence[float]) -> float:
    there = [value for value in values if not math.isnan(value)]
    return math.fsum(there) / len(there) if there else math.nan


def slow_zscore(values: Sequence[float]) -> list[float]:
    """z-scores with population sd; all NaN for a constant column."""
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return [math.nan] * len(values)
    mean = math.fsum(there) / len(there)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in there) / len(there))
    return [(value - mean) / sd if sd > 1e-12 else math.nan for value in values]


def slow_slices(panel: xr.Dataset) -> list[tuple[str, str]]:
    """(benchmark, category) of each item."""
    pairs = zip(panel["benchmark"].to_numpy(), panel["category"].to_numpy(), strict=True)
    return [(str(benchmark), str(category) or str(benchmark)) for benchmark, category in pairs]


def slow_clean(panel: xr.Dataset, tau: float) -> list[bool]:
    """Which items stay."""
    scores = matrix(panel)
    blind = matrix(panel, "blind") if "blind" in panel else np.full((1, scores.shape[1]), np.nan)
    keep = []
    for item in range(scores.shape[1]):
        valid = [x for x in scores[:, item] if not math.isnan(x)]
        all_correct = bool(valid) and all(x > 1 - 1e-6 for x in valid)
        keep.append(not all_correct and not _mean(list(blind[:, item])) >= tau - 1e-6)
    return keep


def slow_scores(scores: np.ndarray, items: Sequence[int]) -> list[float]:
    """Mean of each model on some items."""
    return [_mean([row[item] for item in items]) for row in scores.tolist()]


def slow_representatives(panel: xr.Dataset, keep: Sequence[bool], target: float) -> dict[str, dict[str, object]]:
    """By category: representative, ρ, items of the pool in order of adding, ρ of the pool."""
    scores, pairs = matrix(panel), slow_slices(panel)
    found: dict[str, dict[str, object]] = {}
    for category in dict.fromkeys(pair[1] for pair in pairs):
        groups: dict[str, list[int]] = {}
        for item, (benchmark, name) in enumerate(pairs):
            if name == category and keep[item]:
                groups.setdefault(benchmark, []).append(item)
        if not groups:
            continue
        own = {benchmark: slow_scores(scores, items) for benchmark, items in groups.items()}
        standard = [slow_zscore(values) for values in own.values()]
        mean = [_mean(list(row)) for row in zip(*standard, strict=True)]
        rhos = {}
        for benchmark, values in own.items():
            both = sum(not (math.isnan(a) or math.isnan(b)) for a, b in zip(values, mean, strict=True))
            rhos[benchmark] = slow_spearman(values, mean) if both >= 3 else math.nan
        defined = [rho for rho in rhos.values() if not math.isnan(rho)]
        if not defined:
            first = next(b for b, values in own.items() if any(not math.isnan(v) for v in values))
            found[category] = {"representative": first, "rho": math.nan, "pool": groups[first], "pooled": math.nan}
            continue
        best = next(b for b, rho in rhos.items() if rho >= max(defined) - 1e-12)
        pool, rho = list(groups[best]), rhos[best]
        row: dict[str, object] = {"representative": best, "rho": rho, "pool": pool, "pooled": rho}
        if rho < target:
            others = [item for benchmark, items in groups.items() if benchmark != best for item in items]
            others = [item for item in others if not np.isnan(scores[:, item]).all()]
            others.sort(key=lambda item: (-round(_variance(scores[:, item]), 12), item))
            tried = [(rho, 0)]
            for length in range(1, len(others) + 1):
                now = slow_spearman(slow_scores(scores, pool + others[:length]), mean)
                tried.append((-2.0 if math.isnan(now) else now, length))
                if now >= target:
                    break
            if tried[-1][0] >= target:
                top, length = tried[-1]
            else:
                top = max(value for value, _ in tried)
                length = next(length for value, length in tried if value >= top - 1e-12)
            row["pool"], row["pooled"] = pool + others[:length], top
        found[category] = row
    return found


def _variance(column: np.ndarray) -> float:
    there = [x for x in column.tolist() if not math.isnan(x)]
    mean = math.fsum(there) / len(there)
    return math.fsum((x - mean) ** 2 for x in there) / len(there)


def slow_categories(panel: xr.Dataset, keep: Sequence[bool]) -> np.ndarray:
    """Item-pooled mean of every model in every category, (models, categories)."""
    pairs = slow_slices(panel)
    columns = []
    for category in dict.fromkeys(pair[1] for pair in pairs):
        items = [item for item, pair in enumerate(pairs) if pair[1] == category and keep[item]]
        columns.append(slow_scores(matrix(panel), items))
    return np.array(columns).T


def slow_leaderboard(categories: np.ndarray, normalise: str) -> list[float]:
    """Mean over the categories that a model has; NaN for one with less than half of them."""
    models, total = categories.shape
    enters = [sum(not math.isnan(x) for x in row) * 2 >= total for row in categories.tolist()]
    values = [[x if enters[m] else math.nan for x in row] for m, row in enumerate(categories.tolist())]
    if normalise == "zscore":
        columns = [slow_zscore(list(column)) for column in zip(*values, strict=True)]
        values = [list(row) for row in zip(*columns, strict=True)]
    return [round(_mean(values[m]), 12) if enters[m] else math.nan for m in range(models)]


def slow_search(categories: np.ndarray, k: int, normalise: str) -> tuple[tuple[int, ...] | None, float, int]:
    """Best subset, its ρ, and how many subsets too few models cover."""
    reference = slow_leaderboard(categories, normalise)
    enters = [m for m, value in enumerate(reference) if not math.isnan(value)]
    values = categories[enters]
    if normalise == "zscore":
        for c in range(values.shape[1]):
            standard = slow_zscore(values[:, c].tolist())
            flat = all(math.isnan(x) for x in standard)
            values[:, c] = [(0.0 if flat else z) if not math.isnan(x) else x
                            for x, z in zip(values[:, c], standard, strict=True)]  # fmt: skip
    least = max(3, len(enters) / 2)
    trials, skipped = [], 0
    for subset in combinations(range(values.shape[1]), k):
        covered = [row for row in range(len(enters)) if not any(math.isnan(values[row, c]) for c in subset)]
        if len(covered) < least:
            skipped += 1
            continue
        means = [sum(values[row, c] for c in subset) / k for row in covered]
        rho = slow_spearman(means, [reference[enters[row]] for row in covered])
        if not math.isnan(rho):
            trials.append((rho, subset))
    if not trials:
        return None, math.nan, skipped
    top = max(rho for rho, _ in trials)
    rho, subset = next(trial for trial in trials if trial[0] >= top - 1e-12)
    return subset, rho, skipped
