"""Mined pairs against a loop over all pairs, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from optotype.pipelines.kernels import pair_mining
from optotype.pipelines.pairs import mining, pooling, thresholds
from optotype.pipelines.pairs.mining import Mining, mine
from optotype.schemas.errors import InvalidDataError, UsageError

Items = list[np.ndarray]


def _pooled(item: np.ndarray) -> list[float]:
    columns = np.asarray(item, dtype=np.float64).T.tolist()
    mean = [math.fsum(column) / len(column) for column in columns]
    length = math.sqrt(math.fsum(value * value for value in mean))
    return [value / length for value in mean]


def _matrix(items: Items) -> np.ndarray:
    """Cosines of all pairs, by a loop; equal items have equal rows."""
    vectors = [_pooled(item) for item in items]
    return np.array([[round(math.fsum(map(math.prod, zip(a, b, strict=True))), 12) for b in vectors] for a in vectors])


def _slow(a: np.ndarray, b: np.ndarray, above: float, below: float) -> list[tuple[float, int, int, float, float]]:
    found = [
        (-round(a[i, j] - b[i, j], 12), i, j, a[i, j], b[i, j])
        for i in range(len(a))
        for j in range(i + 1, len(a))
        if a[i, j] > above and b[i, j] < below
    ]
    return sorted(found)


def _check(found: Mining, similar: Items, different: Items, above: float, below: float) -> None:
    a, b = _matrix(similar), _matrix(different)
    expected = _slow(a, b, above, below)
    assert found.first.tolist() == [row[1] for row in expected]
    assert found.second.tolist() == [row[2] for row in expected]
    np.testing.assert_allclose(found.similar, [row[3] for row in expected], rtol=0, atol=2e-12)
    np.testing.assert_allclose(found.different, [row[4] for row in expected], rtol=0, atol=2e-12)
    assert found.found == len(expected)
    assert found.pairs == len(similar) * (len(similar) - 1) // 2
    assert found.passed == int(np.count_nonzero(np.triu(a > above, 1)))
    assert found.printed_passed == int(np.count_nonzero(np.triu(a > 0.95, 1)))
    assert found.printed_found == len(_slow(a, b, 0.95, 0.6))


def _random(generator: np.random.Generator, n: int) -> Items:
    return [generator.normal(size=(size, 5)).astype(np.float32) for size in generator.integers(1, 6, n)]


def _clustered(generator: np.random.Generator, n: int) -> Items:
    centres = generator.normal(size=(8, 5))
    return [
        (centres[generator.integers(8)] + 0.1 * generator.normal(size=(size, 5))).astype(np.float16)
        for size in generator.integers(1, 6, n)
    ]


def _copies(generator: np.random.Generator, n: int) -> Items:
    originals = _random(generator, 6)
    return [originals[place].copy() for place in generator.integers(0, 6, n)]


KINDS = {"random": _random, "clustered": _clustered, "copies": _copies}


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven images a tile, so that a few dozen make many tiles, ragged at the end."""
    monkeypatch.setattr(mining, "TILE", 7)
    monkeypatch.setattr(pair_mining, "_STRIP", 3)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize(("above", "below"), [(0.95, 0.6), (0.3, 0.2), (-1.0, 1.0), (0.8, -0.2), (1.0, 1.0)])
