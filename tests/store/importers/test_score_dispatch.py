"""Which reader gets which path, and logs of harnesses all the way into a panel."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from optotype.schemas.errors import InvalidDataError
from optotype.store.importers.scores import read_records
from optotype.store.panels import open_panel
from optotype.store.panels.importing import import_panel


def lmms(folder: Path, model: str, answers: str) -> Path:
    rows = [
        {
            "doc_id": place,
            "target": "A",
            "filtered_resps": [answer],
            "doc_hash": "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
            "mmmu_acc": {"id": f"validation_{place}", "answer": "A", "parsed_pred": answer},
        }
        for place, answer in enumerate(answers)
    ]
    path = folder / model / "20260101_000000_samples_mmmu_val.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def vlmeval(folder: Path, model: str, hits: list[int], circular: bool = False) -> Path:
    index = [place + 1_000_000 * turn for turn in range(2 if circular else 1) for place in range(len(hits))]
    frame = pd.DataFrame(
        {
            "index": index,
            "question": "q",
            "answer": "A",
            "prediction": "A",
            "hit": [hits[place % 1_000_000] for place in index],
            "log": "",
        }
    )
    path = folder / model / "T20260101" / f"{model}_MMStar_exact_matching_result.xlsx"
    path.parent.mkdir(parents=True)
    frame.to_excel(path, index=False)
    (path.parent / f"{path.stem}.pkl").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    return path


def test_a_panel_of_both_harnesses_and_a_table(tmp_path: Path) -> None:
    lmms(tmp_path / "lmms", "org__one", "ABA")
    lmms(tmp_path / "lmms", "org__two", "BBA")
    vlmeval(tmp_path / "vlm", "three", [1, 0])
    (tmp_path / "more.csv").write_text("benchmark,item_id,model,score\nMMStar,0,two,1\n", encoding="utf-8")
    row = import_panel(tmp_path / "p", [tmp_path / "lmms", tmp_path / "vlm", tmp_path / "more.csv"])
    assert (row["benchmarks"], row["items"], row["models"], row["scores"]) == (2, 5, 4, 9)
    shown = open_panel(tmp_path / "p")
    rows = {name: shown["score"].to_numpy()[place] for place, name in enumerate(shown["model"].to_numpy())}
    nan = np.nan
    np.testing.assert_array_equal(rows["org__one"], [1, 0, 1, nan, nan])
    np.testing.assert_array_equal(rows["three"], [nan, nan, nan, 1, 0])
    assert shown["answer"].to_numpy().tolist() == ["A"] * 5
    again = import_panel(tmp_path / "p", [tmp_path / "lmms"])
    assert (again["new_scores"], again["repeats"], again["parts"]) == (0, 6, 1)


def test_logs_of_blind_runs(tmp_path: Path) -> None:
    import_panel(tmp_path / "p", [lmms(tmp_path / "a", "one", "AB")], blind=[lmms(tmp_path / "b", "one", "BB")])
    shown = open_panel(tmp_path / "p")
    assert shown["score"].to_numpy().tolist() == [[1, 0]]
    assert shown["blind"].to_numpy().tolist() == [[0, 0]]


def test_an_answer_that_matches_is_missing_in_logs_too(tmp_path: Path) -> None:
    row = import_panel(tmp_path / "p", [lmms(tmp_path, "one", "ABA")], invalid_response="^B$")
    assert row["invalid"] == {"mmmu_val": {"one": {"response matches ^B$": 1}}}
    assert (row["scores"], row["missing"]) == (2, 1)


def test_problems_of_all_readers_come_together(tmp_path: Path) -> None:
    log = lmms(tmp_path / "lmms", "one", "AB")
    log.write_text(log.read_text().replace('"doc_id": 1', '"doc_id": 0').replace("validation_1", "validation_0"))
    (tmp_path / "bad.csv").write_text("benchmark,item_id,model,score\nb,1,m,x\n", encoding="utf-8")
    with pytest.raises(InvalidDataError) as caught:
        read_records([log, tmp_path / "bad.csv"])
    kinds = [problem.kind for problem in caught.value.problems]
    assert len(kinds) >= 2
    assert kinds[-1] == "not-a-number"


def test_logs_that_say_other_things_of_an_item_are_counted(tmp_path: Path) -> None:
    one, two = lmms(tmp_path / "1", "one", "A"), lmms(tmp_path / "2", "two", "A")
    two.write_text(two.read_text().replace('"answer": "A"', '"answer": "B"').replace('"target": "A"', '"target": "B"'))
    import_panel(tmp_path / "p", [one])
    row = import_panel(tmp_path / "p", [two])
    assert any(note.startswith("1 times a log says another answer") for note in row["notes"])
    assert open_panel(tmp_path / "p")["answer"].to_numpy().tolist() == ["A"]


def test_circular_scores_are_marked_and_never_mixed(tmp_path: Path) -> None:
    path = vlmeval(tmp_path / "vlm", "three", [1, 0], circular=True)
    path = path.rename(path.with_name(path.name.replace("MMStar", "MMBench_DEV_EN")))
    import_panel(tmp_path / "p", [path])
    shown = open_panel(tmp_path / "p")
    assert shown["score"].to_numpy().tolist() == [[1, 0]]
    (benchmark,) = set(shown["benchmark"].to_numpy())
    assert shown.attrs["circular"] == [benchmark]
    plain = tmp_path / "plain.csv"
    plain.write_text(f"benchmark,item_id,model,score\n{benchmark},7,m,1\n", encoding="utf-8")
    for folder, paths in (("p", [plain]), ("q", [path, plain])):
        with pytest.raises(InvalidDataError) as caught:
            import_panel(tmp_path / folder, paths)
        assert [problem.kind for problem in caught.value.problems] == ["mixed-circular"]
