"""Mixtures are lazy, and what plain loops make of the tokens; interleaved Chamfer is brute force over unions."""

from __future__ import annotations

from types import SimpleNamespace

import dask
import numpy as np
import pytest
import xarray as xr

from optotype.pipelines.operators.mixtures import (
    additive,
    interleaved,
    interleaved_order,
    is_interleaved,
    project,
    resize,
    select,
    space,
)
from optotype.pipelines.operators.neighbours import feature_neighbours
from optotype.schemas.errors import InvalidDataError, UsageError

EPS = 1e-4


def _union_chamfer(spaces: list[list[np.ndarray]]) -> np.ndarray:
    """Brute force: each image a set of (space, token), similarity -inf between unlike spaces."""
    n = len(spaces[0])
    unions = [[(s, token) for s, items in enumerate(spaces) for token in items[i]] for i in range(n)]

    def similarity(one: tuple[int, np.ndarray], other: tuple[int, np.ndarray]) -> float:
        return float(one[1] @ other[1]) if one[0] == other[0] else -np.inf

    result = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if i != j:
                forward = [max(similarity(token, other) for other in unions[j]) for token in unions[i]]
                backward = [max(similarity(token, other) for other in unions[i]) for token in unions[j]]
                result[i, j] = 0.5 * (sum(forward) / len(forward) + sum(backward) / len(backward))
    return result


def _matrix(graph: xr.Dataset) -> np.ndarray:
    """All similarities of a graph with k = n - 1."""
    n = graph.sizes["item"]
    result = np.full((n, n), np.nan)
    np.put_along_axis(result, graph["neighbours"].values.astype(np.int64), graph["similarity"].values, axis=1)
    return result


def _equal_counts(seed: int, n: int, channels: int, tokens: int, dtype: type = np.float64) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [(random.standard_normal((tokens, channels)) * np.logspace(0, -2, channels)).astype(dtype) for _ in range(n)]


@pytest.mark.parametrize("prenorm", ["none", "l2"])
@pytest.mark.parametrize(
    "sides",
    [
        pytest.param((_equal_counts(0, 14, 5, 4), _equal_counts(1, 14, 5, 4)), id="equal counts and widths"),
        pytest.param((_equal_counts(2, 14, 6, 9), _equal_counts(3, 14, 3, 4)), id="unlike grids and widths"),
        pytest.param(None, id="ragged"),
    ],
)
def test_interleaved_is_brute_force_over_the_union(
    sides: tuple[list[np.ndarray], list[np.ndarray]] | None, prenorm: str, make: SimpleNamespace, slow: SimpleNamespace
) -> None:
    a, b = sides or (make.ragged(4, 14, 5, dtype=np.float64), make.ragged(5, 14, 7, most=3, dtype=np.float64))
    expected = _union_chamfer([slow.whitened(a, EPS, prenorm), slow.whitened(b, EPS, prenorm)])
    mixed = interleaved(make.features(a), make.features(b, chunk=5))
    graph = feature_neighbours(mixed, k=13, prenorm=prenorm)
    np.testing.assert_allclose(_matrix(graph), expected, atol=2e-6)
    few = feature_neighbours(mixed, k=4, prenorm=prenorm)
    assert [sorted(row) for row in few["neighbours"].values.tolist()] == [
        sorted(row) for row in slow.neighbours(expected, 4)
    ]


def test_the_directional_term_is_weighted_by_tokens(make: SimpleNamespace, slow: SimpleNamespace) -> None:
    a, b = make.ragged(6, 9, 4, dtype=np.float64), make.ragged(7, 9, 5, most=3, dtype=np.float64)
    white = [slow.whitened(a, EPS, "none"), slow.whitened(b, EPS, "none")]

    def directed(i: int, j: int) -> float:
        means = [np.max(items[i] @ items[j].T, axis=1).mean() for items in white]
        counts = [len(items[i]) for items in white]
        return float(np.dot(means, counts) / sum(counts))

    got = _matrix(feature_neighbours(interleaved(make.features(a), make.features(b)), k=8))
    for i, j in [(0, 1), (3, 7), (8, 2)]:
        assert got[i, j] == pytest.approx(0.5 * (directed(i, j) + directed(j, i)), abs=2e-6)


def test_a_side_with_itself_says_what_it_says_alone(make: SimpleNamespace) -> None:
    items = make.features(make.ragged(8, 30, 6))
    alone, twice = feature_neighbours(items, k=6), feature_neighbours(interleaved(items, items), k=6)
    np.testing.assert_array_equal(np.sort(twice["neighbours"]), np.sort(alone["neighbours"]))
    np.testing.assert_allclose(twice["similarity"], alone["similarity"], atol=2e-6)


