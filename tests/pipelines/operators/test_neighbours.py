"""Neighbours block by block against the brute force in float64: exact sets, ties, degenerate and broken input."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from optotype.pipelines.kernels import chamfer, rows, topk
from optotype.pipelines.operators import neighbours as engine
from optotype.pipelines.operators.neighbours import feature_neighbours, nearest, state_neighbours
from optotype.schemas.errors import InvalidDataError, UsageError


@pytest.fixture(params=["one block", "many small blocks"])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same work in one piece, and in blocks of a few images with tiles of a few rows and a tiny cache."""
    if request.param != "one block":
        monkeypatch.setattr(rows, "TILE_ROWS", 8)
        monkeypatch.setattr(rows, "_BLOCK_BYTES", 1)
        monkeypatch.setattr(rows, "_BLOCK_IMAGES", 5)
        monkeypatch.setattr(rows, "_SPAN_BYTES", 4 * 8 * 13)
        monkeypatch.setattr(engine, "groups", lambda offsets: chamfer.groups(offsets, 7))
        monkeypatch.setattr(engine, "_CACHE", rows.BlockCache(4096))
        monkeypatch.setattr(engine, "_PAIRS_A_TASK", 3)
        monkeypatch.setattr(topk, "_SLACK", 2)
    return str(request.param)


def _sets(graph: xr.Dataset) -> list[list[int]]:
    return [sorted(row) for row in graph["neighbours"].values.tolist()]


def _tied(make: SimpleNamespace, dtype: type) -> list[np.ndarray]:
    """Ragged images, three of them copies of others, at places that fall into different tiles and blocks."""
    items = make.ragged(1, 31, 8, dtype=dtype)
    items[30], items[17], items[9] = items[2].copy(), items[2].copy(), items[5].copy()
    return list(items)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("prenorm", ["none", "l2"])
@pytest.mark.parametrize("k", [1, 4, 13, 30])
def test_images_with_ties_have_the_neighbours_of_the_brute_force(
    dtype: type, prenorm: str, k: int, cut: str, make: SimpleNamespace, slow: SimpleNamespace
) -> None:
    items = _tied(make, dtype)
    graph = feature_neighbours(make.features(items), k=k, prenorm=prenorm)
    matrix = slow.chamfer(slow.whitened(items, 1e-4, prenorm))
    assert _sets(graph) == [sorted(row) for row in slow.neighbours(matrix, k)]
    chosen = np.take_along_axis(matrix, graph["neighbours"].values.astype(int), axis=1)
    np.testing.assert_allclose(graph["similarity"].values, chosen, atol=2e-6)
    assert np.all(np.diff(graph["similarity"].values, axis=1) <= 0)
    off = matrix[np.triu_indices(31, 1)]
    assert graph.attrs["similarity_mean"] == pytest.approx(off.mean(), abs=1e-6)
    assert graph.attrs["similarity_sd"] == pytest.approx(off.std(), abs=1e-6)
    assert graph.attrs["similarity_min"] == pytest.approx(off.min(), abs=2e-6)
    assert graph.attrs["similarity_max"] == pytest.approx(off.max(), abs=2e-6)


def test_a_pile_of_copies_goes_by_index(cut: str, make: SimpleNamespace, slow: SimpleNamespace) -> None:
    # Only three different images: nearly every k-th place is a tie, and more ties than the candidates can hold.
    pool = make.ragged(2, 3, 6)
    items = [pool[i % 3].copy() for i in range(29)]
    graph = feature_neighbours(make.features(items), k=5)
    matrix = slow.chamfer(slow.whitened(items, 1e-4, "none"))
    assert _sets(graph) == [sorted(row) for row in slow.neighbours(matrix, 5)]


def test_single_patches(cut: str, make: SimpleNamespace, slow: SimpleNamespace) -> None:
    items = make.ragged(3, 23, 8, most=1)
    graph = feature_neighbours(make.features(items), k=6)
    matrix = slow.chamfer(slow.whitened(items, 1e-4, "none"))
    assert _sets(graph) == [sorted(row) for row in slow.neighbours(matrix, 6)]


def test_patches_in_a_plane(cut: str, make: SimpleNamespace, slow: SimpleNamespace) -> None:
    generator = np.random.default_rng(4)
    plane = generator.standard_normal((2, 8))
    items = [generator.standard_normal((4, 2)) @ plane for _ in range(19)]
    graph = feature_neighbours(make.features(items), k=7)
    assert graph.attrs["directions"] == 2
    matrix = slow.chamfer(slow.whitened(items, 1e-4, "none"))
    assert _sets(graph) == [sorted(row) for row in slow.neighbours(matrix, 7)]


