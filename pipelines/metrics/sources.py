"""What metrics need beside features and states: labels, keypoints, downstream scores, captions, language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.schemas.names import id_problems
from optotype.store.checks import limited
from optotype.store.dataset import read_table, read_texts

if TYPE_CHECKING:
    from optotype.pipelines.metrics.keypoints import Keypoints

__all__ = ["NOTHING", "Sources", "read_sources"]


@dataclass(frozen=True, eq=False)
class Sources:
    """All that was given; what was not is None.

    Attributes
    ----------
    labels : mapping of id to str
        ``""`` for none.
    keypoints : Keypoints
    downstream : mapping of (encoder, model) to float
        Mean over benchmarks; a score without a language model stands under ``(encoder, "")``.
    captions : mapping of id to str
    language_models : mapping of str to str
        Source of the weights by the name of the states.
    train : bool
        Whether metrics that train a network may.
    """

    labels: Mapping[str, str] | None = None
    keypoints: Keypoints | None = None
    downstream: Mapping[tuple[str, str], float] | None = None
    captions: Mapping[str, str] | None = None
    language_models: Mapping[str, str] | None = None
    train: bool = False

    def met(self, states: bool) -> set[str]:
        """Needs of metrics that are met; ``states`` tells whether there are any."""
        there = {
            "states": states,
            "labels": self.labels is not None,
            "keypoints": self.keypoints is not None,
            "downstream": self.downstream is not None,
            "captions": self.captions is not None,
            "language-model": bool(self.language_models),
            "training": self.train,
        }
        return {need for need, met in there.items() if met}

    def outcomes(self, models: Sequence[str]) -> Mapping[tuple[str, str], float] | None:
        """Downstream scores by encoder and language model: one that is of no model in particular holds for each."""
        if self.downstream is None:
            return None
        found: dict[tuple[str, str], float] = {}
        for (encoder, model), score in self.downstream.items():
            for each in [model] if model else models:
                found.setdefault((encoder, each), score)
        return found


NOTHING = Sources()


def read_sources(
    *,
    labels: str | Path | None = None,
    label_column: str = "group",
    keypoints: str | Path | None = None,
    downstream: str | Path | None = None,
    captions: str | Path | None = None,
    language_models: Mapping[str, str] | None = None,
    train: bool = False,
) -> Sources:
    """Read what was given.

    Parameters
    ----------
    labels : path, optional
        Table with the columns ``id`` and ``label_column``; an empty cell is no label.
    keypoints : path, optional
        See `optotype.pipelines.metrics.keypoints.read_keypoints`.
    downstream : path, optional
        Table ``encoder, score``, and perhaps ``model`` and ``benchmark`` (averaged without weights); or a ranking. See
        `optotype.pipelines.judging.sources.read_outcomes`.
    captions : path, optional
        Table with the columns ``id`` and ``text``.
    language_models : mapping of str to str, optional
    train : bool

    Raises
    ------
    NotFoundError, FormatError, UsageError
        A table that is not there, or no table.
    InvalidDataError
        Every problem of a table.
    """
    from optotype.pipelines.metrics.keypoints import read_keypoints

    texts = None if captions is None else read_texts(captions)
    return Sources(
        labels=None if labels is None else _labels(Path(labels), label_column),
        keypoints=None if keypoints is None else read_keypoints(keypoints),
        downstream=None if downstream is None else _downstream(Path(downstream)),
        captions=None if texts is None else dict(zip(texts.ids, texts.texts, strict=True)),
        language_models=dict(language_models) if language_models else None,
        train=train,
    )


def _labels(path: Path, column: str) -> dict[str, str]:
    rows = read_table(path, ["id", column])
    problems = id_problems([row["id"] for row in rows])
    if not rows:
        problems.append(Problem(column, "empty", "the table has no rows"))
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    return {str(row["id"]): "" if row[column] is None else str(row[column]).strip() for row in rows}


def _downstream(path: Path) -> dict[tuple[str, str], float]:
    from optotype.pipelines.judging.sources import read_outcomes

    cells: dict[tuple[str, str], dict[str, float]] = {}
    problems = []
    for each in read_outcomes(path):
        pair = (each.encoder, each.model or "")
        own = cells.setdefault(pair, {})
        if each.benchmark in own:
            problems.append(Problem(each.place, "duplicate", f"a second score of {' x '.join(filter(None, pair))}"))
        own[each.benchmark] = each.score
    every = {benchmark for own in cells.values() for benchmark in own}
    problems += [
        Problem(
            " x ".join(filter(None, pair)),
            "missing-benchmark",
            f"has no score on {', '.join(sorted(every - set(own)))}",
        )
        for pair, own in cells.items()
        if every - set(own)
    ]
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    return {pair: sum(own.values()) / len(own) for pair, own in cells.items()}
