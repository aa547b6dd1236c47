"""Stage 1 against a loop that recomputes everything after each item."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from panels import make_panel
from slow_compression import matrix, slow_representatives

from optotype.pipelines.compression import representatives as module
from optotype.pipelines.compression.representatives import representatives
from optotype.pipelines.compression.slices import slices
from optotype.schemas.errors import UsageError


def _panel(kind: str, seed: int) -> xr.Dataset:
    """Three benchmarks of one category, one of them alone in another, one across both."""
    categories = ["x"] * 12 + ["x"] * 9 + ["x", "y"] * 5 + ["y"] * 8
    missing = {"whole": 0.0, "gaps": 0.4, "tied": 0.0, "constant": 0.1}[kind]
    panel = make_panel(
        {"a": 12, "b": 9, "c": 10, "d": 8}, models=7, categories=categories, missing=missing, graded=["b"], seed=seed
    )
    if kind == "tied":
        panel["score"] = panel["score"].round() * (panel["item"] < "0004")
    if kind == "constant":
        panel["score"][:, :12] = 0.0
    if kind == "gaps":
        panel["score"][:, 3] = np.nan
        panel["score"][2, 12:21] = np.nan  # a model without one benchmark
    return panel


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["whole", "gaps", "tied", "constant"])
@pytest.mark.parametrize("target", [0.95, 1.0, 0.5])
def test_representatives_are_those_of_a_loop(kind: str, seed: int, target: float) -> None:
    panel = _panel(kind, seed)
    keep = np.random.default_rng(seed).random(39) < 0.9
    found = representatives(panel, slices(panel), keep, target=target)
    expected = slow_representatives(panel, keep.tolist(), target)
    pool = sorted(item for row in expected.values() for item in row["pool"])  # type: ignore[attr-defined]
    assert np.flatnonzero(found.pool).tolist() == pool
    assert found.report["category"].tolist() == list(expected)
    for row in found.report.to_dict("records"):
        reference = expected[row["category"]]
        assert row["representative"] == reference["representative"]
        assert row["rho"] == pytest.approx(reference["rho"], abs=1e-12, nan_ok=True)
        assert row["rho_pooled"] == pytest.approx(reference["pooled"], abs=1e-12, nan_ok=True)
        assert row["items"] == len(reference["pool"])  # type: ignore[arg-type]


def test_supplements_are_needed_in_what_was_compared() -> None:
    """The comparison above would say little if no category were supplemented."""
    panels = [_panel("whole", seed) for seed in range(5)]
    added = [representatives(p, slices(p), np.ones(39, bool)).report["supplements"].to_list() for p in panels]
    assert sum(number > 0 for row in added for number in row) >= 4


@pytest.mark.parametrize(("read", "ranked"), [(1, 1), (3, 2), (7, 100)])
def test_blocks_make_no_difference(read: int, ranked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = _panel("gaps", 1)
    cut, keep = slices(panel), np.ones(39, bool)
    expected = representatives(panel, cut, keep, target=1.0)
    monkeypatch.setattr(module, "_READ", read)
    monkeypatch.setattr(module, "_RANKED", ranked)
    found = representatives(panel, cut, keep, target=1.0)
    assert found.pool.tolist() == expected.pool.tolist()
    assert found.report.equals(expected.report)


def test_only_the_given_models_choose() -> None:
    panel = _panel("whole", 3)
    cut, keep, models = slices(panel), np.ones(39, bool), [0, 2, 3, 6]
    found = representatives(panel, cut, keep, models=models)
    alone = representatives(panel.isel(model=models), cut, keep)
    assert found.pool.tolist() == alone.pool.tolist()
    assert found.report.equals(alone.report)
    other = panel.copy()
    other["score"] = other["score"].copy(
        data=np.where(np.isin(np.arange(7), models)[:, None], matrix(panel), 1 - matrix(panel))
    )
    assert representatives(other, cut, keep, models=models).pool.tolist() == found.pool.tolist()


def test_a_category_that_says_nothing_keeps_its_first_benchmark() -> None:
    panel = make_panel({"a": 3, "b": 3}, models=4, categories=["x"] * 6)
    panel["score"] = panel["score"] * 0
    row = representatives(panel, slices(panel), np.ones(6, bool)).report.iloc[0]
    assert row["representative"] == "a"
    assert np.isnan(row["rho"])
    assert row["supplements"] == 0
    assert len(row["warnings"]) == 3
    assert row["candidates"] == {"a": None, "b": None}


def test_a_category_without_items_is_no_row() -> None:
    panel = make_panel({"a": 3, "b": 3}, models=4)
    found = representatives(panel, slices(panel), np.array([0, 0, 0, 1, 1, 1], bool))
    assert found.report["category"].tolist() == ["b"]


def test_target_out_of_range() -> None:
    panel = make_panel({"a": 3})
    with pytest.raises(UsageError, match="rho target"):
        representatives(panel, slices(panel), np.ones(3, bool), target=1.2)
