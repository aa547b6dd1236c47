"""Scores answers to a pair suite: a pair counts only if both of its questions are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optotype.pipelines.pairs.choices import Choice, choose
from optotype.pipelines.pairs.patterns import by_pattern, share
from optotype.schemas.errors import InvalidDataError, Problem
from optotype.schemas.pair_suites import Variant
from optotype.store.checks import limited
from optotype.store.pair_answers import Answer
from optotype.store.pair_suites import Question, in_pairs

__all__ = ["NOT_ASKED", "Outcome", "outcomes", "score_answers"]

NOT_ASKED = "not-asked"
"""Why an answer is missing that is in no file."""

_UNKNOWN = "unknown-option"


@dataclass(frozen=True)
class Outcome:
    """One question of one run.

    Attributes
    ----------
    question : Question
    option : int or None
        What was chosen, in the suite's order.
    right : bool
        False where the answer is missing, and where an overlay says that no option is right.
    missing : str or None
        Why there is no answer.
    """

    question: Question
    option: int | None
    right: bool
    missing: str | None


def score_answers(questions: Sequence[Question], answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Score every run (a model under a variant).

    A missing answer is wrong, and is counted with its reason. A question that an overlay takes out counts for nothing,
    and neither does its pair; the other question of that pair still counts as a question.

    Parameters
    ----------
    questions : sequence of Question
        All of the suite, perhaps under an overlay.
    answers : sequence of Answer
        One at most for each model, variant and question.

    Returns
    -------
    list of dict
        Sorted by model, the original first. JSON-ready: ``model, variant, pairs, pairs_right, pair_accuracy, chance,
        pattern_mean, questions, questions_right, question_accuracy, question_chance, missing`` (reason: count),
        ``taken_out`` (questions without a right answer), ``patterns`` (each with the same counts and ``missing``, a
        number) and ``against_original``: for a variant of a model whose original run is there, over the questions
        answered in both, ``questions, same_option, pair_accuracy_change``; else None. ``chance`` is that of guessing:
        the mean over pairs of one over the product of the two numbers of options, 0.25 of two each.

    Raises
    ------
    InvalidDataError
        Answers to questions that the suite does not have; all of them, to twenty.
    """
    _check_known(questions, answers)
    runs: dict[tuple[str, Variant], dict[str, Answer]] = {}
    for answer in answers:
        runs.setdefault((answer.model, answer.variant), {})[answer.question] = answer
    scored = {run: outcomes(questions, given) for run, given in runs.items()}
    order = sorted(scored, key=lambda run: (run[0], run[1] != Variant(), str(run[1])))
    return [_row(model, variant, scored) for model, variant in order]


def outcomes(questions: Sequence[Question], answers: Mapping[str, Answer]) -> list[Outcome]:
    """What became of each question, in the suite's order.

    Parameters
    ----------
    questions : sequence of Question
    answers : mapping
        Question's id -> the answer of one run.
    """
    found = []
    for question in questions:
        answer = answers.get(question.id)
        choice = Choice(None, NOT_ASKED) if answer is None else choose(question, answer)
        missing = choice.missing
        if missing is None and choice.option is None and question.answer != question.key:
            missing = _UNKNOWN  # not the base's key, which says nothing of another one
        right = missing is None and question.answer is not None and choice.option == question.answer
        found.append(Outcome(question, choice.option, right, missing))
    return found


def _check_known(questions: Sequence[Question], answers: Sequence[Answer]) -> None:
    known = {question.id for question in questions}
    unknown = [answer for answer in answers if answer.question not in known]
    if not unknown:
        return
    problems = [Problem(each.source, "unknown-question", f"no question {each.question!r}") for each in unknown]
    raise InvalidDataError(
        f"{len(unknown)} answers to questions that the suite does not have:",
        limited(problems),
        hint=_offset_hint(known, {answer.question for answer in answers}),
    )


def _offset_hint(known: set[str], asked: set[str]) -> str | None:
    """The offset under which all ids would fit, if one of the two usual ones does."""
    for offset in (1, -1):
        if all(name.isdecimal() for name in asked) and {str(int(name) + offset) for name in asked} <= known:
            return f"Counted from another number: --id-offset {offset} makes all of them fit."
    return None


def _row(model: str, variant: Variant, scored: Mapping[tuple[str, Variant], Sequence[Outcome]]) -> dict[str, Any]:
    run = scored[model, variant]
    counted = [outcome for outcome in run if outcome.question.answer is not None]
    pairs = _whole_pairs(run)
    summary = by_pattern(
        [one.right and two.right for one, two in pairs],
        [one.question.pattern for one, _ in pairs],
        list(dict.fromkeys(outcome.question.pattern for outcome in run)),
    )
    for row in summary["patterns"]:
        some = [outcome for outcome in counted if outcome.question.pattern == row["pattern"]]
        row |= _questions(some) | {"missing": sum(outcome.missing is not None for outcome in some)}
    reasons = Counter(outcome.missing for outcome in counted if outcome.missing is not None)
    original = scored.get((model, Variant())) if variant != Variant() else None
    sizes = [len(one.question.options) * len(two.question.options) for one, two in pairs]
    return {
        "model": model,
        "variant": str(variant),
        **{name: summary[name] for name in ("pairs", "pairs_right", "pair_accuracy")},
        "chance": sum(1 / size for size in sizes) / len(sizes) if sizes else None,
        "pattern_mean": summary["pattern_mean"],
        **_questions(counted),
        "question_chance": sum(1 / len(o.question.options) for o in counted) / len(counted) if counted else None,
        "missing": dict(sorted(reasons.items())),
        "taken_out": len(run) - len(counted),
        "patterns": summary["patterns"],
        "against_original": None if original is None else _against(run, original),
    }


def _whole_pairs(run: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """Pairs of which no question is taken out."""
    of = {outcome.question.id: outcome for outcome in run}
    both = [(of[one.id], of[two.id]) for one, two in in_pairs([outcome.question for outcome in run]).values()]
    return [pair for pair in both if all(outcome.question.answer is not None for outcome in pair)]


def _questions(some: Sequence[Outcome]) -> dict[str, Any]:
    right = sum(outcome.right for outcome in some)
    return {"questions": len(some), "questions_right": right, "question_accuracy": share(right, len(some))}


def _against(run: Sequence[Outcome], original: Sequence[Outcome]) -> dict[str, Any]:
    both = [
        (one, two)
        for one, two in zip(run, original, strict=True)
        if one.missing is None and two.missing is None and one.option is not None and two.option is not None
    ]
    accuracies = [_pair_accuracy(each) for each in (run, original)]
    change = None if None in accuracies else accuracies[0] - accuracies[1]  # type: ignore[operator]
    return {
        "questions": len(both),
        "same_option": sum(one.option == two.option for one, two in both),
        "pair_accuracy_change": change,
    }


def _pair_accuracy(run: Sequence[Outcome]) -> float | None:
    pairs = _whole_pairs(run)
    return share(sum(one.right and two.right for one, two in pairs), len(pairs))
