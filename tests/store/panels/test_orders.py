"""Catalogue order: parts of one list give the list; nothing that stands moves."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from optotype.store.panels.orders import catalogue_order, merged_order


@given(st.lists(st.integers(0, 20), unique=True), st.lists(st.integers(0, 20)), st.randoms())
def test_what_stands_never_moves(standing: list[int], listed: list[int], rng: random.Random) -> None:
    merged = merged_order(standing, listed)
    assert sorted(merged) == sorted({*standing, *listed})
    assert [entry for entry in merged if entry in set(standing)] == standing


@given(st.integers(0, 12), st.integers(1, 4), st.randoms())
def test_portions_of_one_list_give_the_list(size: int, portions: int, rng: random.Random) -> None:
    whole = list(range(size))
    of = [rng.randrange(portions) for _ in whole]
    order: list[int] = []
    for portion in range(portions):
        there = {entry for entry, part in zip(whole, of, strict=True) if part <= portion}
        order = merged_order(order, [entry for entry in whole if entry in there])
    assert order == whole


def test_benchmarks_are_contiguous_and_listed_ones_come_first() -> None:
    listed = [("b", "1"), ("a", "1"), ("b", "0")]
    seen = [("c", "9"), ("a", "1"), ("b", "0"), ("b", "1"), ("c", "8")]
    first = catalogue_order([], listed, seen)
    assert first == [("b", "1"), ("b", "0"), ("a", "1"), ("c", "9"), ("c", "8")]
    assert catalogue_order(
        first, [("x", "1"), ("y", "1"), ("a", "2"), ("a", "1")], [("b", "5"), ("x", "1"), ("a", "2")]
    ) == [
        ("b", "1"),
        ("b", "0"),
        ("b", "5"),
        ("x", "1"),
        ("a", "2"),
        ("a", "1"),
        ("c", "9"),
        ("c", "8"),
    ]


def test_rows_that_nothing_uses_tell_the_order_of_benchmarks() -> None:
    listed = [("a", "0"), ("b", "0"), ("a", "1")]
    assert catalogue_order([], listed, [("b", "0"), ("a", "1")]) == [("a", "1"), ("b", "0")]
