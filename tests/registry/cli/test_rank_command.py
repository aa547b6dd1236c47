"""What ``optotype rank`` asks for, prints and writes; the scores themselves are a stand-in's here."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from optotype.pipelines import rank as pipeline
from optotype.registry.cli.root import cli
from optotype.registry.rankings import write_ranking
from optotype.schemas.errors import UsageError

_SCORES = {"a": 0.3, "b": 0.31234567890123, "c": 0.3}


class Stub:
    """Stands in for `optotype.pipelines.rank.rank` and remembers how it was called."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.scores = dict(_SCORES)

    def __call__(self, project: Any, features: list[str], states: list[str], **options: Any) -> list[dict[str, Any]]:
        self.calls.append({"project": project, "features": features, "states": states, **options})
        null = (
            {"mean": 0.2, "sd": 0.01, "p": 0.0099, "repeats": options["null"], "seed": 0} if options["null"] else None
        )
        return [
            {
                "encoder": encoder,
                "model": model,
                "metric": options["metric"],
                "score": self.scores[encoder] + (0.1 if options["prenorm_features"] == "l2" else 0),
                "chance": 0.2,
                "adjusted": 0.125,
                "n": 11,
                "k": options["k"],
                "eps": options["eps"],
                "prenorm_features": options["prenorm_features"],
                "prenorm_states": options["prenorm_states"],
                "null": null,
                "interval": [0.25, 0.35] if options["bootstrap"] else None,
                "n_over_d": {"features": 2.0, "states": 0.5},
                "warnings": ["the states say nothing; --prenorm-states l2 mends it"],
            }
            for encoder in features
            for model in states
        ]


