"""Rankings and tables of any kind, read strictly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

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
