"""Retrieval in the registry: what names stand for, parts of a task set, and the files."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from task_sets import make_embeddings, make_tasks

from optotype.registry.retrievals import retrieve, task_reference, write_retrieval
from optotype.registry.tasks import import_tasks
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.store.features import write_features
from optotype.store.states import write_states

INPUTS = {"operation": "test"}
CELLS = {(task, language): 8 for task in ("i2t", "t2i", "c") for language in ("en", "it")}


def write_task_files(root: Path) -> None:
    """Tables of a task set (three tasks, two languages), and states ``q`` and ``c`` of its queries and candidates."""
    tasks = make_tasks(CELLS, candidates=8)
    parts = [[*map(str, tasks[name].values)] for name in ("query", "task", "language", "item")]
    queries = list(zip(*parts, strict=True))
    candidates = [
        (str(name), *str(name).split("/")[:2], str(item))
        for name, item in zip(tasks["candidate"].values, tasks["candidate_item"].values, strict=True)
    ]
    relevance = list(zip(parts[0], tasks["candidate"].values[tasks["relevant"].values], strict=True))
    for name, head, rows in (
        ("queries", ("query", "task", "language", "item"), queries),
        ("candidates", ("candidate", "task", "language", "item"), candidates),
        ("relevance", ("query", "candidate"), relevance),
    ):
        with (root / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *rows])
    for name, states in zip(("q", "c"), make_embeddings(tasks, channels=4, noise=1.5), strict=True):
        ids = states["text"].values.tolist()
        write_states(root / "data" / "states" / name, ids=ids, blocks=[states["states"].values], inputs=INPUTS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without git and DVC, with tasks and states."""
    folder = (tmp_path_factory.mktemp("retrieval") / "project").resolve()
    (folder / ".optotype").mkdir(parents=True)
    (folder / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    write_task_files(folder)
    files = {name: folder / f"{name}.csv" for name in ("queries", "candidates", "relevance")}
    import_tasks(folder, "small", **files, track=False)
    return folder


@pytest.fixture
def root(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That project, which is the working directory; tests leave nothing under the names of others."""
    monkeypatch.chdir(made)
    shutil.rmtree(made / "out", ignore_errors=True)
    return made


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def test_the_document_and_its_files(root: Path) -> None:
    found = retrieve(["q"], ["c"], "small", at=(1, 3), bootstrap=50, seed=4, model="toy", out="out", workers=2)
    assert json.loads((root / "out" / "retrieval.json").read_text(encoding="utf-8")) == found
    assert (found["format_version"], found["kind"], found["model"]) == (1, "retrieval", "toy")
    assert found["parameters"] == {"ties": "expected", "at": [1, 3], "unable": [], "bootstrap": 50, "seed": 4}
    assert found["task"].items() >= {"name": "small", "task": None, "language": None}.items()
    digests = [found["task"]["digest"], *(found[side][0]["digest"] for side in ("queries", "candidates"))]
    assert all(digest.startswith("sha256:") for digest in digests)
    assert len(set(digests)) == 3
    cells = _rows(root / "out" / "cells.csv")
    assert [(row["task"], row["language"]) for row in cells] == list(CELLS)
    for line, row in zip(cells, found["cells"], strict=True):
        assert float(line["p1_pessimistic"]) == row["p1"]["pessimistic"]
        assert float(line["ndcg_3_expected"]) == row["ndcg"]["3"]["expected"]
        assert [float(line["low"]), float(line["high"])] == row["interval"]
    languages = _rows(root / "out" / "languages.csv")
    assert [row["language"] for row in languages] == ["en", "it", "macro"]
    assert languages[0]["gap_i2t"] == ""
    assert float(languages[1]["gap_avg3"]) == found["languages"][1]["gap_to_english"]["avg3"]
    assert float(languages[2]["avg"]) == found["macro"]["avg"]
    before = {name: (root / "out" / name).read_bytes() for name in ("retrieval.json", "cells.csv", "languages.csv")}
    retrieve(["q"], ["c"], "small", at=(1, 3), bootstrap=50, seed=4, model="toy", out="out", workers=1)
    assert before == {name: (root / "out" / name).read_bytes() for name in before}
    assert str(root) not in "".join(value.decode() for value in before.values())


def test_the_policy_is_what_averages_go_by(root: Path) -> None:
    ids = sorted(f"{task}/{language}/c{number:03d}" for task, language in CELLS for number in range(8))
    write_states(root / "data" / "states" / "same", ids=ids, blocks=[np.ones((48, 4), np.float32)], inputs=INPUTS)
    by_policy = {policy: retrieve(["q"], ["same"], "small", ties=policy) for policy in ("optimistic", "pessimistic")}
    assert {name: found["macro"]["avg"] for name, found in by_policy.items()} == {"optimistic": 100, "pessimistic": 0}
    assert by_policy["optimistic"]["cells"][0]["p_at_1"] == 100
    assert retrieve(["q"], ["same"], "small")["macro"]["avg"] == pytest.approx(12.5)


def test_a_part_is_what_the_whole_has_of_it(root: Path) -> None:
    whole = retrieve(["q"], ["c"], "small")["cells"]
    for reference, kept in (
        ("small:t2i", lambda row: row["task"] == "t2i"),
        ("small:i2t:it", lambda row: (row["task"], row["language"]) == ("i2t", "it")),
    ):
        found = retrieve(["q"], ["c"], reference)
        assert found["cells"] == [row for row in whole if kept(row)]
        assert found["macro"]["avg3"] is None
    with pytest.raises(NotFoundError, match="no task 'it2'"):
        retrieve(["q"], ["c"], "small:it2")
    with pytest.raises(NotFoundError, match="no language 'de'"):
        retrieve(["q"], ["c"], "small:i2t:de")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("mmmeb", ("mmmeb", None, None)),
        ("mmmeb:i2t", ("mmmeb", "i2t", None)),
        ("mmmeb:i2t:it", ("mmmeb", "i2t", "it")),
        ("./data/tasks/mmmeb:vqa", ("./data/tasks/mmmeb", "vqa", None)),
        ("s3://bucket/mmmeb", ("s3://bucket/mmmeb", None, None)),
        ("http://host:8000/mmmeb:i2t:it", ("http://host:8000/mmmeb", "i2t", "it")),
        ("mmmeb:I2T", ("mmmeb", "I2T", None)),
    ],
)
def test_task_reference(text: str, parts: Any) -> None:
    assert task_reference(text) == parts


def test_a_path_with_a_colon_that_is_there_is_a_path(root: Path) -> None:
    shutil.copytree(root / "data" / "tasks" / "small", root / "a:b")
    assert task_reference("./a:b") == ("./a:b", None, None)
    assert len(retrieve(["q"], ["c"], "./a:b")["cells"]) == 6
    assert len(retrieve(["q"], ["c"], "./a:b:c")["cells"]) == 2
    with pytest.raises(UsageError):
        task_reference("")


def test_features_are_pooled_and_said_to_be(root: Path) -> None:
    """Tokens of each image around its vector in pairs: their mean is the vector, and so are results."""
    tasks = make_tasks(CELLS, candidates=8)
    asked, _ = make_embeddings(tasks, channels=4, noise=1.5)
    ids, rows = asked["text"].values.tolist(), asked["states"].values
    offsets = np.random.default_rng(0).integers(-4, 5, rows.shape).astype(np.float32)
    tokens = np.stack([rows, rows + offsets, rows - offsets], axis=1).astype(np.float64).reshape(-1, 4)
    where = root / "data" / "features"
    sizes = np.full(len(ids), 3)
    write_features(where / "tokens", ids=ids, row_size=sizes, blocks=[tokens], dtype="float64", inputs=INPUTS)
    ones = np.ones(len(ids), int)
    write_features(where / "single", ids=ids, row_size=ones, blocks=[rows], dtype="float32", inputs=INPUTS)
    expected = retrieve(["q"], ["c"], "small")
    for name, reference in (("tokens", "tokens"), ("tokens", "./data/features/tokens"), ("single", "single")):
        found = retrieve([reference], ["c"], "small")
        assert [row["p1"] for row in found["cells"]] == [row["p1"] for row in expected["cells"]]
        assert found["queries"][0].items() >= {"name": name, "kind": "features"}.items()
        assert any("mean" in note for note in found["notes"]) == (name == "tokens")


def test_several_arrays_are_one_and_one_may_serve_both_sides(root: Path) -> None:
    whole = retrieve(["q"], ["c"], "small")
    both = retrieve(["q", "c"], ["c", "q"], "small")
    assert both["cells"] == whole["cells"]
    assert [entry["name"] for entry in both["queries"]] == ["q", "c"]
    ids = sorted(f"{task}/{language}/c{number:03d}" for task, language in CELLS for number in range(8))
    write_states(root / "data" / "states" / "more", ids=ids, blocks=[np.ones((48, 4), np.float32)], inputs=INPUTS)
    with pytest.raises(InvalidDataError, match="48 ids are in both: c/en/c000"):
        retrieve(["q"], ["c", "more"], "small")


def test_what_is_not_there(root: Path) -> None:
    with pytest.raises(NotFoundError, match="no states and no features called 'qq'"):
        retrieve(["qq"], ["c"], "small")
    with pytest.raises(NotFoundError, match="no tasks called 'smal'") as error:
        retrieve(["q"], ["c"], "smal")
    assert "small" in str(error.value.hint)
    with pytest.raises(NotFoundError):
        retrieve(["./nowhere"], ["c"], "small")
    with pytest.raises(FormatError, match="holds tasks"):
        retrieve(["./data/tasks/small"], ["c"], "small")
    with pytest.raises(UsageError, match="no queries"):
        retrieve([], ["c"], "small")
    with pytest.raises(UsageError, match="--unable vqa"):
        retrieve(["q"], ["c"], "small", unable=["vqa"], out="out")
    assert not (root / "out").exists()


def test_null_cells_are_empty_in_the_tables(root: Path) -> None:
    found = retrieve(["q"], ["c"], "small", unable=["c"])
    write_retrieval(found, root / "out")
    line = next(row for row in _rows(root / "out" / "cells.csv") if row["task"] == "c")
    assert (line["p1_expected"], line["hit_5_expected"], line["unable"]) == ("", "", "declared")
    assert _rows(root / "out" / "languages.csv")[0]["avg"] == ""


@pytest.mark.parametrize("text", ["", ":", "five:", "five::it", ":i2t", "five:i2t:it:x", "./five::it", "s3://b/five:"])
def test_what_is_no_part_of_a_task_set(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        task_reference(text)
    assert "NAME[:TASK[:LANGUAGE]]" in str(refused.value.hint)


@pytest.mark.parametrize("model", ["", " ", "a\nb", "a\x1b[0m", "\u2028"])
def test_a_label_is_one_line_of_text(root: Path, model: str) -> None:
    with pytest.raises(UsageError, match="--model"):
        retrieve(["q"], ["c"], "small", model=model)
