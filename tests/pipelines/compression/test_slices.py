"""Slices in catalogue order."""

from __future__ import annotations

import numpy as np
import pytest
from panels import make_panel

from optotype.pipelines.compression.slices import slices
from optotype.schemas.errors import NotFoundError


def test_slices_come_by_first_appearance() -> None:
    panel = make_panel({"mmmu": 4, "ai2d": 3}, categories=["b", "a", "b", "", "a", "c", "a"])
    cut = slices(panel)
    pairs = [("mmmu", "b"), ("mmmu", "a"), ("mmmu", "mmmu"), ("ai2d", "a"), ("ai2d", "c")]
    assert list(zip(cut.benchmark, cut.category, strict=True)) == pairs
    assert cut.of_item.tolist() == [0, 1, 0, 2, 3, 4, 3]
    assert cut.of_item.dtype == np.int32
    assert cut.categories == ("b", "a", "mmmu", "c")
    assert cut.category_of_slice.tolist() == [0, 1, 2, 1, 3]
    assert cut.category_of_item.tolist() == [0, 1, 0, 2, 1, 3, 1]
    assert cut.of_category(1) == [1, 3]
    assert [cut.label(number) for number in (0, 2)] == ["mmmu / b", "mmmu"]
    assert len(cut) == 5


def test_by_benchmark_and_by_any_column() -> None:
    panel = make_panel({"mmmu": 2, "ai2d": 2}, categories={"mmmu": "x", "ai2d": "x"})
    panel = panel.assign_coords(
        sub_task=("item", np.array(["s", "", "s", "t"], object)),
        item_level=("item", np.array([1.0, 2.0, np.nan, 1.0])),
    )
    assert slices(panel, "benchmark").categories == ("mmmu", "ai2d")
    assert slices(panel, "sub_task").category == ("s", "mmmu", "s", "t")
    assert slices(panel, "level").category == ("1", "2", "ai2d", "1")


def test_an_unknown_column_is_answered_with_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="no column 'categry'") as caught:
        slices(make_panel({"mmmu": 2}), "categry")
    assert caught.value.hint == "Did you mean 'category'?"
    with pytest.raises(NotFoundError):
        slices(make_panel({"mmmu": 2}), "family")  # of the models, not of the items
