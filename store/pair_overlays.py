"""Overlays that correct the keys of a pair suite, which itself stays as it is.

An overlay is a JSON document, ``overlay.json`` where it is published: ``{"format_version": 1, "kind":
"question-overlay", "suite": NAME, "base": DIGEST, "corrections": [{"question": "99", "was": "a", "answer": "b", "why":
...}]}``. ``suite`` and ``base`` may be left out; ``answer`` null says that no option is right.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from optotype.schemas.documents import canonical_json, parse_document
from optotype.schemas.errors import InvalidDataError, NotFoundError, Problem
from optotype.schemas.pair_suites import OVERLAY_FORMAT, answer_letter, overlay_problems
from optotype.store.checks import limited
from optotype.store.pair_suites import PairSuite

__all__ = ["OVERLAY", "Correction", "Overlay", "apply_overlay", "read_overlay"]

OVERLAY = "overlay.json"
_LETTERS = "abcdefgh"


@dataclass(frozen=True)
class Correction:
    """One corrected key.

    Attributes
    ----------
    question : str
        Its id.
    was : str
        Letter of the key in the base.
    answer : str or None
        Letter of the right option; None: there is none, and the question counts for nothing.
    why : str
    """

    question: str
    was: str
    answer: str | None
    why: str


@dataclass(frozen=True)
class Overlay:
    """Corrected keys.

    Attributes
    ----------
    corrections : tuple of Correction
    suite, base : str
        Name of the suite and digest of its questions, as far as the overlay says; "" where it does not.
    """

    corrections: tuple[Correction, ...]
    suite: str = ""
    base: str = ""

    @property
    def digest(self) -> str:
        """``sha256:`` of the corrections in the order of their questions."""
        rows = sorted([c.question, c.was, c.answer or "", c.why] for c in self.corrections)
        return "sha256:" + hashlib.sha256(canonical_json(rows)).hexdigest()


def read_overlay(path: str | Path) -> Overlay:
    """Read an overlay: its JSON document, or a folder that holds it as ``overlay.json``.

    Raises
    ------
    NotFoundError, FormatError
        No such file, or not such a document.
    InvalidDataError
        Every problem of its corrections.
    """
    path = Path(path)
    path = path / OVERLAY if path.is_dir() else path
    if not path.is_file():
        raise NotFoundError(f"no overlay at {path}")
    document = parse_document(path.read_bytes(), kind="overlay of questions", where=str(path), newest=OVERLAY_FORMAT)
    problems = overlay_problems(document, path.name)
    if document.get("kind") != "question-overlay":
        message = f"its kind is question-overlay, got {document.get('kind')!r}"
        problems.insert(0, Problem(path.name, "wrong-kind", message))
    if problems:
        raise InvalidDataError(f"{path} is no sound overlay:", limited(problems))
    corrections = tuple(
        Correction(
            str(entry["question"]),
            answer_letter(entry["was"]),
            None if entry["answer"] is None else answer_letter(entry["answer"]),
            str(entry["why"]),
        )
        for entry in document["corrections"]
    )
    return Overlay(corrections, str(document.get("suite", "")), str(document.get("base", "")))


def apply_overlay(suite: PairSuite, overlay: Overlay) -> PairSuite:
    """The suite with corrected answers; the one given, its keys and its digest stay as they are.

    Raises
    ------
    InvalidDataError
        Every correction that does not fit: of a question that is not there, whose key is another one than the overlay
        says it was, or to an option that is not there.
    """
    questions = {question.id: question for question in suite.questions}
    problems = []
    for correction in overlay.corrections:
        question = questions.get(correction.question)
        place = f"question {correction.question}"
        if question is None:
            problems.append(Problem(place, "unknown-question", "the suite has no such question"))
            continue
        key = _LETTERS[question.key]
        if key != correction.was:
            message = f"the overlay corrects the key {correction.was!r}, the suite's is {key!r}"
            problems.append(Problem(place, "other-key", message))
        answer = None if correction.answer is None else _LETTERS.index(correction.answer)
        if answer is not None and answer >= len(question.options):
            allowed = ", ".join(_LETTERS[: len(question.options)])
            problems.append(Problem(place, "answer", f"answer is one of {allowed}, got {correction.answer!r}"))
        questions[question.id] = replace(question, answer=answer)
    if problems:
        hint = "An overlay is made for one version of a suite; look for one that names this version."
        raise InvalidDataError("the overlay does not fit the suite:", limited(problems), hint=hint)
    return replace(suite, questions=tuple(questions[question.id] for question in suite.questions))