@pytest.mark.parametrize("prenorm", ["none", "l2"])
@pytest.mark.parametrize("shape", [(27, 8), (27, 60), (27, 27), (27, 1)])
def test_texts_with_ties_have_the_neighbours_of_the_brute_force(
    shape: tuple[int, int], prenorm: str, cut: str, make: SimpleNamespace, slow: SimpleNamespace
) -> None:
    if shape[1] == 1 and prenorm == "l2":
        pytest.skip("rows of one channel are ±1 after l2")
    states = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    states[26], states[11], states[3] = states[0], states[0], states[7]
    graph = state_neighbours(make.states(states), k=6, prenorm=prenorm)
    unit = np.concatenate(slow.whitened([row[None] for row in states], 1e-4, prenorm))
    matrix = unit @ unit.T
    for copies in ([0, 11, 26], [3, 7]):  # the same values in the same order, so that the reference is tied exactly
        matrix[copies] = matrix[copies[0]]
        matrix[:, copies] = matrix[:, copies[:1]]
    assert graph["neighbours"].values.tolist() == slow.neighbours(matrix, 6)
    np.testing.assert_allclose(
        graph["similarity"].values, np.take_along_axis(matrix, graph["neighbours"].values.astype(int), 1), atol=1e-9
    )
    off = matrix[np.triu_indices(27, 1)]
    assert graph.attrs["similarity_mean"] == pytest.approx(off.mean(), abs=1e-9)
    assert graph.attrs["similarity_sd"] == pytest.approx(off.std(), abs=1e-9)


def test_fewer_texts_than_channels_are_equidistant_without_prenorm(make: SimpleNamespace) -> None:
    states = 100 * np.random.default_rng(6).standard_normal((12, 40))
    graph = state_neighbours(make.states(states), k=3, prenorm="none")
    assert graph.attrs["directions"] == 11
    assert graph.attrs["effective_directions"] == pytest.approx(11, abs=1e-4)
    assert graph.attrs["similarity_mean"] == pytest.approx(-1 / 11, abs=1e-6)
    assert graph.attrs["similarity_sd"] < 1e-5


def test_a_rotation_of_the_features_changes_nothing(make: SimpleNamespace) -> None:
    items = make.ragged(7, 25, 8, dtype=np.float64)
    turn = np.linalg.qr(np.random.default_rng(8).standard_normal((8, 8)))[0]
    plain = feature_neighbours(make.features(items), k=5)
    turned = feature_neighbours(make.features([item @ turn + 3 for item in items]), k=5)
    assert _sets(turned) == _sets(plain)
    np.testing.assert_allclose(turned["eigenvalues"], plain["eigenvalues"], rtol=1e-8)


def test_chunks_of_the_array_do_not_change_a_byte(make: SimpleNamespace) -> None:
    items = _tied(make, np.float32)
    graphs = [feature_neighbours(make.features(items, chunk=chunk), k=7) for chunk in (1, 11, 10_000)]
    for graph in graphs[1:]:
        xr.testing.assert_identical(graph, graphs[0])
    eager = feature_neighbours(make.features(items).load(), k=7)
    xr.testing.assert_identical(eager, graphs[0])


def test_diagnostics(make: SimpleNamespace) -> None:
    items = make.ragged(9, 20, 8)
    tokens = sum(len(item) for item in items)
    graph = feature_neighbours(make.features(items), k=3, eps=1e-2)
    spectrum = graph["eigenvalues"].values
    assert graph.attrs["rows"] == tokens
    assert graph.attrs["rows_over_channels"] == tokens / 8
    assert graph.attrs["share_below_eps"] == np.mean(spectrum < 1e-2)
    assert graph.attrs["variance_below_eps"] == pytest.approx(spectrum[spectrum < 1e-2].sum() / spectrum.sum())
    np.testing.assert_allclose(graph["whitened_variance"], spectrum / (spectrum + 1e-2))
    assert graph["item"].values.tolist() == [f"i{i:04}" for i in range(20)]


def test_images_without_direction_are_named(cut: str, make: SimpleNamespace) -> None:
    generator = np.random.default_rng(10)
    half = [generator.standard_normal((2, 4)) for _ in range(10)]
    items = half + [-item for item in half]  # the mean is 0
    items[6] = np.zeros((3, 4))
    items[16] = np.zeros((1, 4))
    with pytest.raises(InvalidDataError, match=r"2 image\(s\)") as caught:
        feature_neighbours(make.features(items), k=2)
    assert [problem.where for problem in caught.value.problems] == ["'i0006'", "'i0016'"]


def _with_zero_patches(seed: int, least: int, most: int) -> list[np.ndarray]:
    """Ragged patches of both signs, a few of which are zeros (of either sign), so that some cosines are negative."""
    generator = np.random.default_rng(seed)
    items = [generator.standard_normal((size, 3)) for size in generator.integers(least, most, 18, endpoint=True)]
    for number, size in ((2, 1), (5, 1), (11, len(items[11]) - 1)):
        items[number][-size:] = 0
    items[5][-1] = -0.0
    items[6] = -items[2]  # of opposite directions: the zero patch is often the best match
    items[7] = items[2].copy()
    return items


