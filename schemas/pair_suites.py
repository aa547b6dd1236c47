"""What pair suites look like: questions and statements about pairs of images, and overlays that correct their keys.

Both tables have two rows for each pair, one for each image. ``side`` says which of the two images a row is about; it
is written down because the public evaluator of MMVP-VLM gives ties to the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optotype.schemas.errors import Problem, UsageError, did_you_mean
from optotype.schemas.names import id_problems

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "OVERLAY_FORMAT",
    "PAIR_SUITE_FORMAT",
    "PATTERNS",
    "VARIANTS",
    "Variant",
    "answer_letter",
    "option_columns",
    "overlay_problems",
    "question_problems",
    "shared_problems",
    "statement_problems",
]

PAIR_SUITE_FORMAT = 1  # format_version of pair-suite.json
OVERLAY_FORMAT = 1  # format_version of overlay.json

PATTERNS = (
    "orientation and direction",
    "presence of specific features",
    "state and condition",
    "quantity and count",
    "positional and relational context",
    "color and appearance",
    "structural and physical characteristics",
    "texts",
    "viewpoint and perspective",
)
"""The nine visual patterns of MMVP, in its order. A suite may use other labels, or none."""

_LETTERS = "abcdefgh"
_OPTION = "option_"
_SIDES = ("1", "2")
_QUESTION = ("id", "pair", "image", "question", "option_a", "option_b", "answer")
_STATEMENT = ("id", "pair", "image", "text")


@dataclass(frozen=True)
class Variant:
    """How the questions of a suite were put to a model.

    Attributes
    ----------
    swapped : bool
        Options were listed in the reverse order, so that of two options (a) names what is (b) in the suite.
    numbers : bool
        Options were called 1, 2 ... instead of a, b ...
    """

    swapped: bool = False
    numbers: bool = False

    @classmethod
    def parse(cls, text: str) -> Variant:
        """A variant by its name.

        Raises
        ------
        UsageError
            There is none of this name.
        """
        try:
            return VARIANTS[text.strip().lower() or "original"]
        except KeyError:
            hint = did_you_mean(text, list(VARIANTS))
            raise UsageError(f"no variant {text!r}: {', '.join(VARIANTS)}", hint=hint) from None

    def __str__(self) -> str:
        return next(name for name, variant in VARIANTS.items() if variant == self)


VARIANTS: dict[str, Variant] = {
    "original": Variant(),
    "swap": Variant(swapped=True),
    "numbers": Variant(numbers=True),
    "swap+numbers": Variant(swapped=True, numbers=True),
}
"""Name -> variant; ``swap`` is MMVP's option swapping, ``numbers`` its change of notation."""


def option_columns(columns: Iterable[str]) -> list[str]:
    """Those of ``columns`` that hold options, ``option_a`` first."""
    held = set(columns)
    return [_OPTION + letter for letter in _LETTERS if _OPTION + letter in held]


def answer_letter(text: str) -> str:
    """A key as it is kept: ``(B)`` and ``B`` are ``b``."""
    return text.strip().strip("()").strip().lower()


def question_problems(frame: pd.DataFrame, where: str = "questions.csv") -> list[Problem]:
    """Everything that is wrong with a table of questions.

    Parameters
    ----------
    frame : DataFrame of str
        ``id, pair, side, image, question, option_a, option_b[, option_c ...], answer[, pattern]``; a cell that is not
        there is ``""``. ``answer`` is the letter of an option. Other columns are let be.
    where : str
        Name of the table, for the messages.
    """
    problems = _frame_problems(frame, _QUESTION, where)
    if problems:
        return problems
    columns = option_columns(frame.columns)
    for row in frame.to_dict("records"):
        place = f"{where}: question {row['id']}"
        options = [str(row[name]).strip() for name in columns]
        count = next((i for i, option in enumerate(options) if not option), len(options))
        if any(options[count:]):
            problems.append(Problem(place, "option-gap", f"{columns[count]} is blank and a later option is not"))
        said = [option.casefold() for option in options[:count]]
        if len(set(said)) < len(said):
            problems.append(Problem(place, "same-options", f"two options read the same: {options[:count]}"))
        key = answer_letter(str(row["answer"]))
        if len(key) != 1 or key not in _LETTERS[:count]:
            allowed = ", ".join(_LETTERS[:count])
            problems.append(Problem(place, "answer", f"answer is one of {allowed}, got {row['answer']!r}"))
    return problems + _pair_problems(frame, where)


def statement_problems(frame: pd.DataFrame, where: str = "statements.csv") -> list[Problem]:
    """Everything that is wrong with a table of statements.

    Parameters
    ----------
    frame : DataFrame of str
        ``id, pair, side, image, text[, pattern]``: ``text`` is true of ``image`` and not of the other one.
    where : str
        Name of the table, for the messages.
    """
    problems = _frame_problems(frame, _STATEMENT, where)
    return problems or _pair_problems(frame, where)


