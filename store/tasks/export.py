"""Gives task sets out as tables that import as the same set, and as what an encoder takes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optotype.schemas.errors import ConflictError
from optotype.store.drafts import draft_file
from optotype.store.tasks.dataset import open_tasks
from optotype.store.tasks.rows import spans

__all__ = ["FILES", "export_tasks"]

FILES = (
    "queries.csv",
    "candidates.csv",
    "relevance.csv",
    "lists.csv",
    "query-texts.csv",
    "query-images.csv",
    "candidate-texts.csv",
    "candidate-images.csv",
)
_SEVERAL = -2
_NONE = -1


def export_tasks(source: str | Path, folder: Path, *, replace: bool = False) -> dict[str, int]:
    """Write a task set as tables.

    ``queries.csv`` (query, task, language, item, embedding, text, image), ``candidates.csv`` (candidate, task,
    language, item, embedding, target, text, image) and ``relevance.csv`` (query, candidate, grade) import again as the
    same set, to the digest. Where a task and language has several lists, or lists of two share candidates, the queries
    have a column ``list``, and ``lists.csv`` (list, candidate) belongs to them. For encoders: ``query-texts.csv``,
    ``candidate-texts.csv`` (id, text, image, language, task) with a row for each embedding that has a text, and
    ``query-images.csv``, ``candidate-images.csv`` (id, image) for each that has an image; those without rows are not
    written. An embedding of several tasks or languages has a blank there.

    Parameters
    ----------
    source : str or Path
        Folder or URL of the task set.
    folder : Path
        Made when missing.
    replace : bool
        Whether files that are there may be replaced. Those of `FILES` that this set does not have are removed then.

    Returns
    -------
    dict of str to int
        Names of the files -> rows.

    Raises
    ------
    ConflictError
        A file is there, or the folder is a file.
    """
    there = [folder / name for name in FILES if (folder / name).exists()]
    if folder.exists() and not folder.is_dir():
        raise ConflictError(f"{folder} is a file; tables are written into a folder", hint="Choose another --out.")
    if there and not replace:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise ConflictError(f"{there[0]}{more} there already", hint="Replace with --force, or choose another --out.")
    tables = _tables(source)
    for path in there:
        if path.name not in tables:
            path.unlink()
    for name, columns in tables.items():
        _write(folder / name, columns)
    return {name: len(next(iter(columns.values()))) for name, columns in tables.items()}


def _tables(source: str | Path) -> dict[str, dict[str, Any]]:
    tasks = open_tasks(source)
    column = {str(name): values.values for name, values in tasks.variables.items()}
    labels = {name: _labels_of_candidates(tasks, column[name]) for name in ("task", "language")}
    sizes, entries = column["list_size"], column["list_candidate"]
    keys = list(zip(column["query_list"].tolist(), column["task"], column["language"], strict=True))
    # Simple: a task and language has one list, and a candidate is in one list alone.
    cells = {(task, language) for _, task, language in keys}
    simple = len(set(keys)) == len(cells) == len(sizes) == len({number for number, _, _ in keys})
    simple = simple and len(np.unique(entries)) == len(entries)
    named = np.array([f"list-{number:06d}" for number in range(len(sizes))], object)
    asked = {"item": "item", "embedding": "query_embedding", "text": "query_text", "image": "query_image"}
    offered = {"item": "candidate_item", "embedding": "candidate_embedding", "target": "target"}
    offered |= {"text": "candidate_text", "image": "candidate_image"}
    places = np.repeat(np.arange(len(keys)), column["relevance_size"])
    tables: dict[str, dict[str, Any]] = {
        "queries.csv": {name: column[name] for name in ("query", "task", "language")}
        | {name: column[held] for name, held in asked.items()}
        | ({} if simple else {"list": named[column["query_list"]]}),
        "candidates.csv": {"candidate": column["candidate"], **labels}
        | {name: column[held] for name, held in offered.items()},
        "relevance.csv": {
            "query": column["query"][places],
            "candidate": column["candidate"][column["relevant"]],
            "grade": column["grade"],
        },
    }
    if not simple:
        tables["lists.csv"] = {"list": np.repeat(named, sizes), "candidate": column["candidate"][entries]}
    own = {name: column[name] for name in ("task", "language")}
    for side, of in (("query", own), ("candidate", labels)):
        ids = column[f"{side}_embedding"]
        contents = {name: column[f"{side}_{name}"] for name in ("text", "image")}
        table = _by_embedding(ids, {**contents, "language": of["language"], "task": of["task"]})
        for name, kept in (("text", tuple(table)), ("image", ("id", "image"))):
            rows = np.flatnonzero(table[name] != "")
            if len(rows):
                tables[f"{side}-{name}s.csv"] = {key: table[key][rows] for key in kept}
    return {name: tables[name] for name in FILES if name in tables}


def _labels_of_candidates(tasks: Any, labels: Any) -> Any:
    """The task or language of each candidate: that of the queries whose lists it is in; blank if they are several."""
    words = sorted(set(labels.tolist()))
    codes = np.array([words.index(label) for label in labels.tolist()], np.int64)
    lists = spans(tasks["list_size"].values)
    of = np.full(tasks.sizes["candidate"], _NONE, np.int64)
    for number, code in sorted(set(zip(tasks["query_list"].values.tolist(), codes.tolist(), strict=True))):
        start, stop = lists[number]
        held = tasks["list_candidate"].values[start:stop]
        of[held] = np.where((of[held] == _NONE) | (of[held] == code), code, _SEVERAL)
    return np.array([*words, "", ""], object)[of]  # from the end: -1 and -2 are blank


def _by_embedding(ids: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """One row for each id, sorted; what its rows do not agree on is blank, what only some say is what they say."""
    order = sorted(range(len(ids)), key=ids.__getitem__)
    rows: dict[str, list[str]] = {}
    for at in order:
        values = [columns[name][at] for name in columns]
        held = rows.setdefault(ids[at], values)
        for place, (name, value) in enumerate(zip(columns, values, strict=True)):
            if name in ("text", "image"):
                held[place] = held[place] or value
            elif held[place] != value:
                held[place] = ""
    told = {name: np.array([row[place] for row in rows.values()], object) for place, name in enumerate(columns)}
    return {"id": np.array(list(rows), object), **told}


def _write(path: Path, columns: dict[str, Sequence[Any]]) -> None:
    """Write columns as CSV: every text in quotes, so that white space and line breaks come back as they were."""
    import pyarrow as pa
    from pyarrow import csv

    if path.is_dir():
        raise ConflictError(f"{path}{os.sep} is a folder; a table is a file", hint="Choose another --out.")
    with draft_file(path) as file:
        csv.write_csv(pa.table({name: pa.array(values) for name, values in columns.items()}), file)