@pytest.mark.parametrize(("least", "most"), [(2, 6), (17, 20)])
def test_raw_patches_of_zeros_are_like_nothing_and_count(
    least: int, most: int, cut: str, make: SimpleNamespace, slow: SimpleNamespace
) -> None:
    items = _with_zero_patches(30, least, most)
    lengths = [np.linalg.norm(item, axis=1, keepdims=True) for item in items]
    unit = [item / np.where(length == 0, 1, length) for item, length in zip(items, lengths, strict=True)]
    expected = slow.chamfer(unit)
    graph = feature_neighbours(make.features(items), k=17, whitened=False)
    found = np.full((18, 18), np.nan)
    np.put_along_axis(found, graph["neighbours"].values.astype(np.int64), graph["similarity"].values, axis=1)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    for k in (1, 4):
        graph = feature_neighbours(make.features(items), k=k, whitened=False)
        assert [set(row) for row in graph["neighbours"].values.tolist()] == [
            set(row) for row in slow.neighbours(expected, k)
        ]
    zero = [int((length == 0).sum()) for length in lengths]
    assert (graph.attrs["zero_rows"], graph.attrs["zero_items"]) == (sum(zero), sum(count > 0 for count in zero))
    assert graph.attrs["zero_items"] == 5
    plain = feature_neighbours(make.features(make.ragged(1, 18, 3)), k=4, whitened=False)
    assert "zero_rows" not in plain.attrs
    assert "zero_rows" not in feature_neighbours(make.features(items), k=4).attrs


def test_raw_images_of_zeros_alone_are_named(cut: str, make: SimpleNamespace) -> None:
    items = _with_zero_patches(31, 2, 6)
    items[3][:] = 0
    items[17] = np.zeros((1, 3))
    with pytest.raises(InvalidDataError, match="all of its patches are zero") as caught:
        feature_neighbours(make.features(items), k=2, whitened=False)
    assert [problem.where for problem in caught.value.problems] == ["'i0003'", "'i0017'"]


def test_texts_without_direction_are_named(cut: str, make: SimpleNamespace) -> None:
    half = np.random.default_rng(11).standard_normal((10, 4))
    states = np.concatenate([half, -half, np.zeros((1, 4))])  # the mean is 0
    states[[4, 14]] = 0
    with pytest.raises(InvalidDataError, match="no direction") as caught:
        state_neighbours(make.states(states), k=2, prenorm="l2")
    assert "'i0004'" in str(caught.value)


def test_values_that_are_not_finite_are_named(cut: str, make: SimpleNamespace) -> None:
    items = make.ragged(12, 20, 4)
    items[3][0, 1] = np.nan
    items[18][-1, 0] = np.inf
    with pytest.raises(InvalidDataError, match="not finite") as caught:
        feature_neighbours(make.features(items), k=2)
    assert [problem.where for problem in caught.value.problems] == ["'i0003'", "'i0018'"]


def test_equal_patches_everywhere_are_an_error(make: SimpleNamespace) -> None:
    with pytest.raises(InvalidDataError, match="cannot be fitted"):
        feature_neighbours(make.features([np.ones((2, 3))] * 6), k=2)


def test_options_are_checked_before_the_work(make: SimpleNamespace) -> None:
    data = make.features(make.ragged(13, 6, 3))
    with pytest.raises(UsageError, match="largest k allowed here: -k 5"):
        feature_neighbours(data, k=6)
    with pytest.raises(UsageError, match="from 1 to 5"):
        feature_neighbours(data, k=0)
    with pytest.raises(UsageError, match="eps"):
        feature_neighbours(data, k=2, eps=-1)
    with pytest.raises(UsageError, match="none, l2"):
        feature_neighbours(data, k=2, prenorm="l1")
    with pytest.raises(UsageError, match="two items"):
        feature_neighbours(make.features([np.eye(3)]), k=1)


def test_row_sizes_that_do_not_fit_are_refused(make: SimpleNamespace) -> None:
    data = make.features(make.ragged(14, 6, 3))
    data["row_size"] = data["row_size"] * 0
    with pytest.raises(InvalidDataError) as caught:
        feature_neighbours(data, k=2)
    assert [problem.kind for problem in caught.value.problems] == ["empty-image", "sum"]


def test_only_pairs_with_i_below_j_are_computed(make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TILE_ROWS", 1)
    monkeypatch.setattr(rows, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(rows, "_BLOCK_IMAGES", 3)
    seen: list[tuple[int, int]] = []
    plain = engine._pair_of_blocks

    def counted(work: engine._Work, pair: tuple[int, int]) -> object:
        seen.append(pair)
        return plain(work, pair)

    monkeypatch.setattr(engine, "_pair_of_blocks", counted)
    feature_neighbours(make.features(make.ragged(15, 10, 4, most=1)), k=2)
    assert sorted(seen) == [(i, j) for i in range(10) for j in range(i, 10)]


def test_nearest_of_a_matrix(slow: SimpleNamespace) -> None:
    generator = np.random.default_rng(16)
    matrix = generator.integers(0, 5, (20, 20)) / 5
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T
    np.fill_diagonal(matrix, np.nan)
    found = nearest(xr.DataArray(matrix, dims=("item", "item_other")), 4)
    assert found["neighbours"].values.tolist() == slow.neighbours(matrix, 4)
