"""What is wrong with tables of questions and statements, and with overlays: every problem, each with its place."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pair_suites import make_questions, make_statements

from optotype.schemas.errors import UsageError
from optotype.schemas.pair_suites import (
    PATTERNS,
    VARIANTS,
    Variant,
    answer_letter,
    overlay_problems,
    question_problems,
    shared_problems,
    statement_problems,
)


def _frame(rows: list[dict[str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, dtype=object)


def test_sound_tables_have_no_problems() -> None:
    assert question_problems(_frame(make_questions())) == []
    assert statement_problems(_frame(make_statements(PATTERNS))) == []
    assert shared_problems(_frame(make_questions(2)), _frame(make_statements(["orientation", "count"]))) == []


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({0: {"answer": "c"}}, "answer", "one of a, b, got 'c'"),
        ({0: {"answer": ""}}, "value", "not blank"),
        ({0: {"side": "3"}}, "value", "1 or 2"),
        ({0: {"side": "2"}}, "sides", "got 2, 2"),
        ({1: {"pair": "p1"}}, "sides", "p1"),
        ({0: {"image": "img-001"}}, "one-image", "img-001"),
        ({0: {"pattern": "texts"}}, "patterns", "two patterns"),
        ({0: {"option_b": "OPEN"}}, "same-options", "read the same"),
        ({0: {"option_a": " "}}, "value", "not blank"),
        ({1: {"id": "1"}}, "duplicate-id", "2 times"),
    ],
)
def test_each_problem_is_told(changes: dict[int, dict[str, str]], kind: str, words: str) -> None:
    rows = make_questions()
    for number, change in changes.items():
        rows[number] |= change
    problems = question_problems(_frame(rows))
    assert kind in {problem.kind for problem in problems}
    assert words in " ".join(map(str, problems))


def test_all_problems_are_told_at_once() -> None:
    rows = make_questions()
    rows[0]["answer"] = "d"
    rows[2]["image"] = rows[3]["image"]
    rows[5]["pattern"] = "texts"
    assert {problem.kind for problem in question_problems(_frame(rows))} == {"answer", "one-image", "patterns"}
    missing = question_problems(_frame(rows).drop(columns=["image", "side"]))
    assert {problem.where.split(": ")[1] for problem in missing} == {"image", "side"}


def test_more_options_have_no_gaps() -> None:
    rows = [row | {"option_c": "Half", "option_d": ""} for row in make_questions(1)]
    assert question_problems(_frame(rows)) == []
    rows[0]["answer"] = "(C)"
    assert question_problems(_frame(rows)) == []
    rows[1] |= {"option_c": "", "option_d": "Gone"}
    assert [problem.kind for problem in question_problems(_frame(rows))] == ["option-gap"]


def test_empty_tables_are_refused() -> None:
    empty = _frame(make_questions()).iloc[:0]
    assert [problem.kind for problem in question_problems(empty)] == ["empty"]


def test_questions_and_statements_of_a_pair_agree() -> None:
    statements = make_statements(["orientation", "count"])
    statements[1]["image"] = "other"
    problems = shared_problems(_frame(make_questions(2)), _frame(statements))
    assert [str(problem.where) for problem in problems] == ["pair p0"]
    assert "'other'" in problems[0].message


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({}, "no-corrections"),
        ({"corrections": []}, "no-corrections"),
        ({"corrections": ["99"]}, "value"),
        ({"corrections": [{"question": "99", "was": "a", "answer": "b"}]}, "value"),
        ({"corrections": [{"question": "99", "was": "a", "why": "x"}]}, "answer"),
        ({"corrections": [{"question": "99", "was": "a", "answer": "z", "why": "x"}]}, "answer"),
        ({"corrections": 2 * [{"question": "99", "was": "a", "answer": None, "why": "x"}]}, "duplicate"),
        ({"suite": 3, "corrections": [{"question": "99", "was": "a", "answer": None, "why": "x"}]}, "value"),
    ],
)
def test_overlays_are_checked(document: dict[str, Any], kind: str) -> None:
    assert kind in [problem.kind for problem in overlay_problems(document, "o.json")]


def test_variants_have_names() -> None:
    for name, variant in VARIANTS.items():
        assert Variant.parse(name) == variant
        assert str(variant) == name
    assert Variant.parse("") == Variant()
    with pytest.raises(UsageError, match="swap"):
        Variant.parse("swapped")


def test_keys_are_read_as_people_write_them() -> None:
    assert [answer_letter(text) for text in ("(a)", " B ", "b")] == ["a", "b", "b"]
