"""Which option an answer chose, whatever order and notation the options were listed in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from optotype.schemas.pair_suites import Variant
from optotype.store.pair_answers import Answer
from optotype.store.pair_suites import Question

__all__ = ["Choice", "choose", "read_option"]

_MARKS = {False: "abcdefgh", True: "12345678"}
_ALONE = re.compile(r"\(?\s*(\w)\s*\)?\s*[.:,]?")
_PHRASE = re.compile(
    r"\banswer(?:\s+is)?\s*:?\s*(?:\(\s*(\w)\s*\)|(\w)(?=\s*(?:[.,;:]|$)))"  # not: the answer is a dog
    r"|\b(?:option|choice)\s*:?\s*\(?\s*(\w)(?!\w)",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\(\s*(\w)\s*\)")
_LEADING = re.compile(r"\s*(\w)\s*[.:)](?:\s|$)")
_NEGATION = re.compile(r"\b(?:not|no|never|neither|nor|cannot)\b|n['’]t\b")


@dataclass(frozen=True)
class Choice:
    """What became of an answer.

    Attributes
    ----------
    option : int or None
        Index of the option in the suite's order; None where there is none, or where all that is known is that it is
        not the suite's key.
    missing : str or None
        Why there is no answer, in a word or two; None: there is one.
    """

    option: int | None
    missing: str | None = None


def choose(question: Question, answer: Answer) -> Choice:
    """The option that an answer chose.

    In this order: the harness says that there is no answer; the mark of an option stands alone (``b``, ``(B)``,
    ``2.``); a verdict says that it was right, and so the key that the harness went by; what `read_option` finds in the
    words. A verdict never overrules a mark that stands alone, since another key (an overlay's) may judge it otherwise;
    it does overrule what is read out of longer words: a judge has read them. An answer without words that was judged
    wrong is another option than the key: of two options the other one. Words from which no option can be told are no
    answer, also when they were judged wrong.

    Parameters
    ----------
    question : Question
    answer : Answer
        To that question.
    """
    if answer.invalid is not None:
        return Choice(None, answer.invalid)
    places = _places(question, answer.variant)
    key = question.key
    if answer.key is not None:
        said = _alone(answer.key, answer.variant, places)
        key = question.key if said is None else said
    if answer.response is None:
        if answer.verdict is None:
            return Choice(None, "blank")
        if answer.verdict == 1:
            return Choice(key)
        return Choice(1 - key if len(places) == 2 else None)
    alone = _alone(answer.response, answer.variant, places)
    if alone is not None:
        return Choice(alone)
    if answer.verdict == 1:
        return Choice(key)
    if not answer.response.strip():
        return Choice(None, "blank")
    option = read_option(question, answer.response, answer.variant)
    if option is None:
        return Choice(None, "no-option")
    if answer.verdict == 0 and option == key:
        return Choice(None, "judged-otherwise")
    return Choice(option)


def read_option(question: Question, text: str, variant: Variant) -> int | None:
    """The option that words name; None where they name none, or several.

    In this order, and the first that finds anything decides: the words are the mark or the text of an option; "the
    answer is (b)"; marks in brackets; a mark at the beginning (``B. open``, ``2) open``); texts of options as whole
    words, unless something is negated beside them. Case does not count. What finds two options finds none.

    Returns
    -------
    int or None
        Index in the suite's order.
    """
    places = _places(question, variant)
    alone = _alone(text, variant, places)
    if alone is not None:
        return alone
    words = _plain(text)
    options = [_plain(option) for option in question.options]
    if words in options:
        return options.index(words)
    marks = _MARKS[variant.numbers][: len(places)]
    phrases = ["".join(groups).lower() for groups in _PHRASE.findall(text)]
    leading = _LEADING.match(text)
    for found in (phrases, _BRACKETED.findall(text.lower()), [leading[1].lower()] if leading else []):
        named = {places[marks.index(mark)] for mark in found if mark in marks}
        if named:
            return named.pop() if len(named) == 1 else None
    said = _mentioned(words, options)
    return said[0] if len(said) == 1 else None


def _places(question: Question, variant: Variant) -> list[int]:
    """Option (suite's order) at each place of the prompt."""
    order = list(range(len(question.options)))
    return order[::-1] if variant.swapped else order


def _alone(text: str, variant: Variant, places: Sequence[int]) -> int | None:
    match = _ALONE.fullmatch(text.strip())
    marks = _MARKS[variant.numbers][: len(places)]
    mark = match[1].lower() if match else ""
    return places[marks.index(mark)] if mark and mark in marks else None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(".!?:;,\"' ")


def _mentioned(words: str, options: Sequence[str]) -> list[int]:
    """Options whose text stands in ``words``; an option inside the text of another counts where it stands by itself."""
    longest_first = sorted(range(len(options)), key=lambda i: -len(options[i]))
    found = []
    for i in longest_first:
        pattern = re.compile(rf"(?<!\w){re.escape(options[i])}(?!\w)")
        if options[i] and pattern.search(words):
            found.append(i)
            words = pattern.sub(" | ", words)
    negated = _NEGATION.search(words) and not any(_NEGATION.search(option) for option in options)
    return [] if negated else found
