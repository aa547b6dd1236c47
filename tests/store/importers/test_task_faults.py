"""Files of tasks that are broken, odd or ambiguous: what is said of them, of all of them at once."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.store.importers.tasks import import_tasks
from optotype.store.tasks import open_tasks

LINE = {"img": "a.jpg", "captions": ["A dog.", "A car."]}
NAME = "xtd_en_3_formatted_i2t.jsonl"


def _lines(path: Path, *rows: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def _tables(folder: Path, suffix: str = "csv", **texts: str) -> dict[str, Any]:
    whole = {
        "queries": "query,task,language\nq1,t2i,en\nq2,t2i,it\nq3,i2t,en\n",
        "candidates": "candidate,task,language,text\na,t2i,,A\nb,t2i,en,B\nc,i2t,en,C\nd,i2t,en,D\n",
        "relevance": "query,candidate,grade\nq1,a,1\nq2,a,1\nq3,d,1\n",
        **texts,
    }
    for name, text in whole.items():
        (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.{suffix}" for name in whole}


def _refused(folder: Path, paths: Sequence[Path] = (), **how: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDataError) as refused:
        import_tasks(folder / "set", paths, **how)
    assert not (folder / "set").exists()
    return [(problem.kind, problem.where.removeprefix(f"{folder}/")) for problem in refused.value.problems]


V1 = [
    {"qry_text": "q", "qry_img_path": "", "tgt_text": ["cat.jpg", "", "z"], "tgt_img_path": ["", "cat.jpg", ""]},
    {"qry_text": "r", "tgt_text": ["a\tb", "b", "z"], "tgt_img_path": ["", "a", ""]},
]


def test_a_text_and_an_image_of_the_same_string_are_two(tmp_path: Path) -> None:
    digests = set()
    for number, rows in enumerate(itertools.permutations(V1)):
        import_tasks(tmp_path / f"{number}", [_lines(tmp_path / f"{number}-in" / "x.jsonl", *rows)], task="t2i")
        tasks = open_tasks(tmp_path / f"{number}")
        named = tasks[["target", "candidate_text", "candidate_image"]].to_dataframe().values.tolist()
        assert sorted(named) == [
            ['["", "a\\tb"]', "a\tb", ""],
            ['["", "cat.jpg"]', "cat.jpg", ""],
            ['["a", "b"]', "b", "a"],
            ['["cat.jpg", ""]', "", "cat.jpg"],
            ["z", "z", ""],
        ]
        assert tasks["list_size"].values.tolist() == [3, 3]
        digests.add(tuple(sorted(tasks["candidate"].values)))
    assert len(digests) == 1  # whichever line comes first
    turned = {**V1[0], "tgt_text": ["", "cat.jpg", "z"], "tgt_img_path": ["cat.jpg", "", ""]}
    import_tasks(tmp_path / "set", [_lines(tmp_path / "x.jsonl", turned)], task="t2i")
    tasks = open_tasks(tmp_path / "set")
    assert tasks["candidate_image"].values[tasks["relevant"].values].tolist() == ["cat.jpg"]


def test_so_they_are_in_tables(tmp_path: Path) -> None:
    mine = "candidate,text,image\na,same,\nb,,same\nc,other,\nd,other,\n"
    import_tasks(tmp_path / "set", **_tables(tmp_path, candidates=mine))
    targets = open_tasks(tmp_path / "set")["target"].values.tolist()
    assert targets == ['["", "same"]', '["same", ""]', "other", "other"]


def _truncated(data: bytes) -> bytes:
    return gzip.compress(data)[:-12]


def _damaged(data: bytes) -> bytes:
    packed = bytearray(gzip.compress(data, mtime=0))
    packed[12:20] = b"\xff" * 8  # no block of deflate
    return bytes(packed)


BROKEN: dict[str, tuple[bytes | Callable[[bytes], bytes], str, str]] = {
    "0 bytes": (b"", ".jsonl", "the file is empty"),
    "a byte-order mark alone": (b"\xef\xbb\xbf", ".jsonl", "the file is empty"),
    "blank lines": (b"\n \n\n", ".jsonl", "the file is empty"),
    "Latin-1": ('{"img": "é"}\n'.encode("latin-1"), ".jsonl", "is not UTF-8: line 1 .byte 0xe9"),
    "UTF-16": ('{"img": "e"}\n'.encode("utf-16"), ".jsonl", "is not UTF-8: line 1 .the byte-order mark of UTF-16"),
    "bad UTF-8 further on": (lambda data: data + b'{"img": "\xff"}\n', ".jsonl", "is not UTF-8: line 2 .byte 0xff"),
    "no JSON": (b'{"img": \n', ".jsonl", "line 1 is no JSON: Expecting value"),
    "gzip cut short": (_truncated, ".jsonl.gz", "cannot be read as gzip .Compressed file ended"),
    "gzip damaged": (_damaged, ".jsonl.gz", "cannot be read as gzip .Error -3"),
    "gzip of nothing more": (b"\x1f\x8b\x09\x09aaaaaaaaaa", ".jsonl", "cannot be read as gzip"),
    "no Parquet": (b"garbage, and more of it", ".parquet", "cannot be read as Parquet"),
    "another suffix": (b"{}", ".txt", "rows of tasks come as"),
}


def _broken(folder: Path, name: str, stem: str) -> tuple[Path, str]:
    content, suffix, words = BROKEN[name]
    path = folder / f"{stem}_en_3_formatted_i2t{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content(json.dumps(LINE).encode() + b"\n"))
    return path, words


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_says_how(tmp_path: Path, name: str) -> None:
    path, words = _broken(tmp_path, name, "x")
    with pytest.raises(FormatError, match=words) as refused:
        import_tasks(tmp_path / "set", [path])
    assert str(path) in refused.value.message


@pytest.mark.parametrize("name", [name for name in BROKEN if "gzip" in name])
def test_tables_of_broken_gzip(tmp_path: Path, name: str) -> None:
    files = _tables(tmp_path)
    content = BROKEN[name][0]
    packed = content if isinstance(content, bytes) else content(files["queries"].read_bytes())
    files["queries"].write_bytes(packed)
    with pytest.raises(FormatError, match=r"queries\.csv: cannot be read as a table"):
        import_tasks(tmp_path / "set", **files)


def test_all_broken_files_at_once(tmp_path: Path) -> None:
    broken = [_broken(tmp_path, name, f"x{number}") for number, name in enumerate(BROKEN)]
    sound = _lines(tmp_path / "y_en_1_formatted_i2t.jsonl", LINE, {"captions": ["a"]})
    with pytest.raises(FormatError) as refused:
        import_tasks(tmp_path / "set", [sound, *(path for path, _ in broken)])
    for path, _ in broken:
        assert refused.value.message.count(f"{path}:") == 1
    further, _ = _broken(tmp_path, "bad UTF-8 further on", "z")
    with pytest.raises(FormatError) as refused:  # the first lines of both are sound
        import_tasks(tmp_path / "set", [sound, further])
    assert refused.value.message.count("\n  - ") == 2
    assert f"{sound}:2" in refused.value.message


def test_all_missing_files_at_once(tmp_path: Path) -> None:
    files = _tables(tmp_path)
    with pytest.raises(NotFoundError, match=r"no file at gone\.csv, lost\.csv"):
        import_tasks(tmp_path / "set", **{**files, "queries": Path("gone.csv"), "relevance": Path("lost.csv")})
    with pytest.raises(NotFoundError, match=r"gone\.jsonl, lost\.jsonl"):
        import_tasks(tmp_path / "set", ["gone.jsonl", "lost.jsonl"])


def test_tables_are_looked_at_past_blank_cells(tmp_path: Path) -> None:
    queries = "query,task,language\n,t2i,en\nq2,T 2,e n\nq3,i2t,en\nq4,,en\n"
    relevance = "query,candidate,grade\n,a,1\nq2,a,high\nq3,d,-1\nq4,,2\n"
    assert _refused(tmp_path, **_tables(tmp_path, queries=queries, relevance=relevance)) == [
        ("blank-id", "queries.csv, row 1"),
        ("blank-id", "relevance.csv, row 1"),
        ("blank-id", "relevance.csv, row 4"),
        ("bad-task", "queries.csv, row 2"),
        ("bad-task", "queries.csv, row 4"),
        ("bad-language", "queries.csv, row 2"),
        ("bad-grade", "relevance.csv, row 2"),
        ("bad-grade", "relevance.csv, row 3"),
    ]


ONE: dict[str, tuple[dict[str, str], tuple[str, str]]] = {
    "task of a query": (
        {"queries": "query,task,language\nq1,t2i,en\nq2,t2i,it\nq3,I2T!,en\n"},
        ("bad-task", "queries.csv, row 3"),
    ),
    "language of a query": (
        {"queries": "query,task,language\nq1,t2i,en\nq2,t2i,it\nq3,i2t,\n"},
        ("bad-language", "queries.csv, row 3"),
    ),
    "task of a candidate": (
        {"candidates": "candidate,task\na,t2i\nb,t2i\nc,i2t\nd,i2i\n"},
        ("unknown-owner", "candidates.csv, row 4"),
    ),
    "blank candidate": (
        {"candidates": "candidate,task\n,t2i\nb,t2i\nc,i2t\nd,i2t\n"},
        ("blank-id", "candidates.csv, row 1"),
    ),
    "blank query": (
        {"queries": "query,task,language\n,t2i,en\nq2,t2i,it\nq3,i2t,en\n"},
        ("blank-id", "queries.csv, row 1"),
    ),
    "unknown candidate": (
        {"relevance": "query,candidate\nq1,a\nq2,z\nq3,d\n"},
        ("unknown-candidate", "relevance.csv, row 2"),
    ),
    "column": (
        {"queries": "query,langauge,task\nq1,en,t2i\nq2,it,t2i\nq3,en,i2t\n"},
        ("missing-column", "queries.csv"),
    ),
}


@pytest.mark.parametrize(("tables", "wanted"), ONE.values(), ids=ONE)
def test_one_bad_cell_is_one_line(tmp_path: Path, tables: dict[str, str], wanted: tuple[str, str]) -> None:
    assert _refused(tmp_path, **_tables(tmp_path, **tables)) == [wanted]


@pytest.mark.parametrize("column", ["language", "query"])
def test_columns_that_are_missing(tmp_path: Path, column: str) -> None:
    header = ["query", "task", "language"]
    names = [f"{name[:-2]}{name[:-3:-1]}" if name == column else name for name in header]  # its last letters swapped
    files = _tables(tmp_path, queries=f"{','.join(names)}\nq1,t2i,en\n")
    with pytest.raises(InvalidDataError) as refused:
        import_tasks(tmp_path / "set", **files)
    assert f"Did you mean {names[header.index(column)]!r}? There are: {', '.join(names)}." in str(refused.value)


def test_several_tables_that_are_broken(tmp_path: Path) -> None:
    files = _tables(tmp_path, relevance="query,candidate,grade\nq1,a,x\n")
    files["queries"].write_bytes(b"")
    files["candidates"].write_bytes(_truncated(files["candidates"].read_bytes()))
    with pytest.raises(FormatError) as refused:
        import_tasks(tmp_path / "set", **files)
    for told in ("queries.csv: ", "candidates.csv: ", "relevance.csv, row 1: "):
        assert refused.value.message.count(told) == 1


ODD = ['{"query": "q1", "task": NaN, "grades": [1, -Infinity, {"x": 1e999}]}', '{"query": "q2", "query": "q3"}', "{"]


def test_odd_json(tmp_path: Path) -> None:
    """Numbers that are not finite in any field, and keys that are there twice, of lines and of tables of lines."""
    file = _lines(tmp_path / NAME, LINE, *ODD)
    kinds = ["not-finite"] * 3 + ["duplicate-key", "not-json"]
    with pytest.raises(InvalidDataError, match="task is nan") as refused:
        import_tasks(tmp_path / "set", [file])
    assert [problem.kind for problem in refused.value.problems] == kinds
    assert "grades[1] is -inf" in str(refused.value)
    assert "grades[2].x is inf" in str(refused.value)
    rows = {
        "queries": "\n".join(ODD),
        "candidates": '{"candidate": "a"}',
        "relevance": '{"query": "q", "candidate": "a"}',
    }
    assert [kind for kind, _ in _refused(tmp_path, **_tables(tmp_path, "jsonl", **rows))] == kinds


NAMES = {
    "xtd_en_1000_formatted_i2t": ("xtd", "en"),
    "xtd_EN_1000_formatted_i2t": ("xtd", "en"),
    "a_b_it_7_formatted_i2t": ("a_b", "it"),
    "xtd_pt-BR_7_formatted_i2t": ("xtd", "pt-BR"),
    "coco_qa_1000_formatted_i2t": ("coco_qa", None),
    "my_ds": ("my_ds", None),
    "xtd_en": ("xtd_en", None),
    "xtd_en_i2t": ("xtd_en", None),
}


@pytest.mark.parametrize(("name", "wanted"), NAMES.items(), ids=NAMES)
def test_languages_of_names(tmp_path: Path, name: str, wanted: tuple[str, str | None]) -> None:
    file, said = _lines(tmp_path / f"{name}.jsonl", LINE), list[str]()
    dataset, language = wanted
    if language is None:
        with pytest.raises(UsageError, match="does not say the language"):
            import_tasks(tmp_path / "set", [file])
        import_tasks(tmp_path / "set", [file], language="de", say=said.append)
        assert said == []
    else:
        import_tasks(tmp_path / "set", [file], say=said.append)
        assert said == [f"languages taken from the names of files: {language} ({file.name})"]
    assert open_tasks(tmp_path / "set")["query"].values.tolist() == [f"{dataset}/i2t/{language or 'de'}/a.jpg"]


def test_all_names_that_say_no_language(tmp_path: Path) -> None:
    files = [_lines(tmp_path / f"{name}.jsonl", LINE) for name in ("one", "two", "xtd_en_1_formatted_i2t")]
    with pytest.raises(UsageError, match=r"one\.jsonl, .*two\.jsonl: their names do not say") as refused:
        import_tasks(tmp_path / "set", files)
    assert "xtd_en" not in str(refused.value)


def test_lists_of_the_truth_alone(tmp_path: Path) -> None:
    file = _lines(tmp_path / NAME, {"img": "a", "captions": ["x", "x"]}, {"img": "b", "captions": ["y"]})
    with pytest.raises(UsageError, match="lists right candidates alone") as refused:
        import_tasks(tmp_path / "set", [file])
    assert "--all-candidates" in str(refused.value.hint)


def test_queries_of_nothing_are_noted_once(tmp_path: Path) -> None:
    rows = [{"cand_names": ["a", "b"], "label_name": "a"}] * 3 + [
        {"cand_names": ["a", "b"], "label_name": "a", "qry_text": "q"}
    ]
    said: list[str] = []
    import_tasks(tmp_path / "set", [_lines(tmp_path / "x_info.jsonl", *rows)], language="en", say=said.append)
    assert [line for line in said if "neither text nor image" in line] == [
        "3 queries have neither text nor image: they go by the ids of their embeddings alone"
    ]


def test_a_name_that_makes_no_task(tmp_path: Path) -> None:
    file = _lines(tmp_path / "図_info.jsonl", {"cand_names": ["a", "b"], "label_name": "a"})
    with pytest.raises(UsageError, match=r"図_info\.jsonl: no task can be made of the name") as refused:
        import_tasks(tmp_path / "set", [file])
    assert "--task" in str(refused.value.hint)
    import_tasks(tmp_path / "set", [file], task="t2i")
    assert open_tasks(tmp_path / "set")["task"].values.tolist() == ["t2i"]
