"""Compressed suites and frontiers from a stored panel: the API, its files, and the commands."""

from __future__ import annotations

import csv
import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from panels import make_panel

from optotype.pipelines.compression import compress as pipeline
from optotype.pipelines.compression import frontier as frontier_pipeline
from optotype.pipelines.selectors.selector import SELECTORS
from optotype.registry import compressions, frontiers, results
from optotype.registry.cli import panel_options
from optotype.registry.cli.root import cli
from optotype.registry.panels import import_scores
from optotype.registry.results import check_out, write_table
from optotype.schemas.errors import ExternalError, NotFoundError, UsageError
from optotype.store.panels import open_panel
from optotype.store.project import Project

COLUMNS = {
    "benchmark": "string",
    "item_id": "string",
    "category": "string",
    "vaw": "double",
    "variance": "double",
    "delta": "double",
    "cell": "int32",
    "weight": "double",
}
SETTINGS: dict[str, Any] = {"retention": 0.2, "floor": 3, "k": 2}


def _tidy(panel: Any, variable: str, names: str) -> pd.DataFrame:
    scores = panel[variable].to_numpy()
    rows, columns = np.nonzero(np.isfinite(scores))
    return pd.DataFrame(
        {
            "benchmark": panel["benchmark"].to_numpy()[columns],
            "item_id": panel["item"].to_numpy()[columns],
            "model": panel[names].to_numpy()[rows],
            "score": scores[rows, columns].astype(float),
            "modality": "image" if variable == "score" else "blind",
        }
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the panel ``panel`` of five benchmarks in four categories."""
    root = tmp_path_factory.mktemp("project")
    (root / ".optotype").mkdir()
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    categories = {"a": "x", "b": "x", "c": "y", "d": "z", "e": "w"}
    axis = ["size:1", "size:2", "", "", "gen:1", "gen:2", "", "", ""]
    panel = make_panel(
        {"a": 30, "b": 25, "c": 40, "d": 20, "e": 22}, models=9, blind=3, categories=categories, missing=0.1,
        graded=["c"], families=list("ppqqrrsst"), axis=axis, seed=4,
    )  # fmt: skip
    tables = [_tidy(panel, "score", "model"), _tidy(panel, "blind", "blind_model")]
    pd.concat(tables).to_parquet(root / "scores.parquet")
    items = ("benchmark", "item", "category")
    pd.DataFrame({name: panel[name].to_numpy() for name in items}).rename(columns={"item": "item_id"}).to_csv(
        root / "items.csv", index=False
    )
    pd.DataFrame({name: panel[name].to_numpy() for name in ("model", "family", "axis")}).to_csv(
        root / "models.csv", index=False
    )
    import_scores(
        root, "panel", [root / "scores.parquet"], items=root / "items.csv", models=root / "models.csv", track=False
    )
    return root


def _run(stored: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["-C", str(stored), *words], prog_name="optotype")


def test_compress_writes_what_the_pipeline_found(stored: Path, tmp_path: Path) -> None:
    document = compressions.compress("panel", project=stored, out=tmp_path, **SETTINGS)
    panel = open_panel(stored / "data" / "scores" / "panel")
    expected = pipeline.compress(panel, **SETTINGS)
    table = pq.read_table(tmp_path / "items.parquet")
    assert {field.name: str(field.type) for field in table.schema} == COLUMNS
    assert table.schema.metadata is None
    for name in COLUMNS:
        values = [None if value is pd.NA or value != value else value for value in expected.items[name].tolist()]
        assert table[name].to_pylist() == values
    assert json.loads((tmp_path / "compression.json").read_text(encoding="utf-8")) == document
    assert document["stages"] == expected.stages
    assert document["panel"] == {"name": "panel", "digest": panel.attrs["digest"]}
    assert document["embeddings"] is None
    assert document["parameters"]["retention"] == 0.2
    assert set(document["versions"]) == {"optotype", "numpy", "scikit-learn"}
    with (tmp_path / "models.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == panel["model"].to_numpy().tolist()
    assert [float(row["rank_compressed"]) for row in rows] == [row["rank_compressed"] for row in document["models"]]
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["stage_3"]["rho"] == document["stages"][3]["rho"]
    assert metrics["stage_0"]["items_out"] == document["stages"][0]["items_out"]


@pytest.mark.parametrize("stop", [0, 1, 2, 3])
def test_stage_2_is_null_before_it_ran(stored: Path, tmp_path: Path, stop: int) -> None:
    document = compressions.compress("panel", project=stored, stop_after=stop, out=tmp_path, **SETTINGS)
    table = pq.read_table(tmp_path / "items.parquet")
    assert table.num_rows == document["stages"][-1]["items_out"] > 0
    for name in ("vaw", "variance", "delta", "weight"):
        assert table[name].null_count == (table.num_rows if stop < 2 else 0)
    assert table["cell"].null_count == table.num_rows  # there are no embeddings


def test_the_same_input_gives_the_same_bytes(stored: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        compressions.compress("panel", project=stored, out=tmp_path / name, **SETTINGS)
        frontiers.frontier("panel", project=stored, gain=0.5, out=tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == [
        "compression.json", "frontier.json", "items.parquet", "metrics.json", "models.csv"
    ]  # fmt: skip
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_path_needs_no_project(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(stored / "data" / "scores" / "panel")
    assert compressions.compress(path, stop_after=0)["panel"]["name"] == "panel"
    with pytest.raises(NotFoundError, match="not in a project"):
        compressions.compress("panel", stop_after=0)
    with pytest.raises(NotFoundError, match="no scores called 'pannel'"):
        compressions.compress("pannel", project=Project.find(stored), stop_after=0)


def test_nothing_is_written_when_something_is_wrong(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        compressions.compress("panel", project=stored, out=tmp_path / "new", tau=3.0)
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="--out takes a folder"):
        compressions.compress("panel", project=stored, out=tmp_path / "file")
    with pytest.raises(UsageError, match="--out takes a folder"):
        frontiers.frontier("panel", project=stored, gain=0.1, out=tmp_path / "file")


def test_frontier_writes_what_the_pipeline_found(stored: Path, tmp_path: Path) -> None:
    document = frontiers.frontier("panel", project=stored, gain=0.5, out=tmp_path)
    expected = frontier_pipeline.frontier(open_panel(stored / "data" / "scores" / "panel"), gain=0.5)
    table = pq.read_table(tmp_path / "items.parquet")
    assert table.column_names == expected.items.columns.tolist()
    assert table["item_id"].to_pylist() == expected.items["item_id"].tolist()
    assert table["score"].to_pylist() == expected.items["score"].tolist()
    assert json.loads((tmp_path / "frontier.json").read_text(encoding="utf-8")) == document
    assert document["kept"] == table.num_rows == sum(document["items"].values()) > 0
    assert [axis["axis"] for axis in document["axes"]] == ["size", "gen"]


def test_compress_command(stored: Path, tmp_path: Path) -> None:
    words = ["compress", "panel", "--retention", "1/5", "--floor", "3", "-k", "2", "--out", str(tmp_path)]
    shown = _run(stored, *words)
    assert shown.exit_code == 0, shown.stderr
    assert "3 category count" in shown.stdout
    assert "stage 2, item pruning:" in shown.stderr
    assert "Warning: no embeddings" in shown.stderr
    told = _run(stored, *words, "--json")
    assert json.loads(told.stdout) == json.loads((tmp_path / "compression.json").read_text(encoding="utf-8"))
    assert json.loads(told.stdout)["stages"] == compressions.compress("panel", project=stored, **SETTINGS)["stages"]


def test_two_thirds_is_a_fraction_or_a_decimal(stored: Path, tmp_path: Path) -> None:
    counts = {}
    for tau in ("2/3", "0.6666666666666666", "0.667", "1/3"):
        done = _run(stored, "compress", "panel", "--stop-after", "0", "--tau", tau, "--out", str(tmp_path), "--json")
        counts[tau] = json.loads(done.stdout)["stages"][0]["items_out"]
    assert counts["2/3"] == counts["0.6666666666666666"] < counts["0.667"]
    assert counts["1/3"] < counts["2/3"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["compress", "panel", "--tau", "two"], 2, "not a number such as 0.05 or 2/3"),
        (["compress", "panel", "--tau", "1/0"], 2, "not a number such as"),
        (["compress", "panel", "--tau", "1.5"], 2, "not above 0 and at most 1"),
        (["compress", "panel", "--retention", "nan"], 2, "not a number such as"),
        (["compress", "panel", "--alpha", "nan"], 2, "not a finite number"),
        (["compress", "panel", "--rho-target", "2"], 2, "not between -1 and 1"),
        (["compress", "panel", "-k", "0"], 2, "not in the range"),
        (["compress", "panel", "--stop-after", "4"], 2, "'4' is not one of"),
        (["compress", "panel", "--selector", "best"], 2, "is not one of"),
        (["compress", "panel", "--selector", "vaww"], 2, "Did you mean 'vaw'?"),
        (["compress", "panel", "--category-by", "nope"], 3, "There are: benchmark, category."),
        (["compress", "panel", "--embeddings", "./nothing"], 3, "optotype embeddings list"),
        (["compress", "panel", "--category-by", "categori"], 3, "Did you mean 'category'?"),
        (["compress", "pannel"], 3, "Did you mean 'panel'?"),
        (["compress", "panel", "--embeddings", "none"], 3, "no embeddings called 'none'"),
        (["frontier", "panel", "--gain", "0.1", "--axis", "size"], 2, "give one of the two"),
        (["frontier", "panel", "--axis", "depth"], 3, "no axis is called 'depth'"),
        (["frontier", "panel", "--gain", "0"], 2, "not above 0"),
    ],
)
def test_commands_say_what_is_wrong(stored: Path, tmp_path: Path, words: list[str], code: int, message: str) -> None:
    done = _run(stored, *words, "--out", str(tmp_path / "out"))
    assert done.exit_code == code
    assert message in " ".join(done.stderr.split())
    assert not done.stdout
    assert not (tmp_path / "out").exists()


def test_frontier_command(stored: Path, tmp_path: Path) -> None:
    shown = _run(stored, "frontier", "panel", "--gain", "1/2", "--out", str(tmp_path))
    assert shown.exit_code == 0, shown.stderr
    assert "in_band" in shown.stdout
    told = _run(stored, "frontier", "panel", "--gain", "1/2", "--out", str(tmp_path), "--json")
    assert json.loads(told.stdout) == json.loads((tmp_path / "frontier.json").read_text(encoding="utf-8"))


def test_the_command_knows_every_selector() -> None:
    assert tuple(SELECTORS) == panel_options.SELECTORS


def test_tables_keep_types_and_missing_values(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "text": np.array(["é", ""], object),
            "whole": [1, 2],
            "cell": pd.array([pd.NA, 3], dtype="Int32"),
            "number": [0.1, np.nan],
        }
    )
    write_table(table, tmp_path / "table.parquet")
    found = pq.read_table(tmp_path / "table.parquet")
    assert found.to_pylist() == [
        {"text": "é", "whole": 1, "cell": None, "number": 0.1},
        {"text": "", "whole": 2, "cell": 3, "number": None},
    ]
    write_table(table.iloc[:0], tmp_path / "empty.parquet")
    assert pq.read_table(tmp_path / "empty.parquet").schema == found.schema


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    """Nothing is left behind by looking; what rights do not tell of is tried."""
    assert check_out(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []
    for out in ("/proc/optotype-out", tmp_path / ("a" * 300), "a\0b"):
        with pytest.raises(UsageError):
            check_out(out)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError):
        check_out(tmp_path / "loop" / "out")


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, ExternalError), (errno.EROFS, UsageError)])
def test_why_a_folder_cannot_be_written(
    number: int, kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(results.tempfile, "TemporaryFile", refuse)
    with pytest.raises(kind, match=os.strerror(number)):
        check_out(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
