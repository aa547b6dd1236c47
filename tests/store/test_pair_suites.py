"""Pair suites and overlays as they are read from disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pair_suites import make_questions, make_statements, write_pair_suite
from PIL import Image

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError
from optotype.store.pair_overlays import apply_overlay, read_overlay
from optotype.store.pair_suites import in_pairs, read_pair_suite

# The keys of the public set that are disputed, as its users correct them.
DISPUTED = [("99", "a", "b"), ("100", "b", "a"), ("279", "a", "b"), ("280", "b", "a")]


def _overlay(path: Path, corrections: list[dict[str, object]], **rest: object) -> Path:
    document = {"format_version": 1, "kind": "question-overlay", "corrections": corrections, **rest}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_suite_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = write_pair_suite(tmp_path, make_questions(2), make_statements(["orientation", "count"]), title="T")
    suite = read_pair_suite(folder)
    assert [question.id for question in suite.questions] == ["1", "2", "3", "4"]
    assert [(q.side, q.key, q.answer, q.options) for q in suite.questions[:2]] == [
        (1, 0, 0, ("Open", "Closed")),
        (2, 1, 1, ("Open", "Closed")),
    ]
    one, two = in_pairs(suite.statements)["p1"]
    assert (one.id, two.image, one.pattern) == ("s1-1", "img-003", "count")
    assert suite.document["title"] == "T"
    assert suite.mining is None


def test_the_side_counts_and_not_the_order_of_rows(tmp_path: Path) -> None:
    rows = make_questions(3)
    forward = read_pair_suite(write_pair_suite(tmp_path / "a", rows))
    backward = read_pair_suite(write_pair_suite(tmp_path / "b", rows[::-1]))
    assert in_pairs(forward.questions)["p0"] == in_pairs(backward.questions)["p0"]
    assert forward.digest == backward.digest


def test_digest_is_of_everything_that_is_asked(tmp_path: Path) -> None:
    digests = set()
    for name in (None, "question", "option_b", "image", "pattern"):
        rows = make_questions(1)
        if name is not None:
            for row in rows:
                row[name] += "!"
        digests.add(read_pair_suite(write_pair_suite(tmp_path / str(name), rows)).digest)
    assert len(digests) == 5


def test_tables_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = write_pair_suite(tmp_path, make_questions(1))
    path = folder / "questions.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_pair_suite(folder).questions) == 2


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ('{"format_version": 2, "kind": "pair-suite"}', "reads up to 1"),
        ("[]", "JSON object"),
        ("{", "not a JSON"),
    ],
)
def test_documents_that_cannot_be_read(tmp_path: Path, document: str, words: str) -> None:
    folder = write_pair_suite(tmp_path, make_questions(1))
    (folder / "pair-suite.json").write_text(document)
    with pytest.raises(FormatError, match=words):
        read_pair_suite(folder)


def test_a_folder_without_a_document_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"pair-suite\.json"):
        read_pair_suite(tmp_path)


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    questions = make_questions(2)
    questions[0]["answer"] = "z"
    statements = make_statements(["texts"])
    statements[0]["image"] = statements[1]["image"]
    folder = write_pair_suite(tmp_path, questions, statements, licences="MIT")
    (folder / "pairs.json").write_text('{"format_version": 1, "kind": "something"}')
    with pytest.raises(InvalidDataError) as caught:
        read_pair_suite(folder)
    assert {problem.kind for problem in caught.value.problems} == {"value", "answer", "one-image", "wrong-kind"}


def test_neither_table_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match=r"neither questions\.csv nor statements\.csv"):
        read_pair_suite(write_pair_suite(tmp_path))


def test_images_that_come_along_are_all_there(tmp_path: Path) -> None:
    folder = write_pair_suite(tmp_path, make_questions(1))
    for n in range(2):
        Image.new("RGB", (2, 2)).save(folder / f"{n}.png")
    (folder / "images.csv").write_text("id,image\nimg-000,0.png\nimg-001,1.png\n")
    assert len(read_pair_suite(folder).questions) == 2
    (folder / "images.csv").write_text("id,image\nimg-000,0.png\n")
    with pytest.raises(InvalidDataError, match="img-001"):
        read_pair_suite(folder)
    (folder / "images.csv").write_text("id,image\nimg-000,0.png\nimg-001,nothing.png\n")
    with pytest.raises(InvalidDataError, match=r"nothing\.png"):
        read_pair_suite(folder)


def test_an_overlay_corrects_keys_and_leaves_the_base_alone(tmp_path: Path) -> None:
    suite = read_pair_suite(write_pair_suite(tmp_path, make_questions(150)))
    before = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    corrections = [{"question": q, "was": was, "answer": now, "why": "seen"} for q, was, now in DISPUTED]
    overlay = read_overlay(_overlay(tmp_path.parent / "o.json", corrections, suite="mmvp", base=suite.digest))
    corrected = apply_overlay(suite, overlay)
    changed = [one.id for one, two in zip(suite.questions, corrected.questions, strict=True) if one != two]
    assert changed == ["99", "100", "279", "280"]
    assert [q.answer for q in corrected.questions if q.id in changed] == [1, 0, 1, 0]
    assert [q.key for q in corrected.questions] == [q.key for q in suite.questions]
    assert all(q.answer == q.key for q in suite.questions)
    assert corrected.digest == suite.digest == overlay.base
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == before


def test_an_overlay_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    suite = read_pair_suite(write_pair_suite(tmp_path / "suite", make_questions(2)))
    wrong = [
        {"question": "1", "was": "b", "answer": "a", "why": "x"},
        {"question": "2", "was": "b", "answer": "c", "why": "x"},
        {"question": "77", "was": "a", "answer": None, "why": "x"},
    ]
    with pytest.raises(InvalidDataError) as caught:
        apply_overlay(suite, read_overlay(_overlay(tmp_path / "o.json", wrong)))
    assert [problem.kind for problem in caught.value.problems] == ["other-key", "answer", "unknown-question"]


def test_overlays_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_overlay(tmp_path / "o.json")
    path = _overlay(tmp_path / "overlay.json", [], kind="other")
    with pytest.raises(InvalidDataError) as caught:
        read_overlay(tmp_path)
    assert [problem.kind for problem in caught.value.problems] == ["wrong-kind", "no-corrections"]
    path.write_text('{"format_version": 9, "kind": "question-overlay"}')
    with pytest.raises(FormatError):
        read_overlay(path)


def test_the_digest_of_an_overlay_is_of_its_corrections(tmp_path: Path) -> None:
    rows = [{"question": q, "was": was, "answer": now, "why": "seen"} for q, was, now in DISPUTED]
    first = read_overlay(_overlay(tmp_path / "a.json", rows))  # type: ignore[arg-type]
    assert read_overlay(_overlay(tmp_path / "b.json", rows[::-1])).digest == first.digest  # type: ignore[arg-type]
    rows[0]["answer"] = None  # type: ignore[assignment]
    assert read_overlay(_overlay(tmp_path / "c.json", rows)).digest != first.digest  # type: ignore[arg-type]
