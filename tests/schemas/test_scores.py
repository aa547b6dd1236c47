"""Scales, dates and axes as they are written."""

from __future__ import annotations

import pytest

from optotype.schemas.errors import UsageError
from optotype.schemas.scores import axis_fault, date_fault, parse_scales


@pytest.mark.parametrize("text", ["2024", "2024-02", "2024-02-29", "0001-12-31"])
def test_dates_that_are_dates(text: str) -> None:
    assert date_fault(text) is None


@pytest.mark.parametrize(
    "text", ["24", "2024-13", "2024-00", "2023-02-29", "2024-1", "0000", "2024/01", "May 2024", "2024-01-01T00"]
)
def test_dates_that_are_none(text: str) -> None:
    assert repr(text) in str(date_fault(text))


@pytest.mark.parametrize(
    ("text", "good"), [("depth:8", True), ("a b:-1.5", True), ("depth", False), ("depth:x", False)]
)
def test_axes(text: str, good: bool) -> None:
    assert (axis_fault(text) is None) is good
    assert axis_fault("depth:inf")


def test_scales_are_parsed() -> None:
    assert parse_scales(["a=0:100", "b=c=-1:1", "a=0:100"]) == {"a": (0.0, 100.0), "b=c": (-1.0, 1.0)}


@pytest.mark.parametrize(
    "texts", [["a"], ["a=1"], ["=0:1"], ["a=x:1"], ["a=1:0"], ["a=1:1"], ["a=0:nan"], ["a=0:1", "a=0:2"]]
)
def test_scales_that_are_none(texts: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_scales(texts)
