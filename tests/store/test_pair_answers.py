"""Answers to pair suites: tables, logs of lmms-eval, results of VLMEvalKit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pair_suites import write_answers

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.schemas.pair_suites import Variant
from optotype.store.pair_answers import read_answers

ORIGINAL, SWAP = Variant(), Variant(swapped=True)


def _lmms(folder: Path, answers: list[str], *, task: str = "mmvp", key: str = "AB") -> Path:
    """As lmms-eval writes MMVP: ids count from 0, the parsed letter is blank where there is none."""
    folder.mkdir(parents=True)
    lines = []
    for n, said in enumerate(answers):
        letter = said.strip().upper() if said.strip().upper() in ("A", "B") else ""
        metric = {"index": n, "pair_index": n // 2, "pred": said, "pred_letter": letter, "gt": key[n % 2]}
        metric["is_correct"] = letter == key[n % 2]
        row: dict[str, Any] = {"doc_id": n, "target": key[n % 2], "filtered_resps": [said], "doc_hash": "74234e98afe7"}
        row |= {"input": f"Are the wings open?\nA. Open\nB. Closed {n // 2}"}
        lines.append(json.dumps({**row, "mmvp_accuracy": metric, "mmvp_pair_accuracy": metric}))
    path = folder / f"20250101_000000_samples_{task}.jsonl"
    path.write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    return path


def test_a_table_of_answers(tmp_path: Path) -> None:
    rows = [
        {"question_id": "001", "response": "(a)", "model": "m", "answer": "b"},
        {"question_id": "002", "response": "", "model": "m", "answer": "b"},
    ]
    read = read_answers([(ORIGINAL, write_answers(tmp_path / "a.csv", rows))])
    assert [(a.model, a.question, a.response, a.verdict) for a in read.answers] == [
        ("m", "001", "(a)", None),
        ("m", "002", "", None),
    ]
    assert read.answers[0].source.endswith("a.csv:1")


def test_json_lines_as_the_public_evaluator_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    row = {
        "question_id": 1,
        "prompt": "?",
        "answer": "(b)",
        "response": "(a) Open",
        "model_id": "llava",
        "metadata": {},
    }
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    (answer,) = read_answers([(SWAP, path)]).answers
    assert (answer.model, answer.question, answer.response, answer.variant) == ("llava", "1", "(a) Open", SWAP)


def test_the_file_names_the_model_and_a_column_the_variant(tmp_path: Path) -> None:
    rows = [{"id": "1", "answer": "a", "variant": ""}, {"id": "1", "answer": "b", "variant": "swap"}]
    read = read_answers([(ORIGINAL, write_answers(tmp_path / "gpt.csv", rows))])
    assert [(a.model, a.variant) for a in read.answers] == [("gpt", ORIGINAL), ("gpt", SWAP)]


def test_scores_alone_are_verdicts(tmp_path: Path) -> None:
    rows = [{"benchmark": "mmvp", "item_id": str(n), "model": "m", "score": score} for n, score in enumerate("10")]
    answers = read_answers([(ORIGINAL, write_answers(tmp_path / "a.csv", rows))]).answers
    assert [(a.response, a.verdict) for a in answers] == [(None, 1.0), (None, 0.0)]


def test_blind_runs_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [{"item_id": "1", "response": "a", "modality": word} for word in ("image", "blind", "no_image")]
    read = read_answers([(ORIGINAL, write_answers(tmp_path / "a.csv", rows))])
    assert len(read.answers) == 1
    assert "2 rows of runs without images" in read.notes[0]


def test_equal_repeats_are_counted_and_others_refused(tmp_path: Path) -> None:
    rows = [{"id": "1", "model": "m", "response": "a"}] * 3
    path = write_answers(tmp_path / "a.csv", rows)
    assert (len(read_answers([(ORIGINAL, path)]).answers), read_answers([(ORIGINAL, path)]).repeats) == (1, 2)
    other = write_answers(tmp_path / "b.csv", [{"id": n, "model": "m", "response": "b"} for n in (1, 2)])
    with pytest.raises(InvalidDataError, match="question '1'") as caught:
        read_answers([(ORIGINAL, path), (ORIGINAL, other)])
    assert len(caught.value.problems) == 1
    assert len(read_answers([(ORIGINAL, path), (SWAP, other)]).answers) == 3


def test_every_problem_of_every_table(tmp_path: Path) -> None:
    one = [{"id": "", "model": "m", "response": "a", "score": "0.5", "variant": "mirrored"}]
    two = [{"id": "1", "model": "", "response": "a"}]
    paths = [write_answers(tmp_path / "a.csv", one), write_answers(tmp_path / "b.csv", two)]
    with pytest.raises(InvalidDataError) as caught:
        read_answers([(ORIGINAL, path) for path in paths])
    assert sorted(problem.kind for problem in caught.value.problems) == ["blank-id", "blank-id", "variant", "verdict"]


def test_lmms_eval_counts_from_zero_and_names_its_key(tmp_path: Path) -> None:
    path = _lmms(tmp_path / "llava", ["A", "a", "I cannot say", " b "])
    read = read_answers([(ORIGINAL, path.parent)], id_offset=1)
    assert [(a.model, a.question, a.response, a.verdict, a.key) for a in read.answers] == [
        ("llava", "1", "A", 1.0, "A"),
        ("llava", "2", "A", 0.0, "B"),
        ("llava", "3", "", None, "A"),
        ("llava", "4", "B", 1.0, "B"),
    ]
    with pytest.raises(UsageError, match="whole numbers"):
        read_answers([(ORIGINAL, write_answers(tmp_path / "x.csv", [{"id": "q1", "answer": "a"}]))], id_offset=1)


def test_one_benchmark_of_several(tmp_path: Path) -> None:
    _lmms(tmp_path / "llava", ["A"])
    (tmp_path / "other").mkdir()
    _lmms(tmp_path / "other" / "llava", ["A"], task="blink")
    paths = [(ORIGINAL, tmp_path)]
    with pytest.raises(UsageError, match="blink, mmvp"):
        read_answers(paths)
    read = read_answers(paths, benchmark="mmvp")
    assert len(read.answers) == 1
    assert any("1 answers to other benchmarks" in note for note in read.notes)
    with pytest.raises(UsageError, match="'mmvq'"):
        read_answers(paths, benchmark="mmvq")


def test_vlmevalkit_results(tmp_path: Path) -> None:
    folder = tmp_path / "qwen"
    folder.mkdir()
    rows = [
        {"index": 1, "question": "?", "A": "Open", "B": "Closed", "answer": "A", "prediction": "It is open", "hit": 1},
        {"index": 2, "question": "?", "A": "Open", "B": "Closed", "answer": "B", "prediction": "A", "hit": 0},
        {"index": 3, "question": "?", "A": "Open", "B": "Closed", "answer": "A", "prediction": "Z", "hit": 0},
        {
            "index": 4,
            "question": "?",
            "A": "Open",
            "B": "Closed",
            "answer": "B",
            "prediction": "Failed to obtain answer via API.",
            "hit": 0,
        },
    ]
    pd.DataFrame(rows).to_excel(folder / "qwen_MMVP_openai_result.xlsx", index=False)
    answers = read_answers([(ORIGINAL, folder)]).answers
    assert [(a.model, a.question, a.response, a.verdict, a.key, a.invalid) for a in answers] == [
        ("qwen", "1", "It is open", 1.0, "A", None),
        ("qwen", "2", "A", 0.0, "B", None),
        ("qwen", "3", "Z", None, "A", "option-z"),
        ("qwen", "4", "Failed to obtain answer via API.", None, "B", "failed-to-answer"),
    ]


def test_circular_results_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "qwen"
    folder.mkdir()
    rows = [
        {"index": i, "question": "?", "A": "Open", "B": "Closed", "answer": "A", "prediction": "A", "hit": 1}
        for i in (1, 1000001)
    ]
    pd.DataFrame(rows).to_csv(folder / "qwen_MMVP_openai_result.tsv", sep="\t", index=False)
    with pytest.raises(UsageError, match="circularly"):
        read_answers([(ORIGINAL, folder)])


def test_a_plain_table_may_look_like_a_harness(tmp_path: Path) -> None:
    path = write_answers(tmp_path / "gpt.csv", [{"index": "7", "prediction": "a"}])
    (answer,) = read_answers([(ORIGINAL, path)]).answers
    assert (answer.model, answer.question, answer.response) == ("gpt", "7", "a")


def test_what_is_no_answers(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_answers([(ORIGINAL, tmp_path / "nothing.csv")])
    with pytest.raises(FormatError, match="question_id"):
        read_answers([(ORIGINAL, write_answers(tmp_path / "a.csv", [{"x": "1", "response": "a"}]))])
    with pytest.raises(FormatError, match="'id', 'x'"):
        read_answers([(ORIGINAL, write_answers(tmp_path / "a.csv", [{"id": "1", "x": "a"}]))])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="no tables"):
        read_answers([(ORIGINAL, tmp_path / "empty")])
    with pytest.raises(UsageError, match="'xml'"):
        read_answers([(ORIGINAL, tmp_path)], format="xml")
    (tmp_path / "a.csv").write_text("id,response\n")
    with pytest.raises(InvalidDataError, match="no answers"):
        read_answers([(ORIGINAL, tmp_path / "a.csv")])
