"""``optotype evaluate``: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from optotype.pipelines.evaluation.plan import PROTOCOLS, RETENTIONS, Options
from optotype.pipelines.selectors.selector import SELECTORS
from optotype.registry.cli import evaluate as command
from optotype.registry.cli import panel_options
from optotype.registry.cli.root import cli
from optotype.registry.evaluations import evaluate, write_evaluation
from optotype.registry.panels import import_scores

_FEW = ("--selectors", "vaw,random", "--retention", "0.1", "--retention", "1/2", "--splits", "2", "--floor", "0")


@pytest.fixture
def panel(project: Path) -> Path:
    """The project, with a panel ``probe`` of 21 models, two benchmarks and blind runs."""
    rng = np.random.default_rng(0)
    rows = []
    for benchmark, n in (("a", 40), ("b", 30)):
        chance = 1 / (1 + np.exp(rng.normal(size=n) - rng.normal(size=(21, 1))))
        for model, item in np.ndindex(chance.shape):
            score = int(rng.random() < chance[model, item])
            rows.append((benchmark, f"{item:03d}", f"m{model:02d}", score, "image"))
        rows += [
            (benchmark, f"{item:03d}", f"m{m:02d}", int(rng.random() < 0.4), "blind")
            for m in range(3)
            for item in range(n)
        ]
    table = pd.DataFrame(rows, columns=["benchmark", "item_id", "model", "score", "modality"])
    table.to_csv(project / "scores.csv", index=False)
    models = pd.DataFrame({"model": [f"m{m:02d}" for m in range(21)]})
    models["family"] = [f"f{m // 4}" for m in range(21)]
    models["release_date"] = [f"2024-{m % 12 + 1:02d}" for m in range(21)]
    models.to_csv(project / "models.csv", index=False)
    import_scores(project, "probe", [project / "scores.csv"], models=project / "models.csv")
    return project


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["evaluate", *arguments], prog_name="optotype")


def test_words_of_the_command_line_are_those_of_the_pipeline() -> None:
    assert command.PROTOCOLS == PROTOCOLS
    assert tuple(SELECTORS) == panel_options.SELECTORS
    defaults = {option.name: option.default for option in command.evaluate.params}
    plan = Options()
    for name in ("splits", "seed", "category_by", "floor", "min_held_out", "alpha", "k", "normalise", "resamples"):
        assert defaults[name] == getattr(plan, name), name
    assert [float(part) for part in defaults["retention"][0].split(",")] == list(RETENTIONS)


def test_table_files_and_json(panel: Path) -> None:
    result = _run("probe", *_FEW, "--out", "out", "--workers", "1", "--resamples", "20", "-k", "1")
    assert result.exit_code == 0, result.stderr
    head, *lines = result.stdout.splitlines()
    assert head.split()[0] == "selector"
    assert "10 % (K " in head
    assert "50 % (K " in head
    assert [line.split()[0] for line in lines] == ["vaw", "random"]
    assert "no embeddings" in result.stderr
    folder = panel / "out"
    document = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    assert (document["format_version"], document["kind"], document["panel"]["models"]) == (1, "evaluation", 21)
    assert document["parameters"]["retentions"] == [0.1, 0.5]
    assert document["parameters"]["baseline"] == "random"
    for name, rows in document["tables"].items():
        if rows:
            with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
                assert len(list(csv.DictReader(file))) == len(rows), name
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert set(metrics) == {"held-out", "chronological", "end-to-end", "end-to-end without stage 3"}
    assert set(metrics["held-out"]["vaw"]) == {"0.1", "0.5"}

    again = _run("probe", *_FEW, "--out", "again", "--workers", "2", "--resamples", "20", "-k", "1", "--json")
    assert again.exit_code == 0, again.stderr
    printed = json.loads(again.stdout)
    assert "held_out" not in printed["tables"]
    assert printed["tables"]["held_out_summary"] == document["tables"]["held_out_summary"]
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {
        p.name: p.read_bytes() for p in (panel / "again").iterdir()
    }
    # computed once: the second run found the units of the first
    assert (panel / ".optotype" / "cache" / "evaluate").is_dir()
    assert "evaluating:" not in again.stderr


def test_a_protocol_without_a_table_of_selectors_lists_its_tables(panel: Path) -> None:
    result = _run("probe", "--protocols", "spectrum", "--selectors", "random", "--retention", "0.2", "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["table", "cleaning", "pools", "spectrum"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--selectors", "vaww"), 2, "Did you mean 'vaw'?"),
        (("--selectors", ","), 2, "names nothing"),
        (("--protocols", ""), 2, "names nothing"),
        (("--retention", ","), 2, "names nothing"),
        (("--protocols", "heldout"), 2, "'heldout' is not one of"),
        (("--retention", "0.1,5"), 2, "5 is not above 0 and at most 1"),
        (("--variants", "nowhere.csv", "--protocols", "variants"), 3, "nowhere.csv"),
        (("--protocols", "shelf-life", "-k", "9"), 4, "choose a smaller -k"),
        (("--category-by", "colour"), 3, "no column 'colour'"),
        (("--embeddings", "nothing"), 3, "nothing"),
    ],
)
def test_refusals_write_nothing(panel: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    result = _run("probe", *arguments, "--out", "out", "--workers", "1")
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert says in result.stderr
    assert not (panel / "out").exists()


def test_unknown_panels_and_files_in_the_way(panel: Path) -> None:
    assert _run("prob", "--out", "out").exit_code == 3
    (panel / "file").write_text("mine", encoding="utf-8")
    assert _run("probe", "--out", "file").exit_code == 2
    with pytest.raises(Exception, match="is a file"):
        evaluate("probe", project=panel, out=panel / "file")


@pytest.mark.parametrize("verb", [["evaluate", "probe"], ["compress", "probe"], ["frontier", "probe", "--gain", "0.5"]])
def test_places_where_nothing_can_be_written(panel: Path, verb: list[str]) -> None:
    (panel / "link").symlink_to("nowhere")
    (panel / "full" / "items.parquet").mkdir(parents=True)
    (panel / "full" / "metrics.json").mkdir()
    for out, says in (
        ("", "empty"),
        ("link", "link to nothing"),
        ("link/in", "link to nothing"),
        ("full", "is a folder"),
    ):
        result = CliRunner().invoke(cli, [*verb, "--out", out], prog_name="optotype")
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in " ".join(result.stderr.split())
        assert ".draft" not in result.stderr


def test_the_head_says_where_all_pools_are_whole(panel: Path) -> None:
    few = ("--selectors", "random", "--retention", "0.1", "--splits", "1", "--protocols", "held-out", "--workers", "1")
    result = _run("probe", *few, "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert "10 % (whole)" in result.stdout.splitlines()[0]


def test_cells_that_are_lists_become_one_text(tmp_path: Path) -> None:
    tables = {"pools": [{"a": {"x": 0.5, "y": None}, "b": ["p", "q"]}, {"a": None, "c": 1}], "empty": []}
    written = write_evaluation({"tables": tables}, tmp_path)
    assert [path.name for path in written] == ["pools.csv", "metrics.json", "evaluation.json"]
    assert (tmp_path / "pools.csv").read_text(encoding="utf-8").splitlines() == ["a,b,c", "x: 0.5 | y: ,p | q,", ",,1"]
