"""Several k in one pass: byte for byte the graphs of single k, kept under their own keys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from optotype.pipelines.forms import Form
from optotype.pipelines.graphs import features_graph, features_graphs, states_graph, states_graphs
from optotype.pipelines.kernels import chamfer, rows, topk
from optotype.pipelines.metrics.ranking import rank_metrics
from optotype.pipelines.metrics.settings import Request
from optotype.pipelines.operators import neighbours as engine
from optotype.pipelines.operators.neighbours import (
    feature_neighbours,
    feature_neighbours_by_k,
    row_neighbours,
    row_neighbours_by_k,
    state_neighbours,
    state_neighbours_by_k,
)
from optotype.schemas.errors import UsageError
from optotype.store.features import open_features
from optotype.store.project import Project

N, KS = 24, (3, 7, 12)


@pytest.fixture
def items(make: SimpleNamespace) -> list[np.ndarray]:
    """Ragged images; nine are copies of one up to float32 rounding, and four are exact copies of another."""
    items = make.ragged(7, N, 5)
    noise = np.random.default_rng(8)
    for number in range(1, 10):
        items[number] = (items[0] + 1e-6 * noise.standard_normal(items[0].shape)).astype(np.float32)
    for number in range(11, 15):
        items[number] = items[10].copy()
    return list(items)


@pytest.fixture
def states() -> np.ndarray:
    """States of which three are equal."""
    made = np.random.default_rng(9).standard_normal((N, 4))
    made[[5, 8]] = made[2]
    return made


@pytest.fixture
def filled(project: Project, put: SimpleNamespace, items: list[np.ndarray], states: np.ndarray) -> Project:
    """Two encoders and two language models."""
    put.features("vit", items)
    put.features("cnn", items[::-1])
    put.states("small", states)
    put.states("large", states[::-1] ** 3)
    return project


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Filled with the number of rows of every block of similarities of images."""
    calls: list[int] = []
    plain = engine.chamfer_block

    def counted(a: Any, *others: Any) -> Any:
        calls.append(len(a))
        return plain(a, *others)

    monkeypatch.setattr(engine, "chamfer_block", counted)
    return calls


