"""The four stages in a row: what each hands on, what is told, and that nothing hangs on who computes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from panels import make_panel
from slow_compression import slow_categories, slow_leaderboard, slow_search, slow_spearman

from optotype.pipelines.compression.cleaning import clean
from optotype.pipelines.compression.compress import compress
from optotype.pipelines.compression.frontier import frontier
from optotype.pipelines.compression.pruning import prune
from optotype.pipelines.compression.representatives import representatives
from optotype.pipelines.compression.slices import slices
from optotype.pipelines.evaluation.evaluate import evaluate
from optotype.pipelines.evaluation.plan import Options
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError

COLUMNS = ["benchmark", "item_id", "category", "vaw", "variance", "delta", "cell", "weight"]
STAGE_2 = ["vaw", "variance", "delta", "cell", "weight"]


def _panel(seed: int = 0, **changes: Any) -> xr.Dataset:
    categories = {"a": "x", "b": "x", "c": "y", "d": "z", "e": "w", "f": "w"}
    sizes = {"a": 30, "b": 25, "c": 40, "d": 20, "e": 22, "f": 15}
    given = {"models": 9, "chunk": 60, "blind": 3, "categories": categories, "missing": 0.1, "graded": ["c"], **changes}
    return make_panel(sizes, seed=seed, **given)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("normalise", ["none", "zscore"])
def test_each_stage_takes_what_the_last_one_left(seed: int, normalise: str) -> None:
    panel = _panel(seed)
    cut = slices(panel)
    settings = {"retention": 0.2, "floor": 3, "k": 2, "normalise": normalise, "seed": seed}
    keep = clean(panel, cut).keep
    pool = representatives(panel, cut, keep).pool
    kept = prune(panel, cut, pool, retention=0.2, floor=3, seed=seed).selected
    scores = slow_categories(panel, kept.tolist())
    subset, rho, _ = slow_search(scores.copy(), 2, normalise)
    assert subset is not None
    chosen = kept & np.isin(cut.category_of_item, subset)
    names = list(zip(panel["benchmark"].to_numpy(), panel["item"].to_numpy(), strict=True))
    for stop, alive in enumerate((keep, pool, kept, chosen)):
        found = compress(panel, stop_after=stop, **settings)
        rows = list(zip(found.items["benchmark"], found.items["item_id"], strict=True))
        assert rows == [names[item] for item in np.flatnonzero(alive)]
        assert list(found.items.columns) == COLUMNS
        assert found.items[STAGE_2].isna().all().all() == (stop < 2)
        assert [stage["stage"] for stage in found.stages] == list(range(stop + 1))
        assert found.stages[-1]["items_out"] == alive.sum()
        for one, other in zip(found.stages, found.stages[1:], strict=False):
            for what in ("items", "benchmarks", "categories"):
                assert one[f"{what}_out"] == other[f"{what}_in"]
        json.dumps(found.stages, allow_nan=False)
        json.dumps(found.models, allow_nan=False)
    last = found.stages[3]
    assert last["rho"] == pytest.approx(rho, abs=1e-12)
    assert last["details"]["subset"] == [cut.categories[number] for number in subset]
    assert last["categories_out"] == 2
    board = slow_leaderboard(scores[:, list(subset)], normalise)
    reference = [row["score_reference"] for row in found.models]
    assert last["rho_to_reference"] == pytest.approx(slow_spearman(board, reference), abs=1e-12)
    for row, value in zip(found.models, board, strict=True):
        assert row["score_compressed"] == pytest.approx(value, abs=1e-12)
    best = min(found.models, key=lambda row: row["rank_compressed"])
    assert best["score_compressed"] == max(row["score_compressed"] for row in found.models)


def test_the_rho_of_each_stage_is_what_it_says() -> None:
    panel = _panel(1, missing=0.0)
    cut = slices(panel)
    found = compress(panel, stop_after=2, retention=0.2, floor=3)
    keep = clean(panel, cut).keep
    table = representatives(panel, cut, keep)
    pooled = slow_categories(panel, table.pool.tolist())
    pruned = slow_categories(panel, prune(panel, cut, table.pool, retention=0.2, floor=3).selected.tolist())

    def reference(which: np.ndarray) -> list[float]:
        """Mean over categories of the mean over their benchmarks."""
        by_slice = panel.assign_coords(category=("item", np.array([f"{number}" for number in cut.of_item], object)))
        scores = slow_categories(by_slice, which.tolist())
        parts = [scores[:, cut.of_category(category)].mean(axis=1) for category in range(len(cut.categories))]
        return np.mean(parts, axis=0).tolist()

    everything, cleaned = reference(np.ones(len(keep), bool)), reference(keep)
    one, two, three = found.stages
    assert one["rho"] == pytest.approx(slow_spearman(everything, cleaned), abs=1e-12)
    assert one["rho_to_reference"] == 1
    assert two["rho"] == pytest.approx(np.median(table.report["rho_pooled"]), abs=1e-12)
    assert two["rho_to_reference"] == pytest.approx(slow_spearman(pooled.mean(axis=1), cleaned), abs=1e-12)
    rhos = [slow_spearman(pooled[:, c], pruned[:, c]) for c in range(4)]
    assert three["rho"] == pytest.approx(np.mean(rhos), abs=1e-12)
    assert [row["rho"] for row in three["details"]["categories"]] == pytest.approx(rhos, abs=1e-12)
    assert [row["score_all"] for row in found.models] == pytest.approx(everything, abs=1e-12)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_schedulers_and_chunks_make_no_difference(scheduler: str) -> None:
    settings = {"retention": 0.2, "floor": 3, "k": 2}
    expected = compress(_panel(2, chunk=1000), **settings)
    found = compress(_panel(2, chunk=11), scheduler=scheduler, **settings)
    assert found.items.equals(expected.items)
    assert found.stages == expected.stages
    assert found.models == expected.models


def test_no_eligible_subset_leaves_stage_2_standing() -> None:
    panel = _panel()
    two = compress(panel, stop_after=2, retention=0.2, floor=3)
    three = compress(panel, k=5, retention=0.2, floor=3)
    assert three.items.equals(two.items)
    assert three.stages[3]["rho"] is None
    assert three.stages[3]["rho_to_reference"] is None
    assert three.stages[3]["details"]["reason"] == "there are 4 categories, so no subset of 5"
    assert any("stage 3 chose nothing" in text for text in three.warnings)
    assert [row["score_compressed"] for row in three.models] == [row["score_compressed"] for row in two.models]


def test_gaps_between_categories_are_warned_of() -> None:
    panel = _panel(missing=0.0)
    lacks = (np.arange(9)[:, None] == 0) & (panel["category"].to_numpy() == "z")
    panel["score"] = panel["score"].where(~lacks)
    warning = "means over different categories are not comparable"
    assert any(warning in text for text in compress(panel, stop_after=0).warnings)
    assert not any(warning in text for text in compress(panel, stop_after=0, normalise="zscore").warnings)


def test_a_panel_without_blind_runs_or_with_two_models_can_be_cleaned() -> None:
    found = compress(_panel(blind=0), stop_after=0)
    assert "no blind runs" in found.warnings[0]
    few = _panel(models=2)
    found = compress(few, stop_after=0)
    assert found.stages[0]["rho"] is None
    assert any("no ranking: 2 of 2 models" in text for text in found.warnings)
    with pytest.raises(InvalidDataError, match="a ranking needs 3 or more"):
        compress(few, stop_after=1)


def test_an_empty_suite_is_an_error_that_says_why() -> None:
    panel = make_panel({"a": 3, "b": 2}, blind=1)
    panel["blind"] = panel["blind"] * 0 + 1
    with pytest.raises(InvalidDataError, match="leaves no item") as caught:
        compress(panel)
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stop_after": 4}, "stop after stage 0, 1, 2 or 3"),
        ({"k": 0}, "k is 1 or more"),
        ({"seed": -1}, "seed is 0 or more"),
        ({"normalise": "rank"}, "normalise is one of"),
        ({"retention": 2.0}, "retention"),
        ({"floor": -1}, "floor"),
        ({"tau": 0.0}, "tau"),
        ({"rho_target": 3.0}, "rho target"),
        ({"alpha": -1.0}, "alpha"),
        ({"scheduler": "cloud"}, "not a scheduler"),
    ],
)
def test_options_out_of_range(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compress(_panel(), **settings)  # type: ignore[arg-type]


def test_unknown_names() -> None:
    with pytest.raises(NotFoundError, match="no column"):
        compress(_panel(), category_by="topic")
    with pytest.raises(NotFoundError, match="no selector"):
        compress(_panel(), selector="best")


@pytest.mark.parametrize("selector", ["vaw", "tiny-anchors", "p-irt", "anchor-points"])
def test_a_stage_2_that_keeps_nothing_says_why(selector: str) -> None:
    found = compress(_panel(), floor=0, retention=0.01, selector=selector)
    assert (len(found.items), list(found.items.columns)) == (0, COLUMNS)
    two, three = found.stages[2:]
    assert (two["items_out"], two["rho"], three["rho"], three["items_out"]) == (0, None, None, 0)
    assert "raise --retention or --floor" in two["details"]["reason"]
    assert "raise --retention or --floor" in three["details"]["reason"]
    assert {row["score_compressed"] for row in found.models} == {None}


def test_models_without_scores_are_called_by_name() -> None:
    panel = _panel(blind=0)
    panel["score"] = panel["score"].where((panel["benchmark"] == "c") | (panel["model"] < "model-02"))
    with pytest.raises(InvalidDataError) as caught:
        compress(panel)
    assert [problem.where for problem in caught.value.problems] == [f"model-{m:02d}" for m in range(2, 9)]


def test_constant_categories_under_zscore_are_no_lack_of_scores() -> None:
    panel = make_panel({"a": 20, "b": 20}, models=6)
    panel["score"] = panel["score"] * 0
    found = compress(panel, normalise="zscore", k=1, floor=5)
    assert [stage["rho"] for stage in found.stages] == [None] * 4
    assert found.stages[2]["items_out"] == len(found.items) == 10
    assert "no category tells models apart" in found.stages[2]["details"]["reason"]
    assert "no category tells models apart" in found.stages[3]["details"]["reason"]


def test_a_larger_tau_is_proposed_only_where_it_helps() -> None:
    panel = _panel(blind=2)
    panel["blind"] = panel["blind"] * 0 + 0.7
    with pytest.raises(InvalidDataError) as caught:
        compress(panel)
    assert "larger --tau" in str(caught.value.hint)
    panel["score"] = panel["score"] * 0 + 1
    with pytest.raises(InvalidDataError) as caught:
        compress(panel)
    assert "No --tau" in str(caught.value.hint)


def test_a_panel_of_blind_runs_alone_is_refused() -> None:
    panel = _panel().isel(model=slice(0, 0))
    with pytest.raises(InvalidDataError, match=r"no model has scores, only 3 blind run\(s\)"):
        compress(panel, stop_after=0)
    with pytest.raises(InvalidDataError, match="no model has scores"):
        frontier(panel, gain=0.5)
    with pytest.raises(InvalidDataError, match="no model has scores"):
        evaluate(panel, Options())
