"""Splits: balanced within equal coverage, seeded, chronological."""

from __future__ import annotations

import numpy as np
import pytest

from optotype.pipelines.evaluation.splits import chronological_split, coverage_groups, family_splits, random_splits
from optotype.schemas.errors import InvalidDataError, UsageError

# 5 models of A and B, 4 of A alone, 1 of B alone, 1 of nothing; in mixed order
_COVERED = np.array(
    [[1, 1], [1, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1], [1, 0], [1, 1], [1, 0]], dtype=bool
)


def test_groups_are_models_of_equal_coverage() -> None:
    assert [group.tolist() for group in coverage_groups(_COVERED)] == [[0, 2, 5, 7, 9], [1, 4, 8, 10], [3]]


def test_random_splits_are_balanced_within_groups_and_hold_the_odd_one_out() -> None:
    splits = random_splits(_COVERED, 50, seed=3)
    groups = [set(group.tolist()) for group in coverage_groups(_COVERED)]
    for split in splits:
        assert [len(group & set(split.build)) for group in groups] == [2, 2, 0]
        assert sorted((*split.build, *split.held_out)) == sorted(set().union(*groups))
        assert list(split.build) == sorted(split.build)
        assert list(split.held_out) == sorted(split.held_out)
    assert [split.name for split in splits[:2]] == ["00", "01"]
    assert len({split.build for split in splits}) > 20
    # every model of a group of several builds at some time
    assert set().union(*(split.build for split in splits)) == groups[0] | groups[1]


def test_random_splits_hang_on_the_seed_and_not_on_their_number() -> None:
    assert random_splits(_COVERED, 3, seed=1) == random_splits(_COVERED, 8, seed=1)[:3]
    assert random_splits(_COVERED, 3, seed=1) != random_splits(_COVERED, 3, seed=2)
    assert len({split.seed for split in random_splits(_COVERED, 20, seed=0)}) == 20


def test_models_that_cannot_be_split_are_an_error() -> None:
    with pytest.raises(InvalidDataError, match="equal coverage, of sizes 1, 1"):
        random_splits(np.eye(2, dtype=bool), 2, seed=0)
    with pytest.raises(UsageError, match="1 split or more"):
        random_splits(_COVERED, 0, seed=0)


def test_oldest_half_of_each_group_builds_and_undated_models_never_do() -> None:
    dates = ["2024-05", "2023", "2024", "2020", "2023-01", "", "2019", "2024-05", "", "2025", "2022-12-31"]
    split = chronological_split(_COVERED, dates, seed=0)
    # A and B: 2 (2024) < 0 (2024-05, before 7 by name) < 7 < 9 < 5 (undated); A alone: 10 < 1 (2023) < 4 < 8
    assert split.build == (0, 1, 2, 10)
    assert split.held_out == (3, 4, 5, 7, 8, 9)
    mostly = ["2024" if m == 2 else "" for m in range(len(dates))]
    assert chronological_split(_COVERED, mostly, seed=0).build == (2,)
    with pytest.raises(InvalidDataError, match="dated models cannot be split"):
        chronological_split(_COVERED, [""] * len(dates), seed=0)


def test_each_family_is_left_out_once() -> None:
    families = ["x", "y", "x", "", "y", "z", "w", "x", "", "y", "z"]
    splits = {split.name: split for split in family_splits(families, _COVERED, seed=0)}
    assert list(splits) == ["x", "y", "z"]  # w has no score
    assert splits["x"].held_out == (0, 2, 7)
    assert splits["x"].build == (1, 3, 4, 5, 8, 9, 10)
    assert family_splits(["x"] * len(families), _COVERED, seed=0) == []
