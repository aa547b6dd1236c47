"""Vision-Aware Variance and its ablations against a choice made item by item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import blake2b, sha256

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from optotype.pipelines.kernels.cells import cells
from optotype.pipelines.selectors.conformance import random_pool
from optotype.pipelines.selectors.pool import Pool
from optotype.pipelines.selectors.selector import Selection, get_selector
from optotype.pipelines.selectors.spaces import drawn


def _seed(*parts: str) -> int:
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:16], "little")


def _key(seed: int, benchmark: str, item: str) -> int:
    text = f"{seed}\0ties\0{benchmark}\0{item}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _score(pool: Pool, item: int) -> float:
    values = [float(x) for x in pool.scores[:, item] if not np.isnan(x)]
    if not values:
        return float("-inf")
    mean = sum(values) / len(values)
    variance = sum((x - mean) ** 2 for x in values) / len(values)
    delta = 0.0
    if pool.text is not None and pool.vision_text is not None:
        a, b = (np.asarray(rows[[item]], dtype=np.float64)[0] for rows in (pool.text, pool.vision_text))
        if np.isfinite(a).all() and np.isfinite(b).all():
            delta = 1 - float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b))
    return round(variance + pool.alpha / len(values) ** 0.5 * delta, 12)


def _order(pool: Pool, items: Sequence[int], seed: int) -> list[int]:
    return sorted(items, key=lambda i: (-_score(pool, i), _key(seed, pool.benchmark[i], pool.item[i])))


def _shares(sizes: list[int], total: int) -> list[int]:
    parts = [int(Fraction(total * size, sum(sizes))) for size in sizes]
    left = [Fraction(total * size, sum(sizes)) - part for size, part in zip(sizes, parts, strict=True)]
    for place in sorted(range(len(sizes)), key=lambda i: (-left[i], i))[: total - sum(parts)]:
        parts[place] += 1
    return parts


def _slow(pool: Pool, budget: int, seed: int, label: Callable[[str, list[int], int], list[int]]) -> list[int]:
    names = list(dict.fromkeys(pool.benchmark))
    members = {name: [i for i in range(pool.n) if pool.benchmark[i] == name] for name in names}
    kept: list[int] = []
    for name, share in zip(names, _shares([len(members[name]) for name in names], budget), strict=True):
        if share == 0:
            continue
        cell = dict(zip(members[name], label(name, members[name], share), strict=True))
        order = _order(pool, members[name], seed)
        scored = [i for i in order if pool.valid[i]]  # a cell without a score has no best item
        chosen = [next(i for i in scored if cell[i] == k) for k in sorted({cell[i] for i in scored} - {-1})]
        chosen += [i for i in order if i not in chosen][: share - len(chosen)]
        kept += chosen
    return sorted(kept)


def _embedded(rows: object, seed: int) -> Callable[[str, list[int], int], list[int]]:
    def label(name: str, members: list[int], share: int) -> list[int]:
        points = np.asarray(rows, dtype=np.float64)[members]
        return cells(points, share, seed=_seed(str(seed), "cells", name)).tolist()

    return label


def _none(_: str, members: list[int], __: int) -> list[int]:
    return [-1] * len(members)


def _parted(seed: int) -> Callable[[str, list[int], int], list[int]]:
    def label(name: str, members: list[int], share: int) -> list[int]:
        generator = np.random.default_rng(_seed(str(seed), "partition", name))
        return (generator.permutation(len(members)) % share).tolist()

    return label


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("budget", [4, 11, 30, 60])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_against_a_choice_made_item_by_item(seed: int, budget: int, missing: float) -> None:
    pool = random_pool(seed, missing=missing)
    labels = {
        "vaw": _embedded(pool.vision_text, seed),
        "text-cells": _embedded(pool.text, seed),
        "shares-only": _none,
        "random-partition": _parted(seed),
    }
    for name, label in labels.items():
        found = get_selector(name).select(pool, budget, seed=seed)
        assert found.index.tolist() == _slow(pool, budget, seed, label), name
        assert found.details["seed"] == seed
        np.testing.assert_array_equal(np.isnan(found.score), pool.valid == 0)
        expected = [_score(pool, i) for i in range(pool.n) if pool.valid[i]]
        np.testing.assert_allclose(found.score[pool.valid > 0], expected, rtol=0, atol=1e-12)
        assert sum(row["share"] for row in found.details["benchmarks"]) == budget


def test_cells_of_the_kept_items() -> None:
    pool = random_pool(0)
    found = get_selector("vaw").select(pool, 20, seed=0)
    for row in found.details["benchmarks"]:
        members = np.flatnonzero(pool.benchmark == row["benchmark"])
        label = np.array(_embedded(pool.vision_text, 0)(row["benchmark"], members.tolist(), row["share"]))
        here = found.cell[np.isin(found.index, members)]
        assert here.tolist() == label[np.isin(members, found.index)].tolist()
        assert (row["cells"], row["in_no_cell"]) == (label.max() + 1, (label < 0).sum())
        assert row["from_cells"] + row["by_score"] == row["share"]
        assert len(set(here[here >= 0].tolist())) == row["from_cells"]


def _select(pool: Pool, seed: int = 0) -> Selection:
    return get_selector("vaw").select(pool, 20, seed=seed)


def test_without_vision_text_the_cells_are_on_the_text_and_delta_is_zero() -> None:
    pool = replace(random_pool(3), vision_text=None, kept={})
    found = _select(pool)
    assert found.index.tolist() == _slow(pool, 20, 0, _embedded(pool.text, 0))
    np.testing.assert_array_equal(found.score, pool.variance)
    assert found.notes == ("only text embeddings: cells are drawn on them and δ = 0",)
    assert {row["space"] for row in found.details["benchmarks"]} == {"text"}


def test_without_embeddings_the_shares_are_filled_by_score() -> None:
    pool = replace(random_pool(3), text=None, vision_text=None, kept={})
    found = _select(pool)
    assert found.index.tolist() == _slow(pool, 20, 0, _none)
    assert set(found.cell.tolist()) == {-1}
    assert found.notes == ("no embeddings: shares are filled by score alone and δ = 0",)


def test_vision_text_alone_draws_cells_without_delta() -> None:
    pool = replace(random_pool(3), text=None, kept={})
    found = _select(pool)
    assert found.index.tolist() == _slow(pool, 20, 0, _embedded(pool.vision_text, 0))
    assert found.notes[-1] == "no text-only embeddings: δ = 0"


def test_each_benchmark_takes_what_it_has() -> None:
    pool = random_pool(3)
    rows = np.array(pool.vision_text)
    rows[pool.benchmark == "benchmark-1"] = np.nan
    pool = replace(pool, vision_text=rows, kept={})
    found = _select(pool)
    assert [row["space"] for row in found.details["benchmarks"]] == ["vision_text", "text"]
    assert found.notes == (
        "benchmark-1: only text embeddings: cells are drawn on them and δ = 0",
        "1 of 60 items have no embedding: they enter no cell and δ = 0 for them",
    )
    assert (pool.delta[pool.benchmark == "benchmark-1"] == 0).all()
    assert (pool.delta[:5] > 0).all()


def test_an_item_that_no_model_has_comes_last() -> None:
    pool = random_pool(0)
    assert pool.valid[2] == 0
    for name in ("vaw", "shares-only", "variance"):
        without = replace(pool, text=None, vision_text=None, kept={})
        assert 2 not in get_selector(name).select(without, pool.n - 1, seed=0).index, name


def test_alpha_tilts_towards_items_that_need_the_image() -> None:
    pool = random_pool(5)
    plain, tilted = (replace(pool, alpha=alpha, kept={}) for alpha in (0.0, 50.0))
    np.testing.assert_array_equal(plain.vaw, plain.variance)
    selector = get_selector("shares-only")
    assert selector.select(tilted, 8, seed=0).index.tolist() != selector.select(plain, 8, seed=0).index.tolist()
    chosen = selector.select(tilted, 8, seed=0).index
    first = pool.benchmark == "benchmark-0"
    kept = [i for i in chosen if first[i]]
    tilt = np.where(pool.valid > 0, pool.delta, -1)
    assert set(kept) == set(np.flatnonzero(first)[np.argsort(-tilt[first])][: len(kept)])


def test_items_of_fewer_models_are_tilted_more() -> None:
    scores = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, np.nan], [1.0, np.nan]])
    text = np.array([[1.0, 0.0]] * 2)
    pool = Pool.of(scores, benchmark=["b"] * 2, text=text, vision_text=text[:, ::-1])
    assert pool.variance.tolist() == [0.25, 0.25]
    assert get_selector("vaw").select(pool, 1, seed=0).index.tolist() == [1]


def test_ties_are_in_a_seeded_order_that_other_items_do_not_change() -> None:
    pool = Pool.of(np.ones((3, 300)), benchmark=["b"] * 300)
    chosen = {seed: set(_select(pool, seed).index.tolist()) for seed in range(6)}
    assert len({frozenset(items) for items in chosen.values()}) == 6
    assert min(len(set(range(start, start + 100)) & set.union(*chosen.values())) for start in (0, 100, 200)) > 15
    # Keys belong to items: with item 7 away, the others keep their order.
    rest = np.delete(np.arange(300), 7)
    fewer = Pool.of(np.ones((3, 299)), benchmark=["b"] * 299, item=rest.astype(str))
    assert {int(rest[i]) for i in _select(fewer).index} >= chosen[0] - {7}


def test_rounding_noise_breaks_no_tie() -> None:
    generator = np.random.default_rng(0)
    noise = Pool.of(
        np.zeros((2, 100)),
        benchmark=["b"] * 100,
        valid=np.full(100, 2),
        variance=0.25 + generator.uniform(-1e-14, 1e-14, size=100),
    )
    exact = replace(noise, variance=np.full(100, 0.25))
    for name in ("vaw", "variance"):
        selector = get_selector(name)
        assert selector.select(noise, 9, seed=0).index.tolist() == selector.select(exact, 9, seed=0).index.tolist()


def test_threads_do_not_matter() -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(2, 1500, 96)).astype(np.float32)

    def chosen(threads: int) -> Selection:
        scores = np.random.default_rng(2).random((5, 1500))
        pool = Pool.of(scores, benchmark=["a"] * 900 + ["b"] * 600, text=rows[0], vision_text=rows[1])
        with threadpool_limits(limits=threads):
            return get_selector("vaw").select(pool, 75, seed=0)

    one, four = chosen(1), chosen(4)
    assert one.index.tobytes() == four.index.tobytes()
    assert one.cell.tobytes() == four.cell.tobytes()


def test_cells_are_drawn_once_for_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    from optotype.pipelines.selectors import spaces

    calls: list[int] = []

    def counted(points: np.ndarray, k: int, *, seed: int) -> np.ndarray:
        calls.append(k)
        return cells(points, k, seed=seed)

    monkeypatch.setattr(spaces, "cells", counted)
    pool = random_pool(0)
    for models in ([0, 1, 2], [3, 4, 5, 6]):
        _select(pool.take(models))
    assert len(calls) == 2  # two benchmarks have a share
    _select(pool, seed=1)
    assert len(calls) == 4


def test_the_pool_may_fix_the_cells_for_all_seeds() -> None:
    free = random_pool(3)
    fixed = replace(free, cell_seed=7, kept={})
    members = np.flatnonzero(free.benchmark == "benchmark-0")

    def groups(pool: Pool, seed: int) -> list[int]:
        return drawn(pool, "vision_text", "benchmark-0", members, 12, seed).tolist()

    assert groups(free, 8) != groups(free, 7)
    for seed in (7, 8, 9):
        assert groups(fixed, seed) == groups(free, 7)
