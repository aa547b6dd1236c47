"""Labelled operators are lazy on dask, and what they compute in the end is what the kernels say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import dask
import numpy as np
import pytest
import xarray as xr

from optotype.pipelines.operators.chamfer import chamfer_similarity
from optotype.pipelines.operators.cosine import cosine_similarity
from optotype.pipelines.operators.neighbours import feature_neighbours, nearest
from optotype.pipelines.operators.overlap import overlap
from optotype.pipelines.operators.whitening import fit_whitening, whiten
from optotype.schemas.errors import UsageError


@contextmanager
def no_computation() -> Iterator[list[int]]:
    """Dask with a scheduler that counts and refuses."""
    count = [0]

    def refuse(graph: Any, keys: Any, **_: Any) -> Any:
        count[0] += 1
        raise AssertionError("building a graph computed something")

    with dask.config.set(scheduler=refuse):
        yield count


def _graph_of(data: xr.Dataset, texts: xr.Dataset, k: int) -> tuple[xr.Dataset, xr.Dataset, xr.DataArray, xr.Dataset]:
    fitted = fit_whitening(data["patches"])
    white = whiten(data["patches"], fitted)
    images = nearest(chamfer_similarity(white, data["row_size"]), k)
    captions = nearest(cosine_similarity(whiten(texts["states"], fit_whitening(texts["states"], prenorm="l2"))), k)
    return images, captions, overlap(images["neighbours"], captions["neighbours"]), fitted


def test_building_the_graph_computes_nothing(make: SimpleNamespace) -> None:
    data = make.features(make.ragged(0, 20, 6))
    texts = make.states(np.random.default_rng(1).standard_normal((20, 9)))
    with no_computation() as count:
        images, captions, shares, fitted = _graph_of(data, texts, 5)
        assert count == [0]
        for lazy in (images["neighbours"], images["similarity"], captions["neighbours"], shares, fitted["matrix"]):
            assert lazy.chunks is not None
        with pytest.raises(AssertionError, match="computed something"):
            shares.compute()  # the scheduler does see what is computed


def test_lazy_and_eager_give_the_brute_force(make: SimpleNamespace, slow: SimpleNamespace) -> None:
    items = make.ragged(2, 20, 6, dtype=np.float64)
    states = np.random.default_rng(3).standard_normal((20, 9))
    white = slow.whitened(items, 1e-4, "none")
    unit = np.concatenate(slow.whitened([row[None] for row in states], 1e-4, "l2"))
    visual, textual = slow.neighbours(slow.chamfer(white), 5), slow.neighbours(unit @ unit.T, 5)
    expected = slow.score(visual, textual)
    for data, texts in (
        (make.features(items), make.states(states)),
        (make.features(items).load(), make.states(states).load()),
    ):
        images, captions, shares, _ = _graph_of(data, texts, 5)
        assert images["neighbours"].values.tolist() == visual
        assert captions["neighbours"].values.tolist() == textual
        assert shares.dims == ("item",)
        assert float(shares.mean()) == pytest.approx(expected, abs=1e-12)


def test_the_matrix_agrees_with_the_streamed_neighbours(make: SimpleNamespace) -> None:
    data = make.features(make.ragged(4, 18, 6, dtype=np.float64))
    images, *_ = _graph_of(data, make.states(np.random.default_rng(5).standard_normal((18, 5))), 4)
    streamed = feature_neighbours(data, k=4)
    np.testing.assert_array_equal(np.sort(images["neighbours"], axis=1), np.sort(streamed["neighbours"], axis=1))


def test_labels(make: SimpleNamespace) -> None:
    data = make.features(make.ragged(6, 5, 3), ids=["a", "b", "c", "d", "e"])
    white = whiten(data["patches"], fit_whitening(data["patches"]))
    assert white.dims == ("token", "direction")
    matrix = chamfer_similarity(white, data["row_size"])
    assert matrix.dims == ("item", "item_other")
    assert float(matrix.sel(item="b", item_other="d")) == float(matrix.sel(item="d", item_other="b"))
    assert np.isnan(matrix.sel(item="c", item_other="c"))


def test_dropped_directions_are_zero_and_rows_without_direction_nan(make: SimpleNamespace) -> None:
    generator = np.random.default_rng(7)
    rows = generator.standard_normal((8, 2)) @ generator.standard_normal((2, 5))
    rows = np.concatenate([rows, -rows, np.zeros((1, 5))])
    states = make.states(rows)["states"]
    fitted = fit_whitening(states)
    assert int(fitted["kept"].sum()) == 2
    white = whiten(states, fitted).values
    assert np.all(white[:-1, 2:] == 0)
    assert np.all(np.isnan(white[-1]))


def test_overlap_refuses_graphs_of_different_size() -> None:
    first = xr.DataArray(np.zeros((4, 2), int), dims=("item", "rank"))
    second = xr.DataArray(np.zeros((4, 3), int), dims=("item", "rank"))
    with pytest.raises(UsageError, match="differ in size"):
        overlap(first, second)