def test_order_of_sides_and_chunks_change_nothing(make: SimpleNamespace) -> None:
    a, b = make.ragged(9, 30, 6), make.ragged(10, 30, 4)
    one = feature_neighbours(interleaved(make.features(a), make.features(b)), k=5)
    other = feature_neighbours(interleaved(make.features(b), make.features(a)), k=5)
    np.testing.assert_array_equal(np.sort(one["neighbours"]), np.sort(other["neighbours"]))
    again = feature_neighbours(interleaved(make.features(a, chunk=3), make.features(b, chunk=50)), k=5)
    xr.testing.assert_identical(one, again)


def test_processes_give_the_same_bytes(make: SimpleNamespace) -> None:
    mixed = interleaved(make.features(make.ragged(11, 20, 4)), make.features(make.ragged(12, 20, 3)))
    xr.testing.assert_identical(feature_neighbours(mixed, k=3), feature_neighbours(mixed, k=3, run="processes"))


def test_copies_tie_exactly_and_ids_decide(make: SimpleNamespace) -> None:
    a, b = make.ragged(13, 12, 4), make.ragged(14, 12, 5)
    for items in (a, b):
        for copy in (3, 7, 11):
            items[copy] = items[1].copy()
    graph = feature_neighbours(interleaved(make.features(a), make.features(b)), k=2)
    assert graph["neighbours"].values[1].tolist() == [3, 7]
    assert graph["neighbours"].values[11].tolist() == [1, 3]
    # Seen from others the copies are equally far, so the first of them comes first.
    full = _matrix(feature_neighbours(interleaved(make.features(a), make.features(b)), k=11))
    for row in (0, 2, 5):
        assert len({round(full[row, copy], 6) for copy in (1, 3, 7, 11)}) == 1


def test_diagnostics_of_both_spaces(make: SimpleNamespace) -> None:
    a, b = make.features(make.ragged(15, 20, 6)), make.features(make.ragged(16, 20, 4))
    whole, one, other = (feature_neighbours(data, k=3).attrs for data in (interleaved(a, b), a, b))
    for name in ("rows", "channels", "directions"):
        assert whole[name] == one[name] + other[name]
        assert (whole[f"a_{name}"], whole[f"b_{name}"]) == (one[name], other[name])
    assert whole["effective_directions"] == pytest.approx(one["effective_directions"] + other["effective_directions"])
    eigenvalues = feature_neighbours(interleaved(a, b), k=3)["eigenvalues"].values
    assert (np.diff(eigenvalues) <= 0).all()
    assert not any(str(name).startswith(("a_", "b_")) for name in one)


def test_problems_of_one_space_name_it(make: SimpleNamespace) -> None:
    a, b = make.ragged(17, 10, 4), make.ragged(18, 10, 3)
    flat = [np.ones_like(item) for item in b]
    with pytest.raises(InvalidDataError, match="images in space b"):
        feature_neighbours(interleaved(make.features(a), make.features(flat)), k=3)
    b[4][0, 0] = np.nan
    with pytest.raises(InvalidDataError, match="not finite") as caught:
        feature_neighbours(interleaved(make.features(a), make.features(b)), k=3)
    assert "i0004" in str(caught.value)


def test_selected_images_are_those_of_both_spaces(make: SimpleNamespace) -> None:
    a, b = make.ragged(19, 12, 4), make.ragged(20, 12, 3)
    some = [1, 4, 5, 9, 11]
    chosen = select(interleaved(make.features(a), make.features(b)), some)
    assert is_interleaved(chosen)
    for suffix, items in (("a", a), ("b", b)):
        np.testing.assert_array_equal(space(chosen, suffix)["patches"], np.concatenate([items[i] for i in some]))
    assert chosen["image"].values.tolist() == [f"i{i:04}" for i in some]


@pytest.mark.parametrize("alpha", [0.125, 0.5, 0.7])
def test_additive_is_the_weighted_sum(alpha: float, make: SimpleNamespace) -> None:
    a, b = _equal_counts(21, 8, 5, 4, np.float16), _equal_counts(22, 8, 5, 4, np.float32)
    mixed = additive(make.features(a), make.features(b, chunk=6), alpha)
    assert mixed["patches"].dtype == np.float32
    rows = np.concatenate(a).astype(np.float64), np.concatenate(b).astype(np.float64)
    np.testing.assert_allclose(mixed["patches"], alpha * rows[0] + (1 - alpha) * rows[1], rtol=1e-6, atol=1e-7)
    assert additive(make.features(a), make.features(_equal_counts(22, 8, 5, 4)), alpha)["patches"].dtype == np.float64


