"""Reads pair suites: questions and statements about pairs of images.

A pair suite is a folder with ``pair-suite.json`` (``{"format_version": 1, "kind": "pair-suite"}`` and perhaps
``title``, ``description``, ``licences``, ``limits``) and ``questions.csv``, ``statements.csv`` or both. Beside them
there may be ``images.csv`` (``id, image``: the files of the images, as `optotype encode images` reads them) and what
``optotype pairs mine`` wrote, ``pairs.json`` and ``pairs.parquet``: the mining lineage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from optotype.schemas.documents import canonical_json, parse_document
from optotype.schemas.errors import InvalidDataError, NotFoundError, OptotypeError, Problem
from optotype.schemas.pair_suites import (
    PAIR_SUITE_FORMAT,
    answer_letter,
    option_columns,
    question_problems,
    shared_problems,
    statement_problems,
)
from optotype.store.checks import limited

__all__ = [
    "DOCUMENT",
    "IMAGES",
    "MINING",
    "QUESTIONS",
    "STATEMENTS",
    "PairSuite",
    "Question",
    "Statement",
    "in_pairs",
    "read_pair_suite",
]

DOCUMENT = "pair-suite.json"
QUESTIONS = "questions.csv"
STATEMENTS = "statements.csv"
IMAGES = "images.csv"
MINING = "pairs.json"
_LETTERS = "abcdefgh"
_LISTS = ("licences", "limits")


@dataclass(frozen=True)
class Question:
    """A question about one image of a pair.

    Attributes
    ----------
    id, pair, image, text, pattern : str
        ``pattern`` is ``""`` where the suite gives none.
    side : int
        1 or 2.
    options : tuple of str
        In the suite's order.
    key : int
        Index of the right option, as the suite has it.
    answer : int or None
        Index of the right option after an overlay; None: the overlay says that there is none.
    """

    id: str
    pair: str
    side: int
    image: str
    text: str
    options: tuple[str, ...]
    key: int
    answer: int | None
    pattern: str = ""


@dataclass(frozen=True)
class Statement:
    """A statement that is true of one image of a pair; attributes as of `Question`."""

    id: str
    pair: str
    side: int
    image: str
    text: str
    pattern: str = ""


class _OfPair(Protocol):
    @property
    def pair(self) -> str: ...

    @property
    def side(self) -> int: ...


_T = TypeVar("_T", bound=_OfPair)


def in_pairs(entries: Sequence[_T]) -> dict[str, tuple[_T, _T]]:
    """Pair -> its first and its second entry; pairs in the order in which they first appear."""
    found: dict[str, dict[int, _T]] = {}
    for entry in entries:
        found.setdefault(entry.pair, {})[entry.side] = entry
    return {pair: (sides[1], sides[2]) for pair, sides in found.items()}


@dataclass(frozen=True)
class PairSuite:
    """A suite as it is on disk, or under an overlay.

    Attributes
    ----------
    questions : tuple of Question
    statements : tuple of Statement
        Each in the order of its table; one of the two may be empty.
    document : mapping
        ``pair-suite.json``.
    mining : mapping or None
        ``pairs.json`` of the mining that found the pairs.
    """

    questions: tuple[Question, ...]
    statements: tuple[Statement, ...]
    document: Mapping[str, Any]
    mining: Mapping[str, Any] | None = None

    @property
    def digest(self) -> str:
        """``sha256:`` of the questions, options and keys of the base, in the order of their ids; "" without any."""
        if not self.questions:
            return ""
        rows = [[q.id, q.pair, q.side, q.image, q.text, list(q.options), q.key, q.pattern] for q in self.questions]
        return "sha256:" + hashlib.sha256(canonical_json(sorted(rows, key=lambda row: str(row[0])))).hexdigest()


def read_pair_suite(folder: str | Path) -> PairSuite:
    """Read and check a pair suite.

    Raises
    ------
    NotFoundError
        No ``pair-suite.json``.
    FormatError
        It was written by a newer optotype, or is no such document.
    InvalidDataError
        Every problem of its tables, images and mining document.
    """
    from optotype.store.importers.scores.tables import read_text

    folder = Path(folder)
    path = folder / DOCUMENT
    if not path.is_file():
        hint = 'It holds {"format_version": 1, "kind": "pair-suite"} and stands beside the tables.'
        raise NotFoundError(f"{folder}: no pair suite, there is no {DOCUMENT}", hint=hint)
    document = parse_document(path.read_bytes(), kind="pair suite", where=str(path), newest=PAIR_SUITE_FORMAT)
    problems = _document_problems(document)
    frames = {}
    for name, check in ((QUESTIONS, question_problems), (STATEMENTS, statement_problems)):
        if (folder / name).is_file():
            try:
                frames[name] = read_text(folder / name)
            except InvalidDataError as error:
                problems += error.problems
                continue
            except OptotypeError as error:
                problems.append(Problem(name, "unreadable", error.message))
                continue
            problems += check(frames[name], name)
    if not frames and not problems:
        problems.append(Problem(str(folder), "empty", f"neither {QUESTIONS} nor {STATEMENTS}"))
    if not problems and len(frames) == 2:
        problems += shared_problems(frames[QUESTIONS], frames[STATEMENTS])
    mining = _mining(folder, problems)
    if not problems and (folder / IMAGES).is_file():
        problems += _image_problems(folder, {str(name) for frame in frames.values() for name in frame["image"]})
    if problems:
        raise InvalidDataError(f"{folder} is no sound pair suite:", limited(problems))
    questions = [_question(row) for row in frames[QUESTIONS].to_dict("records")] if QUESTIONS in frames else []
    statements = [_statement(row) for row in frames[STATEMENTS].to_dict("records")] if STATEMENTS in frames else []
    return PairSuite(tuple(questions), tuple(statements), document, mining)


def _document_problems(document: Mapping[str, Any]) -> list[Problem]:
    problems = []
    if document.get("kind") != "pair-suite":
        problems.append(Problem(DOCUMENT, "wrong-kind", f"its kind is pair-suite, got {document.get('kind')!r}"))
    problems += [
        Problem(DOCUMENT, "value", f"{name} is a text, got {document[name]!r}")
        for name in ("title", "description")
        if name in document and not isinstance(document[name], str)
    ]
    for name in _LISTS:
        found = document.get(name, [])
        if not isinstance(found, list) or not all(isinstance(text, str) and text.strip() for text in found):
            problems.append(Problem(DOCUMENT, "value", f"{name} is a list of texts, got {found!r}"))
    return problems


def _mining(folder: Path, problems: list[Problem]) -> Mapping[str, Any] | None:
    """What ``optotype pairs mine`` said of the pairs, if it lies beside the suite."""
    path = folder / MINING
    if not path.is_file():
        return None
    try:
        document = parse_document(path.read_bytes(), kind="document of mined pairs", where=MINING, newest=1)
    except OptotypeError as error:
        problems.append(Problem(MINING, "document", error.message))
        return None
    if document.get("kind") != "pair-mining":
        problems.append(Problem(MINING, "wrong-kind", f"its kind is pair-mining, got {document.get('kind')!r}"))
    return document


def _image_problems(folder: Path, named: set[str]) -> list[Problem]:
    from optotype.store.dataset import read_images

    try:
        there = set(read_images(folder / IMAGES).ids)
    except InvalidDataError as error:
        return [Problem(f"{IMAGES}: {each.where}", each.kind, each.message) for each in error.problems]
    except OptotypeError as error:
        return [Problem(IMAGES, "unreadable", error.message)]
    missing = sorted(named - there)
    return [Problem(IMAGES, "missing-image", f"image {name!r} of a pair is not listed") for name in missing]


def _question(row: Mapping[Any, Any]) -> Question:
    options = tuple(text for name in option_columns(map(str, row)) if (text := str(row[name]).strip()))
    key = _LETTERS.index(answer_letter(row["answer"]))
    pattern = str(row.get("pattern", "")).strip()
    side = int(row["side"])
    return Question(row["id"], row["pair"], side, row["image"], row["question"], options, key, key, pattern)


def _statement(row: Mapping[Any, Any]) -> Statement:
    pattern = str(row.get("pattern", "")).strip()
    return Statement(row["id"], row["pair"], int(row["side"]), row["image"], row["text"], pattern)
