"""Small task sets of retrieval as `open_tasks` gives them, hand-made or random, and embeddings to go with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

__all__ = ["make_embeddings", "make_tasks", "states_of", "tasks_of"]

_QUERY = ("task", "language", "item", "query_embedding", "query_text", "query_image")
_CANDIDATE = ("candidate_embedding", "target", "candidate_item", "candidate_text", "candidate_image")


def tasks_of(queries: Sequence[Mapping[str, Any]], candidates: Sequence[Mapping[str, Any]]) -> xr.Dataset:
    """A task set written by hand.

    A query has ``query``, ``list`` (ids of its candidates) and ``relevant`` (ids, or ids with grades), and may have
    ``task`` ("i2t"), ``language`` ("en"), ``item``, ``query_embedding`` (the id), ``query_text``, ``query_image``.
    A candidate has ``candidate`` and may have ``candidate_embedding``, ``target`` (both: the id), ``candidate_item``,
    ``candidate_text``, ``candidate_image``; one in no list is dropped. Rows, lists and relevance come out in the stored
    order.
    """
    asked = [{"task": "i2t", "language": "en", **row} for row in queries]
    asked.sort(key=lambda row: (row["task"], row["language"], row["query"]))
    used = {name for row in asked for name in row["list"]}
    offered = sorted((row for row in candidates if row["candidate"] in used), key=lambda row: str(row["candidate"]))
    place = {row["candidate"]: number for number, row in enumerate(offered)}
    lists: dict[tuple[int, ...], int] = {}
    query_list, relevance_size, relevant, grade = [], [], [], []
    for row in asked:
        own = tuple(sorted({place[name] for name in row["list"]}))
        query_list.append(lists.setdefault(own, len(lists)))
        truth = row["relevant"]
        grades = dict(truth) if isinstance(truth, Mapping) else dict.fromkeys(truth, 1.0)
        for at, value in sorted((place[name], value) for name, value in grades.items()):
            assert at in own
            relevant.append(at)
            grade.append(value)
        relevance_size.append(len(grades))
    default = {"query_embedding": "query", "candidate_embedding": "candidate", "target": "candidate"}

    def column(rows: Sequence[Mapping[str, Any]], name: str) -> Any:
        return np.array([str(row.get(name, row.get(default.get(name, ""), ""))) for row in rows], dtype=object)

    return xr.Dataset(
        {
            **{name: ("query", column(asked, name)) for name in _QUERY},
            "query_list": ("query", np.array(query_list, np.int64)),
            "relevance_size": ("query", np.array(relevance_size, np.int64), {"sample_dimension": "relevance"}),
            **{name: ("candidate", column(offered, name)) for name in _CANDIDATE},
            "list_size": ("list", np.array([len(own) for own in lists], np.int64), {"sample_dimension": "entry"}),
            "list_candidate": ("entry", np.array([at for own in lists for at in own], np.int64)),
            "relevant": ("relevance", np.array(relevant, np.int64)),
            "grade": ("relevance", np.array(grade, np.float32)),
        },
        coords={"query": ("query", column(asked, "query")), "candidate": ("candidate", column(offered, "candidate"))},
        attrs={"name": "hand-made", "digest": f"sha256:{0:064x}", "key": f"sha256:{0:064x}", "form": "tables"}
        | {"left_out": "{}", "sources": "[]"},
    )


def make_tasks(
    cells: Mapping[tuple[str, str], int] | None = None,
    *,
    candidates: int = 12,
    per_query: bool = False,
    relevant: int = 1,
    same_target: float = 0.0,
    graded: bool = False,
    seed: int = 0,
) -> xr.Dataset:
    """A random task set.

    Parameters
    ----------
    cells : mapping of (task, language) to int
        Queries of each; default 6 of i2t and of t2i in en and it. Items ``item-000`` ... are shared by languages.
    candidates : int
        Of each cell; item i has candidate i for its truth, the rest are nobody's.
    per_query : bool
        Each query has its own list of half of them; else all of the cell.
    relevant : int
        At most so many are right for a query.
    same_target : float
        Share of the candidates that have the target of another one.
    graded : bool
        Whether grades are 1, 2 or 3; else 1.
    """
    rng = np.random.default_rng(seed)
    if cells is None:
        cells = {(task, language): 6 for task in ("i2t", "t2i") for language in ("en", "it")}
    queries: list[dict[str, Any]] = []
    offered: list[dict[str, Any]] = []
    for (task, language), count in cells.items():
        names = [f"{task}/{language}/c{number:03d}" for number in range(candidates)]
        for number, name in enumerate(names):
            other = int(rng.integers(candidates)) if rng.random() < same_target else number
            item = f"item-{number:03d}" if number < count else ""
            offered.append({"candidate": name, "target": f"target {other}", "candidate_item": item})
        for number in range(count):
            truth = number % candidates
            others = rng.permutation([at for at in range(candidates) if at != truth])
            right = [truth, *others[: int(rng.integers(relevant))].tolist()]
            left = others[len(right) - 1 :]
            own = [*right, *left[: max(1, candidates // 2 - len(right))]] if per_query else range(candidates)
            grades = {names[at]: float(rng.integers(1, 4)) if graded else 1.0 for at in right}
            queries.append(
                {
                    "query": f"{task}/{language}/q{number:03d}",
                    "task": task,
                    "language": language,
                    "item": f"item-{number:03d}",
                    "list": [names[at] for at in own],
                    "relevant": grades,
                }
            )
    return tasks_of(queries, offered)


def states_of(vectors: Mapping[str, Any], dtype: str = "float32") -> xr.Dataset:
    """Embeddings as `open_states` gives them: ``states`` (text, channel), ids sorted."""
    names = sorted(vectors)
    values = np.array([np.asarray(vectors[name], dtype) for name in names], dtype)
    return xr.Dataset({"states": (("text", "channel"), values)}, coords={"text": np.array(names, dtype=object)})


def make_embeddings(
    tasks: xr.Dataset, *, channels: int = 16, noise: float = 1.0, seed: int = 0
) -> tuple[xr.Dataset, xr.Dataset]:
    """Random embeddings of the queries and of the candidates; a query lies near its first truth."""
    rng = np.random.default_rng(seed)
    offered: dict[str, Any] = {}
    for name in tasks["candidate_embedding"].values:
        if name not in offered:
            offered[name] = rng.normal(size=channels)
    starts = np.concatenate([[0], np.cumsum(tasks["relevance_size"].values)[:-1]])
    first = tasks["candidate_embedding"].values[tasks["relevant"].values[starts]]
    asked: dict[str, Any] = {}
    for name, truth in zip(tasks["query_embedding"].values, first, strict=True):
        if name not in asked:
            asked[name] = offered[truth] + noise * rng.normal(size=channels)
    return states_of(asked), states_of(offered)