def check_same(one: xr.Dataset, other: xr.Dataset) -> None:
    xr.testing.assert_identical(one, other)
    for name in one.data_vars:
        assert one[name].values.tobytes() == other[name].values.tobytes()


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("whitened", [True, False])
def test_equal_to_single_graphs(
    small: bool, whitened: bool, make: SimpleNamespace, items: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:  # many blocks, and more near-ties than are kept
        monkeypatch.setattr(rows, "_BLOCK_BYTES", 1)
        monkeypatch.setattr(rows, "_BLOCK_IMAGES", 5)
        monkeypatch.setattr(engine, "groups", lambda offsets: chamfer.groups(offsets, 7))
        monkeypatch.setattr(topk, "_SLACK", 2)
    features = make.features(items)
    found = feature_neighbours_by_k(features, KS, whitened=whitened)
    assert tuple(found) == KS
    for k in KS:
        check_same(found[k], feature_neighbours(features, k=k, whitened=whitened))


def test_a_larger_graph_is_not_cut(make: SimpleNamespace, items: list[np.ndarray]) -> None:
    found = feature_neighbours_by_k(make.features(items), KS)
    first = found[12]["similarity"].values[:, :3]
    np.testing.assert_allclose(first, found[3]["similarity"].values, atol=1e-5)
    assert first.tobytes() != found[3]["similarity"].values.tobytes()  # near-ties at place 3 are settled at k = 3 alone


@pytest.mark.parametrize("whitened", [True, False])
def test_single_rows(whitened: bool, make: SimpleNamespace, states: np.ndarray) -> None:
    data = make.states(states)
    ids = [str(value) for value in data["text"].values]
    by_states = state_neighbours_by_k(data, KS, whitened=whitened)
    by_rows = row_neighbours_by_k(states, ids, KS, whitened=whitened)
    for k in KS:
        check_same(by_states[k], state_neighbours(data, k=k, whitened=whitened))
        check_same(by_rows[k], row_neighbours(states, ids, k=k, whitened=whitened))


def test_each_k_once_in_order_and_checked(make: SimpleNamespace, items: list[np.ndarray], kernel: list[int]) -> None:
    features = make.features(items)
    assert list(feature_neighbours_by_k(features, [5, 2, 5])) == [5, 2]
    kernel.clear()
    with pytest.raises(UsageError, match="k is from 1 to 23"):
        feature_neighbours_by_k(features, [5, N])
    with pytest.raises(UsageError, match="one k or more"):
        feature_neighbours_by_k(features, [])
    assert kernel == []


@pytest.mark.parametrize("form", [Form(), Form(whitened=False), Form(pooled=True), Form(pooled=True, whitened=False)])
def test_kept_graphs_are_found_and_the_others_made_in_one_pass(form: Form, filled: Project, kernel: list[int]) -> None:
    cache = filled.cache / "neighbours"
    middle = features_graph(filled, "vit", k=7, form=form)
    (kept,) = cache.iterdir()
    written = (kept / "zarr.json").stat().st_mtime_ns
    kernel.clear()
    found = features_graphs(filled, "vit", KS, form=form)
    assert len(kernel) == (0 if form.pooled else 1)
    check_same(found[7], middle)
    assert (kept / "zarr.json").stat().st_mtime_ns == written
    assert len(list(cache.iterdir())) == 3
    kernel.clear()
    again = features_graphs(filled, "vit", KS, form=form)
    assert kernel == []
    for k in KS:
        alone = features_graph(None, str(filled.features / "vit"), k=k, form=form)
        check_same(found[k], alone)
        check_same(again[k], alone)
        check_same(features_graph(filled, "vit", k=k, form=form), alone)
    assert len(list(cache.iterdir())) == 3


def test_states_and_subsets(filled: Project) -> None:
    chosen = [f"i{number:04}" for number in range(2, 22)]
    found = states_graphs(filled, "small", KS, texts=chosen, form=Form(whitened=False))
    seen = features_graphs(filled, "vit", KS, images=chosen, prenorm="l2")
    for k in KS:
        check_same(
            found[k], states_graph(None, str(filled.states / "small"), k=k, texts=chosen, form=Form(whitened=False))
        )
        check_same(seen[k], features_graph(None, str(filled.features / "vit"), k=k, images=chosen, prenorm="l2"))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("name", ["ravel", "ravel-patch-raw", "ravel-pooled-whitened", "ravel-pooled-raw"])
def test_a_sweep_goes_through_the_pairs_once_an_encoder(
    name: str, kept: bool, filled: Project, kernel: list[int]
) -> None:
    sweep = Request((name,), sweep={"k": KS}, null=3, bootstrap=3)
    encoders = [str(filled.features / encoder) for encoder in ("vit", "cnn")]
    models = [str(filled.states / model) for model in ("small", "large")]
    rows = rank_metrics(filled if kept else None, encoders, models, sweep)
    assert len(kernel) == (0 if "pooled" in name else 2)
    singles = [
        row for k in KS for row in rank_metrics(None, encoders, models, Request((name,), k=k, null=3, bootstrap=3))
    ]
    assert rows == sorted(singles, key=lambda row: (-row["score"], row["encoder"], row["model"]))
    assert open_features(encoders[0]).sizes["image"] == N


def test_a_sweep_over_more_than_k(filled: Project, kernel: list[int]) -> None:
    sweep: dict[str, list[Any]] = {"k": [3, 7], "eps": [1e-4, 1e-2], "images": [20, N]}
    rows = rank_metrics(filled, ["vit"], ["small"], Request(("ravel", "ravel-patch-raw"), sweep=sweep))
    assert len(kernel) == 4 + 2
    assert len(rows) == 8 + 4
    for row in rows:
        eps = 1e-4 if row["eps"] is None else row["eps"]
        request = Request((row["metric"],), k=row["k"], eps=eps, images=row["n"])
        assert rank_metrics(None, [str(filled.features / "vit")], [str(filled.states / "small")], request)[0] == row
