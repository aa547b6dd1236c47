"""Task sets are written in one order and come back as they were; everything wrong with one is listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from task_sets import make_tasks, tasks_of

from optotype.schemas.errors import FormatError, IntegrityError, InvalidDataError
from optotype.store.states import write_states
from optotype.store.tasks import TaskRows, describe_tasks, open_tasks, task_cells, write_tasks

SETS: dict[str, dict[str, Any]] = {
    "global lists": {},
    "lists of their own": {"per_query": True, "relevant": 4, "graded": True},
    "the same targets": {"same_target": 0.5, "candidates": 30, "seed": 3},
    "one query": {"cells": {("vg", "pt-BR"): 1}, "candidates": 2},
    "more queries than candidates": {"cells": {("c", "en"): 40, ("c", "fr"): 3}, "candidates": 4},
}


@pytest.mark.parametrize("how", SETS.values(), ids=SETS)
def test_comes_back_as_it_was(tmp_path: Path, how: dict[str, Any]) -> None:
    given = make_tasks(**how)
    manifest = write_tasks(tmp_path / "set", given, inputs={"form": "mmeb", "left_out": {"null": 2}})
    found = open_tasks(tmp_path / "set")
    xr.testing.assert_equal(found, given)
    assert set(found.variables) == set(given.variables)
    for name in given.variables:
        assert found[name].dtype == given[name].dtype, name
        assert found[name].attrs == given[name].attrs, name
    assert found.attrs["digest"] == manifest.digest
    assert (found.attrs["name"], found.attrs["form"]) == ("set", "mmeb")
    assert json.loads(found.attrs["left_out"]) == {"null": 2}
    assert json.loads(found.attrs["sources"]) == []


def _shuffled(tasks: xr.Dataset, seed: int) -> TaskRows:
    """The same set with queries, candidates, lists and relevance in another order, and one candidate nobody uses."""
    rng = np.random.default_rng(seed)
    given = TaskRows.of(tasks)
    rows = TaskRows()
    place: dict[int, int] = {}
    rows.add_candidate("a-candidate-that-nobody-uses", target="x")
    for old in rng.permutation(len(given.candidates["candidate"])).tolist():
        one = {name: column[old] for name, column in given.candidates.items()}
        place[old] = rows.add_candidate(
            one["candidate"],
            target=one["target"],
            embedding=one["candidate_embedding"],
            item=one["candidate_item"],
            text=one["candidate_text"],
            image=one["candidate_image"],
        )
    for old in rng.permutation(len(given.query_list)).tolist():
        one = {name: column[old] for name, column in given.queries.items()}
        held = [place[at] for at in rng.permutation(given.lists[given.query_list[old]]).tolist()]
        right = [(place[at], grade) for at, grade in given.relevant[old].items()]
        rows.add_query(
            one["query"],
            task=one["task"],
            language=one["language"],
            of_list=rows.add_list(held + held[:1]),
            relevant=dict(right[i] for i in rng.permutation(len(right)).tolist()),
            item=one["item"],
            embedding=one["query_embedding"],
            text=one["query_text"],
            image=one["query_image"],
        )
    return rows


@pytest.mark.parametrize("how", list(SETS.values())[:3], ids=list(SETS)[:3])
def test_order_means_nothing(tmp_path: Path, how: dict[str, Any]) -> None:
    given = make_tasks(**how)
    digest = write_tasks(tmp_path / "set", given, inputs={}).digest
    rows = _shuffled(given, 1)
    assert rows.unused() == 1
    assert write_tasks(tmp_path / "set-1", rows, inputs={}).digest == digest
    files = [path for path in (tmp_path / "set").rglob("*") if path.is_file()]
    for path in files:
        assert (tmp_path / "set-1" / path.relative_to(tmp_path / "set")).read_bytes() == path.read_bytes(), path


def test_equal_lists_are_held_once() -> None:
    rows = TaskRows()
    assert [rows.add_list(places) for places in ([2, 0, 1], [0, 1, 2, 2], [0, 1], iter([1, 0]))] == [0, 0, 1, 1]
    assert [held.tolist() for held in rows.lists] == [[0, 1, 2], [0, 1]]


def test_items_of_candidates_are_those_that_they_are_right_for() -> None:
    rows = TaskRows()
    for name, item in (("a", ""), ("b", ""), ("c", "given"), ("d", "")):
        rows.add_candidate(name, target=name, item=item)
    every = rows.add_list(range(4))
    for query, item, right in (("1", "z", [0, 2]), ("2", "y", [0]), ("3", "", [1])):
        rows.add_query(query, task="c", language="en", of_list=every, relevant=dict.fromkeys(right, 1.0), item=item)
    rows.name_candidates()
    assert rows.candidates["candidate_item"] == ["y", "", "given", ""]


def test_cells_against_plain_loops() -> None:
    tasks = make_tasks(
        {("i2t", "en"): 5, ("i2t", "it"): 4, ("c", "en"): 7}, candidates=9, per_query=True, relevant=3, same_target=0.6
    )
    rows = {(row["task"], row["language"]): row for row in task_cells(tasks)}
    assert list(rows) == [("c", "en"), ("i2t", "en"), ("i2t", "it")]
    ends = np.cumsum(tasks["list_size"].values)
    lists = [
        tasks["list_candidate"].values[end - size : end]
        for end, size in zip(ends, tasks["list_size"].values, strict=True)
    ]
    for (task, language), row in rows.items():
        mine = [
            at
            for at in range(tasks.sizes["query"])
            if (tasks["task"].values[at], tasks["language"].values[at]) == (task, language)
        ]
        own = sorted({int(tasks["query_list"].values[at]) for at in mine})
        entries = [int(place) for number in own for place in lists[number]]
        again = sum(len(lists[n]) - len({tasks["target"].values[place] for place in lists[n]}) for n in own)
        assert row["queries"] == len(mine)
        assert row["items"] == len({tasks["item"].values[at] for at in mine})
        assert row["candidates"] == len(set(entries))
        assert row["lists"] == len(own)
        assert row["list_size"] == {"min": 4, "max": 4}
        assert row["relevant"] == pytest.approx(np.mean([tasks["relevance_size"].values[at] for at in mine]))
        assert row["duplicates"] == pytest.approx(again / len(entries))
    assert any(row["duplicates"] > 0 for row in rows.values())


def _rows(**changes: Any) -> TaskRows:
    """Two queries over three candidates, with one thing changed by name of the column or attribute."""
    rows = TaskRows.of(
        tasks_of(
            [
                {"query": "q1", "list": ["a", "b"], "relevant": ["a"], "query_text": "one"},
                {"query": "q2", "list": ["a", "b", "c"], "relevant": ["b", "c"], "query_text": "two"},
            ],
            [{"candidate": name, "candidate_text": f"text {name}"} for name in "abc"],
        )
    )
    for name, value in changes.items():
        held = rows.queries if name in rows.queries else rows.candidates
        if name in held:
            held[name] = value
        else:
            setattr(rows, name, value)
    return rows


PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "query twice": ({"query": ["q", "q"]}, ["duplicate-id"]),
    "candidate padded": ({"candidate": ["a", "b ", "c"]}, ["id-blank"]),
    "candidates alike in form": ({"candidate": ["\u00e9", "e\u0301", "c"]}, ["ambiguous-id"]),
    "embedding with a control character": ({"query_embedding": ["x\ny", "y"]}, ["id-control"]),
    "labels": ({"task": ["I2T", "i2t"], "language": ["en", "e n"]}, ["bad-language", "bad-task"]),
    "half a character": ({"query_text": ["\ud800", "two"]}, ["bad-text"]),
    "no target": ({"target": ["a", "", "c"]}, ["no-target"]),
    "right, not in the list": ({"relevant": [{2: 1.0}, {1: 1.0}]}, ["not-in-list"]),
    "nothing is right": ({"relevant": [{}, {1: 1.0}]}, ["no-relevant"]),
    "grades": ({"relevant": [{0: 0.0}, {1: float("nan")}]}, ["bad-grade"]),
    "grades beyond float32": ({"relevant": [{0: 1e-60}, {1: 1e60}]}, ["bad-grade"]),
    "no list": ({"lists": [np.array([], np.int64), np.arange(3)]}, ["no-candidates", "not-in-list"]),
    "one vector of two texts": ({"query_embedding": ["x", "x"]}, ["embedding-differs"]),
    "one vector of two candidates": ({"candidate_embedding": ["x", "y", "x"]}, ["embedding-differs"]),
    "nothing": ({"query": []}, ["empty"]),
}


@pytest.mark.parametrize(("changes", "kinds"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems_are_listed_and_nothing_is_written(tmp_path: Path, changes: dict[str, Any], kinds: list[str]) -> None:
    with pytest.raises(InvalidDataError, match="nothing was written") as refused:
        write_tasks(tmp_path / "set", _rows(**changes), inputs={})
    assert sorted({problem.kind for problem in refused.value.problems}) == kinds
    assert not list(tmp_path.iterdir())


def test_a_vector_may_be_that_of_several_rows(tmp_path: Path) -> None:
    """One image in two languages has one embedding; what is not given contradicts nothing."""
    rows = _rows(query_embedding=["x", "x"], query_text=["", "two"])
    write_tasks(tmp_path / "set", rows, inputs={})
    assert open_tasks(tmp_path / "set")["query_embedding"].values.tolist() == ["x", "x"]


def test_describes_itself(tmp_path: Path) -> None:
    manifest = write_tasks(tmp_path / "set", make_tasks(), inputs={"form": "tables", "left_out": {"a": 1}})
    row = describe_tasks(tmp_path / "set")
    assert (row["queries"], row["candidates"], row["lists"], row["bytes"]) == (24, 48, 4, manifest.size)
    assert (row["tasks"], row["languages"]) == (["i2t", "t2i"], ["en", "it"])
    assert (row["form"], row["left_out"], row["digest"]) == ("tables", {"a": 1}, manifest.digest)
    whole = describe_tasks(tmp_path / "set", whole=True)
    assert whole.items() >= row.items()
    assert [cell["queries"] for cell in whole["cells"]] == [6, 6, 6, 6]


def test_other_arrays_and_damaged_ones(tmp_path: Path) -> None:
    write_states(tmp_path / "states", ids=["a"], blocks=[np.ones((1, 2), np.float32)], inputs={})
    for read in (open_tasks, describe_tasks):
        with pytest.raises(FormatError, match="holds states, tasks were asked for"):
            read(tmp_path / "states")
    write_tasks(tmp_path / "set", make_tasks(), inputs={})
    (tmp_path / "set" / "target" / "c" / "0").unlink()
    with pytest.raises(IntegrityError, match="target"):
        open_tasks(tmp_path / "set")
    (tmp_path / "set" / "zarr.json").write_text("{}", encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"zarr\.json"):
        describe_tasks(tmp_path / "set")
