"""A ranking: every encoder against every model, each array once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from optotype.pipelines import graphs
from optotype.pipelines.rank import degeneracy, rank
from optotype.pipelines.ravel import MOST_REPEATS, score
from optotype.registry.cli.root import cli
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError
from optotype.store.manifest import read_manifest
from optotype.store.project import Project

KEYS = {
    *("encoder", "model", "metric", "score", "chance", "adjusted", "n", "k", "eps", "prenorm_features"),
    *(
        "prenorm_states",
        "null",
        "interval",
        "bootstrap",
        "features_dtype",
        "states_dtype",
        "features_digest",
        "states_digest",
    ),
    *("n_over_d", "share_below_eps", "cosine_spread", "warnings"),
}


@pytest.fixture
def filled(project: Project, put: SimpleNamespace, make: SimpleNamespace) -> Project:
    """Two encoders and two language models over 25 items."""
    put.features("vit", make.ragged(0, 25, 6, dtype=np.float16))
    put.features("cnn", make.ragged(1, 25, 5))
    generator = np.random.default_rng(2)
    put.states("small", generator.standard_normal((25, 7)).astype(np.float32))
    put.states("large", generator.standard_normal((25, 60)))
    return project


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with a word for every graph that is computed."""
    calls: list[str] = []

    def wrap(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            calls.append(name)
            return plain(*arguments, **options)

        return counted

    monkeypatch.setattr(graphs, "feature_neighbours", wrap("features", graphs.feature_neighbours))
    monkeypatch.setattr(graphs, "state_neighbours", wrap("states", graphs.state_neighbours))
    return calls


def test_rows(filled: Project) -> None:
    table = rank(filled, ["vit", "cnn"], ["small", "large"], k=4, null=9, seed=5, bootstrap=9)
    assert all(set(row) == KEYS for row in table)
    assert {(row["encoder"], row["model"]) for row in table} == {
        (encoder, model) for encoder in ("vit", "cnn") for model in ("small", "large")
    }
    assert [row["score"] for row in table] == sorted((row["score"] for row in table), reverse=True)
    assert json.loads(json.dumps(table, allow_nan=False)) == table
    for row in table:
        visual = graphs.features_graph(filled, row["encoder"], k=4)
        textual = graphs.states_graph(filled, row["model"], k=4)
        expected = score(visual, textual, null=9, seed=5, bootstrap=9)
        assert (row["score"], row["chance"], row["adjusted"]) == (expected.score, expected.chance, expected.adjusted)
        assert row["null"] == {
            "mean": expected.null_mean,
            "sd": expected.null_sd,
            "p": expected.null_p,
            "repeats": 9,
            "seed": 5,
        }
        assert row["interval"] == list(expected.interval or ())
        assert (row["n"], row["k"], row["eps"]) == (25, 4, 1e-4)
        assert (row["prenorm_features"], row["prenorm_states"]) == ("none", "l2")
    row = next(row for row in table if (row["encoder"], row["model"]) == ("vit", "large"))
    assert (row["features_dtype"], row["states_dtype"]) == ("float16", "float64")
    assert row["features_digest"] == read_manifest(filled.features / "vit").digest
    assert row["n_over_d"]["states"] == 25 / 60


def test_each_array_is_computed_once_and_never_again(filled: Project, computed: list[str]) -> None:
    first = rank(filled, ["vit", "cnn"], ["small", "large"], k=4)
    assert sorted(computed) == ["features", "features", "states", "states"]
    assert rank(filled, ["vit", "cnn"], ["small", "large"], k=4) == first
    assert len(computed) == 4
    rank(filled, ["cnn"], ["large"], k=4)
    assert len(computed) == 4


def test_one_more_array_costs_its_own_graph_alone(
    filled: Project, computed: list[str], put: SimpleNamespace, make: SimpleNamespace
) -> None:
    rank(filled, ["vit"], ["small"], k=4)
    computed.clear()
    rank(filled, ["vit"], ["small", "large"], k=4)
    assert computed == ["states"]
    put.features("new", make.ragged(9, 25, 4))
    rank(filled, ["vit", "new"], ["small", "large"], k=4)
    assert computed == ["states", "features"]


def test_equal_scores_go_by_name(filled: Project, put: SimpleNamespace, make: SimpleNamespace) -> None:
    put.features("also", make.ragged(1, 25, 5))
    table = rank(filled, ["cnn", "also"], ["small"], k=4)
    assert [row["encoder"] for row in table] == ["also", "cnn"]


def test_other_ids_are_refused_and_common_takes_those_of_all(
    filled: Project, computed: list[str], put: SimpleNamespace
) -> None:
    put.states("other", np.random.default_rng(3).standard_normal((25, 6)), ids=[f"i{i:04}" for i in range(5, 30)])
    with pytest.raises(InvalidDataError, match="not over the same items") as caught:
        rank(filled, ["vit"], ["small", "other"], k=4)
    assert len(caught.value.problems) == 2
    assert "i0004" in str(caught.value)
    assert "i0025" in str(caught.value)
    assert "--common" in str(caught.value)
    assert computed == []
    table = rank(filled, ["vit"], ["small", "other"], k=4, common=True)
    assert {row["n"] for row in table} == {20}
    assert {row["chance"] for row in table} == {4 / 19}


def test_nothing_in_common(filled: Project, put: SimpleNamespace) -> None:
    put.states("other", np.random.default_rng(3).standard_normal((5, 6)), ids=list("abcde"))
    with pytest.raises(InvalidDataError, match=r"0 id\(s\) in common"):
        rank(filled, ["vit"], ["other"], k=1, common=True)
    with pytest.raises(InvalidDataError, match=r"equal strings.*optotype features show NAME"):
        rank(filled, ["vit"], ["other"], k=1, common=True)


def test_everything_is_checked_before_anything_is_computed(filled: Project, computed: list[str]) -> None:
    with pytest.raises(UsageError, match="-k 24"):
        rank(filled, ["vit"], ["small"])  # k = 100
    with pytest.raises(NotFoundError, match="larg"):
        rank(filled, ["vit"], ["small", "larg"], k=4)
    with pytest.raises(UsageError, match="metric is one of ravel"):
        rank(filled, ["vit"], ["small"], k=4, metric="cka")
    with pytest.raises(UsageError, match="prenorm of states"):
        rank(filled, ["vit"], ["small"], k=4, prenorm_states="zscore")
    with pytest.raises(UsageError, match="eps"):
        rank(filled, ["vit"], ["small"], k=4, eps=float("nan"))
    with pytest.raises(UsageError, match="--states"):
        rank(filled, ["vit"], [], k=4)
    with pytest.raises(UsageError, match="null"):
        rank(filled, ["vit"], ["small"], k=4, null=-1)
    with pytest.raises(UsageError, match="bootstrap is from 0 to 1000000"):
        rank(filled, ["vit"], ["small"], k=4, bootstrap=10**23)
    with pytest.raises(UsageError, match="scheduler"):
        rank(filled, ["vit"], ["small"], k=4, scheduler="thread")
    assert computed == []


def test_paths_work_without_a_project(filled: Project) -> None:
    table = rank(None, [str(filled.features / "vit")], [f"file://{filled.states / 'small'}"], k=4)
    expected = rank(filled, ["vit"], ["small"], k=4)
    assert table == expected


def test_too_few_texts_are_warned_about_with_what_mends_it(filled: Project, put: SimpleNamespace) -> None:
    put.states("wide", 50 * np.random.default_rng(4).standard_normal((25, 60)))
    (row,) = rank(filled, ["vit"], ["wide"], k=4, prenorm_states="none")
    assert any("equidistant" in text and "--prenorm-states l2" in text for text in row["warnings"])
    assert any("hardly differ" in text for text in row["warnings"])


def test_degeneracy() -> None:
    sound = {
        "kind": "states",
        "eps": 1e-4,
        "prenorm": "l2",
        "rows": 1000,
        "channels": 64,
        "effective_directions": 60.0,
        "median_eigenvalue": 1e-2,
        "similarity_mean": 0.0,
        "similarity_sd": 0.1,
        "variance_below_eps": 0.01,
    }
    falling = np.array([[0.9, 0.8, 0.7]] * 10)
    assert degeneracy(sound, falling) == []
    (text,) = degeneracy({**sound, "variance_below_eps": 0.8}, falling)
    assert "80%" in text
    assert "--prenorm-states none or a smaller --eps" in text
    (text,) = degeneracy({**sound, "kind": "features", "prenorm": "none", "effective_directions": 950.0}, falling)
    assert "--prenorm-features l2" in text
    (text,) = degeneracy({**sound, "similarity_sd": 1e-6}, falling)
    assert "a larger --eps" in text
    (text,) = degeneracy({**sound, "similarity_sd": 0.0, "similarity_mean": 1.0}, falling)
    assert "different items" in text
    assert "--eps" not in text
    for text in degeneracy({**sound, "similarity_sd": 0.0, "effective_directions": 999.0}, np.array([[0.3], [0.3]])):
        assert text.endswith("mend with more items")


def test_ties_that_decide(filled: Project, put: SimpleNamespace, make: SimpleNamespace) -> None:
    few = make.ragged(3, 4, 5)
    put.features("copies", [few[number % 4] for number in range(25)])
    (row,) = rank(filled, ["copies"], ["small"], k=4)
    assert any(text.startswith("features: ties decide: 100%") for text in row["warnings"])
    assert any("remove duplicate items" in text for text in row["warnings"])
    (row,) = rank(filled, ["vit"], ["small"], k=4)
    assert not any("ties" in text for text in row["warnings"])
    sound = graphs.features_graph(filled, "vit", k=4).attrs
    assert degeneracy(sound, np.full((10, 1), 1.0)) == degeneracy(sound, np.full((5, 4), 1.0)) == []
    half = np.array([[1.0, 1.0], [1.0, 0.5]] * 3)
    assert degeneracy(sound, half) == []
    (text,) = degeneracy(sound, np.full((10, 2), -0.1))
    assert "duplicate" not in text


def test_identical_items_are_not_told_to_change_options(filled: Project, put: SimpleNamespace) -> None:
    image = np.random.default_rng(6).standard_normal((6, 5))
    put.features("same", [image] * 25)
    (row,) = rank(filled, ["same"], ["small"], k=4)
    warnings = [text for text in row["warnings"] if text.startswith("features")]
    assert any("different items" in text for text in warnings)
    assert not any("--prenorm" in text or "larger --eps" in text for text in warnings)


@pytest.mark.parametrize("side", ["features", "states"])
def test_values_too_large_to_whiten(side: str, filled: Project, put: SimpleNamespace, make: SimpleNamespace) -> None:
    huge = [item.astype(np.float64) * 1e200 for item in make.ragged(4, 25, 5)]
    put.features("huge", huge)
    put.states("huge", np.random.default_rng(7).standard_normal((25, 6)) * 1e200)
    features, states = ("huge", "small") if side == "features" else ("vit", "huge")
    with pytest.raises(InvalidDataError, match="overflows float64") as caught:
        rank(filled, [features], [states], k=4, prenorm_states="none")
    assert f"--prenorm-{side} l2" in str(caught.value)
    (row,) = rank(filled, [features], [states], k=4, prenorm_features="l2", prenorm_states="l2")
    assert 0 <= row["score"] <= 1


@pytest.mark.parametrize("option", ["--null", "--bootstrap"])
def test_the_command_line_has_the_bound_of_the_score(option: str) -> None:
    result = CliRunner().invoke(cli, ["rank", "--features", "a", "--states", "t", option, str(MOST_REPEATS + 1)])
    assert result.exit_code == 2
    assert f"0<=x<={MOST_REPEATS}" in result.output


def test_an_out_folder_in_a_file_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.touch()
    result = CliRunner().invoke(cli, ["rank", "--features", "a", "--states", "t", "--out", f"{file}/x"])
    assert result.exit_code == 2
    assert f"{file} is a file" in result.output
