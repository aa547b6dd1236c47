"""Files of rankings by several metrics, and those who read them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from optotype.registry import rankings
from optotype.registry.artifacts.kinds.rankings import ADAPTERS
from optotype.registry.cli.root import cli
from optotype.registry.rankings import main_rows, write_ranking
from optotype.registry.report.ranking.rows import read_rows
from optotype.schemas.errors import InvalidDataError

BOTH = {"features": 0.5, "states": 0.5}


def row(metric: str = "ravel", encoder: Any = "a", model: str | None = "t", **changes: Any) -> dict[str, Any]:
    whitened = metric == "ravel"
    return {
        "encoder": encoder,
        "model": model,
        "metric": metric,
        "score": 0.3,
        "chance": 0.2 if whitened else None,
        "adjusted": 0.125 if whitened else None,
        "n": 500,
        "k": 100 if whitened else None,
        "eps": 1e-4 if whitened else None,
        "prenorm_features": "none" if whitened else None,
        "prenorm_states": "l2" if whitened else None,
        "null": None,
        "interval": None,
        "bootstrap": 0,
        "features_digest": f"sha256:{encoder}",
        "states_digest": f"sha256:{model}" if model else None,
        "n_over_d": BOTH if whitened else None,
        "share_below_eps": BOTH if whitened else None,
        "warnings": [],
        "kind": "cross-modal",
        "options": {"k": 10},
        "gamma": 1.0 if whitened else None,
        "post_features": "none",
        "post_states": "none",
        "details": {},
        "seed": 0,
        **changes,
    }


MIXED = [
    row("cka", "b", score=0.9),
    row("cka", "a", score=0.7),
    row(score=0.5, k=50),
    row(score=0.4),
    row(score=0.35, gamma=0.0),
    row(score=0.3, encoder="b"),
    row(score=0.25, n=100),
    row("knn-classification", "a", None, score=0.6, kind="vision-only", chance=0.25, adjusted=0.4),
]


def test_files_of_several_metrics(tmp_path: Path) -> None:
    write_ranking(MIXED, tmp_path)
    assert json.loads((tmp_path / "ranking.json").read_text())["rows"] == MIXED
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["cka"] == {"t": {"a": {"score": 0.7, "adjusted": None}, "b": {"score": 0.9, "adjusted": None}}}
    assert metrics["ravel"] == {"t": {"a": {"score": 0.4, "adjusted": 0.125}, "b": {"score": 0.3, "adjusted": 0.125}}}
    assert metrics["knn-classification"] == {"no model": {"a": {"score": 0.6, "adjusted": 0.4}}}
    scores = list(csv.DictReader((tmp_path / "scores.csv").read_text().splitlines()))
    assert [(line["metric"], line["pair"]) for line in scores] == [
        *(("cka", "b x t"), ("cka", "a x t"), ("ravel", "a x t"), ("ravel", "b x t"), ("knn-classification", "a")),
    ]
    table = list(csv.DictReader((tmp_path / "ranking.csv").read_text().splitlines()))
    assert (table[0]["k"], table[2]["k"], table[2]["n_over_d.states"], table[0]["options.k"]) == ("", "50", "0.5", "10")


def test_ravel_alone_keeps_its_files(tmp_path: Path) -> None:
    write_ranking([row(), row(encoder="b", score=0.2, gamma=0.5)], tmp_path)
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"t": {"a": {"score": 0.3, "adjusted": 0.125}}}
    assert (tmp_path / "scores.csv").read_text().splitlines()[0] == "pair,encoder,model,score,chance,adjusted"


def test_main_rows_prefer_defaults_and_the_most_items() -> None:
    rows = [row(k=50), row(k=100), row(k=100, n=50), row(k=100, prenorm_states="none")]
    assert main_rows(rows) == [rows[1]]
    assert main_rows(rows, each_prenorm=True) == [rows[1], rows[3]]
    assert main_rows([row(eps=5e-4), row(eps=5e-5)]) == [row(eps=5e-4)]
    assert main_rows([]) == []


def test_the_report_takes_what_it_shows(tmp_path: Path) -> None:
    assert [(found["encoder"], found["k"]) for found in read_rows(MIXED)] == [("a", 100), ("b", 100)]
    with pytest.raises(InvalidDataError, match=r"none of 2 is by ravel"):
        read_rows(MIXED[:2])
    with pytest.raises(InvalidDataError, match="nothing that the report shows"):
        read_rows([row(post_features="centre")])


def test_published_rankings_of_several_metrics(tmp_path: Path) -> None:
    write_ranking(MIXED, tmp_path)
    adapter = ADAPTERS["ranking"]
    assert adapter.problems(tmp_path) == []
    about = adapter.describe(tmp_path)
    assert about.title == "2 vision encoders ranked for 1 language models by 3 metrics"
    assert about.parameters["metric"] == ["cka", "ravel", "knn-classification"]
    found = adapter.rows(tmp_path)
    assert found is not None
    assert len(found.rows) == len(MIXED)
    ranks = adapter.ranks(tmp_path)
    assert ranks == {"b x t": {"rank": 1.0, "score": 0.9}, "a x t": {"rank": 2.0, "score": 0.7}}


def test_a_row_that_lacks_what_it_should_have_is_still_refused(tmp_path: Path) -> None:
    plain = {key: value for key, value in row(chance=None).items() if key != "kind"}
    rows = [plain, row("cka", score=None), row("cka", encoder=7)]
    (tmp_path / "ranking.json").write_text(json.dumps({"format_version": 1, "kind": "ranking", "rows": rows}))
    assert {problem.where for problem in ADAPTERS["ranking"].problems(tmp_path)} == {
        *("ranking.json: rows[0].chance", "ranking.json: rows[1].score", "ranking.json: rows[2].encoder"),
    }


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the API was asked for, and rows that it gives."""
    calls = SimpleNamespace(options={})

    def rank(features: list[str], states: list[str], **options: Any) -> list[dict[str, Any]]:
        calls.options = {"features": features, "states": states, **options}
        return MIXED

    monkeypatch.setattr(rankings, "rank", rank)
    return calls


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["rank", "--features", "./a", *words], prog_name="optotype")


