"""Tidy and wide tables of every kind give the same records."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.store.importers.scores import read_records, tables

TIDY = (
    "benchmark,item_id,model,score,modality,response,extra\n"
    "mm,001,a,1,,(A),x\n"
    'mm,"2, or\n3",b,0.25,image,(Z),y\n'
    "mm,001,b,,no_image,,z\n"
    "vq,é,a,true,Blind,yes,\n"
    "vq,é,a,0.5,no_info,,\n"
)
ROWS = [
    ("mm", "001", "a", 1.0, "image", "(A)"),
    ("mm", "2, or\n3", "b", 0.25, "image", "(Z)"),
    ("mm", "001", "b", None, "blind", None),
    ("vq", "é", "a", 1.0, "blind", "yes"),
]


def rows(table: pd.DataFrame) -> list[tuple[object, ...]]:
    columns = [
        table[name].astype(object) for name in ("benchmark", "item_id", "model", "score", "modality", "response")
    ]
    return [tuple(None if value != value else value for value in row) for row in zip(*columns, strict=True)]


def write(folder: Path, kind: str) -> Path:
    text = TIDY.encode()
    path = folder / f"scores.{kind}"
    if kind == "csv":
        path.write_bytes(text)
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    elif kind == "tsv":
        pd.read_csv(
            folder / "scores.csv" if (folder / "scores.csv").exists() else write(folder, "csv"),
            dtype=str,
            keep_default_na=False,
        ).to_csv(path, sep="\t", index=False, encoding="utf-8-sig")
    else:
        frame = pd.read_csv(write(folder, "csv"), dtype=str, keep_default_na=False)
        if kind == "parquet":
            frame["score"] = [1, 0.25, None, 1, 0.5]
            frame.to_parquet(path)
        else:
            lines = [{name: value for name, value in row.items() if value} for row in frame.to_dict("records")]
            lines[0]["score"] = 1
            path.write_text("\ufeff" + "\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "jsonl"])
def test_every_kind_of_table_gives_the_same_records(kind: str, tmp_path: Path) -> None:
    records = read_records([write(tmp_path, kind)])
    assert rows(records.table) == ROWS
    assert records.notes == [f"scores.{kind}: rows of other modalities were left out: no_info (1)"]
    assert records.table["row"].tolist() == [1, 2, 3, 4]


def test_a_file_of_blind_runs_says_so_only_where_it_says_nothing(tmp_path: Path) -> None:
    table = read_records([write(tmp_path, "csv")], blind=True).table
    assert table["modality"].tolist() == ["blind", "image", "blind", "blind"]


def test_responses_that_match_are_missing_with_a_reason(tmp_path: Path) -> None:
    table = read_records([write(tmp_path, "csv")], invalid_response=r"^\(Z\)$").table
    assert np.isnan(table["score"]).tolist() == [False, True, True, False]
    reasons = table["invalid"].astype(object).tolist()
    assert reasons[1] == r"response matches ^\(Z\)$"
    assert [reason != reason for reason in reasons] == [True, False, True, True]


def test_ids_of_integers_are_text_and_floats_are_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"benchmark": ["b", "b"], "item_id": [7, 8], "model": ["m", "m"], "score": [1, 0]})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.assign(item_id=[7.0, 8.0]).to_parquet(tmp_path / "b.parquet")
    assert read_records([tmp_path / "a.parquet"]).table["item_id"].tolist() == ["7", "8"]
    with pytest.raises(InvalidDataError, match="item_id is text, got float64"):
        read_records([tmp_path / "b.parquet"])


def test_dictionaries_with_blanks_repeats_and_unused_words(tmp_path: Path) -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 2, 3, None], pa.int32()), pa.array(["b", "unused", "b", ""]))
    table = pa.table({"benchmark": words, "n": pa.array([1, None, 3, 4])})
    pq.write_table(table, tmp_path / "t.parquet")
    (block,) = tables.read_blocks(tmp_path / "t.parquet")
    assert block["benchmark"].cat.categories.tolist() == ["b"]
    assert block["benchmark"].cat.codes.tolist() == [0, 0, -1, -1]
    column = tables._column(words)
    assert (column.cat.categories.tolist(), column.cat.codes.tolist()) == (["b"], [0, 0, -1, -1])


def test_a_table_as_text(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "n": [4.0, None],
            "half": [0.5, 1.0],
            "day": [dt.date(2024, 2, 1), None],
            "flag": [True, False],
            "s": ["001", ""],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    text = tables.read_text(tmp_path / "t.parquet")
    assert text.to_dict("list") == {
        "n": ["4", ""],
        "half": ["0.5", "1"],
        "day": ["2024-02-01", ""],
        "flag": ["true", "false"],
        "s": ["001", ""],
    }


def test_everything_that_is_wrong_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("benchmark,item_id,model,score\nb,1,m,x\nb,,m,1\nb,2,m,1e5z\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("benchmark,item_id,model,score\nb,1,m\nb,1,m,1,1\n", encoding="utf-8")
    with pytest.raises(InvalidDataError) as caught:
        read_records([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert [(problem.kind, problem.where.removeprefix(str(tmp_path))) for problem in caught.value.problems] == [
        ("blank-id", "/a.csv, row 2"),
        ("not-a-number", "/a.csv, row 1"),
        ("not-a-number", "/a.csv, row 3"),
        ("ragged-row", "/b.csv"),
        ("ragged-row", "/b.csv"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.pkl", b"\x80\x04.", FormatError),
        ("a.csv", b"", FormatError),
        ("a.csv", b"x,y\n1,2\n", FormatError),
        ("a.csv", b"benchmark,item_id,model,score,score\n", InvalidDataError),
        ("a.parquet", b"PAR1 no", FormatError),
        ("a.csv", b"benchmark,item_id,model,score\n\xff,1,m,1\n", FormatError),
        ("a.csv.gz", b"\x1f\x8bno", FormatError),
        ("a.jsonl", b'{"benchmark": 1', FormatError),
    ],
)
def test_files_that_cannot_be_read(name: str, content: bytes, error: type[Exception], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=r"a\."):
        read_records([tmp_path / name])


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_records([tmp_path / "none.csv"])
    with pytest.raises(FormatError, match="no scores"):
        read_records([tmp_path])
    with pytest.raises(UsageError, match="regular expression"):
        read_records([write(tmp_path, "csv")], invalid_response="(")
    with pytest.raises(UsageError, match="no format"):
        read_records([tmp_path], format="tydi")
    (tmp_path / "w.csv").write_text("model,i\nm,1\n", encoding="utf-8")
    with pytest.raises(InvalidDataError, match="no column 'score'"):
        read_records([tmp_path / "w.csv"], format="tidy")


def test_wide_tables_with_modalities(tmp_path: Path) -> None:
    text = "\ufeff,1,<no_image>1,<no_image> x,<no_info>1,2\nb,1,0,1,1,\na,0,,0.5,1,TRUE\n"
    (tmp_path / "mmmu.v1.csv").write_text(text, encoding="utf-8")
    records = read_records([tmp_path / "mmmu.v1.csv"])
    table = records.table.dropna(subset="score")
    told = set(zip(*(table[name].astype(object) for name in ("item_id", "model", "modality", "score")), strict=True))
    assert told == {
        ("1", "b", "image", 1.0),
        ("1", "a", "image", 0.0),
        ("2", "a", "image", 1.0),
        ("1", "b", "blind", 0.0),
        (" x", "b", "blind", 1.0),
        (" x", "a", "blind", 0.5),
    }
    assert set(table["benchmark"]) == {"mmmu.v1"}
    assert any("no_info (1)" in note for note in records.notes)
    rows = table.loc[table["model"] == "a", "row"]
    assert set(rows) == {2}


def test_wide_parquet_with_an_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"1": [0.0, 1.0], "2": [1, 0]}, index=["x", "y"])
    frame.to_parquet(tmp_path / "bench.parquet")
    table = read_records([tmp_path / "bench.parquet"]).table
    assert len(table) == 4
    assert table.loc[(table["model"] == "y") & (table["item_id"] == "1"), "score"].tolist() == [1.0]


def test_wide_tables_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("model,1\n,1\nm,x\n", encoding="utf-8")
    with pytest.raises(InvalidDataError) as caught:
        read_records([tmp_path / "w.csv"])
    assert [problem.kind for problem in caught.value.problems] == ["blank-id", "not-a-number"]


def test_a_folder_is_searched_and_what_is_no_table_counted(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "csv")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "acc.csv").write_text("split,overall\nall,0.5\n")
    records = read_records([tmp_path])
    assert len(records.table) == len(ROWS)
    assert any("1 files that are no tables" in note for note in records.notes)
    assert any("acc.csv: left out" in note for note in records.notes)


@pytest.mark.parametrize("head", ["index", "name", "id", "date"])
def test_auto_takes_no_table_for_wide_whose_first_column_is_not_of_models(head: str, tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text(f"{head},i1,i2\n1,0,1\n", encoding="utf-8")
    with pytest.raises(FormatError, match="first column called model"):
        read_records([path])
    assert read_records([path], format="wide").table["model"].tolist() == ["1", "1"]  # who says so is believed


def test_scores_of_a_harness_are_no_wide_table(tmp_path: Path) -> None:
    path = tmp_path / "mX" / "mX_TextVQA_VAL_score.csv"
    path.parent.mkdir()
    path.write_text("index,eval_score\n1,0.3\n2,1.0\n", encoding="utf-8")
    table = read_records([path]).table
    assert table["model"].tolist() == ["mX", "mX"]
    assert table["item_id"].tolist() == ["1", "2"]
    assert table["score"].tolist() == [0.3, 1.0]


def test_what_is_not_told_one_by_one_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("benchmark,item_id,model,score\n" + "b,,m,x\n" * 203, encoding="utf-8")
    with pytest.raises(InvalidDataError) as caught:
        read_records([tmp_path / "a.csv"])
    told = [problem.message for problem in caught.value.problems]
    assert len(told) == 402
    assert [line for line in told if line.startswith("and")] == [
        "and 3 more blank cells of item_id",
        "and 3 more cells of score that are no numbers",
    ]
