"""What cross-modal metrics refuse, what they say of poor data, and that blocks of any size change nothing."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.kernels import cosine_neighbours, independence, similarity_pairs
from optotype.pipelines.metrics import cycle_knn, rsa
from optotype.pipelines.metrics.catalogue import get_metric
from optotype.pipelines.metrics.metric import Inputs, Score, checked_options
from optotype.schemas.errors import InvalidDataError, UsageError

NAMES = ("rsa", "cca", "mutual-nn", "mutual-nn-ties", "gw", "cka", "cka-unbiased", "cknna", "svcca", "cycle-knn")
COSINE = tuple(name for name in NAMES if name != "cca")
OF_K = ("mutual-nn", "mutual-nn-ties", "cknna", "cycle-knn")


def _score(name: str, visual: np.ndarray, textual: np.ndarray | None, seed: int = 0, **options: Any) -> Score:
    ids = np.array([f"i{number:04}" for number in range(len(visual))], dtype=object)
    metric = get_metric(name)
    inputs = Inputs("encoder", "model", ids, visual, textual, None)  # type: ignore[arg-type]
    return metric.score(inputs, checked_options(metric, options), seed=seed)  # type: ignore[union-attr]


def _pair(seed: int = 0, n: int = 60, strength: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    common = generator.standard_normal((n, 4))
    visual, textual = (
        strength * common @ generator.standard_normal((4, width)) + generator.standard_normal((n, width))
        for width in (8, 6)
    )
    return visual, textual


@pytest.mark.parametrize("name", NAMES)
def test_what_a_metric_says_of_itself(name: str) -> None:
    metric = get_metric(name)
    assert (metric.name, metric.kind, metric.needs) == (name, "cross-modal", {"states"})
    assert metric.source
    assert "FLOPs:" in str(type(metric).__doc__)
    found = _score(name, *_pair())
    assert np.isfinite(found.value)
    assert json.loads(json.dumps(found.details)) == found.details


@pytest.mark.parametrize("name", NAMES)
def test_states_are_needed(name: str) -> None:
    with pytest.raises(UsageError, match=f"metric {name}: .*needs states") as caught:
        _score(name, _pair()[0], None)
    assert "--states" in str(caught.value.hint)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_items_are_refused(name: str, rows: int) -> None:
    with pytest.raises(UsageError, match=r"items or more, got"):
        _score(name, np.ones((rows, 3)), np.ones((rows, 2)))


@pytest.mark.parametrize("name", NAMES)
def test_values_that_are_not_finite_are_named_on_both_sides(name: str) -> None:
    visual, textual = _pair()
    visual[3, 0], textual[[5, 7], 1] = np.nan, np.inf
    with pytest.raises(InvalidDataError) as caught:
        _score(name, visual, textual)
    assert [(problem.where, problem.kind) for problem in caught.value.problems] == [
        ("pooled features of encoder", "not-finite"),
        ("states of model", "not-finite"),
    ]
    assert "i0003" in caught.value.problems[0].message
    assert "i0005, i0007" in caught.value.problems[1].message


@pytest.mark.parametrize("name", COSINE)
def test_rows_of_zero_have_no_cosine(name: str) -> None:
    visual, textual = _pair()
    textual[:7] = 0
    with pytest.raises(InvalidDataError, match=r"7 rows are zero.*i0000, i0001, i0002, i0003, i0004 and 2 more"):
        _score(name, visual, textual)


@pytest.mark.parametrize("name", OF_K)
def test_k_is_below_the_number_of_items(name: str) -> None:
    visual, textual = _pair(n=8)
    with pytest.raises(UsageError, match=r"k is from 1 to 7 .*got 8") as caught:
        _score(name, visual, textual, k=8)
    assert f"--set {name}.k=7" in str(caught.value.hint)
    every = _score(name, visual, textual, k=7)
    if name in ("mutual-nn", "mutual-nn-ties", "cycle-knn"):
        assert (every.value, every.chance) == (1.0, 1.0)


SAME = {
    "rsa": "all pairs of items are equally similar on the textual side",
    "cca": "are equal",
    "gw": "half of the pairs of items or more are equal on the textual side",
    "cka": "all items are equal on the textual side",
    "cka-unbiased": "equally similar on the textual side",
    "svcca": "every channel is constant",
}


@pytest.mark.parametrize("name", SAME)
def test_a_side_without_differences_is_refused(name: str) -> None:
    visual, _ = _pair()
    with pytest.raises((UsageError, InvalidDataError)) as caught:
        _score(name, visual, np.full((60, 3), 0.1))
    assert SAME[name] in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("mutual-nn-ties", None), ("mutual-nn", None), ("cycle-knn", None)])
def test_a_side_without_differences_is_all_ties(name: str, value: None) -> None:
    visual, _ = _pair()
    found = _score(name, visual, np.full((60, 3), 0.1))
    if name == "mutual-nn-ties":
        assert found.value == pytest.approx(found.chance, abs=1e-12)
    else:
        assert 0 <= found.value <= 1


@pytest.mark.parametrize("name", ["rsa", "cka-unbiased"])
def test_items_all_as_far_from_each_other_are_refused(name: str) -> None:
    # What whitening of no more items than channels leaves.
    simplex = np.eye(40) - 1 / 40
    turned = simplex @ np.linalg.qr(np.random.default_rng(0).standard_normal((40, 40)))[0]
    with pytest.raises(UsageError, match="equally similar on the visual side") as caught:
        _score(name, turned, _pair(n=40)[1])
    assert "--post-features" in str(caught.value.hint)


def test_aligned_rows_score_above_shuffled_ones_and_noise_lies_between() -> None:
    generator = np.random.default_rng(1)
    for name in NAMES:
        options = {"k": 5} if name in OF_K else {"components": 4} if name == "cca" else {}
        clear, dim = _pair(2, 150, 4.0), _pair(2, 150, 0.8)
        order = generator.permutation(150)
        scores = [_score(name, *pair, **options).value for pair in (clear, dim, (clear[0], clear[1][order]))]
        if name == "gw":  # does not see which image belongs to which text
            assert scores[0] == pytest.approx(scores[2], abs=1e-9)
            assert _score(name, clear[0], clear[0]).value > scores[0]
        else:
            assert scores[0] > scores[1] > scores[2]


@pytest.mark.parametrize("name", [name for name in COSINE if name not in ("gw", "svcca")])
@pytest.mark.parametrize("copies", [False, True])
def test_blocks_of_any_size_give_the_same(name: str, copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    visual, textual = _pair(3, 47)
    if copies:
        visual[10:20], textual[25:40] = visual[0], textual[1]
    options = [{"correlation": "spearman"}, {}] if name == "rsa" else [{}]
    whole = [_score(name, visual, textual, **option) for option in options]
    for size in (1, 5, 46):
        monkeypatch.setattr(similarity_pairs, "_TILE", size)
        monkeypatch.setattr(cosine_neighbours, "_BLOCK_BYTES", 8 * 47 * size)
        monkeypatch.setattr(independence, "_BLOCK", size)
        monkeypatch.setattr(cycle_knn, "_ROWS", size)
        for option, expected in zip(options, whole, strict=True):
            found = _score(name, visual, textual, **option)
            assert found.value == pytest.approx(expected.value, abs=1e-12)
            if expected.per_item is not None and name != "mutual-nn-ties":
                np.testing.assert_array_equal(found.per_item, expected.per_item)


def test_spearman_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rsa, "MOST_RANKED", 59)
    with pytest.raises(UsageError, match="59 items at most; got 60") as caught:
        _score("rsa", *_pair(), correlation="spearman")
    assert "--images 59" in str(caught.value.hint)
    assert _score("rsa", *_pair(), correlation="pearson").value > 0


def test_gw_of_more_items_takes_a_stated_part() -> None:
    visual, textual = _pair(4, 50)
    some = [_score("gw", visual, textual, seed=seed, items=20) for seed in (0, 0, 1)]
    assert some[0].value == some[1].value != some[2].value
    assert some[0].details["items"] == 20
    assert any("20 of 50 items (seed 0)" in text for text in some[0].warnings)
    whole = _score("gw", visual, textual, items=50)
    assert whole.details["items"] == 50
    assert not any("items" in text for text in whole.warnings)


def test_gw_says_when_it_is_stuck_or_stopped() -> None:
    visual, _ = _pair(5, 40)
    turned = visual @ np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0]
    found = _score("gw", visual, turned)
    assert found.details["discrepancy_of_pairing"] == pytest.approx(0, abs=1e-20)
    assert (found.value < -1e-9) == any("local optimum" in text for text in found.warnings)
    stopped = _score("gw", *_pair(5, 40), iterations=1)
    assert any("stopped after 1 iterations" in text for text in stopped.warnings)
    assert stopped.value <= _score("gw", *_pair(5, 40)).value


def test_gw_of_two_equal_clouds_of_three_is_zero_and_of_unequal_ones_by_hand() -> None:
    found = _score("gw", np.eye(3), 7 * np.eye(3))
    assert found.value == 0
    assert not str(found.value).startswith("-")
    # Distances (1/2, 1/2, 1/2) against angles 60, 60, 120, so (1/3, 1/3, 2/3), whose median is 1/3. Scaled, the
    # visual distances are all 1/3: any pairing is off by 1/3 for two of the nine ordered pairs.
    textual = np.array([[np.cos(a), np.sin(a)] for a in np.radians([0.0, 60.0, 120.0])])
    assert _score("gw", np.eye(3), textual).details["discrepancy_of_pairing"] == pytest.approx(2 / 9 / 9)


def test_gw_loads_no_other_array_library() -> None:
    before = dict(os.environ)
    torch = "torch" in sys.modules
    _score("gw", *_pair(n=10))
    assert ("torch" in sys.modules) == torch
    assert dict(os.environ) == before


def test_cca_reads_its_ridge_off_the_validation_part() -> None:
    visual, textual = _pair(6, 60)
    chosen = _score("cca", visual, textual)
    fixed = _score("cca", visual, textual, ridge=chosen.details["ridge"])
    assert (fixed.value, fixed.details["validation"]) == (chosen.value, chosen.details["validation"])
    for ridge in (1e-4, 1e-2, 1.0, 10.0):
        assert _score("cca", visual, textual, ridge=ridge).details["validation"] <= chosen.details["validation"] + 1e-12
    assert chosen.details["items"] == [36, 12, 12]
    assert chosen.warnings == ("cca: 6 components, not 10: a side has no more directions",)


def test_cca_counts_a_component_that_is_constant_where_it_is_read_as_zero() -> None:
    visual, textual = _pair(7, 40)
    visual[:, 2:] = 0
    from optotype.pipelines.metrics.cca import split

    test = split(np.array([f"i{number:04}" for number in range(40)], dtype=object), 0)[2]
    visual[test] = [1.0, 2.0, *[0.0] * 6]
    found = _score("cca", visual, textual, ridge=0.1)
    assert found.value == 0
    assert found.details["correlations"] == [0.0, 0.0]


def test_splits_hang_on_seed_and_ids_alone() -> None:
    from optotype.pipelines.metrics.cca import split

    ids = np.array([f"i{number:04}" for number in range(50)], dtype=object)
    order = np.random.default_rng(0).permutation(50)
    for first, again in zip(split(ids, 1), split(ids[order], 1), strict=True):
        assert ids[first].tolist() == ids[order][again].tolist()
    assert split(ids, 1)[2].tolist() != split(ids, 2)[2].tolist()


def test_cknna_without_an_alignment_of_a_side_with_itself_is_refused() -> None:
    textual = _pair(8, 23)[1]
    # All pairs alike and all of them neighbours, at a right angle or in one line: nothing is left but rounding.
    for visual, k in ((np.eye(23), 22), (np.arange(1.0, 9.0)[:, None] * [0.3, 0.1], 7)):
        with pytest.raises(UsageError, match=r"the visual side's alignment with itself is .*, not above 0") as caught:
            _score("cknna", visual, textual[: len(visual)], k=k)
        assert f"--set cknna.k={max(2, (len(visual) - 1) // 2)}" in str(caught.value.hint)