def test_the_command_hands_on_what_it_is_given(asked: SimpleNamespace, tmp_path: Path) -> None:
    line = "--metric ravel --metric cka --set mutual-nn.k=20 --set gw.items=50 --sweep k=5,6 --sweep gamma=0,0.5 "
    line += (
        "--post-features centre+l2 --post-states centre --gamma 0.5 --images 9 --language-model t=some/model --train"
    )
    result = run("--states", "./t", *line.split(), "--labels", str(tmp_path / "l.csv"), "--label-column", "class")
    assert result.exit_code == 0, result.output
    options = asked.options
    assert options["metric"] == ["ravel", "cka"]
    assert options["options"] == {"mutual-nn": {"k": "20"}, "gw": {"items": "50"}}
    assert options["sweep"] == {"k": ["5", "6"], "gamma": ["0", "0.5"]}
    assert (options["post_features"], options["post_states"], options["gamma"]) == ("centre+l2", "centre", 0.5)
    assert (options["images"], options["language_models"], options["train"]) == (9, {"t": "some/model"}, True)
    assert (options["labels"], options["label_column"]) == (tmp_path / "l.csv", "class")
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["metric", "encoder", "model", "gamma", "score", "chance", "adjusted", "n", "k"]
    assert lines[0].split() == ["cka", "b", "t", "0.9000", "500"]
    assert lines[-1].split() == ["knn-classification", "a", "-", "0.6000", "0.2500", "0.4000", "500"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--set", "k=3"], "METRIC.NAME=VALUE"),
        (["--set", "cka.k"], "METRIC.NAME=VALUE"),
        (["--set", "a.k=1", "--set", "a.k=2"], "a.k is set twice"),
        (["--sweep", "k"], "KEY=V1,V2"),
        (["--sweep", "k=1", "--sweep", "k=2"], "k is swept twice"),
        (["--language-model", "qwen3"], "NAME=SOURCE"),
        (["--metric", "ckaa"], "no metric is called 'ckaa'. Did you mean 'cka'?"),
        (["--metric", "ravell"], "no metric is called 'ravell'. Did you mean 'ravel'?"),
        (["--images", "1"], "images"),
    ],
)
def test_what_cannot_be_read_is_refused(asked: SimpleNamespace, words: list[str], told: str) -> None:
    result = run("--states", "./t", *words)
    assert result.exit_code == 2
    assert told in result.stderr
    assert asked.options == {}


def test_states_may_be_left_out_for_metrics_of_vision_alone(asked: SimpleNamespace) -> None:
    assert run("--metric", "knn-classification").exit_code == 0
    assert asked.options["states"] == []
    result = run()
    assert result.exit_code == 2
    assert "Missing option '--states'. ravel compares images with texts" in result.stderr


def test_what_several_metrics_lack_is_told_together() -> None:
    result = run("--metric", "ravel-pooled-raw", "--metric", "linear-probing")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "ravel-pooled-raw needs states of a language model (--states NAME)" in result.stderr
    assert "linear-probing needs a label for each image (--labels TABLE)" in result.stderr
    assert "Give --states NAME, --labels TABLE." in result.stderr


def test_prenorms_of_a_metric_that_has_none_are_a_dash(asked: SimpleNamespace) -> None:
    head, *lines = run("--states", "./t", "--metric", "ravel", "--metric", "cka", "--all-prenorms").stdout.splitlines()
    assert head.split()[3] == "prenorms"
    prenorms = {(line.split()[0], line.split()[3]) for line in lines}
    assert prenorms == {("cka", "-"), ("ravel", "none/l2"), ("knn-classification", "-")}
