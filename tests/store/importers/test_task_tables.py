"""Plain tables of queries, candidates and relevance become the task set that they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from task_sets import make_tasks

from optotype.schemas.errors import InvalidDataError
from optotype.store.importers.tasks import import_tasks
from optotype.store.tasks import open_tasks, write_tasks
from optotype.store.tasks.export import export_tasks

QUERIES = "query,task,language,item\nq1,t2i,en,cat\nq2,t2i,it,cat\nq3,i2t,en,dog\n"
CANDIDATES = "candidate,task,language,text\na,t2i,,A\nb,t2i,en,B\nc,i2t,en,A\nd,i2t,en,A\ne,,,E\n"
RELEVANCE = "query,candidate\nq1,a\nq2,a\nq3,d\n"


def _files(folder: Path, **tables: str) -> dict[str, Path]:
    folder.mkdir(exist_ok=True)
    whole = {"queries": QUERIES, "candidates": CANDIDATES, "relevance": RELEVANCE, **tables}
    for name, text in whole.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.csv" for name in whole}


def _read(folder: Path, how: Mapping[str, Any] | None = None, **tables: str) -> xr.Dataset:
    import_tasks(folder / "set", **_files(folder / "in", **tables), **(how or {}))
    return open_tasks(folder / "set")


def _lists(tasks: xr.Dataset) -> dict[str, str]:
    """Query -> its candidates, and the right ones in capitals."""
    ends, rights = tasks["list_size"].values.cumsum(), tasks["relevance_size"].values.cumsum()
    names, told = tasks["candidate"].values, {}
    for at, query in enumerate(tasks["query"].values):
        number = int(tasks["query_list"].values[at])
        held = names[tasks["list_candidate"].values[ends[number] - tasks["list_size"].values[number] : ends[number]]]
        right = names[tasks["relevant"].values[rights[at] - tasks["relevance_size"].values[at] : rights[at]]]
        told[query] = "".join(name.upper() if name in right else name for name in held)
    return told


def test_candidates_of_tasks_and_languages(tmp_path: Path) -> None:
    """A blank task or language is any; one in several languages is in all their lists."""
    tasks = _read(tmp_path)
    assert _lists(tasks) == {"q1": "Abe", "q2": "Ae", "q3": "cDe"}
    assert tasks["query"].values.tolist() == ["q3", "q1", "q2"]  # by task, then language
    assert tasks.attrs["form"] == "tables"
    assert [source["file"] for source in json.loads(tasks.attrs["sources"])] == [
        "queries.csv",
        "candidates.csv",
        "relevance.csv",
    ]


def test_what_is_the_same_and_what_it_is_about(tmp_path: Path) -> None:
    """Without columns of their own, targets are the contents and items those of the queries."""
    tasks = _read(tmp_path)
    assert dict(zip(tasks["candidate"].values, tasks["target"].values, strict=True)) == dict(
        zip("abcde", "ABAAE", strict=True)
    )
    assert tasks["candidate_item"].values.tolist() == ["cat", "", "", "dog", ""]
    assert tasks["candidate_embedding"].values.tolist() == list("abcde")
    mine = "id,target,image,text,item,embedding\na,,1.png,,x,\nb,,1.png,B,,v\nc,t,,,,\nd,,,,,\n"
    tasks = _read(tmp_path, candidates=mine)
    assert tasks["target"].values.tolist() == ["1.png", "1.png\tB", "t", "d"]
    assert tasks["candidate_item"].values.tolist() == ["x", "", "", ""]
    assert tasks["candidate_embedding"].values.tolist() == ["a", "v", "c", "d"]


def test_lists_of_queries(tmp_path: Path) -> None:
    """Candidates of one query stand in rows of their own; other queries have those of their task."""
    mine = "candidate,query\na,\nb,\na,q1\nc,q1\nd,\n"
    assert _lists(_read(tmp_path, candidates=mine)) == {"q1": "Ac", "q2": "Abd", "q3": "abD"}


def test_lists_by_name(tmp_path: Path) -> None:
    queries = "query,task,language,list\nq1,t2i,en,one\nq2,t2i,en,one\nq3,t2i,en,two\nq4,t2i,en,\n"
    relevance = "query,candidate,grade\nq1,a,2\nq2,b,\nq2,a,0\nq3,c,0.5\nq4,d,1\n"
    candidates = "candidate,list\na,one\nb,one\nb,two\nc,two\nd,\n"
    by_column = _read(tmp_path, queries=queries, candidates=candidates, relevance=relevance)
    assert _lists(by_column) == {"q1": "Ab", "q2": "aB", "q3": "bC", "q4": "D"}
    assert by_column["grade"].values.tolist() == [2, 1, 0.5, 1]
    assert json.loads(by_column.attrs["left_out"]) == {"relevance with grade 0": 1}
    lists = "list,candidate\none,a\none,b\ntwo,b\ntwo,c\n"
    alone = "candidate,task,language\na,t2i,en\nb,t2i,en\nc,t2i,en\nd,t2i,en\n"
    by_table = _read(tmp_path, queries=queries, candidates=alone, relevance=relevance, lists=lists)
    assert _lists(by_table) == {"q1": "Ab", "q2": "aB", "q3": "bC", "q4": "abcD"}


def test_labels_from_outside(tmp_path: Path) -> None:
    queries = "id,language\nq1,\nq2,it\nq3,en\n"
    said: list[str] = []
    tasks = _read(
        tmp_path,
        {"task": "c", "language": "de", "say": said.append},
        queries=queries,
        candidates="candidate,colour\na,red\nd,red\nx,red\n",
        relevance=RELEVANCE,
    )
    assert tasks["task"].values.tolist() == ["c"] * 3
    assert dict(zip(tasks["query"].values, tasks["language"].values, strict=True)) == {
        "q1": "de",
        "q2": "it",
        "q3": "en",
    }
    assert said == ["candidates.csv: columns that are not used: colour"]


@pytest.mark.parametrize("kind", ["tsv", "jsonl", "parquet"])
def test_other_kinds_of_tables(tmp_path: Path, kind: str) -> None:
    import pandas as pd

    given = make_tasks(per_query=True, graded=True, relevant=3)
    digest = write_tasks(tmp_path / "set", given, inputs={}).digest
    export_tasks(tmp_path / "set", tmp_path / "out")
    files = {}
    for name in ("queries", "candidates", "relevance", "lists"):
        frame = pd.read_csv(tmp_path / "out" / f"{name}.csv", keep_default_na=False)
        files[name] = tmp_path / f"{name}.{kind}"
        if kind == "tsv":
            frame.to_csv(files[name], sep="\t", index=False)
        elif kind == "jsonl":
            frame.to_json(files[name], orient="records", lines=True)
        else:
            frame.to_parquet(files[name])
    assert import_tasks(tmp_path / "again", **files).digest == digest


BAD: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "no column": ({"queries": "q,task,language\nq1,c,en\n"}, {"missing-column": "queries.csv"}),
    "no label": ({"queries": "query,task\nq1,c\nq2,c\nq3,c\n"}, {"missing-column": "queries.csv"}),
    "blank label": ({"queries": "query,task,language\nq1,,en\nq2,c,en\nq3,c,en\n"}, {"bad-task": "queries.csv, row 1"}),
    "blank ids": ({"relevance": "query,candidate\nq1,a\n,a\n"}, {"blank-id": "relevance.csv, row 2"}),
    "no rows": ({"relevance": "query,candidate\n"}, {"empty": "relevance.csv"}),
    "a candidate that is two": (
        {"candidates": CANDIDATES + "a,i2t,en,other\n"},
        {"differing-rows": "candidates.csv, row 6"},
    ),
    "of a task that no query has": (
        {"candidates": CANDIDATES + "f,vqa,,F\n"},
        {"unknown-owner": "candidates.csv, row 6"},
    ),
    "unknown query": ({"relevance": RELEVANCE + "q9,a\n"}, {"unknown-query": "relevance.csv, row 4"}),
    "unknown candidate": ({"relevance": RELEVANCE + "q1,z\n"}, {"unknown-candidate": "relevance.csv, row 4"}),
    "the same row": ({"relevance": RELEVANCE + "q1,a\n"}, {"duplicate-row": "relevance.csv, row 4"}),
    "grades": (
        {"relevance": "query,candidate,grade\nq1,a,high\nq2,a,-1\nq3,d,inf\n"},
        {"bad-grade": "relevance.csv, row 1"},
    ),
    "not in its list": ({"relevance": "query,candidate\nq1,a\nq2,b\nq3,d\n"}, {"not-in-list": "query 'q2'"}),
    "no truth": ({"relevance": "query,candidate\nq1,a\nq2,a\n"}, {"no-relevant": "query 'q3'"}),
    "no candidates": (
        {"candidates": "candidate,task,text\na,t2i,A\n", "relevance": "query,candidate\nq1,a\nq2,a\nq3,a\n"},
        {"no-candidates": "query 'q3'", "not-in-list": "query 'q3'"},
    ),
    "a list that is nobody's": (
        {"lists": "list,candidate\none,a\none,z\n"},
        {"unknown-owner": "lists.csv, row 1", "unknown-candidate": "lists.csv, row 2"},
    ),
    "ids twice": ({"queries": QUERIES + "q1,t2i,en,cat\n"}, {"duplicate-id": "query"}),
}


@pytest.mark.parametrize(("tables", "wanted"), BAD.values(), ids=BAD)
def test_everything_wrong_is_listed(tmp_path: Path, tables: dict[str, str], wanted: dict[str, str]) -> None:
    with pytest.raises(InvalidDataError, match="nothing was written") as refused:
        _read(tmp_path, **tables)
    first: dict[str, str] = {}
    for problem in refused.value.problems:
        first.setdefault(problem.kind, problem.where.removeprefix(f"{tmp_path / 'in'}/"))
    assert first == wanted
    assert not (tmp_path / "set").exists()


def test_several_things_wrong_at_once(tmp_path: Path) -> None:
    tables = {"relevance": "query,candidate,grade\nq9,z,x\nq1,a,1\nq1,a,1\n", "candidates": CANDIDATES + "f,vqa,,F\n"}
    with pytest.raises(InvalidDataError) as refused:
        _read(tmp_path, **tables)
    assert {problem.kind for problem in refused.value.problems} == {
        "unknown-query",
        "unknown-candidate",
        "bad-grade",
        "duplicate-row",
        "unknown-owner",
        "no-relevant",
    }
