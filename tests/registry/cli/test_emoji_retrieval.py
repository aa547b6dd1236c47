"""``optotype emoji names`` and ``retrieval``: from a table of pairs to tables of P@1 by language."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from probes import write_pairs_table

from optotype.registry.cli.root import cli
from optotype.store.importers import import_features, import_states

N = 128  # as the arrays of the fixture `project` have it
IDS = [f"item-{i:03d}" for i in range(N)]
NAMES = ("--names", "lm:plain=names-plain", "--names", "lm:punct=names-punct")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="optotype")


def _retrieval(*arguments: str) -> Result:
    return _run("emoji", "retrieval", "--features", "siglip", "--tasks", "emoji", *arguments)


@pytest.fixture
def filled(project: Path) -> Path:
    """Pairs with names in two languages (one is missing), a task set, features and two styles of names."""
    table = write_pairs_table(project / "data" / "pairs", IDS, ["a"] * 64 + ["b"] * 64)
    lines = table.read_text().splitlines()
    named = [f"{line},name {i},{'nome ' + str(i) if i else ''}" for i, line in enumerate(lines[1:])]
    table.write_text("\n".join([f"{lines[0]},name_en,name_it", *named]) + "\n")
    import_features(project / "data" / "features" / "siglip", "siglip.npz")
    assert _run("emoji", "names", "--languages", "en,it", "--out", "data/names").exit_code == 0
    tables = [
        word for name in ("queries", "candidates", "relevance") for word in (f"--{name}", f"data/names/{name}.csv")
    ]
    taken = _run("tasks", "import", "emoji", *tables)
    assert taken.exit_code == 0, taken.stderr
    with Path("data/names/names.csv").open(newline="") as file:
        ids = np.array([row["id"] for row in csv.DictReader(file)])
    assert len(ids) == 2 * N - 1
    for number, style in enumerate(("plain", "punct")):
        np.savez(f"{style}.npz", ids=ids, states=np.random.default_rng(number).normal(size=(len(ids), 5)))
        import_states(project / "data" / "states" / f"names-{style}", f"{style}.npz")
    return project


def test_names(filled: Path) -> None:
    again = _run("emoji", "names", "--languages", "en,it", "--out", "data/names")
    assert "1 emoji have no name in 'it'" in again.stderr
    assert "255 names" in again.stdout
    told = json.loads(_run("emoji", "names", "--languages", "it", "--out", "out", "--json").stdout)
    assert told.pop("path") == "out"
    assert told == json.loads(Path("out/SOURCE.json").read_text())
    refused = _run("emoji", "names", "--languages", "en,de", "--out", "no")
    assert (refused.exit_code, Path("no").exists()) == (4, False)
    assert "name_de" in refused.stderr


def test_writes_its_files_and_prints_means(filled: Path) -> None:
    result = _retrieval(*NAMES, "--bootstrap", "20", "--out", "data/retrieval")
    assert result.exit_code == 0, result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["model", "fitted", "on", "names", "task", "en", "it", "all"]
    assert len(rows) == 2 * 2 * 2
    assert "mean over 1 encoder;" in result.stderr
    files = {path.name: path.read_bytes() for path in Path("data/retrieval").iterdir()}
    assert sorted(files) == ["by-language.csv", "metrics.json", "retrieval.csv", "retrieval.json"]
    document = json.loads(files["retrieval.json"])
    assert document["parameters"] == {"probe": "contrastive", "at": [1, 5, 10], "bootstrap": 20, "seed": 0}
    first = document["rows"][0]
    table = list(csv.DictReader(files["retrieval.csv"].decode().splitlines()))
    assert len(table) == len(document["rows"]) == 16
    assert float(table[0]["p1.expected"]) == first["p1"]["expected"]
    assert float(table[0]["hit.5.expected"]) == first["hit"]["5"]["expected"]
    assert [float(table[0]["low"]), float(table[0]["high"])] == first["interval"]
    metrics = json.loads(files["metrics.json"])
    assert metrics["lm"]["plain"]["i2t"]["en"] == first["p1"]["expected"], "one encoder: the mean is its own"
    lines = list(csv.DictReader(files["by-language.csv"].decode().splitlines()))
    assert [line["line"] for line in lines] == [
        f"lm {task} {language} {style}"
        for task in ("i2t", "t2i")
        for language in ("en", "it")
        for style in ("plain", "punct")
    ]
    assert float(lines[0]["p_at_1"]) == first["p1"]["expected"]
    assert _retrieval(*NAMES, "--bootstrap", "20", "--out", "data/retrieval").exit_code == 0
    assert files == {path.name: path.read_bytes() for path in Path("data/retrieval").iterdir()}


def test_names_from_a_file_are_the_same(filled: Path) -> None:
    Path("more.yaml").write_text(
        "names:\n  names-plain: {language_model: lm, style: plain}\n  names-punct: {language_model: lm, style: punct}\n"
    )
    result = _retrieval("--names", "@more.yaml:names", "--probe", "ridge", "--at", "5,1", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document == json.loads(_retrieval(*NAMES, "--probe", "ridge", "--at", "1,5", "--json").stdout)
    assert document["parameters"]["probe"] == "ridge"
    assert list(document["inputs"]["names"]) == ["lm:plain", "lm:punct"]
    assert set(document["rows"][0]["hit"]) == {"1", "5"}


REFUSED = (
    (("--names", "lm=names-plain"), 2, "LANGUAGE_MODEL:STYLE=ARRAY"),
    (("--names", "@none.yaml:names"), 3, "none.yaml"),
    (("--names", "@params.yaml:name"), 3, "'name'"),
    (("--names", "@params.yaml:encoders"), 2, "language_model"),
    (("--names", "@params.yaml"), 2, "@FILE:KEY"),
    (("--names", "lm:plain=other"), 3, "other"),
    ((*NAMES, "--seed", "1"), 4, "half that is fitted on"),
    ((*NAMES, "--at", "0,1"), 2, "--at"),
    ((*NAMES, "--pairs", "none.csv"), 3, "none.csv"),
    ((*NAMES, "--names", "lm:plain=names-punct"), 2, "given twice"),
)


def test_refuses_in_words_and_writes_nothing(filled: Path) -> None:
    for arguments, code, says in REFUSED:
        result = _retrieval(*arguments, "--out", "out", "--json")
        assert (result.exit_code, result.stdout) == (code, ""), result.stderr
        assert says in result.stderr
        assert "Traceback" not in result.stderr
        assert not Path("out").exists()