def test_mining_is_the_loop(kind: str, other: str, above: float, below: float, make: SimpleNamespace) -> None:
    generator = np.random.default_rng(5)
    similar, different = KINDS[kind](generator, 30), KINDS[other](generator, 30)
    found = mine(make.features(similar), make.features(different), above=above, below=below, workers=3)
    _check(found, similar, different, above, below)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_file_and_threads_change_nothing(
    workers: int, make: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(6)
    similar, different = make.features(_copies(generator, 40)), make.features(_clustered(generator, 40))
    options = {"above": 0.0, "below_quantile": 0.5, "per_image": 4}
    here = mine(similar, different, workers=1, **options)
    monkeypatch.setattr(pooling, "_IN_MEMORY", 0)
    there = mine(similar, different, workers=workers, scratch=tmp_path, **options)
    assert here.table().equals(there.table())
    assert len(here.first) > 20
    assert (here.passed, here.found, here.above, here.below) == (there.passed, there.found, there.above, there.below)
    assert not list(tmp_path.iterdir()), "the file has no name"


def test_both_thresholds_are_strict(make: SimpleNamespace) -> None:
    """(1, 0) and (3, 4) have the cosine 0.6, which is neither above nor below 0.6."""
    items = [np.array([[1.0, 0.0]]), np.array([[3.0, 4.0]])]
    far = [np.array([[1.0, 0.0]]), np.array([[-3.0, 4.0]])]
    same, other = make.features(items), make.features(far)
    assert mine(same, other, above=0.6, below=0.0).found == 0
    assert mine(same, other, above=0.6, below=0.0).passed == 0
    assert mine(same, other, above=0.6 - 1e-9, below=0.0).found == 1
    assert mine(same, other, above=0.5, below=-0.6).found == 0
    assert mine(same, other, above=0.5, below=-0.6).passed == 1
    assert mine(same, other, above=0.5, below=-0.6 + 1e-9).found == 1


def test_copies_have_cosine_one_and_are_not_above_it(make: SimpleNamespace) -> None:
    generator = np.random.default_rng(2)
    item = generator.normal(size=(3, 17)).astype(np.float32)
    different = make.features([np.array([[math.cos(k), math.sin(k)]]) for k in range(12)])
    copies = make.features([item] * 12)
    assert mine(copies, different, above=1.0, below=1.0).passed == 0
    found = mine(copies, different, above=1.0 - 1e-11, below=1.0)
    assert found.passed == 66
    assert set(found.similar.tolist()) == {1.0}
    assert mine(different, copies, above=-1.0, below=1.0).found == 0


def test_scale_of_the_tokens_does_not_matter(make: SimpleNamespace) -> None:
    generator = np.random.default_rng(9)
    similar, different = _random(generator, 20), _random(generator, 20)
    plain = mine(make.features(similar), make.features(different), above=0.2, below=0.2)
    for power in (-500, 500):
        scaled = [item.astype(np.float64) * 2.0**power for item in similar]
        assert mine(make.features(scaled), make.features(different), above=0.2, below=0.2).table().equals(plain.table())


def test_ids_are_in_order_and_ties_go_by_them(make: SimpleNamespace) -> None:
    similar = [np.array([[1.0, 0.0]])] * 4
    different = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])] * 2
    ids = ["Z", "a", "ab", "é"]
    table = mine(make.features(similar, ids=ids), make.features(different, ids=ids)).table()
    assert list(table.columns) == ["image_a", "image_b", "sim_similar", "sim_different"]
    assert table[["image_a", "image_b"]].to_numpy().tolist() == [["Z", "a"], ["Z", "é"], ["a", "ab"], ["ab", "é"]]


@pytest.mark.parametrize("most", [1, 2, 7])
def test_the_cap_keeps_the_best_pairs(most: int, make: SimpleNamespace) -> None:
    generator = np.random.default_rng(4)
    similar, different = make.features(_random(generator, 25)), make.features(_random(generator, 25))
    everything = mine(similar, different, above=0.0, below=0.3)
    capped = mine(similar, different, above=0.0, below=0.3, per_image=most)
    assert capped.found == everything.found == len(everything.first)
    seen: list[int] = []
    kept = []
    for a, b in zip(everything.first.tolist(), everything.second.tolist(), strict=True):
        if seen.count(a) < most and seen.count(b) < most:
            seen += [a, b]
            kept.append((a, b))
    assert list(zip(capped.first.tolist(), capped.second.tolist(), strict=True)) == kept
    assert len(kept) < everything.found


def test_quantiles_are_of_all_pairs_and_what_is_printed_gives_them_again(make: SimpleNamespace) -> None:
    generator = np.random.default_rng(8)
    items, others = _random(generator, 30), _clustered(generator, 30)
    similar, different = make.features(items), make.features(others)
    found = mine(similar, different, above_quantile=0.9, below_quantile=0.25)
    upper = np.triu_indices(30, 1)
    a, b = _matrix(items)[upper], _matrix(others)[upper]
    assert found.above.cosine == pytest.approx(np.quantile(a, 0.9), abs=1.1e-6)
    assert found.above.cosine >= np.quantile(a, 0.9)
    assert found.below.cosine == pytest.approx(np.quantile(b, 0.25), abs=1.1e-6)
    assert found.below.cosine <= np.quantile(b, 0.25)
    assert found.above.beyond == found.passed == int((a > found.above.cosine).sum())
    assert found.below.beyond == int((b < found.below.cosine).sum())
    assert found.above.images == 30
    assert not found.warnings
    again = mine(similar, different, above=float(f"{found.above.cosine:g}"), below=float(f"{found.below.cosine:g}"))
    assert again.table().equals(found.table())


