"""One row of an lmms-eval sample log: its answer, its score, what names its item, and whether the answer was drawn.

Facts from the harness's sources: a metric is a number or a dict (``{"id": ..., "answer": "B", "parsed_pred": ["B"]}``),
``filtered_resps`` is a str, a list, or a list of lists, and MMMU's parser, which many tasks copied, draws an option at
random when it finds none.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optotype.schemas.documents import canonical_json

__all__ = [
    "ID_KEYS",
    "Metric",
    "answer_of",
    "digest_id",
    "drawn_at_random",
    "harvest",
    "id_of",
    "metrics_of",
    "score_of",
    "unparsed",
]

ID_KEYS = ("id", "idx", "index", "question_id")
"""Names of stable ids in a metric's dict, in the order in which they are tried."""

_DIGEST_DIGITS = 32
# What stands beside the metrics in a row. `doc_hash` is the hash of `null` in every row: never an id.
_NOT_METRICS = frozenset(("arguments", "doc", "doc_hash", "doc_id", "filter", "filtered_arguments", "filtered_resps"))
_NOT_METRICS |= {"input", "metrics", "prompt_hash", "resps", "target", "target_hash", "token_counts", *ID_KEYS}
_VERDICTS = ("is_correct", "correct", "score", "acc", "accuracy", "exact_match", "hit")
_PARSED = ("parsed_pred", "pred_parsed", "pred_letter", "parsed_answer", "pred_answer")
_SAID = (*_PARSED, "pred", "prediction")  # the last two may be free text: an answer, but not to be compared
_TRUTH = ("answer", "gt_content", "gt", "ground_truth", "answer_label", "target", "label")
_RANDOM = ("parsed_pred", "pred_parsed", "pred_letter")  # as the copies of MMMU's parser call what they found
_HARVEST = {
    "category": ("category",),
    "sub_task": ("sub_task", "subtask", "subdomain", "sub_category", "subcategory"),
}
_LETTER = re.compile(r"[A-Z]")
_OPTION = re.compile(r"^\s*\(?([A-Z])[.):]\s*(\S.*?)\s*$", re.MULTILINE)
_SHORT = 5  # words: MMMU's parser looks for the text of an option in longer answers only

Metric = Any


def metrics_of(row: Mapping[str, Any]) -> dict[str, Metric]:
    """The metrics of a row in the order of the log, whatever they hold."""
    return {str(name): value for name, value in row.items() if name not in _NOT_METRICS}


def answer_of(row: Mapping[str, Any]) -> str | None:
    """The model's answer: the first string in ``filtered_resps`` (else ``resps``), however deep it is nested."""
    for name in ("filtered_resps", "resps"):
        found = _first_string(row.get(name))
        if found is not None:
            return found
    return None


