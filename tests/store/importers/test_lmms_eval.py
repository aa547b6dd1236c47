"""lmms-eval sample logs, each trap of the format in a small hand-made file."""

import gzip
import hashlib
import json
import math
import random

import pytest

from optotype.schemas.documents import canonical_json
from optotype.schemas.errors import InvalidDataError
from optotype.store.importers.scores.lmms_eval import read_lmms_eval, recognises
from optotype.store.importers.scores.lmms_eval_samples import answer_of, drawn_at_random, score_of, unparsed

CONSTANT = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"  # the hash of null, in every row


def mmmu(doc_id, answer, parsed, *, said=None, kind="multiple-choice", **more):
    verdict = {"id": f"validation_Art_{doc_id}", "subdomain": "Art", "question_type": kind, "answer": answer}
    verdict["parsed_pred"] = [parsed]
    said = f"({parsed})" if said is None else said
    return {
        "doc_id": doc_id,
        "target": answer,
        "filtered_resps": [[said]],
        "doc_hash": CONSTANT,
        "input": f"Which? {doc_id}\nA. a red cat\nB. a blue dog\nC. a tree\nD. a house",
        "token_counts": [{"output_tokens": 3 + doc_id}],
        "mmmu_acc": verdict,
        "mmmu_acc_pass_at_k": verdict,
        **more,
    }


def write(folder, model, task, rows, *, date="20250101_120000", packed=False):
    path = folder / model / f"{date}_samples_{task}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if packed:
        path = path.with_name(f"{path.name}.gz")
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def scores(records):
    table = records.table
    return {
        (model, item): None if math.isnan(score) else score
        for model, item, score in zip(table["model"], table["item_id"], table["score"], strict=True)
    }


def kinds(error):
    return [problem.kind for problem in error.value.problems]


def test_dict_metrics_nested_answers_and_ids(tmp_path):
    rows = [mmmu(2, "C", "C"), mmmu(0, "B", "A"), mmmu(1, "7", "7", kind="open"), mmmu(3, "D", "D")]
    rows[2]["mmmu_acc"]["parsed_pred"] = [["the sum", 7.0]]
    (tmp_path / "llava-7b").mkdir()
    (tmp_path / "llava-7b" / "20250101_120000_results.json").write_text(
        json.dumps({"results": {"mmmu_val": {"mmmu_acc,none": 0.75}}, "n-samples": {"mmmu_val": {"effective": 5}}})
    )
    write(tmp_path, "llava-7b", "mmmu_val", rows)
    assert recognises(tmp_path)
    records = read_lmms_eval([tmp_path])
    table = records.table
    assert table["item_id"].tolist() == [f"validation_Art_{i}" for i in range(4)]  # by doc_id, not by line
    assert table["score"].tolist() == [0.0, 1.0, 1.0, 1.0]
    assert set(table["model"]) == {"llava-7b"}
    assert set(table["benchmark"]) == {"mmmu_val"}
    assert set(table["modality"]) == {"image"}
    assert table["response"].tolist()[:1] == ["A"]
    assert table["source"][0].endswith("samples_mmmu_val.jsonl:2")
    assert records.items["sub_task"].tolist() == ["Art"] * 4
    assert records.items["answer"].tolist() == ["B", "7", "C", "D"]
    assert any("the metrics' 'id'" in note for note in records.notes)
    assert any("mmmu_acc; left out: mmmu_acc_pass_at_k" in note for note in records.notes)
    assert any("holds 4 samples" in note and "5" in note for note in records.notes)
    assert not any(CONSTANT in str(value) for value in table.to_numpy().ravel())


