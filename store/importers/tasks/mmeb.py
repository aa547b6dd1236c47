"""Tasks of MMEB: what its evaluation writes for each query (v2), and its rows with the right target first (v1).

v2: ``<dataset>_info.jsonl``, in the order of the queries: ``label_name`` (one or several names), ``cand_names`` (those
to rank; null or absent: all of the data set), perhaps ``rel_scores``. v1: rows ``qry_text, qry_img_path, tgt_text,
tgt_img_path``, whose targets are pairs of text and image.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optotype.schemas.errors import UsageError
from optotype.store.importers.tasks.lines import Found, Line, candidate_name, read_rows, spelt, stem
from optotype.store.tasks.rows import TaskRows

__all__ = ["read_mmeb"]

_IDS = ("qry_id", "query_id", "query-id", "qid", "id")
_QUERY_TEXTS = ("qry_text", "query_text", "query")
_QUERY_IMAGES = ("qry_img_path", "query_image", "qry_image")
_NAMES = ("cand_name", "cand_names")
_TEXTS = ("cand_text", "tgt_text", "text")
_IMAGES = ("cand_img_path", "cand_image", "tgt_img_path", "image")


@dataclass
class _Dataset:
    """The candidates of one data set by name, those of one name by (text, image)."""

    name: str
    places: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)
    waiting: list[tuple[dict[str, Any], dict[int, float]]] = field(default_factory=list)  # ranked against all


def read_mmeb(
    paths: Sequence[Path],
    *,
    candidates: Path | None,
    task: str | None,
    language: str | None,
    all_candidates: bool,
    found: Found,
) -> TaskRows:
    """Read the files of one or more data sets.

    Ids: a query is ``<dataset>/<its id>``, or ``<dataset>/<line, six digits>`` where it has none; a candidate
    ``<dataset>/<name>``. Nothing says which items are the same, so items are not given. A target of v1 with text and
    image is named ``<image>\\t<text>``; targets of a data set that would share a name, such as a text and an image of
    the same string, are told apart as ``["<image>", "<text>"]``.

    Parameters
    ----------
    paths : sequence of Path
        ``<dataset>_info.jsonl``, or rows of v1 as JSON lines or Parquet; ``dataset`` is the file's name otherwise.
    candidates : Path, optional
        JSON lines or Parquet with ``cand_name`` and perhaps ``cand_text``, ``cand_image``; with several data sets also
        ``dataset``. They are candidates of the set even if no query names them.
    task : str, optional
        Of all queries; by default the data set's name, in lower case with hyphens, so that the mean over tasks is
        MMEB's mean over data sets.
    language : str, optional
        Default en, which is said.
    all_candidates : bool
        Whether each query is ranked against all candidates of its data set, whatever ``cand_names`` lists.
    found : Found
        Takes what is wrong. Labels with a score of 0 are left out and counted; that queries have neither text nor
        image is noted.

    Raises
    ------
    UsageError
        Several data sets and candidates that do not say theirs; names of files that make no task; every query lists
        right candidates alone.
    NotFoundError
        Of a file.
    """
    rows = TaskRows()
    if language is None:
        found.notes.append("the files do not say their language: taken as en (--language says another)")
    sets = {path: _Dataset(re.sub(r"_info$", "", stem(path))) for path in paths}
    tasks = {path: task or re.sub(r"[^a-z0-9]+", "-", of.name.lower()).strip("-") for path, of in sets.items()}
    if nameless := [str(path) for path, label in tasks.items() if not label]:
        raise UsageError(
            f"{', '.join(nameless)}: no task can be made of the name; a task is lower-case letters, digits and hyphens",
            hint="Say it: --task t2i",
        )
    if candidates is not None:
        _add_candidates(candidates, list(sets.values()), rows, found)
    only_right = bare = 0
    for path, dataset in sets.items():
        at, wrong = len(rows.query_list), found.number()
        for line in read_rows(path, found):
            query = {"task": tasks[path], "language": language or "en", **_query(line, dataset.name)}
            pair = _targets_v1(line, dataset, rows, found) if _is_v1(line) else _targets(line, dataset, rows, found)
            if pair is None:
                continue
            listed, right = pair
            bare += not query["text"] and not query["image"]
            if not right:
                found.leave_out("no label with a score above 0")
            elif listed is None or all_candidates:
                dataset.waiting.append((query, right))
            else:
                only_right += set(listed) == set(right)
                rows.add_query(**query, of_list=rows.add_list(listed), relevant=right)
        if dataset.waiting:
            whole = rows.add_list(place for alike in dataset.places.values() for place in alike.values())
            for query, right in dataset.waiting:
                rows.add_query(**query, of_list=whole, relevant=right)
        if at == len(rows.query_list) and wrong == found.number():
            found.refuse(str(path), "empty", "the file is empty: it has no queries")
        _tell_apart(dataset, rows)
    if bare:
        found.notes.append(f"{bare} queries have neither text nor image: they go by the ids of their embeddings alone")
    if not found.number() and only_right == len(rows.query_list) and rows.query_list:
        raise UsageError(
            "every query lists right candidates alone, so that nothing can be wrong: data sets that are ranked "
            "against all their candidates list only what they have scores for",
            hint="Rank against all: --all-candidates, with --candidates FILE where there are more than the labels.",
        )
    return rows


def _is_v1(line: Line) -> bool:
    return "label_name" not in _infos(line) and ("tgt_text" in line.values or "tgt_img_path" in line.values)


def _infos(line: Line) -> Mapping[str, Any]:
    """The object that holds names and labels: the line itself, or what stands under ``dataset_infos``."""
    inner = line.values.get("dataset_infos")
    return inner if isinstance(inner, dict) else line.values


def _query(line: Line, dataset: str) -> dict[str, Any]:
    identity = _first(line.values, _IDS)
    text, image = (_one(_first(line.values, names)) for names in (_QUERY_TEXTS, _QUERY_IMAGES))
    known = identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None
    return {"query": f"{dataset}/{line.number:06d}" if known is None else f"{dataset}/{known}"} | {
        "text": text,
        "image": image,
    }


def _targets(
    line: Line, dataset: _Dataset, rows: TaskRows, found: Found
) -> tuple[list[int] | None, dict[int, float]] | None:
    """Places of the candidates (None: all) and of the labels with their grades; None, and a problem, if bad."""
    infos = _infos(line)
    labels, names = infos.get("label_name"), infos.get("cand_names")
    labels = [labels] if isinstance(labels, str) else labels
    sound = True
    if not _are_texts(labels) or not labels:
        message = f"label_name is a name or a list of names, got {labels!r:.60}"
        found.refuse(line.where, "no-label", message)
        sound = False
    if names is not None and (not _are_texts(names) or not names):
        message = f"cand_names is a list of names, or null for all of the data set, got {names!r:.60}"
        found.refuse(line.where, "no-candidates", message)
        sound = False
    scores = infos.get("rel_scores")
    if scores is not None and not (
        isinstance(scores, list) and isinstance(labels, list) and len(scores) == len(labels) and _are_grades(scores)
    ):
        message = f"rel_scores are numbers from 0, one for each label, got {scores!r:.60}"
        found.refuse(line.where, "bad-grade", message)
        sound = False
    if not sound or not isinstance(labels, list):
        return None
    if names is not None and (absent := sorted(set(labels) - set(names))):
        message = f"labels that are not among cand_names: {', '.join(map(repr, absent[:5]))}"
        found.refuse(line.where, "not-in-list", message)
        return None
    found.leave_out("candidate again in its list", 0 if names is None else len(names) - len(set(names)))
    right: dict[int, float] = {}
    for name, grade in zip(labels, scores or [1.0] * len(labels), strict=True):
        place = _place(dataset, rows, name)  # also of a score of 0: it is a candidate of the data set
        if grade > 0:
            right[place] = float(grade)
        else:
            found.leave_out("label with a score of 0")
    return (None if names is None else [_place(dataset, rows, name) for name in names]), right


def _targets_v1(
    line: Line, dataset: _Dataset, rows: TaskRows, found: Found
) -> tuple[list[int] | None, dict[int, float]] | None:
    """The same of a row of v1: targets are pairs of text and image, the right one first."""
    columns = [line.values.get(name) for name in ("tgt_text", "tgt_img_path")]
    lists = [[column] if isinstance(column, str) else column for column in columns]
    length = max((len(column) for column in lists if isinstance(column, list)), default=0)
    texts, images = ([""] * length if column in (None, []) else column for column in lists)
    if not length or not _are_texts(texts, blank=True) or not _are_texts(images, blank=True):
        message = f"tgt_text and tgt_img_path are lists of texts, the right one first, got {columns!r:.80}"
        found.refuse(line.where, "no-candidates", message)
        return None
    if len(texts) != len(images):
        found.refuse(line.where, "length", f"{len(texts)} texts and {len(images)} images of targets")
        return None
    blank = sum(1 for text, image in zip(texts, images, strict=True) if not text.strip() and not image.strip())
    if blank:
        found.refuse(line.where, "not-text", f"{blank} targets have neither text nor image")
        return None
    if not line.values.get("qry_text") and not line.values.get("qry_img_path"):
        found.refuse(line.where, "no-query", "neither qry_text nor qry_img_path is there")
        return None
    places = []
    for text, image in zip(texts, images, strict=True):
        name = f"{image}\t{text}" if text and image else text or image
        places.append(_place(dataset, rows, name, text=text, image=image, exact=True))
    found.leave_out("candidate again in its list", len(places) - len(set(places)))
    return places, {places[0]: 1.0}


def _place(
    dataset: _Dataset, rows: TaskRows, name: str, *, text: str = "", image: str = "", exact: bool = False
) -> int:
    """Place of a candidate; the same name is the same one, if ``exact`` only of the same text and image.

    One that was named without text and image is the one of that name, whatever that is.
    """
    alike = dataset.places.setdefault(name, {})
    if not exact and alike:
        return next(iter(alike.values()))
    place = alike.get((text, image), alike.get(("", "")))
    if place is None:
        place = alike[text, image] = rows.add_candidate(
            f"{dataset.name}/{candidate_name(name)}", target=name, text=text, image=image
        )
    return place


def _tell_apart(dataset: _Dataset, rows: TaskRows) -> None:
    """Give other names to those candidates of v1 that differ and would share one; the order of lines is nothing."""
    for alike in dataset.places.values():
        for (text, image), place in alike.items() if len(alike) > 1 else ():
            name = spelt(text, image)
            identity = f"{dataset.name}/{candidate_name(name)}"
            for column, value in (("candidate", identity), ("candidate_embedding", identity), ("target", name)):
                rows.candidates[column][place] = value


def _add_candidates(path: Path, sets: Sequence[_Dataset], rows: TaskRows, found: Found) -> None:
    """Take in a file of candidates."""
    by_name = {dataset.name: dataset for dataset in sets}
    for line in read_rows(path, found):
        name = _one(_first({**line.values, **_infos(line)}, _NAMES))
        said = line.values.get("dataset", line.values.get("global_dataset_name"))
        if said is None and len(sets) > 1:
            raise UsageError(
                f"{line.where}: there are several data sets, and this candidate does not say its own",
                hint="Give each candidate a field `dataset`, or import the data sets one by one.",
            )
        dataset = sets[0] if said is None else by_name.get(str(said))
        if not name:
            found.refuse(line.where, "no-candidates", "cand_name is a text that is not blank")
        elif dataset is None:
            found.refuse(line.where, "unknown-dataset", f"no queries of a data set {said!r}")
        else:
            text, image = (_one(_first(line.values, names)) for names in (_TEXTS, _IMAGES))
            _place(dataset, rows, name, text=text, image=image)


def _first(values: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _one(value: Any) -> str:
    """A text; the first one of a list of them; the path in an object of images; else ``""``."""
    if isinstance(value, list):
        return _one(value[0]) if value else ""
    if isinstance(value, dict):
        return _one(value.get("paths"))
    return value if isinstance(value, str) and value.strip() else ""


def _are_texts(values: Any, *, blank: bool = False) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) and (blank or value.strip()) for value in values)


def _are_grades(values: Sequence[Any]) -> bool:
    """Whether all are numbers from 0 that are finite as floats."""
    try:
        return all(
            isinstance(value, int | float) and not isinstance(value, bool) and 0 <= float(value) < math.inf
            for value in values
        )
    except OverflowError:  # an integer beyond float64
        return False
