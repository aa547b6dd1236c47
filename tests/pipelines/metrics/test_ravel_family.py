"""RAVEL and its ablations against loops: through the interface of metrics, and through the graphs of a project."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from optotype.pipelines.forms import PLAIN, Form
from optotype.pipelines.graphs import features_graph, graph_inputs, states_graph
from optotype.pipelines.metrics.catalogue import get_metric
from optotype.pipelines.metrics.metric import Inputs, checked_options
from optotype.pipelines.metrics.ranking import rank_metrics
from optotype.pipelines.metrics.settings import Request
from optotype.pipelines.operators.neighbours import feature_neighbours, row_neighbours, state_neighbours
from optotype.pipelines.postprocessing.chain import parse_chain
from optotype.schemas.errors import InvalidDataError, UsageError
from optotype.store.project import Project

FAMILY = ("ravel", "ravel-patch-raw", "ravel-pooled-raw", "ravel-pooled-whitened")
N, K = 24, 5


@pytest.fixture
def items(make: SimpleNamespace) -> list[np.ndarray]:
    """Ragged images with two that are equal and one of a single patch."""
    items = make.ragged(4, N, 5)
    items[9] = items[2].copy()
    items[11] = items[11][:1]
    return list(items)


@pytest.fixture
def rows() -> np.ndarray:
    """States of which two are equal, so that ties decide."""
    rows = np.random.default_rng(5).standard_normal((N, 4))
    rows[7] = rows[3]
    return rows


def inputs_of(make: SimpleNamespace, items: list[np.ndarray], rows: np.ndarray | None) -> Inputs:
    features = make.features(items)
    pooled = np.stack([item.mean(axis=0, dtype=np.float64) for item in items])
    return Inputs("vit", "model", features["image"].values, pooled, rows, features)


def expected(slow: SimpleNamespace, name: str, items: list[np.ndarray], rows: np.ndarray) -> float:
    sets = [item.mean(axis=0, dtype=np.float64)[None] for item in items] if "pooled" in name else items
    texts = [row[None] / np.linalg.norm(row) for row in rows]
    if name in ("ravel", "ravel-pooled-whitened"):
        unit, words = slow.whitened(sets, 1e-4, "none"), slow.whitened(texts, 1e-4, "none")
    else:
        unit = [item / np.linalg.norm(item.astype(np.float64), axis=1, keepdims=True) for item in sets]
        words = texts
    visual, textual = slow.chamfer(unit), slow.chamfer(words)
    return float(slow.score(slow.neighbours(visual, K), slow.neighbours(textual, K)))


@pytest.mark.parametrize("name", FAMILY)
def test_against_loops(
    name: str, make: SimpleNamespace, slow: SimpleNamespace, items: list[np.ndarray], rows: np.ndarray
) -> None:
    metric: Any = get_metric(name)
    score = metric.score(inputs_of(make, items, rows), checked_options(metric, {"k": K}), seed=0)
    assert score.value == pytest.approx(expected(slow, name, items, rows), abs=1e-12)
    assert score.chance == K / (N - 1)
    assert score.per_item.mean() == pytest.approx(score.value, abs=1e-12)


@pytest.mark.parametrize("name", FAMILY)
def test_the_cached_graphs_give_the_same(
    name: str,
    make: SimpleNamespace,
    items: list[np.ndarray],
    rows: np.ndarray,
    project: Project,
    put: SimpleNamespace,
) -> None:
    put.features("vit", items)
    put.states("model", rows)
    metric: Any = get_metric(name)
    alone = metric.score(inputs_of(make, items, rows), checked_options(metric, {"k": K}), seed=0)
    for _ in ("computed", "found"):
        (row,) = rank_metrics(project, ["vit"], ["model"], Request((name, "ravel"), k=K))[:1]
        assert (row["metric"], row["score"]) == (name, alone.value)
        assert row["warnings"] == list(alone.warnings)


@pytest.mark.parametrize("k", [3, 10])
def test_pooled_and_raw_is_mutual_nn(make: SimpleNamespace, items: list[np.ndarray], rows: np.ndarray, k: int) -> None:
    mutual: Any = get_metric("mutual-nn")
    ravel: Any = get_metric("ravel-pooled-raw")
    inputs = inputs_of(make, items, rows)
    scores = [metric.score(inputs, checked_options(metric, {"k": k}), seed=0) for metric in (mutual, ravel)]
    assert scores[0].value == scores[1].value
    assert checked_options(ravel)["k"] == 100


def test_pooled_and_raw_is_mutual_nn_at_100() -> None:
    generator = np.random.default_rng(0)
    states = generator.standard_normal((150, 6))
    pooled = states @ generator.standard_normal((6, 8)) + generator.standard_normal((150, 8))
    ids = np.array([f"i{number:03}" for number in range(150)], dtype=object)
    inputs = Inputs("a", "b", ids, pooled, states, xr.Dataset())
    mutual: Any = get_metric("mutual-nn")
    ravel: Any = get_metric("ravel-pooled-raw")
    both = mutual.score(inputs, checked_options(mutual, {"k": 100}), seed=0), ravel.score(inputs, {"k": 100}, seed=0)
    assert both[0].value == both[1].value
    assert both[0].value > both[0].chance


def test_plain_keys_hold_nothing_new() -> None:
    known: dict[str, Any] = {"kind": "features", "k": 4, "eps": 1e-4, "prenorm": "l2", "items": None}
    assert list(graph_inputs("sha256:x", **known, form=PLAIN)) == [
        *("graph_version", "array", "kind", "k", "eps", "prenorm", "items"),
    ]
    assert graph_inputs("sha256:x", **known) == graph_inputs("sha256:x", **known, form=Form(gamma=1.0))


def test_keys_hold_what_has_a_say_and_nothing_else() -> None:
    def key(form: Form, eps: float = 1e-4, prenorm: str = "l2") -> dict[str, Any]:
        return graph_inputs("sha256:x", kind="features", k=4, eps=eps, prenorm=prenorm, items=None, form=form)

    forms = [
        Form(),
        Form(pooled=True),
        Form(whitened=False),
        Form(gamma=0.5),
        Form(chain=parse_chain("centre")),
        Form(chain=parse_chain("abtt:2")),
        Form(pooled=True, whitened=False),
    ]
    keys = [tuple(sorted(key(form).items())) for form in forms]
    assert len(set(keys)) == len(forms)
    assert key(Form(pooled=True, gamma=0.5)) == key(Form(pooled=True))
    assert key(Form(whitened=False), eps=1.0, prenorm="none") == key(Form(whitened=False))
    assert key(Form(pooled=True), eps=1.0) != key(Form(pooled=True))


def test_a_front_makes_another_graph(project: Project, put: SimpleNamespace, items: list[np.ndarray]) -> None:
    put.features("vit", items)
    plain = features_graph(project, "vit", k=K)
    assert features_graph(project, "vit", k=K, form=Form(gamma=1.0)).identical(plain)
    drawn = features_graph(project, "vit", k=K, form=Form(gamma=0.0))
    means = [np.repeat(item.mean(axis=0, dtype=np.float64)[None], len(item), axis=0) for item in items]
    ids = plain["item"].values.tolist()
    rows = np.concatenate(means)
    features = xr.Dataset(
        {"patches": (("token", "channel"), rows), "row_size": ("image", [len(item) for item in items])},
        coords={"image": ids},
    )
    np.testing.assert_array_equal(drawn["neighbours"].values, feature_neighbours(features, k=K)["neighbours"].values)
    assert not np.array_equal(drawn["neighbours"].values, plain["neighbours"].values)


def test_a_front_of_states(project: Project, put: SimpleNamespace, rows: np.ndarray) -> None:
    put.states("model", rows)
    graph = states_graph(project, "model", k=K, form=Form(whitened=False, chain=parse_chain("centre")))
    centred = xr.Dataset(
        {"states": (("text", "channel"), rows - rows.mean(axis=0))}, coords={"text": graph["item"].values}
    )
    other = state_neighbours(centred, k=K, whitened=False)
    np.testing.assert_array_equal(graph["neighbours"].values, other["neighbours"].values)
    assert "eigenvalues" not in graph
    assert graph.attrs["rows_over_channels"] == N / 4
    assert "eps" not in graph.attrs


def test_refusals(make: SimpleNamespace, items: list[np.ndarray], rows: np.ndarray) -> None:
    metric: Any = get_metric("ravel-pooled-raw")
    with pytest.raises(UsageError, match="needs states"):
        metric.score(inputs_of(make, items, None), {"k": 3}, seed=0)
    with pytest.raises(UsageError, match="k is from 1 to 23"):
        metric.score(inputs_of(make, items, rows), {"k": N}, seed=0)
    rows[5] = 0
    with pytest.raises(InvalidDataError, match=r"i0005.*\(a row of zeros\)"):
        metric.score(inputs_of(make, items, rows), {"k": 3}, seed=0)
    items[6][:] = 0
    with pytest.raises(InvalidDataError, match=r"i0006.*\(all of its patches are zero\)"):
        feature_neighbours(make.features(items), k=3, whitened=False)
    with pytest.raises(InvalidDataError, match=r"i0002.*NaN"):
        row_neighbours(
            np.where(np.arange(6)[:, None] == 2, np.nan, np.ones((6, 2))), [f"i{i:04}" for i in range(6)], k=2
        )


def test_raw_patches_of_zeros_are_told_of(
    make: SimpleNamespace, items: list[np.ndarray], rows: np.ndarray, project: Project, put: SimpleNamespace
) -> None:
    items[4] = np.concatenate([items[4], np.zeros((2, 5), np.float32)])
    items[8] = np.concatenate([np.zeros((1, 5), np.float32), items[8]])
    metric: Any = get_metric("ravel-patch-raw")
    score = metric.score(inputs_of(make, items, rows), {"k": K}, seed=0)
    (text,) = [text for text in score.warnings if "zero" in text]
    assert text.startswith(f"features: 3 of {sum(map(len, items))} patches are zero, in 2 of {N} images; ")
    put.features("vit", items)
    put.states("model", rows)
    for _ in ("computed", "found"):
        (row,) = rank_metrics(project, ["vit"], ["model"], Request(("ravel-patch-raw",), k=K))
        assert (row["score"], row["warnings"]) == (score.value, list(score.warnings))
    (row,) = rank_metrics(project, ["vit"], ["model"], Request(("ravel",), k=K))
    assert not any("zero" in text for text in row["warnings"])


def test_constant_rows_tie_by_id_and_are_warned_about(make: SimpleNamespace, rows: np.ndarray) -> None:
    items = [np.ones((2, 3), dtype=np.float32) for _ in range(N)]
    metric: Any = get_metric("ravel-patch-raw")
    score = metric.score(inputs_of(make, items, rows), {"k": 4}, seed=0)
    assert any("hardly differ" in text for text in score.warnings)
    graph = feature_neighbours(make.features(items), k=4, whitened=False)["neighbours"].values
    assert graph[0].tolist() == [1, 2, 3, 4]
    assert graph[9].tolist() == [0, 1, 2, 3]
