"""Scores of pair suites against a slow reference, the printed table of MMVP-VLM, overlays and variants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optotype.pipelines.pairs.patterns import by_pattern
from optotype.pipelines.pairs.scoring import NOT_ASKED, score_answers
from optotype.schemas.errors import InvalidDataError
from optotype.schemas.pair_suites import PATTERNS, VARIANTS, Variant
from optotype.store.pair_answers import Answer
from optotype.store.pair_suites import Question

# Table 1 of Eyes Wide Shut: accuracy in percent on the nine patterns, 15 pairs each, and the average it prints.
PRINTED = {
    "OpenAI ViT-L-14 224": ((13.3, 13.3, 20.0, 20.0, 13.3, 53.3, 20.0, 6.7, 13.3), 19.3),
    "OpenAI ViT-L-14 336": ((0.0, 20.0, 40.0, 20.0, 6.7, 20.0, 33.3, 6.7, 33.3), 20.0),
    "SigLIP ViT-SO-14 224": ((26.7, 20.0, 53.3, 40.0, 20.0, 66.7, 40.0, 20.0, 53.3), 37.8),
    "SigLIP ViT-SO-14 384": ((20.0, 26.7, 60.0, 33.3, 13.3, 66.7, 33.3, 26.7, 53.3), 37.0),
    "DFN ViT-H-14 224": ((20.0, 26.7, 73.3, 26.7, 26.7, 66.7, 46.7, 13.3, 53.3), 39.3),
    "DFN ViT-H-14 378": ((13.3, 20.0, 53.3, 33.3, 26.7, 66.7, 40.0, 20.0, 40.0), 34.8),
    "MetaCLIP ViT-L-14 224": ((13.3, 6.7, 66.7, 6.7, 33.3, 46.7, 20.0, 6.7, 13.3), 23.7),
    "MetaCLIP ViT-H-14 224": ((6.7, 13.3, 60.0, 13.3, 6.7, 53.3, 26.7, 13.3, 33.3), 25.2),
    "EVA01 ViT-g-14 224": ((6.7, 26.7, 40.0, 6.7, 13.3, 66.7, 13.3, 13.3, 20.0), 23.0),
    "EVA02 ViT-bigE-14+ 224": ((13.3, 20.0, 66.7, 26.7, 26.7, 66.7, 26.7, 20.0, 33.3), 33.3),
}


@pytest.mark.parametrize("encoder", PRINTED)
def test_printed_patterns_aggregate_to_printed_averages(encoder: str) -> None:
    accuracies, average = PRINTED[encoder]
    right: list[bool] = []
    patterns: list[str] = []
    for pattern, accuracy in zip(PATTERNS, accuracies, strict=True):
        passed = round(15 * accuracy / 100)
        assert round(100 * passed / 15, 1) == accuracy  # what is printed are fifteenths
        right += [True] * passed + [False] * (15 - passed)
        patterns += [pattern] * 15
    found = by_pattern(right, patterns)
    assert round(100 * found["pattern_mean"], 1) == average
    assert round(100 * found["pair_accuracy"], 1) == average
    assert [round(100 * row["pair_accuracy"], 1) for row in found["patterns"]] == list(accuracies)


def test_patterns_of_unlike_sizes_and_none() -> None:
    found = by_pattern([True, False, False, True], ["x", "x", "y", ""])
    assert (found["pair_accuracy"], found["pattern_mean"]) == (0.5, 0.25)
    assert [row["pattern"] for row in found["patterns"]] == ["x", "y"]
    empty = by_pattern([], [])
    assert (empty["pairs"], empty["pair_accuracy"], empty["pattern_mean"]) == (0, None, None)


def _questions(random: np.random.Generator, pairs: int = 12, options: int = 2) -> list[Question]:
    texts = ("red", "green", "blue")[:options]
    return [
        Question(f"q{i}-{side}", f"p{i}", side, f"i{i}-{side}", "?", texts, key, key, ("x", "y", "")[i % 3])
        for i in range(pairs)
        for side in (1, 2)
        for key in [int(random.integers(options))]
    ]


def _reference(questions: list[Question], given: dict[str, str]) -> dict[str, Any]:
    """By the definition, over letters."""
    missing = 0
    right: dict[str, bool] = {}
    for question in questions:
        letter = given.get(question.id, "")
        if letter not in list("abc"[: len(question.options)]):
            missing += 1
        right[question.id] = letter == "abc"[question.key]
    pairs: dict[str, list[bool]] = {}
    of_pattern: dict[str, list[str]] = {}
    for question in questions:
        pairs.setdefault(question.pair, []).append(right[question.id])
        if question.pattern and question.pair not in of_pattern.setdefault(question.pattern, []):
            of_pattern[question.pattern].append(question.pair)
    shares = [sum(all(pairs[name]) for name in some) / len(some) for some in of_pattern.values()]
    return {
        "pair_accuracy": sum(all(two) for two in pairs.values()) / len(pairs),
        "question_accuracy": sum(right.values()) / len(right),
        "pattern_mean": sum(shares) / len(shares),
        "missing": missing,
    }


@pytest.mark.parametrize("seed", range(20))
def test_scores_equal_the_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    options = 2 + seed % 2
    questions = _questions(random, options=options)
    given = {
        question.id: str(random.choice(["abc"[question.key], "a", "b", "c", "?"]))
        for question in questions
        if random.random() < 0.9
    }
    answers = [Answer("m", Variant(), name, letter) for name, letter in given.items()]
    (row,) = score_answers(questions, answers)
    wanted = _reference(questions, given)
    assert {name: row[name] for name in ("pair_accuracy", "question_accuracy", "pattern_mean")} == {
        name: pytest.approx(wanted[name]) for name in ("pair_accuracy", "question_accuracy", "pattern_mean")
    }
    assert sum(row["missing"].values()) == wanted["missing"]
    assert row["chance"] == pytest.approx(1 / options**2)
    assert row["question_chance"] == pytest.approx(1 / options)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_scored_as_such(name: str) -> None:
    """The same choices, written as each variant lists and calls the options, score the same."""
    variant = VARIANTS[name]
    questions = _questions(np.random.default_rng(1))
    marks = "12" if variant.numbers else "ab"
    chosen = {question.id: i % 2 for i, question in enumerate(questions)}
    said = {key: marks[1 - option if variant.swapped else option] for key, option in chosen.items()}
    rows = score_answers(questions, [Answer("m", variant, key, mark) for key, mark in said.items()])
    plain = score_answers(questions, [Answer("m", Variant(), key, "ab"[option]) for key, option in chosen.items()])
    assert rows[0]["variant"] == name
    assert {**rows[0], "variant": "original"} == plain[0]


def test_a_variant_is_compared_with_the_original() -> None:
    questions = _questions(np.random.default_rng(2), pairs=3)
    answers = [Answer("m", Variant(), question.id, "ab"[question.key]) for question in questions]
    always_a = [Answer("m", Variant(swapped=True), question.id, "a") for question in questions[1:]]
    original, swapped = score_answers(questions, [*always_a, *answers])
    assert (original["variant"], original["pair_accuracy"], original["against_original"]) == ("original", 1.0, None)
    same = sum(question.key == 1 for question in questions[1:])
    assert swapped["against_original"]["questions"] == 5
    assert swapped["against_original"]["same_option"] == same
    assert swapped["against_original"]["pair_accuracy_change"] == swapped["pair_accuracy"] - 1
    assert swapped["missing"] == {NOT_ASKED: 1}


def test_an_overlay_changes_answers_and_takes_questions_out() -> None:
    questions = [replace(question, key=0, answer=0) for question in _questions(np.random.default_rng(0), pairs=3)]
    answers = [Answer("m", Variant(), question.id, "b") for question in questions]
    (before,) = score_answers(questions, answers)
    assert (before["pairs_right"], before["questions_right"]) == (0, 0)
    corrected = [replace(question, answer=1) if question.pair == "p0" else question for question in questions]
    (after,) = score_answers(corrected, answers)
    assert (after["pairs_right"], after["pairs"], after["questions_right"]) == (1, 3, 2)
    void = [*corrected[:2], replace(corrected[2], answer=None), *corrected[3:]]
    (without,) = score_answers(void, answers)
    assert (without["pairs"], without["questions"], without["taken_out"]) == (2, 5, 1)
    assert without["patterns"][1] | {"pattern": ""} == {
        "pattern": "",
        "pairs": 0,
        "pairs_right": 0,
        "pair_accuracy": None,
        "questions": 1,
        "questions_right": 0,
        "question_accuracy": 0.0,
        "missing": 0,
    }


def test_a_verdict_says_nothing_of_another_key() -> None:
    """Of three options, wrong by the old key: right or wrong by the new one cannot be told."""
    (one, two) = (replace(question, key=0, answer=0) for question in _questions(np.random.default_rng(0), 1, 3))
    answers = [Answer("m", Variant(), question.id, None, verdict=0.0) for question in (one, two)]
    assert score_answers([one, two], answers)[0]["missing"] == {}
    (row,) = score_answers([replace(one, answer=1), two], answers)
    assert row["missing"] == {"unknown-option": 1}
    assert row["questions_right"] == 0


def test_unknown_questions_are_named_and_an_offset_is_proposed() -> None:
    questions = [
        replace(question, id=str(i + 1)) for i, question in enumerate(_questions(np.random.default_rng(0), pairs=2))
    ]
    answers = [Answer("m", Variant(), str(i), "a", source=f"f:{i}") for i in range(4)]
    with pytest.raises(InvalidDataError, match="--id-offset 1") as caught:
        score_answers(questions, answers)
    assert [problem.where for problem in caught.value.problems] == ["f:0"]
    with pytest.raises(InvalidDataError) as other:
        score_answers(questions, [Answer("m", Variant(), "x", "a")])
    assert other.value.hint is None


def test_a_pattern_of_questions_taken_out_has_no_accuracy_and_rows_are_sorted() -> None:
    questions = [replace(question, answer=None) for question in _questions(np.random.default_rng(0), pairs=1)]
    answers = [Answer(model, Variant(), questions[0].id, "a") for model in ("b", "a")]
    rows = score_answers(questions, answers)
    assert [row["model"] for row in rows] == ["a", "b"]
    assert (rows[0]["pairs"], rows[0]["pair_accuracy"], rows[0]["chance"], rows[0]["question_accuracy"]) == (
        0,
        None,
        None,
        None,
    )