def _first_string(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return next((found for entry in value if (found := _first_string(entry)) is not None), None)
    return None


def score_of(metric: Metric) -> tuple[float | None, str | None]:
    """What a metric says of one sample.

    Returns
    -------
    score : float or None
        A number (or truth value) as it stands; of a dict its verdict (``is_correct``, ``score``, ...), else whether
        what was parsed is the answer, as MMMU's evaluation compares them. None if the metric has no score in it.
    parsed : str or None
        The answer as the task parsed it, where the dict names it.
    """
    if not isinstance(metric, Mapping):
        return _number(metric), None
    parsed_value = next((metric[name] for name in _PARSED if metric.get(name) is not None), None)
    parsed = _first_string(next((metric[name] for name in _SAID if metric.get(name) is not None), None))
    verdict = next((name for name in _VERDICTS if name in metric), None)
    if verdict is not None:
        return _number(metric[verdict]), parsed
    truth = next((metric[name] for name in _TRUTH if metric.get(name) is not None), None)
    if parsed_value is None or truth is None:
        return None, parsed
    tries = parsed_value if isinstance(parsed_value, list) else [parsed_value]
    same = _open_match if _is_open(metric) else _same_choice
    return float(any(same(truth, attempt) for attempt in tries)), parsed


def _number(value: Any) -> float | None:
    """A number or truth value, also as a text or alone in a list; None for anything else, NaN and infinity included."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def _same_choice(truth: Any, attempt: Any) -> bool:
    accepted = truth if isinstance(truth, list) else [truth]
    return any(str(option).strip() == str(attempt).strip() for option in accepted)


def _open_match(truth: Any, attempt: Any) -> bool:
    """MMMU's rule for open questions: a normalised answer occurs in a parsed text, or is one of the parsed numbers."""
    accepted = [form for answer in (truth if isinstance(truth, list) else [truth]) for form in _normalised(answer)]
    for candidate in attempt if isinstance(attempt, list) else [attempt]:
        if isinstance(candidate, str):
            if any(isinstance(form, str) and form in candidate for form in accepted):
                return True
        elif any(isinstance(form, float) and form == candidate for form in accepted):
            return True
    return False


def _normalised(answer: Any) -> list[str | float]:
    text = str(answer).strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lower = text.lower()
        return [f" {lower}", f"{lower} "] if len(lower) == 1 else [lower]


def id_of(row: Mapping[str, Any], key: str) -> str | None:
    """The id called ``key`` in the first metric that has it, else in the row itself; None if there is none."""
    for holder in (*(m for m in metrics_of(row).values() if isinstance(m, Mapping)), row):
        value = holder.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return None


def digest_id(row: Mapping[str, Any]) -> str | None:
    """The first 32 hex digits of the SHA-256 of ``input`` and ``target`` as canonical JSON; None without an input."""
    if row.get("input") in (None, "", []):
        return None
    return hashlib.sha256(canonical_json([row["input"], row.get("target")])).hexdigest()[:_DIGEST_DIGITS]


def drawn_at_random(row: Mapping[str, Any], metric: Metric) -> bool:
    """Whether it can be told that a parser drew the option because it found none in the answer.

    It can be told where the metric's dict names one parsed letter and the answer is known: if the answer holds that
    letter in none of the forms that a parser takes (``(B)``, ``B.``, ``B`` and a space; alone, in either case), and
    either not the text of the option (where the prompt lists the options), or is so short that MMMU's parser looks
    for letters only. Where the options are unknown and the answer is long, the row stands.
    """
    if not isinstance(metric, Mapping):
        return False
    parsed = _first_string(next((metric[name] for name in _RANDOM if metric.get(name) is not None), None))
    answer = answer_of(row)
    if parsed is None or answer is None or not _LETTER.fullmatch(parsed.strip()):
        return False
    letter = parsed.strip()
    padded = f" {answer.strip(',.!?;:' + chr(39))} "
    if any(form in padded for form in (f"({letter})", f"{letter} ", f"{letter}.")):
        return False
    if re.search(rf"(?<![A-Za-z]){letter}(?![A-Za-z])", answer, re.IGNORECASE):
        return False
    if not answer.strip():
        return True
    options = dict(_OPTION.findall(str(_first_string(row.get("input")) or "")))
    content = str(options.get(letter, "")).lower()
    if content:
        said = answer.strip().rstrip(".").lower()
        return content.rstrip(".") not in said and said not in content
    return len(answer.split()) <= _SHORT


def unparsed(row: Mapping[str, Any], metric: Metric) -> str | None:
    """Why there is no parsed answer to score; None if there is one.

    ``unparsed``: the metric's dict names what was parsed, and that is blank. ``option-z``: what the copies of MMMU's
    parser found is ``Z``, which stands for no option at all, unless it is the answer or one of the prompt's options,
    or the question is an open one.
    """
    if not isinstance(metric, Mapping):
        return None
    parsed = _first_string(next((metric[name] for name in _PARSED if metric.get(name) is not None), None))
    if parsed is not None and not parsed.strip():
        return "unparsed"
    letter = _first_string(next((metric[name] for name in _RANDOM if metric.get(name) is not None), None))
    if letter is None or letter.strip().strip("().") != "Z" or _is_open(metric):
        return None
    truths = [str(metric[name]) for name in _TRUTH if metric.get(name) is not None] + [str(row.get("target", ""))]
    if any(re.search(r"\bZ\b", truth, re.IGNORECASE) for truth in truths):
        return None
    is_option = any(name == "Z" for name, _ in _OPTION.findall(str(_first_string(row.get("input")) or "")))
    return None if is_option else "option-z"


def _is_open(metric: Mapping[str, Any]) -> bool:
    return str(metric.get("question_type", "")).replace("_", "-").startswith(("open", "short"))


def harvest(row: Mapping[str, Any], metrics: Iterable[Metric]) -> dict[str, str]:
    """What a row tells of its item: ``category``, ``sub_task``, ``answer``, ``question`` (the prompt), or less."""
    found: dict[str, str] = {}
    for metric in metrics:
        if isinstance(metric, Mapping):
            for column, names in _HARVEST.items():
                value = next((metric[name] for name in names if isinstance(metric.get(name), str)), None)
                if value is not None and value.strip():
                    found.setdefault(column, value.strip())
    target = row.get("target")
    if isinstance(target, str) and target.strip():
        found["answer"] = target.strip()
    prompt = _first_string(row.get("input"))
    if prompt is not None and prompt.strip():
        found["question"] = prompt.strip()
    return found