def test_a_quantile_of_copies_is_never_passed_by_them(make: SimpleNamespace) -> None:
    items = [np.array([[1.0, 2.0, 3.0]])] * 8 + [np.array([[-1.0, 0.0, 3.0]])]
    array = make.features(items)
    assert mine(array, array, above_quantile=0.5, below=1.0).above.cosine == 1.0
    assert mine(array, array, above_quantile=0.5, below=1.0).passed == 0
    assert mine(array, array, above=0.0, below_quantile=0.9).found == 8


def test_many_images_give_quantiles_by_a_seeded_sample(make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "SAMPLE", 20)
    generator = np.random.default_rng(1)
    items = _random(generator, 60)
    array = make.features(items)
    found = {seed: mine(array, array, above_quantile=0.8, below=1.0, seed=seed) for seed in (0, 1, 0)}
    assert found[0].above.cosine != found[1].above.cosine
    chosen = np.sort(np.random.default_rng(1).choice(60, 20, replace=False))
    values = _matrix([items[place] for place in chosen])[np.triu_indices(20, 1)]
    assert found[1].above.images == 20
    assert found[1].above.cosine == pytest.approx(np.quantile(values, 0.8), abs=1.1e-6)
    assert found[1].above.beyond == 38
    assert "only 38 pairs of the 20 sampled images" in found[1].warnings[0]


def test_common_images_alone(make: SimpleNamespace) -> None:
    generator = np.random.default_rng(3)
    similar, different = _random(generator, 30), _random(generator, 30)
    ids = [f"i{place:02}" for place in range(30)]
    one = make.features(similar[:25], ids=ids[:25])
    two = make.features(different[5:], ids=ids[5:])
    with pytest.raises(InvalidDataError, match="not over the same images") as caught:
        mine(one, two)
    assert len(caught.value.problems) == 2
    found = mine(one, two, above=0.1, below=0.3, common=True)
    _check(found, similar[5:25], different[5:25], 0.1, 0.3)
    assert found.ids == tuple(ids[5:25])
    with pytest.raises(UsageError, match="1 in common"):
        mine(make.features(similar[:6], ids=ids[:6]), two, common=True)


def _with(place: int, value: float) -> Callable[[Items], Items]:
    def change(items: Items) -> Items:
        items[place] = np.full_like(items[place], value)
        return items

    return change


@pytest.mark.parametrize(
    ("change", "kind"),
    [(_with(3, np.nan), "not-finite"), (_with(3, np.inf), "not-finite"), (_with(3, 0.0), "no-direction")],
)
def test_images_without_a_cosine_are_named(change: Callable[[Items], Items], kind: str, make: SimpleNamespace) -> None:
    items = change(_random(np.random.default_rng(0), 12))
    good = make.features(_random(np.random.default_rng(1), 12))
    with pytest.raises(InvalidDataError) as caught:
        mine(make.features(items), good)
    (problem,) = caught.value.problems
    assert problem.kind == kind
    assert "i0003" in problem.message
    opposite = [np.array([[1.0, -2.0], [-1.0, 2.0]])] * 7
    with pytest.raises(InvalidDataError, match=r"7 images have a mean of zero.* and 2 more"):
        mine(make.features(opposite), make.features(_random(np.random.default_rng(1), 7)))


def test_what_is_out_of_range_is_refused(make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    array = make.features(_random(np.random.default_rng(0), 12))
    for wrong in (
        {"above": 1.5},
        {"below": -1.1},
        {"above": float("nan")},
        {"above_quantile": 0.0},
        {"below_quantile": 1.0},
        {"above": 0.9, "above_quantile": 0.9},
        {"per_image": 0},
        {"seed": -1},
    ):
        with pytest.raises(UsageError):
            mine(array, array, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="sorted"):
        mine(array.isel(image=slice(None, None, -1)), array)
    with pytest.raises(InvalidDataError, match="not patch features"):
        mine(array.isel(token=slice(1, None)), array)
    with pytest.raises(UsageError, match="interleaved"):
        mine(array.drop_vars("patches"), array)
    with pytest.raises(UsageError, match="two images or more"):
        mine(*[make.features([np.ones((1, 2))])] * 2)
    monkeypatch.setattr(mining, "MOST_PAIRS", 5)
    with pytest.raises(UsageError, match="more than 5 pairs"):
        mine(array, array, above=-1.0, below=1.0)
