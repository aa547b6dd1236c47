"""``optotype judge`` from files to files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from optotype.pipelines.judging import curves
from optotype.registry.cli import judge as command
from optotype.registry.cli.root import cli
from optotype.registry.judgements import FILES, judge
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError

MODELS = ("lm-a", "lm-b")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A ranking with a sweep, an external table without language models, and the outcomes."""
    rng = np.random.default_rng(0)
    truth = {(f"e{number}", model): float(rng.normal()) for number in range(6) for model in MODELS}
    rows: list[dict[str, Any]] = []
    for k in (5, 10):
        for (encoder, model), value in truth.items():
            score = value + 0.2 * float(rng.normal())
            rows.append({"encoder": encoder, "model": model, "metric": "ravel", "score": score, "k": k, "n": 50})
    ranking = tmp_path / "ranking.json"
    ranking.write_text(json.dumps({"format_version": 1, "kind": "ranking", "rows": rows}))
    table = tmp_path / "tokbench.csv"
    table.write_text("encoder,T-ACC\n" + "".join(f"e{number},{number % 4}\n" for number in range(6)))
    downstream = tmp_path / "downstream.csv"
    lines = [f"{encoder},{model},{value}" for (encoder, model), value in truth.items()]
    downstream.write_text("encoder,model,score\n" + "\n".join(reversed(lines)) + "\n")
    return ranking, table, downstream


def _invoke(*words: str) -> Any:
    return CliRunner().invoke(cli, ["judge", *words])


def test_files_hold_the_judgement_and_do_not_depend_on_the_run(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    document = judge(files[:2], files[2], bootstrap=30, pool_repeats=5, out=tmp_path / "one")
    judge(files[:2], files[2], bootstrap=30, pool_repeats=5, out=tmp_path / "two")
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        assert str(tmp_path) not in (tmp_path / "one" / name).read_text()
    assert json.loads((tmp_path / "one" / "judgement.json").read_text()) == document
    with (tmp_path / "one" / "judgement.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["label"], row["model"]) for row in rows] == [(row["label"], row["model"]) for row in document["rows"]]
    with (tmp_path / "one" / "curves.csv").open() as file:
        assert {row["curve"] for row in csv.DictReader(file)} == {"pool", "k"}
    metrics = json.loads((tmp_path / "one" / "metrics.json").read_text())
    assert set(metrics) == {"ravel", "T-ACC"}
    assert metrics["ravel"]["mean"]["rho"] > 0.6
    assert [source["name"] for source in document["sources"]["rankings"]][1] == "tokbench.csv"


def test_names_are_joined_after_renaming(files: tuple[Path, Path, Path]) -> None:
    text = files[2].read_text()
    files[2].write_text(text.replace("e3,", "vit,").replace("lm-b", "other"))
    with pytest.raises(InvalidDataError, match="vit x"):
        judge(files[:1], files[2])
    found = judge(files[:1], files[2], rename={"vit": "e3", "other": "lm-b"}, bootstrap=0)
    assert found["downstream"]["encoders"] == [f"e{number}" for number in range(6)]
    assert found["parameters"]["rename"] == {"vit": "e3", "other": "lm-b"}
    with pytest.raises(UsageError, match="no encoder or language model is called so") as caught:
        judge(files[:1], files[2], rename={"vitt": "e3"})
    assert "vit" in str(caught.value.hint)


def test_nothing_is_written_when_it_fails(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        judge(files[:1], tmp_path / "none.csv", out=tmp_path / "out")
    with pytest.raises(UsageError, match="one RANKING or more"):
        judge([], files[2], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_are_given_once_and_told_apart_by_their_folders(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tokbench\.csv is given twice"):
        judge([files[1], tmp_path / "." / "tokbench.csv"], files[2])
    with pytest.raises(UsageError, match=r"ranking\.json is given twice"):
        judge([files[0], tmp_path], files[2])
    with pytest.raises(UsageError, match=r"downstream\.csv is given twice"):
        judge([files[1], files[2]], files[2])
    folders = [tmp_path / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        text = files[1].read_text()
        (folder / "tokbench.csv").write_text(text if not number else text.replace(",3", ",9"))
    tables = [folder / "tokbench.csv" for folder in folders]
    with pytest.raises(InvalidDataError, match=r"one/tokbench\.csv, row 4 \(3\) and two/tokbench\.csv, row 4 \(9\)"):
        judge(tables, files[2])
    tables[1].write_text(files[1].read_text())
    found = judge(tables, files[2], bootstrap=0)
    assert [each["name"] for each in found["sources"]["rankings"]] == ["one/tokbench.csv", "two/tokbench.csv"]
    assert "T-ACC: results that both one/tokbench.csv and two/tokbench.csv hold count once" in found["warnings"]


def test_bad_files_end_in_words_and_not_in_a_crash(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("encoder,score,options\ne0,1,foo\n")
    done = _invoke(str(path), str(files[2]))
    assert (done.exit_code, "bad.csv, row 1" in done.stderr) == (4, True)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    assert _invoke(str(tmp_path / "deep.json"), str(files[2])).exit_code == 5


def test_command_prints_a_table_or_one_document(files: tuple[Path, Path, Path]) -> None:
    words = [str(path) for path in files]
    done = _invoke(*words, "--bootstrap", "20", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "judgement"
    assert "small pool: 6 encoders" in done.stderr
    done = _invoke(*words, "--bootstrap", "20", "--metric", "ravel", "--curve", "k")
    assert done.exit_code == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split()[:3] == ["metric", "ρ", "lm-a"]
    assert [line.split("  ")[0] for line in lines] == ["ravel", "ravel (k 10)"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--rename", "e1"], 2, "is not FROM=TO"),
        (["--rename", "e1=a", "--rename", "e1=b"], 2, "renamed twice"),
        (["--metric", "ravell"], 3, "no source has a metric"),
        (["--curve", "gamma"], 2, "no result differs"),
        (["--curve", "flops"], 2, "no FLOPs are known"),
        (["--rename", "e1=e2"], 4, "is there 2 times"),
    ],
)
def test_command_refuses_in_words(files: tuple[Path, Path, Path], words: list[str], code: int, said: str) -> None:
    done = _invoke(*(str(path) for path in files), *words)
    assert done.exit_code == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", command.judge.examples)
def test_examples_run_as_they_stand(
    line: str, files: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(files[0].read_text())
    document["rows"] += [{**row, "eps": 0.1} for row in document["rows"] if row["k"] == 5]
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "ranking.json").write_text(json.dumps(document))
    monkeypatch.chdir(tmp_path)
    done = _invoke(*line.replace("10000", "10").split()[2:])
    assert done.exit_code == 0, done.stderr
    assert done.stdout


def test_the_command_knows_the_curves() -> None:
    assert command.CURVES == curves.CURVES


def test_shapes_of_arrays_give_flops(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    table = tmp_path / "costs.csv"
    names = [f"e{number}" for number in range(6)]
    lines = [f"{name},4,5" for name in names] + [f"{name},,6" for name in MODELS]
    table.write_text("name,tokens,channels\n" + "\n".join(lines) + "\n")
    found = judge(files[:1], files[2], costs=table, bootstrap=0)
    points = [row for row in found["curves"] if row["curve"] == "flops" and row["model"] == "mean"]
    assert {row["label"] for row in points} == {"ravel", "ravel (k 10)"}
    own = [row["scoring"] for row in found["costs"]["rows"]]
    assert [row["x"] for row in points] == own
    assert found["sources"]["costs"]["name"] == "costs.csv"