def test_all_the_weight_gives_the_original_bit_for_bit(make: SimpleNamespace) -> None:
    a, b = _equal_counts(23, 8, 5, 4, np.float16), _equal_counts(24, 8, 5, 4, np.float32)
    a[0][0, 0] = np.float16(-0.0)
    for alpha, items in ((1.0, a), (0, b)):
        back = additive(make.features(a), make.features(b), alpha)["patches"]
        assert back.dtype == items[0].dtype
        assert back.values.tobytes() == np.concatenate(items).tobytes()


def test_building_a_mixture_computes_nothing(make: SimpleNamespace) -> None:
    a, b = make.features(_equal_counts(25, 6, 5, 4)), make.features(_equal_counts(26, 6, 3, 9))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("building a mixture computed something")

    with dask.config.set(scheduler=refuse):
        made = additive(project(resize(a, (3, 3)), 4), project(resize(b, (3, 3)), 4), 0.5)
        interleaved(a, b)
        assert (made.sizes["token"], made.sizes["channel"]) == (54, 4)
        with pytest.raises(AssertionError, match="computed something"):
            made["patches"].compute()


def test_lazy_and_eager_are_equal(make: SimpleNamespace) -> None:
    a, b = make.features(_equal_counts(27, 6, 5, 4)), make.features(_equal_counts(28, 6, 3, 9))
    lazy, eager = (
        additive(project(resize(x, (3, 3)), 4), project(resize(y, (3, 3)), 4), 0.5)
        for x, y in ((a, b), (a.load(), b.load()))
    )
    np.testing.assert_allclose(lazy["patches"], eager["patches"], rtol=1e-12)


def test_everything_that_does_not_go_together_is_listed(make: SimpleNamespace) -> None:
    a, b = make.features(_equal_counts(29, 6, 5, 4)), make.features(_equal_counts(30, 6, 3, 9))
    with pytest.raises(InvalidDataError) as caught:
        additive(a, b, 0.5)
    assert {problem.kind for problem in caught.value.problems} == {"tokens", "channels"}
    assert "--resize 2x2" in str(caught.value.hint)
    assert "--project 5" in str(caught.value.hint)
    other = make.features(_equal_counts(30, 6, 5, 4), ids=[*"abcde", "i0000"])
    with pytest.raises(InvalidDataError) as caught:
        additive(a, other, 0.5)
    assert {problem.kind for problem in caught.value.problems} == {"unmatched-id"}
    with pytest.raises(InvalidDataError, match="interleaved"):
        interleaved(a, other)
    shuffled = make.features(_equal_counts(30, 6, 5, 4), ids=[f"i{i:04}" for i in (1, 0, 2, 3, 4, 5)])
    with pytest.raises(InvalidDataError, match="another order"):
        interleaved(a, shuffled)
    for alpha in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="alpha"):
            additive(a, a, alpha)


def test_equal_counts_on_unlike_grids_are_no_common_grid(make: SimpleNamespace) -> None:
    a = make.features(_equal_counts(31, 5, 3, 4)).assign_attrs(grid=[2, 2])
    b = make.features(_equal_counts(32, 5, 3, 4)).assign_attrs(grid=[1, 4])
    with pytest.raises(InvalidDataError, match="a grid of 1x4 tokens, A has 2x2"):
        additive(a, b, 0.5)
    assert additive(a, resize(b, (2, 2)), 0.5).attrs["grid"] == [2, 2]


def test_resize_and_projection_leave_alone_what_fits(make: SimpleNamespace) -> None:
    a = make.features(_equal_counts(33, 5, 3, 4))
    assert resize(a, (2, 2)) is a
    assert project(a, 3) is a
    with pytest.raises(InvalidDataError, match="no known grid"):
        resize(make.features(make.ragged(34, 5, 3)), (2, 2))
    with pytest.raises(InvalidDataError, match="3 tokens an image"):
        resize(make.features(_equal_counts(35, 5, 3, 3)), (2, 2))
    with pytest.raises(UsageError, match="1 row"):
        resize(a, (0, 2))
    with pytest.raises(UsageError, match="1 channel"):
        project(a, 0)
    with pytest.raises(UsageError, match="seed"):
        project(a, 2, -1)


@pytest.mark.parametrize(("tokens_a", "tokens_b"), [(4, 4), (9, 4), (1, 5), (3, 3), (49, 144)])
def test_interleaved_order(tokens_a: int, tokens_b: int) -> None:
    a, b = interleaved_order(tokens_a, tokens_b)
    merged = sorted(
        [((2 * i + 1) * tokens_b, 0, i) for i in range(tokens_a)]
        + [((2 * j + 1) * tokens_a, 1, j) for j in range(tokens_b)]
    )
    for place, (_, side, index) in enumerate(merged):
        assert (a, b)[side][index] == place
    if tokens_a == tokens_b:
        assert a.tolist() == list(range(0, 2 * tokens_a, 2))
