"""Halves and folds that keep what repeats on one side."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from optotype.pipelines.emoji.probe.halves import folds, halves, repeats, seeded

few = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("stuvwxyz")), min_size=1, max_size=14)


def slow_repeats(texts: list[str], pixels: list[str]) -> list[set[int]]:
    """Sets grown one shared caption or image at a time, until nothing changes."""
    sets = [{i} for i in range(len(texts))]
    changed = True
    while changed:
        changed = False
        for one in sets:
            for other in sets:
                if one is other or not one or not other:
                    continue
                if any(texts[i] == texts[j] or pixels[i] == pixels[j] for i in one for j in other):
                    one |= other
                    other.clear()
                    changed = True
    return [one for one in sets if one]


@given(few)
def test_repeats_are_the_connected_sets(rows: list[tuple[str, str]]) -> None:
    texts, pixels = [row[0] for row in rows], [row[1] for row in rows]
    numbers = repeats(texts, pixels)
    found = [set(np.flatnonzero(numbers == number).tolist()) for number in range(numbers.max() + 1)]
    assert found == sorted(slow_repeats(texts, pixels), key=min)


def test_captions_repeat_whatever_case_spaces_and_punctuation() -> None:
    texts = ["A cat, a hat", "a CAT a-hat", "a cat", "!", "!!", "!"]
    assert repeats(texts, list("uvwxyz")).tolist() == [0, 0, 1, 2, 3, 2]


@given(few, st.lists(st.sampled_from(["one", "two", ""]), min_size=14, max_size=14), st.integers(0, 5))
def test_no_set_is_split_and_groups_are_halved(rows: list[tuple[str, str]], names: list[str], seed: int) -> None:
    sets = repeats([row[0] for row in rows], [row[1] for row in rows])
    groups = names[: len(rows)]
    train = halves(groups, sets, seed)
    for number in set(sets.tolist()):
        assert len(set(train[sets == number].tolist())) == 1
    largest = max(Counter(sets.tolist()).values())
    first = [groups[int(np.argmax(sets == number))] for number in sets]  # a set counts for the group of its first pair
    for group in set(first):
        here = train[[name == group for name in first]]
        assert abs(int(here.sum()) - int((~here).sum())) <= largest
    if largest == 1:
        assert abs(int(train.sum()) - int((~train).sum())) <= 1


def test_order_within_a_group_does_not_hang_on_the_others() -> None:
    alone = halves(["x"] * 40, np.arange(40), 3)
    beside = halves(["x"] * 40 + ["y"] * 30, np.arange(70), 3)
    assert beside[:40].tolist() == alone.tolist()
    assert halves(["x"] * 40, np.arange(40), 4).tolist() != alone.tolist()


def test_folds_keep_sets_whole_and_are_even() -> None:
    sets = np.array([0, 1, 1, 2, 3, 4, 5, 6, 6, 6, 7, 8])
    fold = folds(sets, 4, 0)
    assert fold[1] == fold[2]
    assert len(set(fold[7:10].tolist())) == 1
    assert sorted(set(fold.tolist())) == [0, 1, 2, 3]
    sizes = np.bincount(folds(np.arange(23), 5, 1))
    assert sizes.max() - sizes.min() == 1
    assert folds(np.arange(23), 5, 1).tolist() != folds(np.arange(23), 5, 2).tolist()


def test_generators_of_two_purposes_differ() -> None:
    assert seeded(0, "a", "b").random() == seeded(0, "a", "b").random()
    assert len({seeded(*key).random() for key in ((0, "a"), (0, "b"), (1, "a"), (0, "a", "a"))}) == 4
