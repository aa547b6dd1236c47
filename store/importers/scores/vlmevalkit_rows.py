"""One row of a VLMEvalKit table: its score, or why it has none. Rotations of a circular question as one row."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Judgement", "choices_of", "grouped", "judge", "verdict_of"]

_API_FAILED = "Failed to obtain answer"
_RANDOM = "Failed to predict, thus randomly generate one"
_RETRIES_FAILED = re.compile(r"All \d+ retries failed")
_NOT_MATCHED = "Failed in Prefetch, no GPT-based answer matching"
# How the logs of the matching step say that the option it arrived at is Z, "none of them".
_Z_IN_LOG = re.compile(r"Match Log: \(?Z\)?\s*\.|Pre-fetched is Z\b|^\s*\(?Z\)?\.?\s*$", re.MULTILINE)
_LETTER = re.compile(r"\(?([A-Z])\)?[.:]?")
_PARSED = ("opt", "option", "extracted", "extract", "res")


@dataclass(frozen=True)
class Judgement:
    """What became of a row.

    Attributes
    ----------
    score : float or None
    invalid : str or None
        Why there is none.
    response : str or None
        The option's letter if the prediction is nothing else, else the prediction.
    """

    score: float | None
    invalid: str | None
    response: str | None


def verdict_of(columns: Iterable[str]) -> str | None:
    """The column with the verdict: ``hit``, else ``eval_score``, else ``score`` where a judge's log stands beside it.

    A dataset may have a column ``score`` of its own, which says nothing of the model.
    """
    held = set(columns)
    has_log = any(name.startswith("log") for name in held)
    return next((n for n in ("hit", "eval_score", "score") if n in held and (n != "score" or has_log)), None)


def choices_of(row: Mapping[str, str]) -> dict[str, str]:
    """The options of a row by letter."""
    return {letter: row[letter] for letter in string.ascii_uppercase if letter in row}


def judge(row: Mapping[str, str], verdict: str | None) -> Judgement:
    """The score of a row: the judge's verdict, else that of its extracted answer, else an option's letter as it stands.

    Invalid, and so without a score, whatever the verdict is: a prediction (or judge) that failed to answer, an option
    that the matching step drew at random, and ``Z``, no option at all.

    Parameters
    ----------
    row : mapping
        Cells by column, blank ones left out.
    verdict : str, optional
        Column of the verdict, `verdict_of` the table.
    """
    prediction, log = row.get("prediction", ""), row.get("log", "")
    letter = _letter(prediction)
    response = letter or prediction or None
    reason = _fault(row, prediction, log)
    if reason is not None:
        return Judgement(None, reason, response)
    if verdict is not None:
        score = _number(row.get(verdict, ""))
        return Judgement(score, None if score is not None else "no-score", response)
    truth = row.get("answer_option") or row.get("answer")
    if truth is None:
        return Judgement(None, "no-answer", response)
    if "res" in row:
        return Judgement(_extracted(row, row["res"], truth), None, response)
    choices = choices_of(row)
    if not choices:
        return Judgement(None, "not-judged", response)
    if letter is None or letter not in choices:
        return Judgement(None, "unparsed", response)
    return Judgement(float(letter == (_letter(truth) or truth)), None, response)


def grouped(rotations: Sequence[Judgement], wanted: int | None) -> Judgement:
    """The rotations of one question: right only if all of them are.

    Parameters
    ----------
    rotations : sequence of Judgement
        The one in the original order first.
    wanted : int, optional
        How many there should be: one for each option.

    Returns
    -------
    Judgement
        0 as soon as one rotation is validly wrong, whatever became of the others; otherwise missing if one of them is
        missing or was never asked; otherwise 1.
    """
    response = rotations[0].response
    if any(rotation.score is not None and rotation.score < 1 for rotation in rotations):
        return Judgement(0.0, None, response)
    reason = next((rotation.invalid for rotation in rotations if rotation.score is None), None)
    if reason is None and wanted is not None and len(rotations) < wanted:
        reason = "incomplete-group"
    return Judgement(None if reason else 1.0, reason, response)


def _fault(row: Mapping[str, str], prediction: str, log: str) -> str | None:
    if _API_FAILED in prediction:
        return "failed-to-answer"
    if _RANDOM in log:
        return "random-option"
    if _API_FAILED in log or (_RETRIES_FAILED.search(log) and not row.get("res")):
        return "judge-failed"
    parsed = [_letter(row[name]) for name in (*_PARSED, "prediction") if name in row]
    if "Z" in parsed or _NOT_MATCHED in log or _Z_IN_LOG.search(log):
        return "option-z"
    return None


def _letter(text: str) -> str | None:
    match = _LETTER.fullmatch(text.strip())
    return match[1] if match else None


def _number(text: str) -> float | None:
    try:
        value = float({"True": "1", "False": "0"}.get(text, text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _extracted(row: Mapping[str, str], extracted: str, truth: str) -> float:
    """Whether the extracted answer is the right one: as text, as a number, or as the letter or text of its option."""
    if extracted.strip().lower() == truth.strip().lower():
        return 1.0
    numbers = _number(extracted), _number(truth)
    if None not in numbers:
        return float(numbers[0] == numbers[1])
    letter = _letter(extracted)
    options = {name: text.strip().lower() for name, text in choices_of(row).items()}
    if letter in options and options[letter] == truth.strip().lower():
        return 1.0
    return float(options.get(_letter(truth) or "") == extracted.strip().lower())