@pytest.mark.parametrize(
    ("resps", "said"),
    [
        ("B", "B"),
        (["B"], "B"),
        ([["B"]], "B"),
        ([[], ["B", "C"]], "B"),
        ([[-1.5, False]], None),
        ([], None),
        (None, None),
    ],
)
def test_nested_filtered_resps(resps, said):
    assert answer_of({"filtered_resps": resps}) == said


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (1, 1.0),
        (True, 1.0),
        (0.25, 0.25),
        (float("nan"), None),
        ("yes", None),
        ({"id": "x", "gt_content": "A", "pred_parsed": "B", "is_correct": False}, 0.0),
        ({"index": 0, "pair_index": 0, "pred_letter": "A", "gt": "A", "is_correct": True}, 1.0),
        ({"question_id": "7", "score": 0.6, "prediction": "cat", "ground_truth": "dog"}, 0.6),
        ({"score": ["1"], "pred": ["it is B"], "answer": "B"}, 1.0),
        ({"answer": "B", "parsed_pred": ["A", "B"]}, 1.0),  # several tries: one is enough
        ({"answer": "B", "parsed_pred": "C"}, 0.0),
        ({"answer": ["2.5", "5/2"], "parsed_pred": [[2.5]], "question_type": "open"}, 1.0),
        ({"answer": "A tower", "parsed_pred": [["it is a tower"]], "question_type": "open"}, 1.0),
        ({"answer": "3", "parsed_pred": [["13", 13.0]], "question_type": "open"}, 0.0),
        ({"question": "x", "prediction": "a long free text", "answer": "cat"}, None),  # nothing that may be compared
        ({"score": "n/a", "parsed_pred": "A", "answer": "A"}, None),
        ([1, 0], None),
    ],
)
def test_scores_of_metrics(metric, score):
    assert score_of(metric)[0] == score


def test_appended_file_and_interleaved_ranks(tmp_path):
    rows = [mmmu(i, "A", "ABCD"[i % 4]) for i in range(8)]
    again = [json.loads(json.dumps(row)) for row in rows[::2] + rows[1::2]]
    for row in again:  # bookkeeping may differ
        row["token_counts"] = None
    write(tmp_path, "m", "mmmu_val", rows[::2] + rows[1::2] + again)
    records = read_lmms_eval([tmp_path])
    assert len(records.table) == 16
    assert list(dict.fromkeys(records.table["item_id"])) == [f"validation_Art_{i}" for i in range(8)]
    assert scores(records) == {("m", f"validation_Art_{i}"): float(i % 4 == 0) for i in range(8)}
    once = tmp_path / "once"
    random.Random(0).shuffle(rows)
    write(once, "m", "mmmu_val", rows, packed=True)
    assert scores(read_lmms_eval([once])) == scores(records)


def test_differing_rows_for_one_id_are_all_listed(tmp_path):
    rows = [mmmu(i, "A", "A") for i in range(4)]
    changed = [mmmu(1, "A", "B"), mmmu(2, "A", "A", said="A. a red cat")]  # one in the score, one in the words
    write(tmp_path, "m", "mmmu_val", rows + changed)
    with pytest.raises(InvalidDataError) as error:
        read_lmms_eval([tmp_path])
    assert kinds(error) == ["differing-rows"] * 2
    assert [problem.where.rpartition(":")[2] for problem in error.value.problems] == ["5", "6"]
    other = tmp_path / "two-runs"
    write(other, "m", "mmmu_val", rows)
    write(other, "m", "mmmu_val", [mmmu(0, "A", "C")], date="20250202_120000")
    with pytest.raises(InvalidDataError, match="another row for item 'validation_Art_0' of m"):
        read_lmms_eval([other])


def plain(doc_id, text, target, **more):
    return {
        "doc_id": doc_id,
        "input": text,
        "target": target,
        "filtered_resps": [target],
        "doc_hash": CONSTANT,
        "exact_match": 1.0,
        **more,
    }


def test_a_digest_where_the_metrics_have_no_id(tmp_path):
    write(tmp_path, "m", "vqa", [plain(0, "What is it?", "cat"), plain(1, "What is it?", "dog")])
    records = read_lmms_eval([tmp_path])
    expected = [hashlib.sha256(canonical_json(["What is it?", t])).hexdigest()[:32] for t in ("cat", "dog")]
    assert records.table["item_id"].tolist() == expected
    assert any("digest of input and target" in note for note in records.notes)


