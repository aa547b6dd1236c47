"""The score against the brute force, end to end and on graphs."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from optotype.pipelines import ravel
from optotype.pipelines.operators.neighbours import feature_neighbours, state_neighbours
from optotype.pipelines.progress import Plain
from optotype.pipelines.ravel import score
from optotype.schemas.errors import InvalidDataError, UsageError


def _graph(seed: int, n: int, k: int, prefix: str = "i") -> xr.Dataset:
    generator = np.random.default_rng(seed)
    index = np.array([generator.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    ids = np.array([f"{prefix}{i:03}" for i in range(n)], dtype=object)
    return xr.Dataset({"neighbours": (("item", "rank"), index)}, coords={"item": ids})


@pytest.mark.parametrize("channels", [5, 80])
@pytest.mark.parametrize("prenorm", ["none", "l2"])
def test_the_brute_force_to_the_last_neighbour(
    channels: int, prenorm: str, make: SimpleNamespace, slow: SimpleNamespace
) -> None:
    items = make.ragged(0, 40, 8)
    items[33], items[12] = items[4], items[4]
    states = np.random.default_rng(1).standard_normal((40, channels))
    visual = slow.neighbours(slow.chamfer(slow.whitened(items, 1e-4, "none")), 7)
    unit = np.concatenate(slow.whitened([row[None] for row in states], 1e-4, prenorm))
    expected = slow.score(visual, slow.neighbours(unit @ unit.T, 7))
    found = score(
        feature_neighbours(make.features(items), k=7), state_neighbours(make.states(states), k=7, prenorm=prenorm)
    )
    assert found.score == pytest.approx(expected, abs=1e-9)
    assert found.chance == 7 / 39
    assert found.adjusted == pytest.approx((expected - 7 / 39) / (1 - 7 / 39), abs=1e-9)
    assert (found.n, found.k) == (40, 7)


def test_a_graph_against_itself_and_all_neighbours() -> None:
    graph = _graph(0, 20, 4)
    assert score(graph, graph).score == 1.0
    assert score(_graph(1, 6, 5), _graph(2, 6, 5)).score == 1.0  # k = n - 1
    assert score(_graph(1, 6, 5), _graph(2, 6, 5)).adjusted == 0.0


def test_items_are_joined_by_id_not_by_place() -> None:
    first, second = _graph(3, 30, 5), _graph(4, 30, 5)
    plain = score(first, second, null=20, seed=3, bootstrap=20)
    order = np.random.default_rng(5).permutation(30)
    place = np.argsort(order)
    shuffled = xr.Dataset(
        {"neighbours": (("item", "rank"), place[second["neighbours"].values[order]])},
        coords={"item": second["item"].values[order]},
    )
    assert score(first, shuffled, null=20, seed=3, bootstrap=20) == plain


def test_other_ids_are_refused_with_both_differences() -> None:
    first, second = _graph(6, 12, 3), _graph(7, 12, 3)
    second = second.assign_coords(item=np.array([f"i{i:03}" for i in range(3, 15)], dtype=object))
    with pytest.raises(InvalidDataError) as caught:
        score(first, second)
    text = str(caught.value)
    assert "3 of its 12 ids are not in textual graph: 'i000', 'i001', 'i002'" in text
    assert "3 of its 12 ids are not in visual graph: 'i012', 'i013', 'i014'" in text


def test_options() -> None:
    graph = _graph(8, 10, 2)
    with pytest.raises(UsageError, match="different k"):
        score(graph, _graph(8, 10, 3))
    for option in ("null", "bootstrap"):
        for value in (-1, 10**6 + 1, 10**23):
            with pytest.raises(UsageError, match=f"{option} is from 0 to 1000000"):
                score(graph, graph, **{option: value})
    with pytest.raises(UsageError, match="seed is 0 or more"):
        score(graph, graph, seed=-1)
    plain = score(graph, graph)
    assert (plain.null_mean, plain.null_sd, plain.null_p, plain.interval) == (None, None, None, None)


def test_a_long_null_reports_every_shuffle_and_a_short_one_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, lines = _graph(8, 10, 2), io.StringIO()
    quiet = score(graph, graph, null=30, progress=Plain(lines))
    assert lines.getvalue() == ""
    monkeypatch.setattr(ravel, "_WORTH_A_BAR", 30 * 10 * 2)
    assert score(graph, graph, null=30, progress=Plain(lines)) == quiet
    assert "permutation null: 30/30 shuffles" in lines.getvalue()


def test_null_and_interval_follow_the_seed() -> None:
    first, second = _graph(9, 40, 6), _graph(10, 40, 6)
    one, two = (score(first, second, null=50, seed=seed, bootstrap=50) for seed in (1, 2))
    assert one == score(first, second, null=50, seed=1, bootstrap=50)
    assert one.null_mean != two.null_mean
    assert one.null_mean == pytest.approx(one.chance, abs=0.02)
    assert one.interval is not None
    assert one.interval[0] <= one.score <= one.interval[1]
