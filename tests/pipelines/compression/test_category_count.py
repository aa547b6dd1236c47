"""Stage 3 against a loop over subsets."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from slow_compression import slow_search, slow_spearman

from optotype.pipelines.compression import category_count as module
from optotype.pipelines.compression.category_count import greedy, judged, search
from optotype.pipelines.kernels import subsets as kernel
from optotype.pipelines.kernels.spearman import spearman_rows
from optotype.pipelines.kernels.subsets import subset_blocks, subset_correlations, subset_rho
from optotype.schemas.errors import InvalidDataError, UsageError


def _scores(kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scores = rng.random((10, 6))
    if kind in ("tied", "constant"):
        scores = rng.integers(0, 4, (10, 6)) / 4
    if kind == "constant":
        scores[:, 1] = 0.5
    if kind == "gaps":
        scores[rng.random(scores.shape) < 0.25] = np.nan
    return scores


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["whole", "tied", "constant", "gaps"])
@pytest.mark.parametrize("normalise", ["none", "zscore"])
@pytest.mark.parametrize("k", [1, 3, 6])
def test_search_is_that_of_a_loop(kind: str, seed: int, normalise: str, k: int) -> None:
    scores = _scores(kind, seed)
    found = search(scores, k, normalise)  # type: ignore[arg-type]
    subset, rho, skipped = slow_search(scores.copy(), k, normalise)
    assert found.subset == subset
    assert found.subsets == math.comb(6, k)
    assert found.skipped == skipped
    if subset is not None:
        assert found.rho == pytest.approx(rho, abs=1e-12)
        assert found.reason is None
        if found.greedy_gap is not None:
            assert found.greedy_gap >= -1e-12
    else:
        assert found.rho is None
        assert found.reason


def test_ties_go_to_the_first_subset() -> None:
    column = np.random.default_rng(0).random((8, 1))
    found = search(np.repeat(column, 5, axis=1), 2)
    assert found.subset == (0, 1)
    assert found.rho == 1
    swapped = np.hstack([-column, column, column, column])
    assert search(swapped, 2).subset == (1, 2)


@pytest.mark.parametrize("cells", [1, 40, 10_000])
def test_blocks_and_threads_make_no_difference(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, reference = _scores("gaps", 3), np.random.default_rng(1).random(10)
    expected = subset_correlations(scores, 3, reference, least=4)
    monkeypatch.setattr(kernel, "_CELLS", cells)
    for threads in (1, 3):
        monkeypatch.setattr(kernel, "_THREADS", threads)
        found = subset_correlations(scores, 3, reference, least=4)
        np.testing.assert_array_equal(found.rho, expected.rho)
        assert (found.not_eligible, found.undefined) == (expected.not_eligible, expected.undefined)


def test_subsets_come_in_lexicographic_order_and_are_found_by_number() -> None:
    for total, k in ((5, 1), (6, 3), (7, 7), (9, 4)):
        everything = list(combinations(range(total), k))
        assert [tuple(row) for block in subset_blocks(total, k, 4) for row in block.tolist()] == everything
        assert [module._subset(total, k, number) for number in range(len(everything))] == everything


def test_greedy_adds_one_category_at_a_time() -> None:
    scores = _scores("whole", 2)
    bench = judged(scores)
    chosen: tuple[int, ...] = ()
    for _ in range(3):
        trials = {tuple(sorted((*chosen, c))): 0.0 for c in range(6) if c not in chosen}
        for subset in trials:
            trials[subset] = slow_spearman(scores[:, list(subset)].mean(axis=1), bench.reference)
        chosen = max(trials, key=lambda subset: trials[subset])
    assert greedy(bench, 3)[0] == chosen
    found = search(scores, 3, greedy_only=True)
    best = search(scores, 3)
    assert (found.subset, found.method) == (chosen, "greedy")
    assert best.rho is not None
    assert found.rho is not None
    assert found.greedy_gap == best.greedy_gap == pytest.approx(best.rho - found.rho, abs=1e-15)


def test_no_subset_has_a_reason() -> None:
    nan = np.nan
    found = search(_scores("whole", 0), 7)
    assert (found.subset, found.rho) == (None, None)
    assert "no subset of 7" in str(found.reason)
    half = np.array([[1, 2, nan, nan], [2, 1, nan, nan], [3, 3, nan, nan], [nan, nan, 1, 2], [nan, nan, 2, 4.0]])
    found = search(half, 3)
    assert found.subset is None
    assert found.skipped == 4
    assert "covered by fewer than 3" in str(found.reason)
    assert search(half, 3, greedy_only=True).subset is None
    assert search(np.ones((4, 3)), 2).undefined == 3


def test_too_many_subsets_are_searched_greedily_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SUBSETS", 19)
    with pytest.raises(UsageError, match="20 subsets; at most 19"):
        search(_scores("whole", 0), 3)
    found = search(_scores("whole", 0), 3, greedy_only=True)
    assert found.subset is not None
    assert found.greedy_gap is None


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(UsageError, match="k is 1 or more"):
        search(_scores("whole", 0), 0)
    with pytest.raises(InvalidDataError, match="2 of 2 models"):
        search(_scores("whole", 0)[:2], 2)
    with pytest.raises(UsageError, match="normalise"):
        search(_scores("whole", 0), 2, "rank")  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("decimals", "of_reference"), [(9, 9), (1, 9), (1, 1)])
@pytest.mark.parametrize("size", [1.0, 1e9])
def test_sorting_whole_numbers_gives_the_bits_of_ranking(
    missing: float, decimals: int, of_reference: int, size: float
) -> None:
    """Rows with ties, a reference with ties, and values too large to be sorted so are ranked instead."""
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(12, 9)), decimals) * size
    scores[rng.random(scores.shape) < missing] = np.nan
    reference = np.round(rng.normal(size=12), of_reference)
    subsets = np.concatenate(list(subset_blocks(9, 4, 50)))
    means = sum(scores[:, subsets[:, place]] for place in range(4)) / 4
    expected = spearman_rows(means.T, reference[None])
    covered = np.isfinite(means).sum(axis=0)
    expected[covered < 5] = np.nan
    rho, eligible = subset_rho(scores, subsets, reference, 5)
    np.testing.assert_array_equal(rho, expected)
    np.testing.assert_array_equal(eligible, covered >= 5)
