"""Task sets go out as tables and come back as the same set, whatever is in their texts."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from task_sets import make_tasks, tasks_of

from optotype.schemas.errors import ConflictError
from optotype.store.dataset import read_texts
from optotype.store.importers.tasks import import_tasks
from optotype.store.tasks import open_tasks, write_tasks
from optotype.store.tasks.export import FILES, export_tasks

# Texts that a table could spoil: line ends of all kinds, quotes, separators, white space, what looks like a number.
NASTY = [
    '"',
    "a\r\nb\rc\nd",
    " a ",
    "\t",
    ",;",
    "001",
    "1e5",
    "NaN",
    "null",
    "=1+1",
    "é",
    "e\u0301",
    "\x00",
    "😀",
    "#x",
]


def _nasty() -> xr.Dataset:
    names = [f"c{number}" for number in range(len(NASTY))]
    candidates = [
        {"candidate": name, "target": text, "candidate_text": text, "candidate_image": f"{name}.png"}
        for name, text in zip(names, NASTY, strict=True)
    ]
    queries = [
        {
            "query": f"q {number}, \\ #",
            "language": "en" if number % 2 else "it",
            "list": names[number % 2 :],
            "relevant": {names[-1]: 0.1, names[5]: 1 / 3},
            "query_text": text,
            "query_embedding": f"vector {number}",
            "item": f"item {number // 2}",
        }
        for number, text in enumerate(NASTY)
    ]
    return tasks_of(queries, candidates)


SETS: dict[str, tuple[xr.Dataset, bool]] = {
    "simple": (make_tasks(), False),
    "shared by languages": (
        tasks_of(
            [
                {"query": f"{language}/q", "language": language, "list": "ab", "relevant": "a"}
                for language in ("en", "it")
            ],
            [{"candidate": name} for name in "ab"],
        ),
        True,
    ),
    "lists of their own": (make_tasks(per_query=True, relevant=4, graded=True, same_target=0.4), True),
    "a candidate in two lists": (
        tasks_of(
            [
                {"query": "1", "task": "i2t", "list": "ab", "relevant": "a"},
                {"query": "2", "task": "t2i", "list": "bc", "relevant": "c"},
            ],
            [{"candidate": name} for name in "abc"],
        ),
        True,
    ),
    "nasty texts": (_nasty(), True),
}


def _tables(folder: Path) -> dict[str, Path]:
    names = ("queries", "candidates", "relevance", "lists")
    return {name: folder / f"{name}.csv" for name in names if (folder / f"{name}.csv").exists()}


@pytest.mark.parametrize(("given", "has_lists"), SETS.values(), ids=SETS)
def test_round_trip(tmp_path: Path, given: xr.Dataset, has_lists: bool) -> None:
    digest = write_tasks(tmp_path / "set", given, inputs={}).digest
    written = export_tasks(tmp_path / "set", tmp_path / "out")
    assert ("lists.csv" in written) == has_lists
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(written)
    assert import_tasks(tmp_path / "again", **_tables(tmp_path / "out")).digest == digest
    xr.testing.assert_equal(open_tasks(tmp_path / "again"), given)


def test_tables_for_encoders(tmp_path: Path) -> None:
    """One row for each embedding; a task or language is blank where an embedding is of several."""
    given = tasks_of(
        [
            {"query": "1", "task": "t2i", "language": "en", "list": "ab", "relevant": "a", "query_text": "one"},
            {"query": "2", "task": "vqa", "language": "en", "list": "ab", "relevant": "a", "query_embedding": "two"},
            {"query": "3", "task": "vqa", "language": "it", "list": "ab", "relevant": "b", "query_embedding": "two"}
            | {"query_text": "zwei", "query_image": "2.png"},
        ],
        [{"candidate": "a", "candidate_image": "a.png"}, {"candidate": "b", "candidate_image": "b.png"}],
    )
    write_tasks(tmp_path / "set", given, inputs={})
    written = export_tasks(tmp_path / "set", tmp_path / "out")

    def rows(name: str) -> list[dict[str, str]]:
        with (tmp_path / "out" / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    assert rows("query-texts.csv") == [
        {"id": "1", "text": "one", "image": "", "language": "en", "task": "t2i"},
        {"id": "two", "text": "zwei", "image": "2.png", "language": "", "task": "vqa"},
    ]
    assert rows("query-images.csv") == [{"id": "two", "image": "2.png"}]
    assert rows("candidate-images.csv") == [{"id": "a", "image": "a.png"}, {"id": "b", "image": "b.png"}]
    assert "candidate-texts.csv" not in written
    assert read_texts(tmp_path / "out" / "query-texts.csv").texts == ("one", "zwei")
    assert {(row["task"], row["language"]) for row in rows("candidates.csv")} == {("", "")}
    assert written == {name: len(rows(name)) for name in FILES if name in written}


def test_same_set_same_bytes(tmp_path: Path) -> None:
    write_tasks(tmp_path / "set", _nasty(), inputs={})
    for out in ("one", "two"):
        export_tasks(tmp_path / "set", tmp_path / out)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_what_is_there_stays(tmp_path: Path) -> None:
    write_tasks(tmp_path / "several", SETS["lists of their own"][0], inputs={})
    write_tasks(tmp_path / "simple", SETS["simple"][0], inputs={})
    out = tmp_path / "out"
    export_tasks(tmp_path / "several", out)
    (out / "mine.csv").write_text("mine", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(ConflictError, match="there already"):
        export_tasks(tmp_path / "simple", out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    export_tasks(tmp_path / "simple", out, replace=True)
    assert not (out / "lists.csv").exists()  # it would be another set's
    assert (out / "mine.csv").exists()
    with pytest.raises(ConflictError, match="is a file"):
        export_tasks(tmp_path / "simple", out / "mine.csv")


def test_a_folder_in_the_way(tmp_path: Path) -> None:
    write_tasks(tmp_path / "simple", SETS["simple"][0], inputs={})
    (tmp_path / "out" / "queries.csv").mkdir(parents=True)
    how: dict[str, Any] = {"replace": True}
    with pytest.raises(ConflictError, match="is a folder"):
        export_tasks(tmp_path / "simple", tmp_path / "out", **how)
