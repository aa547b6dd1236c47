"""Rankings and tables of any kind, read strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from optotype.pipelines.judging.predictions import names_apart
from optotype.pipelines.judging.sources import read_outcomes, read_predictions
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError

ROWS: list[dict[str, Any]] = [{"encoder": f"e{number}", "model": "lm", "score": number / 7} for number in range(3)]


def ranking(path: Path, rows: list[Any]) -> Path:
    path.write_text(json.dumps({"format_version": 1, "kind": "ranking", "rows": rows}))
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_tables_of_every_kind_say_the_same(ending: str, tmp_path: Path) -> None:
    table, path = pd.DataFrame(ROWS), tmp_path / f"mine.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        table.to_csv(path, sep="\t" if ending == "tsv" else ",", index=False)
    found, notes = read_predictions(path)
    assert not notes
    assert [(each.metric, each.encoder, each.model, each.score) for each in found] == [
        ("mine", row["encoder"], "lm", row["score"]) for row in ROWS
    ]
    assert [each.score for each in read_outcomes(path)] == [row["score"] for row in ROWS]


def test_columns_are_metrics_where_there_is_no_score(tmp_path: Path) -> None:
    path = tmp_path / "tokbench.csv"
    path.write_text("encoder,family,T-ACC,T-NED,F-Sim\ne0,vq,1,2,3\ne1,bsq,4,5,6\n")
    found, notes = read_predictions(path)
    assert {each.metric for each in found} == {"T-ACC", "T-NED", "F-Sim"}
    assert {each.model for each in found} == {None}
    assert [each.score for each in found if each.metric == "T-NED"] == [2, 5]
    assert notes == ["tokbench.csv: column 'family' holds no numbers, so it is taken for no metric"]


def test_a_tall_table_tells_metrics_settings_and_flops(tmp_path: Path) -> None:
    path = tmp_path / "tall.csv"
    path.write_text("encoder,model,metric,k,eps,flops,score\ne0,lm,a,50,0.001,1e9,1\ne0,,b,,,,2\n")
    first, second = read_predictions(path)[0]
    assert (first.metric, first.settings["k"], first.settings["eps"], first.flops) == ("a", 50, 0.001, 1e9)
    assert (second.metric, second.model, second.settings["k"], second.flops) == ("b", None, None, None)
    assert second.settings["gamma"] == 1.0


def test_rows_of_rank_keep_settings_and_leave_out_options_told_elsewhere(tmp_path: Path) -> None:
    row = {**ROWS[0], "metric": "gw", "k": 10, "options": {"k": 10, "items": 50}, "details": {"iterations": 3}}
    row |= {"states_digest": "sha256:x", "gamma": None, "post_features": "centre+l2", "n": 9, "states_layer": -2}
    (found,), _ = read_predictions(ranking(tmp_path / "ranking.json", [row]))
    assert found.settings["options"] == '{"items": 50}'
    assert (found.settings["gamma"], found.settings["post_features"], found.settings["n"]) == (1.0, "centre+l2", 9)
    assert found.digests == {"states": "sha256:x"}
    assert found.details == {"iterations": 3}
    assert read_predictions(tmp_path)[0] == [found]


def test_a_layer_that_is_a_word_has_no_place_on_an_axis(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "features_layer": word, "states_layer": -2} for word in ("final", "blocks.11")]
    rows[1]["encoder"] = "another"
    found, _ = read_predictions(ranking(tmp_path / "ranking.json", rows))
    assert [(each.settings["features_layer"], each.settings["states_layer"]) for each in found] == [(None, -2)] * 2


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("encoder,model,score\ne0,lm,x\n,lm,1\ne2,lm,inf\ne3,lm,\n", {"not-a-number", "blank-name", "not-finite"}),
        ("encoder,model,score\n", {"empty"}),
        ("model,score\nlm,1\n", {"missing-column"}),
    ],
)
def test_every_bad_cell_is_listed(text: str, kinds: set[str], tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    for read in (read_predictions, read_outcomes):
        with pytest.raises(InvalidDataError) as caught:
            read(path)  # type: ignore[operator]
        assert {problem.kind for problem in caught.value.problems} == kinds


@pytest.mark.parametrize(
    "row",
    [
        3,
        {"encoder": "e", "model": 4, "score": 1},
        {"encoder": "e", "model": "lm", "score": None},
        {"encoder": "e", "model": "lm", "score": True},
        {"encoder": "e", "model": "lm", "score": 1, "options": [2]},
        {"encoder": "e", "model": "lm", "score": 1, "n": "many"},
        {"encoder": "e", "model": "lm", "score": 1, "details": 5},
    ],
)
def test_bad_rows_of_a_ranking_are_problems_and_no_traceback(row: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match=r"ranking\.json, row 1"):
        read_predictions(ranking(tmp_path / "ranking.json", [row]))


HUGE = 10**400


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        pytest.param("score", HUGE, "score is a finite number, got 1000", id="score-huge"),
        pytest.param("eps", -HUGE, "eps is a finite number", id="eps-huge"),
        ("k", 1e999, "k is a finite number"),
        ("k", "1e999", "k is a finite number"),
        ("k", 50.5, "k is a whole number, got 50.5"),
        ("n", 1e300, r"n is at most 2\^53"),
        ("k", [1], r"k is a number, got \[1\]"),
        ("gamma", True, "gamma is a number"),
        ("states_layer", [1], "states_layer is a number"),
        ("post_features", ["a"], "post_features is text"),
        ("prenorm_features", {}, "prenorm_features is text"),
        ("options", "foo", "options is a JSON object, got 'foo'"),
        pytest.param("options", "[" * 100_000, "options is a JSON object", id="options-deep"),
        ("metric", 5, "metric is a name, got 5"),
        ("metric", "  ", "metric is a name, got '  '"),
        ("details", [1], "details is a JSON object"),
    ],
)
def test_settings_of_any_other_kind_are_refused_by_row(field: str, value: Any, said: str, tmp_path: Path) -> None:
    path = ranking(tmp_path / "ranking.json", [{**ROWS[0], "metric": "m"}, {**ROWS[1], "metric": "m", field: value}])
    with pytest.raises(InvalidDataError, match=rf"ranking\.json, row 2: {said}") as caught:
        read_predictions(path)
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 400


def test_brackets_without_end_are_no_ranking_and_no_table(tmp_path: Path) -> None:
    for name in ("m.json", "m.jsonl"):
        (tmp_path / name).write_text("[" * 100_000)
        with pytest.raises((FormatError, InvalidDataError)):
            read_predictions(tmp_path / name)


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("options", "foo", "options is a JSON object"),
        ("options", "[1]", "options is a JSON object"),
        ("options", "2", "options is a JSON object"),
        ("k", "50.5", "k is a whole number"),
        ("k", "1_0", "k is a number"),
        pytest.param("eps", "1" + "0" * 400, "eps is a finite number", id="eps-huge"),
        ("score", "1_000", "score is a number"),
        ("score", "１", "score is a number"),
        ("score", "0x1", "score is a number"),
        pytest.param("score", "1" + "0" * 400, "score is a finite number", id="score-huge"),
    ],
)
def test_cells_that_are_no_setting_or_number_are_refused_by_row(
    column: str, cell: str, said: str, tmp_path: Path
) -> None:
    row = {"encoder": "e", "score": "1", column: cell}
    (tmp_path / "t.csv").write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    with pytest.raises(InvalidDataError, match=rf"t\.csv, row 1: {said}"):
        read_predictions(tmp_path / "t.csv")


def test_options_of_a_table_are_compared_by_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text('encoder\tscore\toptions\na\t1\t{"b": 1, "a": 2}\nb\t2\t{"a":2,"b":1}\nc\t+.5e1\t\n')
    found, _ = read_predictions(path)
    assert [each.settings["options"] for each in found] == ['{"a": 2, "b": 1}'] * 2 + ["{}"]
    assert found[2].score == 5


def test_numbers_beside_score_are_metrics_or_are_said_to_be_left(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("encoder,score,T-ACC,fam,gap\ne0,1,4,x,1\ne1,2,5,y,\n")
    found, notes = read_predictions(path)
    assert [(each.metric, each.score) for each in found] == [("mine", 1), ("T-ACC", 4), ("mine", 2), ("T-ACC", 5)]
    assert notes == [
        "mine.csv: beside 'score' each of 'T-ACC' is taken for a metric; choose with --metric",
        "mine.csv: beside 'score' 'fam', 'gap' is left aside, as no column of scores",
    ]
    path.write_text("encoder,metric,score,T-ACC,k\ne0,a,1,4,10\n")
    (only,), notes = read_predictions(path)
    assert (only.metric, only.score) == ("a", 1)
    assert notes == ["mine.csv: beside 'score' 'T-ACC' is left aside, as no column of scores"]


def test_blanks_around_names_of_columns_are_taken_off(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("encoder , model, score\ne0, lm,1\n")
    (only,), _ = read_predictions(path)
    assert (only.encoder, only.model, only.score) == ("e0", "lm", 1)
    assert read_outcomes(path)[0].model == "lm"
    path.write_text("encoder,score, score\ne0,1,2\n")
    with pytest.raises(InvalidDataError, match="'score' is there twice"):
        read_predictions(path)


def test_files_of_one_name_are_called_by_their_folders() -> None:
    paths = [Path("p.csv"), Path("a/b/p.csv"), Path("/x/c/b/p.csv"), Path("q.csv"), Path("r/ranking.json")]
    assert names_apart(paths) == ["p.csv", "a/b/p.csv", "c/b/p.csv", "q.csv", "r/ranking.json"]
    assert names_apart([Path("u/r/ranking.json"), Path("v/r/ranking.json")]) == ["u/r/ranking.json", "v/r/ranking.json"]


def test_a_missing_file_hints_at_rankings_and_tables(tmp_path: Path) -> None:
    for read in (read_predictions, read_outcomes):
        with pytest.raises(NotFoundError) as caught:
            read(tmp_path / "none.csv")  # type: ignore[operator]
        assert "optotype rank" in str(caught.value.hint)
        assert "columns encoder and score" in str(caught.value.hint)


def test_nan_in_a_ranking_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ranking.json"
    path.write_text('{"format_version": 1, "kind": "ranking", "rows": [{"encoder": "e", "model": "lm", "score": NaN}]}')
    with pytest.raises(InvalidDataError, match="finite number"):
        read_predictions(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_predictions(tmp_path / "none.csv")
    path = tmp_path / "other.json"
    path.write_text('{"format_version": 1, "kind": "probe"}')
    with pytest.raises(FormatError, match="a ranking is wanted"):
        read_predictions(path)
    several = ranking(tmp_path / "several.json", [{**ROWS[0], "k": 5}, {**ROWS[0], "k": 6}])
    with pytest.raises(FormatError, match="one is wanted as outcome"):
        read_outcomes(several)
    assert len(read_outcomes(ranking(tmp_path / "one.json", ROWS))) == 3