@pytest.fixture
def stub(project: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    stand_in = Stub()
    monkeypatch.setattr(pipeline, "rank", stand_in)
    return stand_in


def _rank(*arguments: str) -> Result:
    features = [word for name in "cab" for word in ("--features", name)]
    return CliRunner().invoke(cli, ["rank", *features, "--states", "t", *arguments], prog_name="optotype")


def test_defaults_are_those_of_the_contract(stub: Stub) -> None:
    assert _rank().exit_code == 0
    call = stub.calls[0]
    assert (call["features"], call["states"]) == (["c", "a", "b"], ["t"])
    names = (
        "metric",
        "k",
        "eps",
        "prenorm_features",
        "prenorm_states",
        "null",
        "seed",
        "bootstrap",
        "common",
        "scheduler",
    )
    assert [call[name] for name in names] == ["ravel", 100, 1e-4, "none", "l2", 0, 0, 0, False, "threads"]


def test_every_option_arrives(stub: Stub) -> None:
    line = "--k 7 --eps 5e-4 --prenorm-features l2 --prenorm-states none --null 99 --seed 3 --bootstrap 10 --common"
    assert _rank(*line.split(), "--scheduler", "processes", "--json").exit_code == 0
    call = stub.calls[0]
    names = ("k", "eps", "prenorm_features", "prenorm_states", "null", "seed", "bootstrap", "common", "scheduler")
    assert [call[name] for name in names] == [7, 5e-4, "l2", "none", 99, 3, 10, True, "processes"]


def test_table_is_sorted_and_warnings_stand_below_it_once(stub: Stub) -> None:
    result = _rank()
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["encoder", "model", "score", "chance", "adjusted", "n", "k"]
    assert [row.split()[0] for row in rows] == ["b", "a", "c"]
    assert rows[0].split() == ["b", "t", "0.3123", "0.2000", "0.1250", "11", "100"]
    assert result.stderr.splitlines() == [
        "Warning: the states say nothing; --prenorm-states l2 mends it [b x t, a x t, c x t]"
    ]


def test_columns_for_what_was_asked(stub: Stub) -> None:
    head = _rank("--null", "100", "--bootstrap", "10", "--all-prenorms").stdout.splitlines()[0]
    assert head.split() == [
        "encoder",
        "model",
        "prenorms",
        "score",
        "chance",
        "adjusted",
        "null",
        "p",
        "interval",
        "n",
        "k",
    ]


def test_json_is_the_rows_and_nothing_else(stub: Stub) -> None:
    result = _rank("--json")
    rows = json.loads(result.stdout)
    assert [row["encoder"] for row in rows] == ["b", "a", "c"]
    assert {"encoder", "model", "metric", "score", "chance", "adjusted", "n", "k"} <= set(rows[0])
    assert rows[0]["score"] == _SCORES["b"]
    assert result.stderr.startswith("Warning: ")


def test_all_prenorms_are_four_rows_each(stub: Stub) -> None:
    rows = json.loads(_rank("--all-prenorms", "--json").stdout)
    assert len(rows) == 12
    seen = {(row["encoder"], row["prenorm_features"], row["prenorm_states"]) for row in rows}
    assert len(seen) == 12
    order = [(-row["score"], row["encoder"], row["prenorm_features"], row["prenorm_states"]) for row in rows]
    assert order == sorted(order)


def test_out_writes_what_json_prints_and_the_same_bytes_again(stub: Stub, project: Path) -> None:
    printed = json.loads(_rank("--json", "--out", "results/deep", "--null", "9").stdout)
    folder = project / "results" / "deep"
    written = ["metrics.json", "ranking.csv", "ranking.json", "scores.csv"]
    assert sorted(path.name for path in folder.iterdir()) == written
    with (folder / "scores.csv").open(encoding="utf-8", newline="") as file:
        plotted = list(csv.DictReader(file))
    assert [(row["pair"], float(row["score"])) for row in plotted] == [
        (f"{row['encoder']} x {row['model']}", row["score"]) for row in printed
    ]
    document = json.loads((folder / "ranking.json").read_text(encoding="utf-8"))
    assert document == {"format_version": 1, "kind": "ranking", "rows": printed}
    with (folder / "ranking.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["score"]) for row in table] == [row["score"] for row in printed]
    assert table[0]["null.mean"] == "0.2"
    assert table[0]["n_over_d.states"] == "0.5"
    assert table[0]["interval"] == ""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert _rank("--out", "results/deep", "--null", "9").exit_code == 0
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_out_is_a_folder(stub: Stub, project: Path) -> None:
    (project / "file").write_text("mine", encoding="utf-8")
    result = _rank("--out", "file")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (project / "file").read_text(encoding="utf-8") == "mine"
    assert stub.calls == []


def test_nothing_is_written_when_ranking_fails(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise UsageError("k is 100, and there are 11 items", hint="-k 10 is the largest.")

    monkeypatch.setattr(pipeline, "rank", fail)
    result = _rank("--out", "results", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "Error: k is 100, and there are 11 items\nHint: -k 10 is the largest.\n"
    assert not (project / "results").exists()


def test_rows_with_different_columns_make_one_table(tmp_path: Path) -> None:
    common = {"model": "m", "score": 0.5, "adjusted": 0.25, "prenorm_features": "l2", "prenorm_states": "l2"}
    write_ranking(
        [
            {"encoder": "a", **common, "null": None},
            {"encoder": "b, c", **common, "null": {"p": 0.5}, "warnings": ["x", "y"]},
        ],
        tmp_path,
    )
    assert (tmp_path / "ranking.csv").read_text(encoding="utf-8").splitlines() == [
        "encoder,model,score,adjusted,prenorm_features,prenorm_states,null.p,warnings",
        "a,m,0.5,0.25,l2,l2,,",
        '"b, c",m,0.5,0.25,l2,l2,0.5,x | y',
    ]


def test_metrics_are_of_the_default_prenorms(stub: Stub, project: Path) -> None:
    assert _rank("--all-prenorms", "--out", "results").exit_code == 0
    metrics = json.loads((project / "results" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics == {"t": {name: {"score": _SCORES[name], "adjusted": 0.125} for name in "abc"}}
    assert list(metrics["t"]) == ["a", "b", "c"]
    assert _rank("--prenorm-features", "l2", "--out", "results").exit_code == 0
    metrics = json.loads((project / "results" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["t"]["a"]["score"] == _SCORES["a"] + 0.1


def test_names_out_of_a_file_and_bundles(stub: Stub, project: Path) -> None:
    (project / "lists.yaml").write_text(
        "a: {encoders: {zeta: {}, vit: null}}\nb.c: [t, u, t]\nd: 3\n", encoding="utf-8"
    )
    for layer in (8, 10, 12):
        folder = project / "data" / "features" / "vit" / f"vit-l{layer}"
        folder.mkdir(parents=True)
        (folder / "zarr.json").write_text("{}", encoding="utf-8")
    stub.scores |= dict.fromkeys(("zeta", "vit-l8", "vit-l10", "vit-l12"), 0.3)

    def call(features: str, states: str) -> Result:
        return CliRunner().invoke(cli, ["rank", "--features", features, "--states", states], prog_name="optotype")

    assert call("@lists.yaml:a.encoders", "@lists.yaml:b.c").exit_code == 0
    assert stub.calls[0]["features"] == ["zeta", "vit-l8", "vit-l10", "vit-l12"]
    assert stub.calls[0]["states"] == ["t", "u"]
    for text, code, says in [
        ("@nowhere.yaml:a", 3, "nowhere.yaml"),
        ("@lists.yaml:a.encoder", 3, "Did you mean 'encoders'?"),
        ("@lists.yaml:d", 2, "list of names"),
        ("@lists.yaml", 2, "@FILE:KEY"),
        ("@siglip.npz:a", 5, "not YAML"),
    ]:
        refused = call(text, "t")
        assert (refused.exit_code, refused.stdout) == (code, ""), refused.stderr
        assert says in refused.stderr
