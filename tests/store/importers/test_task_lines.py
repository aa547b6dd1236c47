"""The public forms of retrieval tasks, MMMEB's and MMEB's, become the task set that they mean."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, OptotypeError, UsageError
from optotype.store.importers.tasks import import_tasks
from optotype.store.tasks import open_tasks


def _lines(path: Path, rows: Sequence[Any]) -> Path:
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def _read(folder: Path, *paths: Path, **how: Any) -> xr.Dataset:
    import_tasks(folder / "set", paths or [folder], **how)
    return open_tasks(folder / "set")


def _told(tasks: xr.Dataset) -> dict[str, tuple[set[str], dict[str, float]]]:
    """Query -> targets of its candidates, and of the right ones with their grades."""
    ends, rights = tasks["list_size"].values.cumsum(), tasks["relevance_size"].values.cumsum()
    targets, held = tasks["target"].values, {}
    for at, query in enumerate(tasks["query"].values):
        number = int(tasks["query_list"].values[at])
        span = slice(ends[number] - tasks["list_size"].values[number], ends[number])
        right = slice(rights[at] - tasks["relevance_size"].values[at], rights[at])
        grades = zip(targets[tasks["relevant"].values[right]], tasks["grade"].values[right].tolist(), strict=True)
        held[query] = (set(targets[tasks["list_candidate"].values[span]]), dict(grades))
    return held


def _kinds(error: pytest.ExceptionInfo[InvalidDataError]) -> list[str]:
    return sorted({problem.kind for problem in error.value.problems})


I2T = [
    {"img": "b.jpg", "captions": ["Two cats.", "A dog.", "A car."]},
    {"img": "a.jpg", "captions": ["A dog.", "A car.", "Two cats."]},
    {"img": "c.jpg", "captions": ["A car.", "Two cats.", "A dog.", "A dog."]},
]
MMMEB: dict[str, tuple[str, list[dict[str, Any]], dict[str, tuple[set[str], str]]]] = {
    "i2t": (
        "xtd_it_1000_formatted_i2t.jsonl",
        I2T,
        {
            f"xtd/i2t/it/{name}.jpg": ({"Two cats.", "A dog.", "A car."}, right)
            for name, right in {"a": "A dog.", "b": "Two cats.", "c": "A car."}.items()
        },
    ),
    "t2i": (
        "xm_de_1000_formatted_t2i.jsonl",
        [
            {"text": "Ein Hund", "images": ["1.jpg", "2.jpg"]},
            {"text": "Noch ein Hund", "images": ["1.jpg", "3.jpg"]},
            {"text": None, "images": ["2.jpg", "1.jpg"]},
        ],
        {
            "xm/t2i/de/1.jpg": ({"1.jpg", "2.jpg"}, "1.jpg"),
            "xm/t2i/de/1.jpg#2": ({"1.jpg", "3.jpg"}, "1.jpg"),
        },
    ),
    "vqa": (
        "maxm_v1_fr_100_formatted_vqa.jsonl",
        [
            {"img": "m1", "question": None, "answers": ["oui", "non"]},
            {"img": "m1", "question": "Quoi ?", "answers": ["rien", "oui", None, ""]},
            {"img": "m2", "question": " ", "answers": ["rien", "oui"]},
        ],
        {"maxm_v1/vqa/fr/m1#2": ({"rien", "oui"}, "rien")},
    ),
    "vg": (
        "flickr30k_entities_en_1000_formatted_vg.jsonl",
        [{"img": "x/1", "text": "the hat", "imgs": ["x/1_0", "x/1_1"]}],
        {"flickr30k_entities/vg/en/x/1": ({"x/1_0", "x/1_1"}, "x/1_0")},
    ),
    "c": (
        "imagenet-1k-val_es_1000_formatted_c.jsonl",
        [{"img": "i9", "classes": ["perro", "gato"]}, {"img": "i3", "classes": ["perro", "gato"]}],
        {
            "imagenet-1k-val/c/es/i9": ({"perro", "gato"}, "perro"),
            "imagenet-1k-val/c/es/i3": ({"perro", "gato"}, "perro"),
        },
    ),
}


@pytest.mark.parametrize(("name", "rows", "wanted"), MMMEB.values(), ids=MMMEB)
def test_mmmeb(tmp_path: Path, name: str, rows: list[dict[str, Any]], wanted: dict[str, tuple[set[str], str]]) -> None:
    tasks = _read(tmp_path, _lines(tmp_path / name, rows))
    assert _told(tasks) == {query: (own, {right: 1.0}) for query, (own, right) in wanted.items()}
    task, language = name.removesuffix(".jsonl").split("_")[-1], name.split("_100")[0].split("_")[-1]
    assert set(tasks["task"].values) == {task}
    assert set(tasks["language"].values) == {language}
    assert tasks.attrs["form"] == "mmmeb"
    (source,) = json.loads(tasks.attrs["sources"])
    assert source["file"] == name


def test_mmmeb_texts_images_and_items(tmp_path: Path) -> None:
    for name in ("t2i", "vqa", "c"):
        _lines(tmp_path / MMMEB[name][0], MMMEB[name][1])
    tasks = _read(tmp_path)
    query = tasks[["query_text", "query_image", "item"]].to_dataframe().T.to_dict()
    assert query["xm/t2i/de/1.jpg#2"] == {"query_text": "Noch ein Hund", "query_image": "", "item": "xm/1.jpg#2"}
    assert query["maxm_v1/vqa/fr/m1#2"] == {"query_text": "Quoi ?", "query_image": "m1", "item": "maxm_v1/m1#2"}
    names = ["candidate_text", "candidate_image", "candidate_item"]
    held = tasks[names].to_dataframe().T.to_dict()
    assert list(held["xm/t2i/de/3.jpg"].values()) == ["", "3.jpg", "xm/3.jpg"]
    assert list(held["imagenet-1k-val/c/es/perro"].values()) == ["perro", "", "imagenet-1k-val/i3"]  # the smallest
    assert list(held["imagenet-1k-val/c/es/gato"].values()) == ["gato", "", ""]
    left_out = json.loads(tasks.attrs["left_out"])
    assert left_out == {"blank candidate": 2, "question is blank": 1, "question is null": 1, "text is null": 1}


def test_the_right_one_is_not_known_by_its_place(tmp_path: Path) -> None:
    """Equal lists in another order are one list; reversing all but the truth changes nothing."""
    tasks = _read(tmp_path, _lines(tmp_path / "xtd_it_1000_formatted_i2t.jsonl", I2T))
    assert tasks.sizes["list"] == 1
    assert json.loads(tasks.attrs["left_out"]) == {"candidate again in its list": 1}
    turned = [{**row, "captions": [row["captions"][0], *row["captions"][:0:-1]]} for row in reversed(I2T)]
    (tmp_path / "b").mkdir()
    again = _read(tmp_path / "b", _lines(tmp_path / "b" / "xtd_it_1000_formatted_i2t.jsonl", turned))
    assert again.attrs["digest"] == tasks.attrs["digest"]


def test_strings_that_are_no_ids(tmp_path: Path) -> None:
    """Strings that differ in Unicode form alone, in white space, or are long stay different candidates."""
    strings = ["\u00e9", "e\u0301", " é", "é\n", "x" * 500, "x" * 499, "plain"]
    file = _lines(tmp_path / "xtd_fr_7_formatted_c.jsonl", [{"img": "1", "classes": strings}])
    tasks = _read(tmp_path, file)
    assert sorted(tasks["target"].values) == sorted(tasks["candidate_text"].values) == sorted(strings)
    assert "xtd/c/fr/plain" in tasks["candidate"].values
    assert sum("sha256-" in name for name in tasks["candidate"].values) == 6


def test_what_the_name_does_not_say(tmp_path: Path) -> None:
    file = _lines(tmp_path / "captions.jsonl", I2T)
    with pytest.raises(UsageError, match="does not say the language") as refused:
        _read(tmp_path, file)
    assert refused.value.hint == "Say it: --language en"
    tasks = _read(tmp_path, file, language="pt-BR")
    assert tasks["query"].values[0] == "captions/i2t/pt-BR/a.jpg"
    both = [{**row, "classes": ["a", "b"]} for row in I2T]
    file = _lines(tmp_path / "xtd.jsonl", both)
    with pytest.raises(InvalidDataError) as listed:
        _read(tmp_path, file, language="en")
    assert _kinds(listed) == ["no-candidates"]
    assert set(_read(tmp_path, file, task="c", language="en")["target"].values) == {"a", "b"}
    with pytest.raises(UsageError, match="no task 'i2x'"):
        _read(tmp_path, file, task="i2x")


BAD_LINES: dict[str, tuple[Any, str]] = {
    "not JSON": ("{", "not-json"),
    "not an object": ([1], "not-json"),
    "no candidates": ({"img": "1"}, "no-candidates"),
    "an empty list": ({"img": "1", "captions": []}, "no-candidates"),
    "a text for a list": ({"img": "1", "captions": "a"}, "no-candidates"),
    "a number among texts": ({"img": "1", "captions": ["a", 2]}, "not-text"),
    "a blank truth": ({"img": "1", "captions": ["", "a"]}, "not-text"),
    "no image": ({"captions": ["a", "b"]}, "missing-field"),
    "an image that is none": ({"img": None, "captions": ["a", "b"]}, "missing-field"),
    "another task": ({"text": "1", "images": ["a", "b"]}, "task-differs"),
}


@pytest.mark.parametrize(("line", "kind"), BAD_LINES.values(), ids=BAD_LINES)
def test_bad_lines_of_mmmeb(tmp_path: Path, line: Any, kind: str) -> None:
    file = _lines(tmp_path / "xtd_en_3_formatted_i2t.jsonl", [I2T[0], line, I2T[1]])
    with pytest.raises(InvalidDataError, match="nothing was written") as refused:
        import_tasks(tmp_path / "set", [file])
    assert [(problem.kind, problem.where) for problem in refused.value.problems] == [(kind, f"{file}:2")]
    assert not (tmp_path / "set").exists()


def test_all_problems_at_once(tmp_path: Path) -> None:
    rows = [I2T[0], *(line for line, _ in BAD_LINES.values()), *["{"] * 50]
    file = _lines(tmp_path / "xtd_en_3_formatted_i2t.jsonl", rows)
    with pytest.raises(InvalidDataError) as refused:
        import_tasks(tmp_path / "set", [file], form="mmmeb")
    assert _kinds(refused) == sorted({kind for _, kind in BAD_LINES.values()})
    assert "and 32 more of the kind not-json" in str([problem.message for problem in refused.value.problems])


def test_question_that_is_no_text(tmp_path: Path) -> None:
    rows: list[Any] = [{"img": "1", "answers": ["a", "b"]}, {"img": "1", "question": 3, "answers": ["a", "b"]}]
    with pytest.raises(InvalidDataError) as refused:
        import_tasks(tmp_path / "set", [_lines(tmp_path / "x.jsonl", rows)], language="en")
    assert [problem.kind for problem in refused.value.problems] == ["missing-field", "not-text"]


def test_the_same_file_twice_over(tmp_path: Path) -> None:
    """One file twice, by whatever path, is refused; so are the same queries under two names of one data set."""
    file = _lines(tmp_path / "xtd_en_3_formatted_i2t.jsonl", I2T)
    for again in (file, tmp_path, file.parent / ".." / tmp_path.name / file.name):
        with pytest.raises(UsageError, match="given twice"):
            _read(tmp_path, file, again)
    other = _lines(tmp_path / "xtd_en_4_formatted_i2t.jsonl", I2T)
    with pytest.raises(InvalidDataError) as refused:
        import_tasks(tmp_path / "set", [file, other])
    assert "duplicate-id" in _kinds(refused)


V2 = [
    {"cand_names": ["a", "b", "c"], "label_name": "b"},
    {"cand_names": ["c", "b", "a"], "label_name": ["a", "c"], "rel_scores": [2, 0.5], "qry_id": "second"},
    {"cand_names": None, "label_name": "d"},
    {"label_name": ["e", "a"], "rel_scores": [0, 1]},
]


def test_mmeb_v2(tmp_path: Path) -> None:
    said: list[str] = []
    tasks = _read(tmp_path, _lines(tmp_path / "MSCOCO_t2i_info.jsonl", V2), say=said.append)
    everything = {"a", "b", "c", "d", "e"}  # e, with a score of 0, is right for nobody
    assert _told(tasks) == {
        "MSCOCO_t2i/000001": ({"a", "b", "c"}, {"b": 1.0}),
        "MSCOCO_t2i/second": ({"a", "b", "c"}, {"a": 2.0, "c": 0.5}),
        "MSCOCO_t2i/000003": (everything, {"d": 1.0}),
        "MSCOCO_t2i/000004": (everything, {"a": 1.0}),
    }
    assert tasks.sizes["list"] == 2
    assert (set(tasks["task"].values), set(tasks["language"].values)) == ({"mscoco-t2i"}, {"en"})
    assert json.loads(tasks.attrs["left_out"]) == {"label with a score of 0": 1}
    assert any("taken as en" in line for line in said)
    wide = _read(tmp_path, tmp_path / "MSCOCO_t2i_info.jsonl", all_candidates=True, task="t2i", language="it")
    assert {frozenset(own) for own, _ in _told(wide).values()} == {frozenset(everything)}
    assert (set(wide["task"].values), set(wide["language"].values)) == ({"t2i"}, {"it"})


def test_mmeb_candidates_of_their_own(tmp_path: Path) -> None:
    """Data sets ranked against all their candidates list only what is right: alone they are refused."""
    rows = [{"cand_names": ["p1"], "label_name": ["p1"], "rel_scores": [1]}, {"cand_names": ["p2"], "label_name": "p2"}]
    file = _lines(tmp_path / "docs_info.jsonl", rows)
    with pytest.raises(UsageError, match="lists right candidates alone") as refused:
        import_tasks(tmp_path / "set", [file])
    assert "--all-candidates" in str(refused.value.hint)
    corpus = [
        {"cand_name": "p3", "cand_text": ["third"]},
        {"dataset_infos": {"cand_names": ["p1"]}, "cand_image": "1.png"},
    ]
    extra = _lines(tmp_path / "corpus.jsonl", corpus)
    tasks = _read(tmp_path, file, candidates=extra, all_candidates=True)
    assert _told(tasks) == {f"docs/00000{n}": ({"p1", "p2", "p3"}, {f"p{n}": 1.0}) for n in (1, 2)}
    assert tasks["candidate_text"].values.tolist() == ["", "", "third"]
    assert tasks["candidate_image"].values.tolist() == ["1.png", "", ""]
    other = _lines(tmp_path / "more_info.jsonl", [{"label_name": "p9", "cand_names": ["p9", "p8"]}])
    with pytest.raises(UsageError, match="does not say its own"):
        import_tasks(tmp_path / "set", [file, other], candidates=extra)
    extra = _lines(
        tmp_path / "corpus.jsonl", [{"cand_name": "p3", "dataset": "docs"}, {"cand_name": "", "dataset": "docs"}]
    )
    with pytest.raises(InvalidDataError) as listed:
        import_tasks(tmp_path / "set", [file, other], candidates=extra)
    assert _kinds(listed) == ["no-candidates"]


V1 = [
    {"qry_text": "q1", "qry_img_path": "", "tgt_text": ["", ""], "tgt_img_path": ["1.png", "2.png"]},
    {"qry_text": "", "qry_img_path": "q.png", "tgt_text": ["yes", "no", "yes"], "tgt_img_path": ["", "", ""]},
    {"qry_text": "q3", "qry_img_path": "q.png", "tgt_text": ["x", "x"], "tgt_img_path": ["2.png", "3.png"]},
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_mmeb_v1(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"EDIS.{kind}"
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(V1), file)
    else:
        _lines(file, V1)
    tasks = _read(tmp_path, file, task="t2i", language="en")
    assert _told(tasks) == {
        "EDIS/000001": ({"1.png", "2.png"}, {"1.png": 1.0}),
        "EDIS/000002": ({"yes", "no"}, {"yes": 1.0}),
        "EDIS/000003": ({"2.png\tx", "3.png\tx"}, {"2.png\tx": 1.0}),
    }
    assert tasks["query_text"].values.tolist() == ["q1", "", "q3"]
    assert tasks["query_image"].values.tolist() == ["", "q.png", "q.png"]
    contents = dict(zip(tasks["target"].values, tasks["candidate_text"].values, strict=True))
    assert (contents["1.png"], contents["yes"], contents["3.png\tx"]) == ("", "yes", "x")


BAD_MMEB: dict[str, tuple[dict[str, Any], str]] = {
    "no label": ({"cand_names": ["a", "b"], "label_name": None}, "no-label"),
    "a number for a label": ({"cand_names": ["a", "b"], "label_name": [1]}, "no-label"),
    "no list": ({"cand_names": "a", "label_name": "a"}, "no-candidates"),
    "an empty list": ({"cand_names": [], "label_name": "a"}, "no-candidates"),
    "label elsewhere": ({"cand_names": ["a", "b"], "label_name": "c"}, "not-in-list"),
    "too few scores": ({"label_name": ["a", "b"], "rel_scores": [1]}, "bad-grade"),
    "a negative score": ({"label_name": ["a"], "rel_scores": [-1]}, "bad-grade"),
    "a score beyond floats": ({"label_name": ["a"], "rel_scores": [10**400]}, "bad-grade"),
    "a score that is none": ({"label_name": ["a"], "rel_scores": [True]}, "bad-grade"),
    "texts and images": ({"qry_text": "q", "tgt_text": ["a"], "tgt_img_path": ["1", "2"]}, "length"),
    "blank targets": ({"qry_text": "q", "tgt_text": ["a", ""], "tgt_img_path": ["1", ""]}, "not-text"),
    "no targets": ({"qry_text": "q", "tgt_text": [], "tgt_img_path": []}, "no-candidates"),
    "no query": ({"qry_text": "", "tgt_text": ["a", "b"]}, "no-query"),
}


@pytest.mark.parametrize(("line", "kind"), BAD_MMEB.values(), ids=BAD_MMEB)
def test_bad_lines_of_mmeb(tmp_path: Path, line: Mapping[str, Any], kind: str) -> None:
    file = _lines(tmp_path / "x_info.jsonl", [V2[0], line])
    with pytest.raises(InvalidDataError) as refused:
        import_tasks(tmp_path / "set", [file])
    assert [(problem.kind, problem.where) for problem in refused.value.problems] == [(kind, f"{file}:2")]


def test_no_score_above_zero_is_no_query(tmp_path: Path) -> None:
    rows = [V2[0], {"cand_names": ["a", "b"], "label_name": ["a"], "rel_scores": [0]}]
    tasks = _read(tmp_path, _lines(tmp_path / "x_info.jsonl", rows))
    assert tasks.sizes["query"] == 1
    assert json.loads(tasks.attrs["left_out"]) == {"label with a score of 0": 1, "no label with a score above 0": 1}


def test_gzip_and_byte_order_marks(tmp_path: Path) -> None:
    plain = _lines(tmp_path / "xtd_en_3_formatted_i2t.jsonl", I2T)
    digest = _read(tmp_path, plain).attrs["digest"]
    packed = tmp_path / "gz" / "xtd_en_3_formatted_i2t.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + plain.read_bytes()))
    assert _read(tmp_path, packed).attrs["digest"] == digest
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(FormatError, match="cannot be read"):
        import_tasks(tmp_path / "set", [packed])


WRONG: dict[str, tuple[type[OptotypeError], str, dict[str, Any]]] = {
    "no paths": (UsageError, "no files", {"paths": []}),
    "no such file": (NotFoundError, "no file or folder", {"paths": ["missing.jsonl"]}),
    "an empty folder": (FormatError, "no files that end in", {"paths": ["empty"]}),
    "of no form": (FormatError, "no known form", {"paths": ["other.jsonl"]}),
    "of another kind": (FormatError, "rows of tasks come as", {"paths": ["notes.txt"], "form": "mmeb"}),
    "an empty file": (InvalidDataError, "refused", {"paths": ["none_en.jsonl"], "form": "mmmeb", "language": "en"}),
    "an empty file of mmeb": (InvalidDataError, "refused", {"paths": ["none_en.jsonl"], "form": "mmeb"}),
    "several forms": (UsageError, "several forms", {"paths": ["xtd_en.jsonl", "x_info.jsonl"]}),
    "no such form": (UsageError, "no form 'mmeb2'", {"paths": ["x_info.jsonl"], "form": "mmeb2"}),
    "paths and tables": (UsageError, "named by options", {"paths": ["x_info.jsonl"], "queries": "q.csv"}),
    "tables that are two": (UsageError, "tables are three", {"queries": "q.csv", "candidates": "c.csv"}),
    "options of others": (UsageError, "--all-candidates", {"paths": ["xtd_en.jsonl"], "all_candidates": True}),
    "tables of others": (UsageError, "--lists", {"paths": ["x_info.jsonl"], "lists": "l.csv"}),
    "Parquet that is none": (FormatError, "Parquet", {"paths": ["bad.parquet"], "form": "mmeb"}),
}


@pytest.mark.parametrize(("error", "words", "how"), WRONG.values(), ids=WRONG)
def test_wrong_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OptotypeError], words: str, how: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    _lines(Path("xtd_en.jsonl"), I2T)
    _lines(Path("x_info.jsonl"), V2)
    _lines(Path("other.jsonl"), [{"a": 1}])
    Path("empty").mkdir()
    Path("notes.txt").write_text("x", encoding="utf-8")
    Path("none_en.jsonl").write_text("\n", encoding="utf-8")
    Path("bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(error, match=words):
        import_tasks(tmp_path / "set", **how)
    assert not (tmp_path / "set").exists()