def shared_problems(questions: pd.DataFrame, statements: pd.DataFrame) -> list[Problem]:
    """In what two sound tables of one suite contradict each other: images or patterns of a pair that both have."""
    problems = []
    told = [{(row["pair"], row["side"]): row for row in frame.to_dict("records")} for frame in (questions, statements)]
    for key in [key for key in told[0] if key in told[1]]:
        for name in ("image", "pattern"):
            one, other = (str(rows[key].get(name, "")) for rows in told)
            if one != other:
                message = f"side {key[1]}: {name} is {one!r} among the questions, {other!r} among the statements"
                problems.append(Problem(f"pair {key[0]}", "contradiction", message))
    return problems


def overlay_problems(document: Mapping[str, Any], where: str) -> list[Problem]:
    """Everything that is wrong with an overlay of corrected keys.

    Parameters
    ----------
    document : mapping
        ``corrections``: a list of ``{"question", "was", "answer", "why"}``; ``answer`` null takes a question without a
        right answer out. ``suite`` (a name) and ``base`` (digest of the questions) say what it was made for.
    where : str
        Its file, for the messages.
    """
    corrections = document.get("corrections")
    if not isinstance(corrections, list) or not corrections:
        return [Problem(where, "no-corrections", "corrections is a list with one object or more")]
    problems = [
        Problem(where, "value", f"{name} is a text, got {document[name]!r}")
        for name in ("suite", "base")
        if name in document and not isinstance(document[name], str)
    ]
    seen: set[str] = set()
    for number, entry in enumerate(corrections):
        place = f"{where}: corrections[{number}]"
        if not isinstance(entry, Mapping):
            problems.append(Problem(place, "value", f"a correction is an object, got {entry!r}"))
            continue
        problems += [
            Problem(place, "value", f"{name} is a text that is not blank, got {entry.get(name)!r}")
            for name in ("question", "was", "why")
            if not _is_text(entry.get(name))
        ]
        answer = entry.get("answer", "")
        if answer is not None and (not isinstance(answer, str) or answer_letter(answer) not in list(_LETTERS)):
            problems.append(Problem(place, "answer", f"answer is a letter, or null for none, got {answer!r}"))
        question = str(entry.get("question"))
        if question in seen:
            problems.append(Problem(place, "duplicate", f"question {question!r} is corrected twice"))
        seen.add(question)
    return problems


def _frame_problems(frame: pd.DataFrame, texts: tuple[str, ...], where: str) -> list[Problem]:
    """What pandera finds in single cells, and ids that repeat."""
    import pandera.pandas as pa
    from pandera.config import ValidationDepth, config_context
    from pandera.errors import SchemaErrors

    text = pa.Check(_is_text, element_wise=True, name="text", error="a text that is not blank is wanted")
    side = pa.Check.isin(_SIDES, error="1 or 2 is wanted: the pair's first image or its second")
    columns = {name: pa.Column(object, checks=text) for name in texts} | {"side": pa.Column(object, checks=side)}
    schema = pa.DataFrameSchema(columns, name=where)
    problems = []
    with config_context(validation_enabled=True, validation_depth=ValidationDepth.SCHEMA_AND_DATA):
        try:
            schema.validate(frame, lazy=True)
        except SchemaErrors as errors:
            problems = [_problem(case, where) for case in errors.failure_cases.to_dict("records")]
    if problems:
        return sorted(set(problems))
    if frame.empty:
        return [Problem(where, "empty", "the table has no rows")]
    return id_problems(frame["id"].tolist(), f"{where}: id")


def _pair_problems(frame: pd.DataFrame, where: str) -> list[Problem]:
    """Pairs that are not two rows about two images under one label."""
    pairs: dict[str, list[Mapping[Any, Any]]] = {}
    for row in frame.to_dict("records"):
        pairs.setdefault(row["pair"], []).append(row)
    problems = []
    for name, rows in pairs.items():
        place = f"{where}: pair {name}"
        sides = sorted(str(row["side"]) for row in rows)
        if sides != list(_SIDES):
            problems.append(Problem(place, "sides", f"one row with side 1 and one with side 2, got {', '.join(sides)}"))
            continue
        if rows[0]["image"] == rows[1]["image"]:
            problems.append(Problem(place, "one-image", f"both sides name the image {rows[0]['image']!r}"))
        labels = {str(row.get("pattern", "")) for row in rows}
        if len(labels) > 1:
            problems.append(Problem(place, "patterns", f"two patterns for one pair: {sorted(labels)}"))
    return problems


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _problem(case: Mapping[str, Any], where: str) -> Problem:
    if case["check"] == "column_in_dataframe":
        return Problem(f"{where}: {case['failure_case']}", "missing-column", "the table lacks this column")
    index = case["index"]
    place = f" in row {int(index) + 1}" if index == index and index is not None else ""
    wanted = "texts are wanted" if str(case["check"]).startswith("dtype") else case["check"]
    return Problem(f"{where}: {case['column']}", "value", f"{case['failure_case']!r}{place}: {wanted}")
