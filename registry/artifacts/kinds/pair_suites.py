"""Payloads of the kind ``pairs`` that are about pairs of images: pair suites, and overlays of corrected keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description, Input, Rows, inputs_in
from optotype.schemas.errors import InvalidDataError, OptotypeError, Problem
from optotype.store.pair_overlays import OVERLAY, read_overlay
from optotype.store.pair_suites import (
    DOCUMENT,
    IMAGES,
    STATEMENTS,
    PairSuite,
    Question,
    Statement,
    in_pairs,
    read_pair_suite,
)

__all__ = ["Overlays", "PairSuites"]

_MINED = "pairs.parquet"
_ENCODERS = ("similar", "different")  # what mining calls the two encoders
_LETTERS = "abcdefgh"


class PairSuites:
    """Reads pair suites."""

    what = "Pairs of images that one encoder takes for alike and another tells apart, with questions or statements."
    load = "optotype.open_pair_suite(folder)"

    def problems(self, payload: Path) -> list[Problem]:
        """See `optotype.registry.artifacts.kinds.adapter.Adapter`."""
        return _problems(lambda: _mined(payload, read_pair_suite(payload)), DOCUMENT)

    def describe(self, payload: Path) -> Description:
        """See `optotype.registry.artifacts.kinds.adapter.Adapter`."""
        suite = read_pair_suite(payload)
        entries: list[Question | Statement] = [*suite.questions, *suite.statements]
        pairs = dict.fromkeys(entry.pair for entry in entries)
        patterns = list(dict.fromkeys(entry.pattern for entry in entries if entry.pattern))
        facts: dict[str, Any] = {
            "pairs": len(pairs),
            "questions": len(suite.questions),
            "statements": len(suite.statements),
            "images": len({entry.image for entry in entries}),
            "patterns": patterns,
            "questions_digest": suite.digest or None,
        }
        if (mined := _mined(payload, suite)) is not None:
            facts["mined_pairs"] = mined
        facts["content_digests"] = sorted(_content(payload, suite))
        limits = _texts(suite.document, "limits")
        limits.append("A score on pairs is about these images and these questions, chosen to be hard for one encoder.")
        if not (payload / IMAGES).is_file():
            limits.append("The images are named by id; their files are not part of it.")
        if len(entries) > sum(bool(entry.pattern) for entry in entries):
            limits.append("Not every pair has a pattern: those without count in no pattern's accuracy.")
        mining = suite.mining or {}
        parameters = mining.get("parameters", {})
        title = suite.document.get("title") or _title(suite, len(pairs))
        return Description(
            title,
            {f"mining_{name}": value for name, value in parameters.items()} if isinstance(parameters, Mapping) else {},
            None,
            _lineage(mining),
            facts,
            tuple(_texts(suite.document, "licences")),
            tuple(limits),
        )

    def rows(self, payload: Path) -> Rows:
        """Questions and statements by part and id."""
        suite = read_pair_suite(payload)
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for question in suite.questions:
            found["question", question.id] = {
                "pair": question.pair,
                "side": question.side,
                "image": question.image,
                "question": question.text,
                "options": list(question.options),
                "answer": _LETTERS[question.key],
                "pattern": question.pattern,
            }
        for each in suite.statements:
            found["statement", each.id] = {
                "pair": each.pair,
                "side": each.side,
                "image": each.image,
                "text": each.text,
                "pattern": each.pattern,
            }
        return Rows(("part", "id"), "questions and statements", found)

    def ranks(self, payload: Path) -> None:
        """A suite ranks nothing by itself."""
        return


class Overlays:
    """Reads overlays of corrected keys."""

    what = "Corrections of the keys of a pair suite, which itself stays as it was published."
    load = 'optotype.open_pair_suite("SUITE", overlay=folder)'

    def problems(self, payload: Path) -> list[Problem]:
        """See `optotype.registry.artifacts.kinds.adapter.Adapter`."""
        return _problems(lambda: read_overlay(payload), OVERLAY)

    def describe(self, payload: Path) -> Description:
        """See `optotype.registry.artifacts.kinds.adapter.Adapter`."""
        overlay = read_overlay(payload)
        count = len(overlay.corrections)
        facts: dict[str, Any] = {
            "corrections": count,
            "taken_out": sum(each.answer is None for each in overlay.corrections),
            "content_digests": [overlay.digest],
        }
        base = [Input("base", "pairs", overlay.suite or "questions", overlay.base)] if overlay.base else []
        of = f" of {overlay.suite}" if overlay.suite else ""
        return Description(
            f"{count} corrected keys{of}",
            {},
            None,
            tuple(base),
            facts,
            limits=("A score under an overlay is comparable with scores under the same overlay alone.",),
        )

    def rows(self, payload: Path) -> Rows:
        """Corrections by question."""
        found: dict[tuple[str, ...], dict[str, Any]] = {
            (each.question,): {"was": each.was, "answer": each.answer, "why": each.why}
            for each in read_overlay(payload).corrections
        }
        return Rows(("question",), "corrections", found)

    def ranks(self, payload: Path) -> None:
        """An overlay ranks nothing."""
        return


def _problems(read: Callable[[], object], name: str) -> list[Problem]:
    try:
        read()
    except InvalidDataError as error:
        return list(error.problems)
    except OptotypeError as error:
        return [Problem(name, "document", error.message)]
    return []


def _mined(payload: Path, suite: PairSuite) -> int | None:
    """How many of the suite's pairs are among the mined ones that lie beside it; None where none do.

    Raises
    ------
    InvalidDataError
        The table of mined pairs cannot be read.
    """
    import pyarrow.parquet as pq

    path = payload / _MINED
    if not path.is_file():
        return None
    try:
        table = pq.read_table(path, columns=["image_a", "image_b"], use_threads=False)
    except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are ValueErrors and KeyErrors
        message = f"not a table of mined pairs with image_a and image_b ({' '.join(str(error).split())})"
        raise InvalidDataError(f"{payload} refused:", [Problem(_MINED, "unreadable", message)]) from error
    mined = set(zip(table["image_a"].to_pylist(), table["image_b"].to_pylist(), strict=True))
    own = {
        tuple(sorted((one.image, two.image)))
        for entries in (in_pairs(suite.questions), in_pairs(suite.statements))
        for one, two in entries.values()
    }
    return len(own & mined)


def _content(payload: Path, suite: PairSuite) -> list[str]:
    """The digests by which arrays made of its images or statements, overlays and results name it."""
    from optotype.store.dataset import read_images, read_texts

    digests = [suite.digest] if suite.questions else []
    if suite.statements:
        digests.append(read_texts(payload / STATEMENTS).digest)
    if (payload / IMAGES).is_file():
        digests.append(read_images(payload / IMAGES).digest)
    return digests


def _lineage(mining: Mapping[str, Any]) -> tuple[Input, ...]:
    """The arrays that mining compared, and whatever else its document names by digest."""
    rest = {name: value for name, value in mining.items() if name not in ("format_version", "kind", "parameters")}
    found = [
        replace(each, kind="features") if each.role in _ENCODERS else each for each in inputs_in(rest, role="mining")
    ]
    return tuple(dict.fromkeys(found))


def _texts(document: Mapping[str, Any], name: str) -> list[str]:
    return [str(text) for text in document.get(name, [])]


def _title(suite: PairSuite, pairs: int) -> str:
    parts: Sequence[tuple[int, str]] = ((len(suite.questions), "questions"), (len(suite.statements), "statements"))
    held = " and ".join(f"{count:,} {what}" for count, what in parts if count)
    return f"{pairs:,} pairs of images with {held}"
