"""Questions: who is asked about, and where wrong captions come from."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from probes import make_pairs

from optotype.pipelines.emoji.probe.halves import halves, repeats
from optotype.pipelines.emoji.probe.questions import CHOICES, KINDS, Question, cosines, make_questions
from optotype.pipelines.emoji.probe.table import Pairs
from optotype.schemas.errors import InvalidDataError

GROUPS = {"Food & Drink": 30, "Objects": 24, "Rare": 6, "": 8}


def ask(pairs: Pairs, *, seed: int = 0, min_items: int = 5) -> tuple[list[Question], list[str], np.ndarray, np.ndarray]:
    sets = repeats(pairs.texts, pairs.pixels)
    held_out = np.flatnonzero(~halves(pairs.groups, sets, seed))
    states = np.random.default_rng(9).normal(size=(len(pairs), 6))
    states[-40:-36] = states[-1]  # ties
    questions, notes = make_questions(pairs, held_out, sets, cosines(states[held_out]), seed=seed, min_items=min_items)
    return questions, notes, held_out, cosines(states)


def test_one_question_of_each_kind_for_each_held_out_pair() -> None:
    pairs = make_pairs(GROUPS)
    questions, notes, held_out, _ = ask(pairs)
    asked = {pair for pair in held_out.tolist() if pairs.groups[pair] in ("Food & Drink", "Objects")}
    assert Counter((question.kind, question.target) for question in questions) == {
        (kind, pair): 1 for kind in KINDS for pair in asked
    }
    assert [question.benchmark for question in questions[:1] + questions[-1:]] == [
        "food-drink-random",
        "objects-nearest",
    ]
    assert [(q.category, KINDS.index(q.kind), q.item) for q in questions] == sorted(
        (q.category, KINDS.index(q.kind), q.item) for q in questions
    )
    assert notes == [
        "4 held-out pairs have no group: no questions about them",
        "Rare: 3 held-out pairs, fewer than 5: no questions about them",
    ]


def test_options_are_four_different_held_out_pairs_of_the_right_kind() -> None:
    texts = [f"caption {i}" for i in range(sum(GROUPS.values()))]
    pixels = list(texts)
    texts[1], pixels[2], texts[35] = texts[0], pixels[1], texts[34].upper()  # 0, 1, 2 are one set
    pairs = make_pairs(GROUPS, texts=texts, pixels=pixels)
    sets = repeats(pairs.texts, pairs.pixels)
    answers: Counter[int] = Counter()
    for seed in range(5):
        questions, _, held_out, _ = ask(pairs, seed=seed)
        for question in questions:
            assert len(question.options) == len({int(sets[pair]) for pair in question.options}) == CHOICES
            assert set(question.options) <= set(held_out.tolist())
            assert question.options[question.answer] == question.target
            if question.kind == "group":
                assert {pairs.groups[pair] for pair in question.options} == {question.category}
            answers[question.answer] += 1
    assert min(answers.values()) > sum(answers.values()) / 5  # no place gives the answer away


def test_nearest_is_a_neighbourhood_whose_centre_varies() -> None:
    pairs = make_pairs(GROUPS)
    questions, _, held_out, similarity = ask(pairs)
    centres: Counter[bool] = Counter()
    for question in (question for question in questions if question.kind == "nearest"):

        def near(pair: int) -> list[int]:
            others = [other for other in held_out.tolist() if other != pair]
            return sorted(others, key=lambda other: (-similarity[pair, other], other))

        possible = []
        for centre in [question.target, *near(question.target)[:3]]:
            wrong = [pair for pair in [centre, *near(centre)] if pair != question.target]
            possible.append({question.target, *wrong[:3]})
        assert set(question.options) in possible
        centres[set(question.options) == possible[0]] += 1
    assert min(centres[True], centres[False]) > 5


def test_a_question_hangs_on_its_own_choices_alone() -> None:
    few, more = make_pairs({"A": 20}), make_pairs({"A": 20, "Z": 14})
    by_item = {(q.item, q.kind): q.options for q in ask(few)[0]}
    beside = {(q.item, q.kind): q.options for q in ask(more)[0] if q.category == "A"}
    assert {key: value for key, value in beside.items() if key[1] == "group"} == {
        key: value for key, value in by_item.items() if key[1] == "group"
    }
    assert by_item != {(q.item, q.kind): q.options for q in ask(few, seed=1)[0]}


def test_no_group_is_large_enough() -> None:
    pairs = make_pairs({"A": 6, "B": 4, "": 9})
    with pytest.raises(InvalidDataError, match="No group") as raised:
        ask(pairs, min_items=4)
    assert [problem.kind for problem in raised.value.problems] == ["too-few-pairs"] * 3
    assert "--min-items" in str(raised.value.hint)


def test_a_group_of_repeats_cannot_be_asked_about() -> None:
    pairs = make_pairs({"A": 20, "B": 20}, texts=["same"] * 18 + [f"b {i}" for i in range(22)])
    questions, notes, *_ = ask(pairs, min_items=1)
    assert {question.category for question in questions} == {"B"}
    assert len(notes) == 1
    assert re.fullmatch(r"A: [123] different held-out pairs, a question needs 4", notes[0])


def test_cosines_of_zero_and_equal_rows() -> None:
    similarity = cosines(np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [-1.0, -2.0]]))
    assert similarity.tolist() == [[0, 0, 0, 0], [0, 1, 1, -1], [0, 1, 1, -1], [0, -1, -1, 1]]