def test_samples_that_cannot_be_told_apart(tmp_path):
    rows = [plain(0, "What is it?", "cat"), plain(1, "What is it?", "cat"), plain(2, "", "cat"), plain(3, "Why?", "so")]
    write(tmp_path, "m", "vqa", rows)
    with pytest.raises(InvalidDataError) as error:
        read_lmms_eval([tmp_path])
    assert sorted(kinds(error)) == ["ambiguous-id", "no-id"]


def test_an_id_must_be_every_rows_own(tmp_path):
    """A constant id, one that pairs share, and one that some rows lack are passed over."""
    rows = [
        plain(i, f"q{i}", "A", verdict={"id": "same", "idx": i // 2, "question_id": f"q-{i}", "is_correct": True})
        for i in range(4)
    ]
    for row in rows[1:]:
        row["verdict"]["index"] = row["doc_id"]
    write(tmp_path, "m", "t", rows)
    assert read_lmms_eval([tmp_path]).table["item_id"].tolist() == ["q-0", "q-1", "q-2", "q-3"]


def test_one_kind_of_id_for_all_logs_of_a_task(tmp_path):
    write(tmp_path, "a", "t", [plain(0, "q0", "A", v={"id": "x0", "index": 7, "is_correct": True})])
    write(tmp_path, "b", "t", [plain(0, "q0", "A", v={"index": 7, "is_correct": False})])
    records = read_lmms_eval([tmp_path])
    assert scores(records) == {("a", "7"): 1.0, ("b", "7"): 1.0}  # `exact_match` stands before `v`
    assert records.items["item_id"].tolist() == ["7"]


def test_prompts_that_differ_between_models_are_not_the_items_question(tmp_path):
    write(tmp_path, "a", "mmmu_val", [mmmu(0, "A", "A"), mmmu(1, "A", "B")])
    other = [mmmu(0, "A", "A"), mmmu(1, "A", "B")]
    other[0]["input"] += "\nAnswer with the letter."
    write(tmp_path, "b", "mmmu_val", other)
    questions = read_lmms_eval([tmp_path]).items["question"].tolist()
    assert questions[0] is None
    assert questions[1].startswith("Which? 1")


@pytest.mark.parametrize(
    ("parsed", "said", "drawn"),
    [
        ("B", "I cannot see it", True),
        ("B", "", True),
        ("B", "I think that a blue dog is the one that is meant", False),  # by the option's text
        ("B", "The blue dog, I think, is the one that is meant here", True),  # not its very words
        ("B", "a Blue Dog", False),
        ("B", "blue dog", False),
        ("B", "(B)", False),
        ("B", "b", False),
        ("B", "Answer:B", False),
        ("B", "It would be hard to say which of these four options is right", True),
        ("A", "a tree", False),  # `a` may have been taken for the letter
        ("BC", "I cannot see it", False),
        (None, "I cannot see it", False),
    ],
)
def test_random_options_are_told_where_they_can_be(parsed, said, drawn):
    row = mmmu(0, "B", parsed, said=said)
    assert drawn_at_random(row, row["mmmu_acc"]) is drawn
    if drawn:
        del row["input"]  # what the options say is not known, and a long answer may have held it
        assert drawn_at_random(row, row["mmmu_acc"]) is (len(said.split()) <= 5)


def test_random_rows_are_missing_with_a_reason(tmp_path):
    write(tmp_path, "m", "mmmu_val", [mmmu(0, "B", "B", said="no idea"), mmmu(1, "B", "B")])
    table = read_lmms_eval([tmp_path]).table
    assert math.isnan(table["score"][0])
    assert table["invalid"].tolist() == ["random-option", None]
    assert table["score"][1] == 1.0


def test_metrics_that_share_the_rows(tmp_path):
    rows = [
        {"doc_id": i, "target": "Yes", "filtered_resps": "Yes", "doc_hash": CONSTANT, "input": f"q{i}"}
        for i in range(4)
    ]
    for i in (0, 1):
        rows[i]["mme_perception_score"] = {"question_id": f"p{i}", "category": "OCR", "score": 1.0}
    rows[2]["mme_cognition_score"] = {"question_id": "c2", "category": "code", "score": 0.0}
    rows[3]["mme_cognition_score"] = {"question_id": "c3", "category": "code", "score": None}
    write(tmp_path, "m", "mme", rows)
    records = read_lmms_eval([tmp_path])
    assert scores(records) == {("m", "p0"): 1.0, ("m", "p1"): 1.0, ("m", "c2"): 0.0, ("m", "c3"): None}
    assert records.table["invalid"].tolist()[3] == "no-score"
    assert records.items["category"].tolist() == ["OCR", "OCR", "code", "code"]


def test_logs_without_scores_are_left_out_and_said(tmp_path):
    write(
        tmp_path, "m", "mmmu_test", [{"doc_id": 0, "input": "q", "target": "", "submission": {"id": "x", "pred": "A"}}]
    )
    write(tmp_path, "m", "vqa", [plain(0, "q", "a")])
    write(tmp_path, "m", "empty", [])
    records = read_lmms_eval([tmp_path])
    assert set(records.table["benchmark"]) == {"vqa"}
    assert any("mmmu_test" in note and "submission" in note and "1 samples" in note for note in records.notes)
    assert any("samples_empty" in note for note in records.notes)
    with pytest.raises(InvalidDataError, match="no sample with a score"):
        read_lmms_eval([tmp_path / "m" / "20250101_120000_samples_mmmu_test.jsonl"])


def test_a_metric_that_is_better_when_lower_is_refused(tmp_path):
    write(tmp_path, "m", "asr", [plain(0, "q", "a")])
    better = {"higher_is_better": {"asr": {"exact_match": False}}}
    (tmp_path / "m" / "20250101_120000_results.json").write_text(json.dumps(better))
    with pytest.raises(InvalidDataError, match="better when it is lower"):
        read_lmms_eval([tmp_path])


def test_everything_wrong_is_listed(tmp_path):
    first = write(tmp_path, "m", "a", [plain(0, "q", "a")])
    first.write_text(first.read_text() + '{"doc_id": 1, "inp\n[1]\n')
    (tmp_path / "notes.txt").write_text("x")
    broken = tmp_path / "m" / "20250101_120000_samples_b.jsonl.gz"
    broken.write_bytes(gzip.compress(b'{"doc_id": 0}\n')[:-9])
    with pytest.raises(InvalidDataError) as error:
        read_lmms_eval([first, broken, tmp_path / "notes.txt"])
    assert sorted(kinds(error)) == ["not-a-log", "not-an-object", "not-json", "unreadable"]
    assert not recognises(tmp_path / "notes.txt")


def test_byte_order_mark_and_a_file_given_twice(tmp_path):
    path = write(tmp_path, "m", "a", [plain(0, "q", "a")])
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_lmms_eval([path, tmp_path]).table) == 1


@pytest.mark.parametrize(
    ("parsed", "more", "reason"),
    [
        ("Z", {}, "option-z"),
        ("(Z)", {}, "option-z"),
        ("", {}, "unparsed"),
        (" ", {}, "unparsed"),
        ("B", {}, None),
        ("Z", {"gt_content": "Z"}, None),
        ("Z", {"gt_content": "(z)"}, None),
        ("Z", {"question_type": "open"}, None),
        ("Z", {"input": "Which?\nA. cat\nZ. dog"}, None),
        ("Z", {"input": "Which?\nA. cat\nB. dog"}, "option-z"),
    ],
)
def test_nothing_parsed_is_missing(tmp_path, parsed, more, reason):
    metric = {"id": "x", "gt_content": "A", "pred_parsed": parsed, "is_correct": False}
    metric |= {name: value for name, value in more.items() if name != "input"}
    row = {"doc_id": 0, "target": "A", "filtered_resps": ["hm (B)"], "blink_acc": metric}
    row |= {name: value for name, value in more.items() if name == "input"}
    assert unparsed(row, metric) == reason
    write(tmp_path, "m", "blink", [row])
    table = read_lmms_eval([tmp_path]).table
    if reason is not None:
        assert table["invalid"].tolist() == [reason]
        assert math.isnan(table["score"][0])
    else:
        assert table["invalid"].tolist()[0] in (None, "random-option")
