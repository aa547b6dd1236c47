"""VLMEvalKit result files, each trap of the format in a small hand-made file."""

import csv
import json
import math
import os
import pickle

import openpyxl
import pytest

from optotype.schemas.errors import InvalidDataError
from optotype.store.importers.scores.vlmevalkit import read_vlmevalkit, recognises
from optotype.store.importers.scores.vlmevalkit_rows import Judgement, grouped, judge


def question(index, answer="B", prediction="B", **more):
    row = {"index": index, "question": f"Which? {index}", "A": "cat", "B": "dog", "C": "cow", "D": "owl"}
    return {**row, "answer": answer, "category": "animals", "l2-category": "pets", "prediction": prediction, **more}


def save(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        book.active.append(columns)
        for row in rows:
            book.active.append([row.get(name) for name in columns])
        for line in book.active.iter_rows(min_row=2):
            for cell in line:
                if cell.data_type == "f":
                    cell.data_type = "s"  # as pandas writes a text that begins with =
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def scores(records):
    table = records.table
    return {
        (model, item): None if math.isnan(score) else score
        for model, item, score in zip(table["model"], table["item_id"], table["score"], strict=True)
    }


def kinds(error):
    return [problem.kind for problem in error.value.problems]


def judged(index, hit, log="Match Log: B. ", **more):
    return question(index, hit=hit, log=log, **more)


def test_judged_results_beside_predictions(tmp_path):
    """The verdicts are taken, predictions and means are not; what is invalid has no score, whatever `hit` is."""
    run = tmp_path / "Qwen2-VL-2B" / "T20250101-120000"
    rows = [
        judged(1, 1),
        judged(2, 0, "Match Log: C. ", prediction="C"),
        judged(3, 0, prediction="Failed to obtain answer via API."),
        judged(4, 0, "Match Log: Z. ", prediction="I cannot say"),
        judged(5, 1, "Match Log: Failed to predict, thus randomly generate one. . "),
        judged(6, 0, "Match Log: Failed in Prefetch, no GPT-based answer matching under `exact_matching` policy.. "),
        judged(7, 0, "Match Log: Failed to obtain answer via API. "),
        judged(8, None),
        judged(9, 0, "Match Log: C. ", prediction="=1+1"),
    ]
    save(run / "Qwen2-VL-2B_MMStar.xlsx", [question(row["index"]) for row in rows])
    save(run / "Qwen2-VL-2B_MMStar_gpt-4o-mini_result.xlsx", rows)
    save(run / "Qwen2-VL-2B_MMStar_acc.csv", [{"split": "none", "Overall": 0.3}])
    (run / "status.json").write_text("{}")
    assert recognises(tmp_path)
    records = read_vlmevalkit([tmp_path])
    table = records.table
    assert set(table["benchmark"]) == {"MMStar"}
    assert set(table["model"]) == {"Qwen2-VL-2B"}
    assert table["item_id"].tolist() == [str(i) for i in range(1, 10)]
    assert list(scores(records).values()) == [1.0, 0.0, None, None, None, None, None, None, 0.0]
    assert table["invalid"].tolist() == [
        *(None, None, "failed-to-answer", "option-z", "random-option", "option-z", "judge-failed", "no-score", None)
    ]
    assert table["response"].tolist()[-1] == "=1+1"
    assert table["source"][0].endswith("result.xlsx:2")
    assert records.items["n_choices"].tolist() == ["4"] * 9
    assert records.items["sub_task"].tolist() == ["pets"] * 9
    assert records.circular == frozenset()


@pytest.mark.parametrize("suffix", [".xlsx", ".tsv", ".json", ".csv"])
def test_predictions_alone(tmp_path, suffix):
    """A letter that stands alone is compared with the answer; all else is missing."""
    rows = [
        question("001", prediction="B"),
        question("002", prediction=" (B). "),
        question("003", prediction="A."),
        question("004", prediction="B is right"),
        question("005", prediction="E"),
        question("006", prediction="Z"),
        question("007", prediction="Failed to obtain answer via API."),
        question("008", prediction=""),
        question("009", answer="", prediction="B"),
    ]
    for row in rows:
        if suffix == ".json" and not row["answer"]:
            row["answer"] = float("nan")
    save(tmp_path / "m" / f"m_DS_v1{suffix}", rows)
    records = read_vlmevalkit([tmp_path])
    assert list(scores(records).values()) == [1.0, 1.0, 0.0, None, None, None, None, None, None]
    assert records.table["invalid"].tolist()[3:] == [
        *("unparsed", "unparsed", "option-z", "failed-to-answer", "unparsed", "no-answer")
    ]
    assert records.table["item_id"].tolist()[:2] == ["001", "002"]  # ids are text
    assert set(records.table["benchmark"]) == {"DS_v1"}


def test_links_one_level_up_count_once(tmp_path):
    run = tmp_path / "m" / "T20250101_Gabc123"
    target = save(run / "m_DS.xlsx", [question(1), question(2, prediction="A")])
    (tmp_path / "m" / "m_DS.xlsx").symlink_to(target)
    records = read_vlmevalkit([tmp_path])
    assert scores(records) == {("m", "1"): 1.0, ("m", "2"): 0.0}
    assert len(records.table) == 2
    (tmp_path / "m" / "m_DS.xlsx").unlink()
    (tmp_path / "m" / "m_DS.xlsx").write_bytes(target.read_bytes())  # a copy that follows links
    assert scores(read_vlmevalkit([tmp_path])) == scores(records)


def test_runs_that_disagree_are_refused(tmp_path):
    save(tmp_path / "m" / "T20250101" / "m_DS.tsv", [question(1), question(2)])
    save(tmp_path / "m" / "T20250202" / "m_DS.tsv", [question(1), question(2, prediction="A"), question(3)])
    with pytest.raises(InvalidDataError, match="another row for item '2' of m") as error:
        read_vlmevalkit([tmp_path])
    assert kinds(error) == ["differing-rows"]


def test_two_judges_that_disagree_are_refused(tmp_path):
    save(tmp_path / "m" / "m_DS.xlsx", [question(1)])
    save(tmp_path / "m" / "m_DS_gpt-4o_result.xlsx", [judged(1, 1)])
    save(tmp_path / "m" / "m_DS_exact_matching_result.xlsx", [judged(1, 0)])
    with pytest.raises(InvalidDataError) as error:
        read_vlmevalkit([tmp_path])
    assert kinds(error) == ["differing-rows"]


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_pickles_are_never_opened(tmp_path):
    mark = tmp_path / "exploded"
    save(tmp_path / "m" / "m_DS_gpt-4o_result.xlsx", [judged(1, 1)])
    bomb = tmp_path / "m" / "m_DS_gpt-4o_result.pkl"
    bomb.write_bytes(pickle.dumps(Bomb(str(mark))))
    os.mkfifo(tmp_path / "m" / "m_OTHER_gpt-4o.pkl")  # whoever opens it waits for ever
    assert scores(read_vlmevalkit([tmp_path])) == {("m", "1"): 1.0}
    with pytest.raises(InvalidDataError, match="never opened"):
        read_vlmevalkit([bomb])
    assert not mark.exists()
    pickle.loads(bomb.read_bytes())  # the bomb is live
    assert mark.exists()


def rotations(index, predictions, **more):
    """The question and its rotations by one option each; `B` is right first, then `A`, `D`, `C`."""
    return [
        question(index + i * 1_000_000, answer="BADC"[i], prediction=said, **more) for i, said in enumerate(predictions)
    ]


def test_circular_groups(tmp_path):
    rows = [
        *rotations(7, "BADC"),
        *rotations(8, "BABC"),
        *rotations(9, ["B", "A", "D", "Failed to obtain answer via API."]),
        *rotations(10, ["B", "C", "D", "Failed to obtain answer via API."]),
        *rotations(11, "BAD"),
    ]
    save(tmp_path / "m" / "m_MMBench_DEV_EN.xlsx", rows[::-1])
    records = read_vlmevalkit([tmp_path])
    assert {item: score for (_, item), score in scores(records).items()} == {
        "7": 1.0,
        "8": 0.0,
        "9": None,
        "10": 0.0,  # one rotation is wrong, whatever became of the other
        "11": None,  # a rotation was never asked
    }
    reasons = dict(zip(records.table["item_id"], records.table["invalid"], strict=True))
    assert (reasons["9"], reasons["11"], reasons["10"]) == ("failed-to-answer", "incomplete-group", None)
    assert records.circular == {"MMBench_DEV_EN"}
    assert set(records.items["answer"]) == {"B"}  # of the question as it is


def slow_group(indices, hits):
    return {
        i % 10**6: float(all(h for j, h in zip(indices, hits, strict=True) if j % 10**6 == i % 10**6)) for i in indices
    }


def test_circular_groups_agree_with_the_slow_rule(tmp_path):
    """Verdicts on every rotation, in any order."""
    import numpy as np

    rng = np.random.default_rng(0)
    indices = [i + k * 10**6 for i in range(1, 40) for k in range(4)]
    hits = (rng.random(len(indices)) < 0.8).astype(int).tolist()
    order = rng.permutation(len(indices))
    save(tmp_path / "m" / "m_CCBench_x_result.tsv", [judged(indices[i], hits[i]) for i in order])
    records = read_vlmevalkit([tmp_path])
    assert {int(item): score for (_, item), score in scores(records).items()} == slow_group(indices, hits)
    assert 0 < records.table["score"].mean() < 1


def test_judged_circular_sets_hold_one_row_a_group(tmp_path):
    rows = [
        judged(1, 1, "Succeed During Pre-fetching"),
        judged(2, 0, "Failed in Prefetching Rolling 1: Answer is A, Prediction is C, Pre-fetched is C. "),
        judged(3, 0, "Failed in Prefetching Rolling 0: Answer is A, Prediction is sorry, Pre-fetched is Z. "),
    ]
    path = save(tmp_path / "m" / "m_MMBench_DEV_EN_gpt-4o_result.xlsx", rows)
    records = read_vlmevalkit([path])
    assert list(scores(records).values()) == [1.0, 0.0, None]
    assert records.circular == {"MMBench_DEV_EN"}
    save(tmp_path / "n" / "n_MMBench_DEV_EN_gpt-4o_result.xlsx", [judged(1, 1)])  # logs of single matches: vanilla
    with pytest.raises(InvalidDataError) as error:
        read_vlmevalkit([tmp_path])
    assert kinds(error) == ["mixed-circular"]


def test_large_indices_of_their_own_are_no_rotations(tmp_path):
    save(tmp_path / "m" / "m_DS.tsv", [question(1), question(1_000_001), question(5_000_777)])
    records = read_vlmevalkit([tmp_path])
    assert records.table["item_id"].tolist() == ["1", "1000001", "5000777"]
    assert records.circular == frozenset()


def test_vqa_scores(tmp_path):
    row = {"question": "How many?", "answer": "3", "prediction": "3 birds"}
    save(tmp_path / "m" / "m_VQA.xlsx", [{"index": i, **row} for i in range(2)])
    save(
        tmp_path / "m" / "m_VQA_score.csv",
        [{"index": 0, **row, "eval_score": 0.6}, {"index": 1, **row, "eval_score": "nan"}],
    )
    save(
        tmp_path / "m" / "m_Judge_gpt-4-turbo.xlsx",
        [{"index": 0, **row, "log": "Succeed", "score": 0.5}, {"index": 1, **row, "log": "All 5 retries failed.\n"}],
    )
    save(
        tmp_path / "m" / "m_MathVista_MINI_gpt-4-turbo.xlsx",
        [
            {"index": 0, **row, "res": "3.0", "log": "Prefetch succeed"},
            {"index": 1, **row, "res": "4", "log": "Prefetch succeed"},
            {"index": 2, **row, "log": "All 5 retries failed.\n"},
            {**question(3, answer="dog", prediction="a dog"), "res": "B"},
            {**question(4, answer="dog", prediction="a cat"), "res": "A"},
            {**question(5, answer="B", prediction="dog"), "res": "Dog"},
            {**question(6, answer="B", prediction="?"), "res": "Z"},
        ],
    )
    table = read_vlmevalkit([tmp_path]).table
    found = {
        name: [None if math.isnan(score) else score for score in rows["score"]]
        for name, rows in table.groupby("benchmark")
    }
    assert found == {
        "VQA": [0.6, None],
        "Judge": [0.5, None],
        "MathVista_MINI": [1.0, 0.0, None, 1.0, 0.0, 1.0, None],
    }
    assert table["invalid"].tolist().count("judge-failed") == 2


def test_a_score_column_of_the_dataset_is_no_verdict(tmp_path):
    save(tmp_path / "m" / "m_DS.tsv", [question(1, score=0.1), question(2, prediction="A", score=0.9)])
    assert list(scores(read_vlmevalkit([tmp_path])).values()) == [1.0, 0.0]


def test_files_without_any_score_are_left_out_and_said(tmp_path):
    save(tmp_path / "m" / "m_VQA.xlsx", [{"index": 0, "question": "q", "answer": "x", "prediction": "x"}])
    test = {name: value for name, value in question(1).items() if name != "answer"}
    save(tmp_path / "m" / "m_MMBench_TEST.xlsx", [test])
    save(tmp_path / "m" / "m_DS.xlsx", [question(1)])
    records = read_vlmevalkit([tmp_path])
    assert set(records.table["benchmark"]) == {"DS"}
    assert any("VQA" in note and "not-judged" in note for note in records.notes)
    assert any("MMBench_TEST" in note and "no-answer" in note for note in records.notes)
    with pytest.raises(InvalidDataError, match="no row with a score"):
        read_vlmevalkit([tmp_path / "m" / "m_VQA.xlsx"])


def test_everything_wrong_is_listed(tmp_path):
    save(tmp_path / "somewhere" / "m_DS.tsv", [question(1)])
    save(tmp_path / "m" / "m_DS.tsv", [question(1), question("")])
    bad = tmp_path / "m" / "m_OTHER.json"
    bad.write_text('[{"index": 1, "prediction": "B"}, ')
    (tmp_path / "m" / "m_BROKEN.xlsx").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(InvalidDataError) as error:
        read_vlmevalkit([tmp_path, tmp_path / "notes.txt"])
    assert sorted(kinds(error)) == ["no-id", "not-a-table", "unknown-model", "unreadable"]
    assert not recognises(tmp_path / "m" / "m_BROKEN.xlsx")


def test_names_say_which_dataset_it_is(tmp_path):
    """A dataset's name may hold underscores and be the beginning of another's."""
    for name in ("MMMU_DEV", "MMMU_DEV_VAL"):
        save(tmp_path / "my_model" / f"my_model_{name}.tsv", [question(1)])
        save(tmp_path / "my_model" / f"my_model_{name}_llama_31_result.tsv", [judged(1, 0, "Match Log: C. ")])
    alone = save(tmp_path / "other" / "other_MMMU_DEV_VAL_exact_matching_result.tsv", [judged(1, 1)])
    records = read_vlmevalkit([tmp_path])
    assert set(zip(records.table["model"], records.table["benchmark"], strict=True)) == {
        ("my_model", "MMMU_DEV"),
        ("my_model", "MMMU_DEV_VAL"),
        ("other", "MMMU_DEV_VAL"),
    }
    assert set(read_vlmevalkit([alone]).table["benchmark"]) == {"MMMU_DEV_VAL"}


def test_units_of_judging():
    assert judge({"prediction": "B", "answer": "B"}, None) == Judgement(None, "not-judged", "B")
    assert judge({"prediction": "x", "opt": "(Z)", "hit": "0"}, "hit").invalid == "option-z"
    assert judge({"prediction": "x", "hit": "True"}, "hit").score == 1.0
    right, wrong, lost = Judgement(1.0, None, "A"), Judgement(0.0, None, "B"), Judgement(None, "option-z", None)
    assert grouped([right, right], 2).score == 1.0
    assert grouped([right, right], 3) == Judgement(None, "incomplete-group", "A")
    assert grouped([right, lost], 2) == Judgement(None, "option-z", "A")
    assert grouped([lost, wrong], 4).score == 0.0


def test_rotations_are_seen_file_by_file(tmp_path):
    """A set's name makes nothing circular: a file without rotations is vanilla, and the two are not mixed."""
    rows = [{**row, "hit": 1, "log": "ok"} for row in rotations(1, "BADC")]
    rotated = save(tmp_path / "mX" / "mX_MMBench_DEV_EN_exact_matching_result.xlsx", rows)
    plain = save(tmp_path / "mY" / "mY_MMBench_DEV_EN_exact_matching_result.xlsx", [judged(1, 1, "ok")])
    assert read_vlmevalkit([rotated]).circular == {"MMBench_DEV_EN"}
    assert read_vlmevalkit([plain]).circular == frozenset()
    with pytest.raises(InvalidDataError) as error:
        read_vlmevalkit([tmp_path])
    (problem,) = error.value.problems
    assert problem.kind == "mixed-circular"
    assert f"circular: mX ({rotated}); vanilla: mY ({plain})" in problem.message


def test_verdicts_on_groups_beside_their_rotations(tmp_path):
    """One row a group is circular where the predictions that it judges hold rotations."""
    save(tmp_path / "m" / "m_MMBench_DEV_EN.xlsx", rotations(1, "BADC"))
    save(tmp_path / "m" / "m_MMBench_DEV_EN_gpt-4o_result.xlsx", [judged(1, 1, "ok")])
    assert read_vlmevalkit([tmp_path]).circular == {"MMBench_DEV_EN"}


@pytest.mark.parametrize(
    ("name", "log", "circular"),
    [
        ("MMBench_DEV_EN", "Rolling 0 Matched.\n", True),
        ("MMBench_DEV_EN", "Failed in Rolling 1: Answer is A", True),
        ("MMBench_DEV_EN", "", False),
        ("DS", "Succeed During Pre-fetching", False),  # old versions judged single questions so
        ("DS", "Rolling 0 Matched.\nRolling 1 Matched.", True),
        ("DS", "Failed in Prefetching Rolling 1: Answer is A", True),
    ],
)
def test_logs_that_show_groups(tmp_path, name, log, circular):
    path = save(tmp_path / "m" / f"m_{name}_gpt-4o_result.xlsx", [judged(1, 1, log)])
    assert bool(read_vlmevalkit([path]).circular) is circular


def test_scores_without_the_predictions(tmp_path):
    path = save(tmp_path / "m" / "m_TextVQA_VAL_score.csv", [{"index": i, "eval_score": i / 2} for i in range(3)])
    assert recognises(path)
    records = read_vlmevalkit([path])
    assert scores(records) == {("m", "0"): 0.0, ("m", "1"): 0.5, ("m", "2"): 1.0}
    assert set(records.table["benchmark"]) == {"TextVQA_VAL"}
