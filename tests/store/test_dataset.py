"""Input tables."""

import hashlib
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.store.dataset import read_images, read_texts

ROWS = [{"id": "b", "image": "x/2.png", "text": 'zwei, "2"'}, {"id": "a", "image": "x/1.png", "text": "eins\n1"}]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "x").mkdir()
    for name in ("1", "2"):
        (tmp_path / "x" / f"{name}.png").write_bytes(name.encode())
    return tmp_path


def save(folder, suffix, rows=ROWS):
    path = folder / f"pairs.{suffix}"
    if suffix in ("csv", "tsv"):
        import csv

        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="," if suffix == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_tables(folder, suffix):
    path = save(folder, suffix)
    images, texts = read_images(path), read_texts(path)
    assert images.ids == texts.ids == ("a", "b")
    assert [p.read_bytes() for p in images.paths] == [b"1", b"2"]
    assert all(p.is_absolute() for p in images.paths)
    assert images.digests == tuple(hashlib.sha256(b).hexdigest() for b in (b"1", b"2"))
    assert texts.texts == ("eins\n1", 'zwei, "2"')
    assert images.digest == read_images(save(folder, "csv", ROWS[::-1])).digest
    assert texts.digest == read_texts(save(folder, "csv", ROWS[::-1])).digest
    assert images.digest != texts.digest


def test_folder_of_images(folder):
    (folder / "x" / "notes.txt").touch()
    images = read_images(folder / "x")
    assert images.ids == ("1", "2")
    (folder / "x" / "1.JPG").touch()
    with pytest.raises(InvalidDataError, match="occurs 2 times"):
        read_images(folder / "x")


def test_digest_follows_bytes_and_ids_not_paths(folder):
    path = save(folder, "csv")
    before = read_images(path).digest
    (folder / "x" / "1.png").rename(folder / "x" / "one.png")
    moved = save(folder, "jsonl", [ROWS[0], {**ROWS[1], "image": "x/one.png"}])
    assert read_images(moved).digest == before
    (folder / "x" / "one.png").write_bytes(b"other")
    assert read_images(moved).digest != before


def test_every_problem_of_a_table(folder):
    rows = [
        {"id": "a", "image": "x/1.png", "text": "  "},
        {"id": "a", "image": "x/none.png", "text": "t"},
        {"id": "", "image": "../outside.png", "text": ""},
        {"id": "d", "image": "", "text": "t"},
    ]
    path = save(folder, "csv", rows)
    with pytest.raises(InvalidDataError) as caught:
        read_images(path)
    kinds = {problem.kind for problem in caught.value.problems}
    assert kinds == {"duplicate-id", "id-blank", "missing-file", "outside", "no-path"}
    with pytest.raises(InvalidDataError) as caught:
        read_texts(path)
    assert [p.where for p in caught.value.problems if p.kind == "no-text"] == ["text[0]", "text[2]"]


def test_paths_outside_only_when_allowed(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "o.png"
    other.write_bytes(b"o")
    path = save(folder, "jsonl", [{"id": "a", "image": str(other)}])
    with pytest.raises(InvalidDataError, match="leaves the folder"):
        read_images(path)
    assert read_images(path, allow_outside=True).paths == (other,)
    inside = save(folder, "csv", [{"id": "a", "image": str(folder / "x" / "1.png")}])
    assert read_images(inside).ids == ("a",)


def test_other_column(folder):
    path = save(folder, "csv", [{"id": "a", "name_de": "Hund", "text": "dog"}])
    assert read_texts(path, "name_de").texts == ("Hund",)
    with pytest.raises(InvalidDataError, match="Did you mean 'name_de'"):
        read_texts(path, "name_d")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"id,text\na,b,c\n"),
        ("a.csv", b"id,text\na,\xff\n"),
        ("a.csv", b'id,text\na,"b\n'),
        ("a.jsonl", b"{\n"),
        ("a.jsonl", b"[1]\n"),
        ("a.parquet", b"nonsense"),
    ],
)
def test_unreadable_tables(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match="not a readable"):
        read_texts(tmp_path / name)


def test_empty_and_missing(tmp_path):
    (tmp_path / "a.csv").write_text("id,text,image\n")
    for read in (read_texts, read_images):
        with pytest.raises(InvalidDataError, match="no"):
            read(tmp_path / "a.csv")
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidDataError, match="no images"):
        read_images(tmp_path / "none")
    with pytest.raises(NotFoundError):
        read_texts(tmp_path / "b.csv")
    (tmp_path / "a.xlsx").touch()
    with pytest.raises(UsageError):
        read_texts(tmp_path / "a.xlsx")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_labels_and_a_choice_of_rows(folder, suffix):
    rows = [
        {"id": "c", "text": "Hund", "language": "de", "task": "t2i", "level": "2"},
        {"id": "a", "text": "dog", "language": "en", "task": "t2i", "level": "1"},
        {"id": "b", "text": "", "language": "en", "task": "i2t", "level": "1"},
        {"id": "a", "text": "cat", "language": "", "task": "c", "level": "1"},
    ]
    path = save(folder, suffix, rows)
    texts = read_texts(path, labels=("language", "shade"), where={"task": "t2i"})
    assert (texts.ids, texts.texts) == (("a", "c"), ("dog", "Hund"))
    assert texts.labels == {"language": ("en", "de")}
    assert texts.digest == read_texts(save(folder, "tsv", rows[:2])).digest
    assert read_texts(path, where={"task": "t2i", "level": "2"}).ids == ("c",)
    assert read_texts(path, labels=("language",), where={"task": "c"}).labels == {"language": ("",)}
    with pytest.raises(InvalidDataError, match="none of 4 rows fits") as caught:
        read_texts(path, where={"task": "vqa", "level": "1"})
    assert "'vqa' is wanted; there is 'c', 'i2t', 't2i'" in str(caught.value)
    with pytest.raises(InvalidDataError, match="has no column 'taks'"):
        read_texts(path, where={"taks": "t2i"})
    with pytest.raises(InvalidDataError, match="occurs 2 times"):
        read_texts(path)


def test_cells_that_are_no_text_are_compared_as_written(folder):
    path = save(folder, "jsonl", [{"id": "a", "text": "dog", "n": 1}, {"id": "b", "text": "cat", "n": None}])
    assert read_texts(path, labels=("n",)).labels == {"n": ("1", "")}
    assert read_texts(path, where={"n": "1"}).ids == ("a",)
    assert read_texts(path, where={"n": ""}).ids == ("b",)
