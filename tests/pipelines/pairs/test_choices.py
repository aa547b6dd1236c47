"""Which option an answer chose: marks, words, verdicts, and variants of the prompt."""

from __future__ import annotations

import pytest

from optotype.pipelines.pairs.choices import Choice, choose, read_option
from optotype.schemas.pair_suites import VARIANTS, Variant
from optotype.store.pair_answers import Answer
from optotype.store.pair_suites import Question

WINGS = Question("1", "p", 1, "i", "Are the wings open?", ("Open", "Not open"), 0, 0)
COUNT = Question("2", "p", 2, "i", "How many?", ("2", "1", "None of them"), 1, 1)
YES = Question("3", "p", 2, "i", "Is it?", ("Yes", "No"), 0, 0)


def _answer(response: str | None, variant: str = "original", **rest: object) -> Answer:
    return Answer("m", VARIANTS[variant], "1", response, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("a", 0),
        ("B", 1),
        ("(b)", 1),
        ("b.", 1),
        (" (A): ", 0),
        ("open", 0),
        ("Not open.", 1),
        ("The answer is (b)", 1),
        ("The answer is B.", 1),
        ("Answer: a", 0),
        ("I choose option a here", 0),
        ("B. Not open", 1),
        ("b) it seems", 1),
        ("(a) Open", 0),
        ("It looks like the wings are open.", 0),
        ("The wings are not open, I think.", 1),
        # several, or none
        ("(a) or (b)", None),
        ("a or b", None),
        ("Open or not open", None),
        ("c", None),
        ("1", None),
        ("the answer is a butterfly", None),
        ("I cannot tell", None),
        ("", None),
        # an explicit answer counts before what was weighed
        ("(a) is open, (b) is not: the answer is (b)", 1),
    ],
)
def test_words_of_the_original(text: str, option: int | None) -> None:
    assert read_option(WINGS, text, Variant()) == option


def test_negations_are_not_guessed_at() -> None:
    closed = Question("1", "p", 1, "i", "?", ("Open", "Closed"), 0, 0)
    assert read_option(closed, "The wings are closed", Variant()) == 1
    assert read_option(closed, "The wings aren't closed", Variant()) is None
    assert read_option(closed, "They are not open", Variant()) is None
    assert read_option(YES, "No, it is not.", Variant()) == 1


@pytest.mark.parametrize(
    ("text", "variant", "option"),
    [
        ("a", "swap", 1),
        ("(B)", "swap", 0),
        ("open", "swap", 0),
        ("1", "numbers", 0),
        ("(2) not open", "numbers", 1),
        ("a", "numbers", None),
        ("1", "swap+numbers", 1),
        ("2.", "swap+numbers", 0),
    ],
)
def test_variants(text: str, variant: str, option: int | None) -> None:
    assert read_option(WINGS, text, VARIANTS[variant]) == option


def test_a_number_is_an_option_or_its_mark_as_the_notation_says() -> None:
    assert read_option(COUNT, "2", Variant()) == 0
    assert read_option(COUNT, "2", Variant(numbers=True)) == 1
    assert read_option(COUNT, "(b)", Variant(swapped=True)) == 1
    assert read_option(COUNT, "c", Variant(swapped=True)) == 0


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        # a mark that stands alone is the choice, whatever the verdict was
        (_answer("B", verdict=1.0), Choice(1)),
        (_answer("A", verdict=0.0, key="B"), Choice(0)),
        # a verdict of right is the harness's key, else the suite's
        (_answer("wide open as far as I see", verdict=1.0), Choice(0)),
        (_answer("words", verdict=1.0, key="B"), Choice(1)),
        (_answer("words", "swap", verdict=1.0, key="B"), Choice(0)),
        # judged wrong: another option, if the words name one
        (_answer("they are not open", verdict=0.0), Choice(1)),
        (_answer("they are open", verdict=0.0), Choice(None, "judged-otherwise")),
        (_answer("words", verdict=0.0), Choice(None, "no-option")),
        (_answer("", verdict=0.0), Choice(None, "blank")),
        # verdicts alone
        (_answer(None, verdict=1.0), Choice(0)),
        (_answer(None, verdict=0.0), Choice(1)),
        (_answer(None), Choice(None, "blank")),
        (_answer("A", invalid="random-option"), Choice(None, "random-option")),
    ],
)
def test_verdicts_and_words(answer: Answer, choice: Choice) -> None:
    assert choose(WINGS, answer) == choice


def test_of_three_options_a_wrong_verdict_leaves_two() -> None:
    assert choose(COUNT, _answer(None, verdict=0.0)) == Choice(None)
