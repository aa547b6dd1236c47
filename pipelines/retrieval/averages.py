"""Averages over tasks and languages. What is not there is null, and so is every average over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["AVG3", "ENGLISH", "language_rows", "macro_row", "ordered_languages", "ordered_tasks"]

AVG3 = ("i2t", "t2i", "c")
"""Tasks of AVG-3."""

ENGLISH = "en"
_ORDER = (*AVG3, "vqa", "vg")

Values = Mapping[tuple[str, str], float | None]
"""P@1 of each task and language, in percent."""


def ordered_tasks(tasks: Sequence[str]) -> list[str]:
    """Each once: those of the benchmark in its order, others after them by name."""
    return sorted(set(tasks), key=lambda task: (_ORDER.index(task) if task in _ORDER else len(_ORDER), task))


def ordered_languages(languages: Sequence[str]) -> list[str]:
    """Each once: English first, others by name."""
    return sorted(set(languages), key=lambda language: (language != ENGLISH, language))


def language_rows(
    values: Values,
    tasks: Sequence[str],
    languages: Sequence[str],
    agreements: Mapping[tuple[str, str], Mapping[str, Any]],
    policy: str,
) -> list[dict[str, Any]]:
    """One row for each language.

    Parameters
    ----------
    values : mapping of (task, language) to float or None
        None: the model cannot do the task. A pair that is not there: the set has no such task in that language.
    tasks, languages : sequence of str
        Of the set.
    agreements : mapping of (task, language) to mapping
        As `optotype.pipelines.retrieval.agreement.agreement` gives them.
    policy : str
        For ties; of the agreement.

    Returns
    -------
    list of dict
        ``language``; ``p1`` by task; ``avg3``, the mean of i2t, t2i and c; ``avg``, the mean of all tasks of the set,
        both None if any of them is; ``gap_to_english``, English minus this, by task and for ``avg3`` and ``avg``;
        ``agreement`` by task, in percent; ``agreement_details`` by task, with all policies and counts. The last three
        are None for English itself and where there is no English.
    """
    rows: list[dict[str, Any]] = []
    for language in languages:
        own = {task: values.get((task, language)) for task in tasks}
        averages = {"avg3": _mean([own.get(task) for task in AVG3]), "avg": _mean(list(own.values()))}
        rows.append({"language": language, "p1": own, **averages})
    english = next((row for row in rows if row["language"] == ENGLISH), None)
    for row in rows:
        row["gap_to_english"] = row["agreement"] = row["agreement_details"] = None
        if english is not None and row is not english:
            row["gap_to_english"] = _gap(english, row)
            details = {task: agreements.get((task, row["language"])) for task in tasks}
            row["agreement"] = {task: (each or {}).get(policy) for task, each in details.items()}
            row["agreement_details"] = details
    return rows


def macro_row(rows: Sequence[Mapping[str, Any]], tasks: Sequence[str]) -> dict[str, Any]:
    """Unweighted means over the languages; gaps and agreement over those that are not English.

    Returns
    -------
    dict
        ``languages``, their number; ``p1`` by task, ``avg3``, ``avg``, each None if a language has none;
        ``gap_to_english`` (as in a row) and ``agreement`` by task, None where no language is compared.
    """
    gaps = [row["gap_to_english"] for row in rows if row["gap_to_english"] is not None]
    agreements = [row["agreement"] for row in rows if row["agreement"] is not None]
    return {
        "languages": len(rows),
        "p1": {task: _mean([row["p1"][task] for row in rows]) for task in tasks},
        "avg3": _mean([row["avg3"] for row in rows]),
        "avg": _mean([row["avg"] for row in rows]),
        "gap_to_english": {name: _mean([gap[name] for gap in gaps]) for name in gaps[0]} if gaps else None,
        "agreement": {task: _mean([each[task] for each in agreements]) for task in tasks} if agreements else None,
    }


def _gap(english: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, float | None]:
    return {
        **{task: _difference(english["p1"][task], value) for task, value in row["p1"].items()},
        **{name: _difference(english[name], row[name]) for name in ("avg3", "avg")},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
