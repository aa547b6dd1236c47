"""Opens task sets, and says what is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from optotype.schemas.errors import FormatError, IntegrityError
from optotype.store.location import Location
from optotype.store.manifest import read_manifest
from optotype.store.reading import StoredGroup
from optotype.store.tasks.rows import CANDIDATE_TEXTS, QUERY_TEXTS, spans
from optotype.store.tasks.writing import TASKS

__all__ = ["describe_tasks", "open_tasks", "task_cells"]

_DIMS = {
    "query_list": "query",
    "relevance_size": "query",
    "list_size": "list",
    "list_candidate": "entry",
    "relevant": "relevance",
    "grade": "relevance",
}


def open_tasks(source: str | Path, *, storage_options: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Open a task set: which candidates belong to a query, and which of them are right. It is read into memory.

    Parameters
    ----------
    source : str or Path
        Folder or fsspec URL of the array.

    Returns
    -------
    Dataset
        Texts are object arrays of str, ``""`` = not given.

        - of ``query``, sorted by (task, language, query): coordinate ``query`` (unique ids); ``task`` (i2t, t2i, c,
          vqa, vg ...), ``language``, ``item`` (what it is about; the same id in another language is the same item),
          ``query_embedding`` (id of its vector), ``query_text``, ``query_image``, ``query_list`` int64 (which list of
          candidates), ``relevance_size`` int64, at least 1.
        - of ``candidate``, sorted: coordinate ``candidate`` (unique ids); ``candidate_embedding``, ``target`` (equal
          targets in one list are one candidate), ``candidate_item`` (compares predictions across languages),
          ``candidate_text``, ``candidate_image``.
        - ``list_size`` (list) int64, with attribute ``sample_dimension`` "entry"; ``list_candidate`` (entry) int64:
          places of candidates, ascending in each list.
        - ``relevant`` (relevance) int64: places of the right candidates of each query, ascending, all in its list;
          ``grade`` (relevance) float32 > 0, 1 where not given.
        - attributes ``name``, ``digest``, ``key``, ``tasks``, ``languages``, ``form``, ``left_out`` (JSON: reason ->
          number of lines), ``sources`` (JSON: list of file and sha256).

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `optotype.store.features.open_features` does.
    """
    group = StoredGroup(source, TASKS, storage_options)
    counts = {name: (dim, group.array(name)[:], group.attributes(name)) for name, dim in _DIMS.items()}
    inputs = group.manifest.inputs
    return xr.Dataset(
        {
            **{name: ("query", group.strings(name)) for name in QUERY_TEXTS[1:]},
            **{name: ("candidate", group.strings(name)) for name in CANDIDATE_TEXTS[1:]},
            **counts,
        },
        coords={name: (name, group.strings(name)) for name in ("query", "candidate")},
        attrs={
            **group.attrs,
            "name": group.name,
            "digest": group.manifest.digest,
            "key": group.manifest.key,
            "form": str(inputs.get("form", "tables")),
            "left_out": json.dumps(inputs.get("left_out", {}), sort_keys=True, ensure_ascii=False),
            "sources": json.dumps(inputs.get("sources", []), sort_keys=True, ensure_ascii=False),
        },
    )


def task_cells(tasks: xr.Dataset) -> list[dict[str, Any]]:
    """What a task set holds of each task and language, sorted.

    Returns
    -------
    list of dict
        ``task``, ``language``, ``queries``, ``items`` (different ones, those not given left out), ``candidates``
        (different ids in the lists of these queries), ``lists`` (different ones), ``list_size`` (dict min, max),
        ``relevant`` (mean number of right candidates of a query), ``duplicates`` (share of the entries of these lists
        whose target is that of another entry before them), ``texts`` and ``images`` (queries with one).
    """
    codes: dict[str, int] = {}  # not np.unique: as fixed-width strings all targets would be as long as the longest
    targets = np.array([codes.setdefault(target, len(codes)) for target in tasks["target"].values.tolist()], np.int64)
    lists = [tasks["list_candidate"].values[start:stop] for start, stop in spans(tasks["list_size"].values)]
    distinct = np.array([len(np.unique(targets[held])) for held in lists])
    sizes = tasks["list_size"].values
    keys = list(zip(tasks["task"].values.tolist(), tasks["language"].values.tolist(), strict=True))
    rows = []
    for task, language in sorted(set(keys)):
        mine = np.array([key == (task, language) for key in keys])
        own = np.unique(tasks["query_list"].values[mine])
        used = np.zeros(tasks.sizes["candidate"], bool)
        for number in own:
            used[lists[number]] = True
        rows.append(
            {
                "task": task,
                "language": language,
                "queries": int(mine.sum()),
                "items": len({item for item in tasks["item"].values[mine] if item}),
                "candidates": int(used.sum()),
                "lists": len(own),
                "list_size": {"min": int(sizes[own].min()), "max": int(sizes[own].max())},
                "relevant": float(tasks["relevance_size"].values[mine].mean()),
                "duplicates": float(1 - distinct[own].sum() / sizes[own].sum()),
                "texts": int(np.count_nonzero(tasks["query_text"].values[mine] != "")),
                "images": int(np.count_nonzero(tasks["query_image"].values[mine] != "")),
            }
        )
    return rows


def describe_tasks(source: str | Path, *, whole: bool = False) -> dict[str, Any]:
    """One row about the task set at a path or URL, from its metadata alone unless ``whole``.

    Parameters
    ----------
    whole : bool
        Whether ``cells`` (`task_cells`, which reads it), ``kind``, ``created_by``, ``files`` and ``inputs`` are added.

    Returns
    -------
    dict
        ``name``, ``tasks`` and ``languages`` (lists of str), ``queries``, ``candidates``, ``lists``, ``form``,
        ``left_out`` (reason -> number), ``digest``, ``key``, ``bytes``, ``path``, ``error`` (None).

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `open_tasks` does.
    """
    location, manifest = Location.of(source), read_manifest(source)
    if manifest.kind != TASKS:
        raise FormatError(f"{location}: holds {manifest.kind}, {TASKS} were asked for")
    try:
        group = json.loads(location.read("zarr.json"))
        members, attrs = group["consolidated_metadata"]["metadata"], group["attributes"]
        row: dict[str, Any] = {
            "name": location.name,
            "tasks": list(attrs["tasks"]),
            "languages": list(attrs["languages"]),
            "queries": members["query"]["shape"][0],
            "candidates": members["candidate"]["shape"][0],
            "lists": members["list_size"]["shape"][0],
            "form": manifest.inputs.get("form"),
            "left_out": dict(manifest.inputs.get("left_out", {})),
            "digest": manifest.digest,
            "key": manifest.key,
            "bytes": manifest.size,
            "path": str(location),
            "error": None,
        }
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"{location}/zarr.json: missing or damaged ({error})",
            hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
        ) from error
    if whole:
        row |= {"kind": TASKS, "created_by": manifest.created_by, "files": len(manifest.files)}
        row |= {"inputs": dict(manifest.inputs), "cells": task_cells(open_tasks(source))}
    return row
