"""``optotype emoji panel``: from arrays of a project to tables of scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from probes import write_pairs_table

from optotype.registry.cli.root import cli
from optotype.store.importers import import_features, import_states

N = 128  # as the arrays of the fixture `project` have it


@pytest.fixture
def filled(project: Path) -> Path:
    for kind, take, names in (
        ("features", import_features, ("siglip", "dinov2")),
        ("states", import_states, ("qwen3", "smollm2")),
    ):
        for name in names:
            take(project / "data" / kind / name, f"{name}.npz")
    groups = ["Food & Drink"] * 60 + ["Flags"] * 60 + [""] * (N - 120)
    write_pairs_table(project / "data" / "pairs", [f"item-{i:03d}" for i in range(N)], groups)
    return project


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["emoji", "panel", *arguments], prog_name="optotype")


BOTH = ("--features", "@params.yaml:encoders", "--states", "@params.yaml:language_models")


def _lines(path: str, part: str) -> list[str]:
    return [line for line in Path(path).read_text().splitlines() if part in line]


def test_writes_the_panel_and_prints_its_table(filled: Path) -> None:
    result = _run(*BOTH, "--out", "data/probe", "--bootstrap", "50")
    assert result.exit_code == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["model", "random", "group", "nearest", "all"]
    assert len(rows) == 2 * 2 * 2 + 2 * 4
    assert "have no group" in result.stderr
    tables = "accuracy.csv downstream.csv items.parquet metrics.json models.csv scores.parquet"
    written = f"README.md SOURCE.json {tables} ties.json".split()
    assert sorted(path.name for path in Path("data/probe").iterdir()) == written
    head, *judged = Path("data/probe/downstream.csv").read_text().splitlines()
    encoder, model, score = judged[0].split(",")
    accuracy = {line.split(",")[0]: float(line.split(",")[4]) for line in _lines("data/probe/accuracy.csv", ",all,")}
    both = [accuracy[f"{encoder}/{model}/{probe}"] for probe in ("ridge", "contrastive")]
    assert (head, len(judged), float(score)) == ("encoder,model,score", 2 * 2, pytest.approx(sum(both) / 2))
    before = {path.name: path.read_bytes() for path in Path("data/probe").iterdir()}
    assert _run(*BOTH, "--out", "data/probe", "--bootstrap", "50").exit_code == 0
    assert before == {path.name: path.read_bytes() for path in Path("data/probe").iterdir()}


def test_json_is_what_source_says(filled: Path) -> None:
    result = _run(*BOTH, "--out", "out", "--bootstrap", "20", "--seed", "3", "--nearest-by", "smollm2", "--json")
    printed = json.loads(result.stdout)
    assert printed.pop("path") == "out"
    assert printed == json.loads(Path("out/SOURCE.json").read_text())
    parameters = {name: printed["parameters"][name] for name in ("seed", "min_items", "nearest_by", "bootstrap")}
    assert parameters == {"seed": 3, "min_items": 10, "nearest_by": "smollm2", "bootstrap": 20}
    assert set(printed["benchmarks"]) == {
        f"{group}-{kind}" for group in ("flags", "food-drink") for kind in ("random", "group", "nearest")
    }


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--features", "siglip"), 2, "--states"),
        ((*BOTH, "--min-items", "0"), 2, "--min-items"),
        ((*BOTH, "--nearest-by", "qwen"), 3, "qwen3"),
        ((*BOTH, "--pairs", "nowhere.csv"), 3, "nowhere.csv"),
        ((*BOTH, "--min-items", "31"), 4, "No group of the pairs is large enough"),
        (("--features", "siglip", "--states", "nothing"), 3, "nothing"),
    ],
)
def test_refuses_in_words_and_writes_nothing(filled: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    result = _run(*arguments, "--out", "out", "--json")
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert says in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path("out").exists()


def test_out_is_a_folder(filled: Path) -> None:
    Path("file").write_text("mine")
    assert _run(*BOTH, "--out", "file").exit_code == 2
    assert Path("file").read_text() == "mine"


def test_arrays_of_other_pairs(filled: Path) -> None:
    np.savez("other.npz", ids=np.array([f"other-{i}" for i in range(40)]), states=np.eye(40))
    import_states(filled / "data" / "states" / "other", "other.npz")
    result = _run("--features", "siglip", "--states", "other", "--out", "out")
    assert result.exit_code == 4
    assert "states other" in result.stderr
