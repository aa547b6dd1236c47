"""Summaries of rows that can be checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from optotype.pipelines.evaluation.caveats import caveats, merged
from optotype.pipelines.evaluation.tables import (
    by_category,
    by_family,
    by_split,
    end_to_end_summary,
    summary,
    variant_summary,
)


def _row(selector: str, split: str, category: str, rho: float | None, **more: Any) -> dict[str, Any]:
    whole = more.pop("whole", False)
    return {
        "protocol": "held-out",
        "selector": selector,
        "retention": 0.05,
        "split": split,
        "category": category,
        "n": 40,
        "K": 40 if whole else 2,
        "whole": whole,
        "held_out": 12,
        "rho": rho,
        "mae": 0.1,
        "counted": rho is not None and not whole,
        **more,
    }


_ROWS = [
    _row("vaw", "00", "x", 0.5),
    _row("vaw", "00", "y", 0.7, held_out=11),
    _row("vaw", "00", "z", 1.0, whole=True),
    _row("vaw", "01", "x", None),
    _row("vaw", "01", "y", 0.4),
    _row("vaw", "01", "z", 1.0, whole=True),
    _row("random", "00", "x", 0.6),
    _row("random", "00", "y", 0.6),
    _row("random", "00", "z", 1.0, whole=True),
    _row("random", "01", "x", 0.9),
    _row("random", "01", "y", 0.7),
    _row("random", "01", "z", 1.0, whole=True),
]


def test_whole_pools_and_undefined_correlations_are_counted_and_left_out() -> None:
    splits = {(row["selector"], row["split"]): row for row in by_split(_ROWS)}
    first = splits["vaw", "00"]
    assert first["rho"] == pytest.approx(0.6)
    assert [first[name] for name in ("categories", "counted", "whole", "left_out", "n", "K", "held_out")] == [
        3,
        2,
        1,
        0,
        80,
        4,
        11,
    ]
    second = splits["vaw", "01"]
    assert (second["rho"], second["counted"], second["left_out"]) == (pytest.approx(0.4), 1, 1)
    nothing = by_split([_row("vaw", "00", "z", 1.0, whole=True)])[0]
    assert (nothing["rho"], nothing["K"], nothing["held_out"]) == (None, 0, 0)


def test_means_wins_and_paired_differences() -> None:
    rows = {row["selector"]: row for row in summary(by_split(_ROWS))}
    vaw, random = rows["vaw"], rows["random"]
    assert (vaw["mean"], vaw["min"], vaw["max"]) == pytest.approx((0.5, 0.4, 0.6))
    assert vaw["sd"] == pytest.approx(0.02**0.5)
    assert (vaw["splits"], vaw["wins"], random["wins"]) == (2, 1, 2)  # split 00 is shared
    assert vaw["minus_baseline"] == pytest.approx(-0.2)
    assert vaw["minus_baseline_sd"] == pytest.approx(0.08**0.5)
    assert vaw["ahead_of_baseline"] == 0
    assert (random["minus_baseline"], random["ahead_of_baseline"]) == (None, 0)


def test_one_split_has_no_spread_and_one_selector_wins_nothing() -> None:
    (row,) = summary(by_split(_ROWS[:3]))
    assert (row["sd"], row["wins"], row["minus_baseline"]) == (None, 0, None)
    (empty,) = summary([{**by_split(_ROWS[:3])[0], "rho": None}])
    assert (empty["mean"], empty["min"], empty["splits"]) == (None, None, 0)


def test_categories_over_splits() -> None:
    rows = {(row["selector"], row["category"]): row for row in by_category(_ROWS)}
    assert (rows["vaw", "x"]["mean"], rows["vaw", "x"]["splits"], rows["vaw", "x"]["left_out"]) == (0.5, 1, 1)
    assert rows["random", "x"]["mean"] == pytest.approx(0.75)
    assert rows["vaw", "z"]["whole"]
    assert rows["vaw", "z"]["mean"] is None


def test_end_to_end_compares_every_retention_with_all_items_kept() -> None:
    rows = [
        {"protocol": "end-to-end", "selector": s, "retention": r, "split": split, "K": 5, "rho": rho}
        | {"rho_without_stage_3": 1.0}
        for s, r, split, rho in [
            ("vaw", 0.1, "00", 0.8),
            ("vaw", 0.1, "01", None),
            ("vaw", 0.2, "00", 0.5),
            ("vaw", 0.2, "01", 0.9),
            ("all", 1.0, "00", 0.6),
            ("all", 1.0, "01", 0.6),
        ]
    ]
    found = {(row["stage_3"], row["selector"], row["retention"]): row for row in end_to_end_summary(rows, "all")}
    assert found[True, "vaw", 0.1]["minus_baseline"] == pytest.approx(0.2)
    assert found[True, "vaw", 0.2]["ahead_of_baseline"] == 1
    assert found[True, "all", 0.2]["mean"] == pytest.approx(0.6)
    assert found[False, "vaw", 0.1]["ahead_of_baseline"] == 0
    assert found[True, "vaw", 0.1]["splits"] == 1


def test_families_and_variants() -> None:
    family = {"selector": "vaw", "retention": 0.1, "split": "f", "counted": True, "ranked": 9, "rho": 0.9}
    rows = [{**family, "rank_shift": 2.0}, {**family, "rank_shift": None}, {**family, "split": "g", "rank_shift": 4.0}]
    (found,) = by_family(rows)
    assert (found["rank_shift"], found["families"], found["rows"], found["left_out"]) == (3.0, 2, 2, 1)
    variant = {"selector": "vaw", "retention": 0.1, "counted": True}
    rows = [
        {**variant, "supports": True, "rho": 0.5},
        {**variant, "supports": True, "rho": 0.7},
        {**variant, "supports": False, "rho": -1.0},
    ]
    (found,) = variant_summary(rows)
    assert (found["mean"], found["sets"], found["unstable"], found["min"]) == (pytest.approx(0.6), 2, 1, 0.5)


def test_notes_that_differ_in_numbers_are_one() -> None:
    assert merged(["3 of 9 items", "5 of 9 items", "δ = 0", "at 0.5 x2"]) == ["3-5 of 9 items", "at 0.5 x2", "δ = 0"]


def test_caveats_say_what_the_tables_cannot_support() -> None:
    splits = by_split([*_ROWS, _row("vaw", "02", "x", 0.5, held_out=8)])
    found = caveats(
        {"held_out_splits": splits, "held_out_summary": summary(splits), "intervals": []},
        {"vaw": {"no embeddings"}},
        ["a", "a", "b", ""],
        8,
    )
    assert found[0] == "vaw: no embeddings"
    assert any("over 8 held-out models" in text for text in found)
    assert any(text.startswith("1 of 13 category results are left out") for text in found)
    assert any(text.startswith("4 of 13") and "K = n" in text for text in found)
    assert any(text.startswith("2 of 4 models are alone") for text in found)
    assert caveats({}, {}, ["a", "a"], 10) == []
