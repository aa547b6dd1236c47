"""Stage 2: budgets, what is seen, and scores on what is kept, with the selectors as they are and with one made up."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import xarray as xr
from panels import make_panel
from slow_compression import matrix, slow_categories

from optotype.pipelines.compression import pruning as module
from optotype.pipelines.compression.pruning import prune, pruned_scores
from optotype.pipelines.compression.slices import slices
from optotype.pipelines.scheduler import scheduler
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import Selection
from optotype.schemas.errors import NotFoundError, UsageError


def _panel(seed: int = 0) -> xr.Dataset:
    categories = ["x"] * 30 + ["y"] * 20 + ["x"] * 12 + ["z"] * 3
    return make_panel({"a": 50, "b": 15}, models=8, categories=categories, missing=0.2, graded=["b"], seed=seed)


def _embeddings(panel: xr.Dataset, *members: str) -> xr.Dataset:
    rng = np.random.default_rng(7)
    order = rng.permutation(panel.sizes["item"])[5:]  # in another order, and some are not there
    return xr.Dataset(
        {name: (("item", "channel"), rng.normal(size=(len(order), 6)).astype(np.float32)) for name in members},
        coords={name: ("item", panel[name].to_numpy()[order]) for name in ("benchmark", "item")},
    )


def test_shares_of_the_budget_go_to_the_highest_variance_without_embeddings() -> None:
    panel = _panel()
    cut = slices(panel)
    pool = np.random.default_rng(1).random(65) < 0.9
    found = prune(panel, cut, pool, retention=0.3, floor=4)
    scores = matrix(panel)
    for category, row in enumerate(found.report.to_dict("records")):
        index = np.flatnonzero(pool & (cut.category_of_item == category))
        assert (row["n"], row["K"]) == (len(index), max(math.floor(0.3 * len(index) + 1e-9), min(len(index), 4)))
        assert row["filled_by"] == "score alone"
        variance = np.nanvar(scores[:, index], axis=0)
        np.testing.assert_allclose(found.variance[index], variance, atol=1e-12)
        np.testing.assert_allclose(found.vaw[index], variance, atol=1e-12)
        for benchmark in {"a", "b"}:
            here = panel["benchmark"].to_numpy()[index] == benchmark
            kept = found.selected[index][here]
            if kept.any() and not kept.all():
                assert variance[here][kept].min() >= variance[here][~kept].max() - 1e-12
    assert not (found.selected & ~pool).any()
    assert np.isnan(found.vaw[~pool]).all()
    assert (found.weight[found.selected] == 1).all()
    assert np.isnan(found.weight[~found.selected]).all()
    assert (found.cell == -1).all()


@pytest.mark.parametrize(
    ("members", "filled"), [(("text", "vision_text"), "cells on vision_text"), (("text",), "cells on text")]
)
def test_embeddings_make_cells_and_delta(members: tuple[str, ...], filled: str) -> None:
    panel = _panel()
    cut = slices(panel)
    vectors = _embeddings(panel, *members)
    found = prune(panel, cut, np.ones(65, bool), retention=0.3, floor=4, embeddings=vectors)
    assert filled in found.report["filled_by"].iloc[0]
    assert (found.cell[found.selected] >= 0).sum() == found.report["in_cells"].sum() > 0
    assert (found.cell[~found.selected] == -1).all()
    number = {key: row for row, key in enumerate(zip(vectors["benchmark"].values, vectors["item"].values, strict=True))}
    for item, key in enumerate(zip(panel["benchmark"].to_numpy(), panel["item"].to_numpy(), strict=True)):
        delta = 0.0
        if key in number and len(members) == 2:
            one, other = (vectors[name].to_numpy()[number[key]].astype(float) for name in members)
            delta = 1 - one @ other / math.sqrt((one @ one) * (other @ other))
        assert found.delta[item] == pytest.approx(delta, abs=1e-6)
        valid = np.isfinite(matrix(panel)[:, item]).sum()
        expected = found.variance[item] + 0.187 / math.sqrt(valid) * found.delta[item]
        assert found.vaw[item] == pytest.approx(expected, abs=1e-11)


def test_only_the_build_models_are_seen() -> None:
    panel = _panel()
    cut, pool, models = slices(panel), np.ones(65, bool), [1, 2, 5, 7]
    other = panel.copy()
    swapped = np.where(np.isin(np.arange(8), models)[:, None], panel["score"].to_numpy(), np.nan)
    other["score"] = other["score"].copy(data=swapped)
    for selector in ("vaw", "variance", "datbench"):
        one, two = (
            prune(data, cut, pool, selector=selector, retention=0.3, floor=2, models=models) for data in (panel, other)
        )
        assert one.selected.tolist() == two.selected.tolist()
        alone = prune(panel.isel(model=models), cut, pool, selector=selector, retention=0.3, floor=2)
        assert one.selected.tolist() == alone.selected.tolist()


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_workers_make_no_difference(name: str) -> None:
    panel = _panel(3)
    cut, pool = slices(panel), np.ones(65, bool)
    vectors = _embeddings(panel, "text", "vision_text")
    expected = prune(panel, cut, pool, retention=0.3, floor=4, embeddings=vectors)
    with scheduler(name, workers=2) as place:
        found = prune(panel, cut, pool, retention=0.3, floor=4, embeddings=vectors, place=place)
    for array in ("selected", "vaw", "variance", "delta", "cell", "weight"):
        np.testing.assert_array_equal(getattr(found, array), getattr(expected, array))


def test_scores_of_a_plain_selection_are_means_of_the_kept_items() -> None:
    panel = _panel()
    cut = slices(panel)
    found = prune(panel, cut, np.ones(65, bool), selector="random", retention=0.3, floor=4)
    expected = slow_categories(panel, found.selected.tolist())
    np.testing.assert_allclose(pruned_scores(panel, cut, found), expected, atol=1e-12)
    np.testing.assert_allclose(pruned_scores(panel, cut, found, [6, 0]), expected[[6, 0]], atol=1e-12)


@dataclass(frozen=True, eq=False)
class _Doubled(Selection):
    def estimate(self, scores: np.ndarray) -> np.ndarray:
        return 2 * super().estimate(scores)


class _MadeUp:
    name, needs = "made-up", frozenset({"scores"})
    kind: type[Selection] = Selection

    def select(self, pool: Pool, budget: int, *, seed: int) -> Selection:
        index = np.arange(pool.n)[-budget:]
        return self.kind(index, weight=np.arange(1.0, budget + 1), notes=("made up",))


@pytest.mark.parametrize(("kind", "factor"), [(Selection, 1), (_Doubled, 2)])
def test_weights_and_other_estimates_are_those_of_the_selector(
    kind: type[Selection], factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector = _MadeUp()
    selector.kind = kind
    monkeypatch.setattr(module, "get_selector", lambda _: selector)
    panel = _panel()
    cut = slices(panel)
    pool = np.ones(65, bool)
    pool[cut.category_of_item == 1] = False  # a category without a pool
    found = prune(panel, cut, pool, selector="made-up", retention=0.1, floor=3)
    scores = pruned_scores(panel, cut, found, [4, 1])
    assert np.isnan(scores[:, 1]).all()
    for category in (0, 2):
        kept = np.flatnonzero(found.selected & (cut.category_of_item == category))
        weight = np.arange(1.0, len(kept) + 1)
        assert found.weight[kept].tolist() == weight.tolist()
        for row, model in enumerate([4, 1]):
            there = np.isfinite(matrix(panel)[model, kept])
            mean = np.average(matrix(panel)[model, kept][there], weights=weight[there])
            assert scores[row, category] == pytest.approx(factor * mean)
    assert found.report["notes"].tolist() == [["made up"]] * 2


def test_a_floor_of_nothing_may_keep_nothing() -> None:
    panel = _panel()
    found = prune(panel, slices(panel), np.ones(65, bool), retention=0.1, floor=0)
    assert found.report["K"].tolist() == [4, 2, 0]
    assert np.isnan(pruned_scores(panel, slices(panel), found)[:, 2]).all()


def test_what_is_refused_is_refused_before_anything_is_read() -> None:
    panel = _panel()
    cut, pool = slices(panel), np.ones(65, bool)
    with pytest.raises(NotFoundError, match="no selector is called 'vwa'"):
        prune(panel, cut, pool, selector="vwa")
    with pytest.raises(UsageError, match="retention"):
        prune(panel, cut, pool, retention=0)
    with pytest.raises(UsageError, match="floor"):
        prune(panel, cut, pool, floor=-1)
