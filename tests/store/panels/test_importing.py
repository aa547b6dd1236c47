"""Scores into a panel: what is stored, what is refused, and that nothing which stands is touched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from optotype.schemas.errors import ConflictError, FormatError, IntegrityError, InvalidDataError, NotFoundError
from optotype.store import shards
from optotype.store.manifest import read_manifest, verify
from optotype.store.panels import importing, open_panel
from optotype.store.panels.importing import import_panel
from optotype.store.panels.parts import document_digest


def table(path: Path, rows: list[tuple[Any, ...]], columns: str = "benchmark item_id model score") -> Path:
    pd.DataFrame(rows, columns=columns.split()).to_csv(path, index=False)
    return path


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def matrix(folder: Path, name: str = "score") -> pd.DataFrame:
    panel = open_panel(folder)
    rows = "blind_model" if name == "blind" else "model"
    index = pd.MultiIndex.from_arrays([panel["benchmark"].to_numpy(), panel["item"].to_numpy()])
    return pd.DataFrame(panel[name].to_numpy(), index=panel[rows].to_numpy(), columns=index)


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "scores" / "p"
    rows = [
        ("b2", "1", "m2", 0, "(A)"),
        ("b1", "x", "m1", 1, " B "),
        ("b2", "0", "m1", 1, "(A)"),
        ("b1", "x", "m2", 0.5, ""),
    ]
    import_panel(folder, [table(tmp_path / "first.csv", rows, "benchmark item_id model score response")])
    return folder


def refused(*args: Any, **kwargs: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDataError) as caught:
        import_panel(*args, **kwargs)
    return [(problem.kind, problem.message) for problem in caught.value.problems]


def test_what_open_panel_shows(panel: Path) -> None:
    shown = open_panel(panel)
    assert shown["model"].to_numpy().tolist() == ["m1", "m2"]
    assert list(zip(shown["benchmark"].to_numpy(), shown["item"].to_numpy(), strict=True)) == [
        ("b2", "1"),
        ("b2", "0"),
        ("b1", "x"),
    ]
    np.testing.assert_array_equal(shown["score"].to_numpy(), np.array([[np.nan, 1, 1], [0, np.nan, 0.5]], np.float32))
    digest = int.from_bytes(hashlib.sha256(b"B").digest()[:4], "big")
    a = int.from_bytes(hashlib.sha256(b"(A)").digest()[:4], "big")
    np.testing.assert_array_equal(shown["response"].to_numpy(), np.array([[0, a, digest], [a, 0, 0]], np.uint32))
    assert shown["score"].dtype == np.float32
    assert shown["response"].dtype == np.uint32
    assert shown["category"].to_numpy().tolist() == ["", "", ""]
    assert shown["family"].to_numpy().tolist() == ["", ""]
    assert (shown["scale_min"].to_numpy().tolist(), shown["scale_max"].to_numpy().tolist()) == ([0, 0, 0], [1, 1, 1])
    assert "blind" not in shown
    assert "blind_model" not in shown.coords
    assert shown.attrs["name"] == "p"
    assert json.loads(shown.attrs["invalid"]) == {}
    assert shown["score"].chunks == ((2,), (3,))


def test_a_second_import_rewrites_nothing(panel: Path, tmp_path: Path) -> None:
    before = snapshot(panel / "part-0001")
    rows = [("b1", "x", "m3", 1), ("b1", "y", "m1", 0), ("b3", "1", "m1", 1), ("b2", "1", "m2", 0)]
    row = import_panel(panel, [table(tmp_path / "second.csv", rows)])
    assert snapshot(panel / "part-0001") == before
    assert (row["parts"], row["new_scores"], row["repeats"], row["scores"], row["items"], row["models"]) == (
        2,
        3,
        1,
        7,
        5,
        3,
    )
    expected = pd.DataFrame(
        [[np.nan, 1, 1, 0, 1], [0, np.nan, 0.5, np.nan, np.nan], [np.nan, np.nan, 1, np.nan, np.nan]],
        index=["m1", "m2", "m3"],
        columns=pd.MultiIndex.from_tuples([("b2", "1"), ("b2", "0"), ("b1", "x"), ("b1", "y"), ("b3", "1")]),
    )
    pd.testing.assert_frame_equal(matrix(panel), expected, check_dtype=False)
    assert verify(panel / "part-0002") == []


def test_the_same_again_writes_nothing(panel: Path, tmp_path: Path) -> None:
    before = snapshot(panel)
    row = import_panel(panel, [tmp_path / "first.csv", tmp_path / "first.csv"])
    assert snapshot(panel) == before
    assert (row["new_scores"], row["repeats"], row["parts"]) == (0, 8, 1)


def test_equal_input_equal_bytes(panel: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    import_panel(other, [tmp_path / "first.csv"])
    assert {name: data for name, (data, _) in snapshot(other).items()} == {
        name: data for name, (data, _) in snapshot(panel).items()
    }


def test_contradictions_are_all_listed(panel: Path, tmp_path: Path) -> None:
    before = snapshot(panel)
    rows = [
        ("b2", "1", "m2", 1),
        ("b1", "z", "m1", 1),
        ("b1", "z", "m1", 0),
        ("b1", "z", "m1", 1),
        ("b1", "x", "m1", 0.5),
    ]
    found = refused(panel, [table(tmp_path / "second.csv", rows)])
    assert [kind for kind, _ in found] == ["conflicting-score", "contradicts-panel", "contradicts-panel"]
    assert found[0][1] == f"b1/z, m1: says 0, another record says 1 ({tmp_path}/second.csv)"
    assert found[1][1].startswith("b2/1, m2: says 1, the panel 0")
    assert found[2][1].startswith("b1/x, m1: says 0.5, the panel 1")
    assert snapshot(panel) == before


def test_contradictions_across_files_and_blocks(tmp_path: Path) -> None:
    one = table(tmp_path / "one.csv", [("b", str(i), "m", 0) for i in range(4)])
    two = table(tmp_path / "two.csv", [("b", "3", "m", 1), ("b", "2", "m", 0)])
    found = refused(tmp_path / "p", [one, two])
    assert found == [("conflicting-score", f"b/3, m: says 1, another record says 0 ({one})")]
    assert not (tmp_path / "p").exists()


def test_responses_are_part_of_a_record(panel: Path, tmp_path: Path) -> None:
    columns = "benchmark item_id model score response"
    found = refused(panel, [table(tmp_path / "other.csv", [("b2", "1", "m2", 0, "(B)")], columns)])
    assert [kind for kind, _ in found] == ["contradicts-panel"]
    row = import_panel(panel, [table(tmp_path / "more.csv", [("b1", "x", "m2", 0.5, "(C)")], columns)])
    assert (row["new_scores"], row["repeats"], row["scores"]) == (0, 0, 4)
    assert open_panel(panel)["response"].to_numpy()[1, 2] == int.from_bytes(hashlib.sha256(b"(C)").digest()[:4], "big")
    assert import_panel(panel, [tmp_path / "more.csv"])["parts"] == 2


def test_invalid_records_are_missing_and_counted(tmp_path: Path) -> None:
    rows = [("b", "1", "m", 0, "(Z)"), ("b", "2", "m", 1, "(A)"), ("b", "3", "n", 0, "(Z) ?")]
    path = table(tmp_path / "a.csv", rows, "benchmark item_id model score response")
    row = import_panel(tmp_path / "p", [path], invalid_response=r"\(Z\)")
    assert row["invalid"] == {"b": {"m": {r"response matches \(Z\)": 1}, "n": {r"response matches \(Z\)": 1}}}
    assert (row["scores"], row["missing"]) == (1, 5)
    assert np.isnan(matrix(tmp_path / "p").loc["m", ("b", "1")])
    assert json.loads(open_panel(tmp_path / "p").attrs["invalid"]) == row["invalid"]
    again = import_panel(tmp_path / "p", [path], invalid_response=r"\(Z\)")
    assert (again["repeats"], again["parts"]) == (3, 1)
    assert again["invalid"] == row["invalid"]
    # A record that was invalid and one with a score contradict each other.
    found = refused(tmp_path / "p", [path])
    assert [kind for kind, _ in found] == ["contradicts-panel"] * 2
    # A blank says nothing, so it contradicts nothing.
    blank = import_panel(
        tmp_path / "p", [table(tmp_path / "b.csv", [("b", "1", "m", None), ("b", "9", "m", None), ("b", "2", "m", 1)])]
    )
    assert (blank["blank_rows"], blank["items"], blank["repeats"], blank["parts"]) == (2, 3, 1, 1)
    found = refused(tmp_path / "p", [table(tmp_path / "c.csv", [("b", "1", "m", None)])])
    assert [kind for kind, _ in found] == ["empty"]


def test_blind_runs_have_models_of_their_own(panel: Path, tmp_path: Path) -> None:
    rows = [("b1", "x", "llm", 1), ("b2", "0", "m1", 0)]
    row = import_panel(panel, [], blind=[table(tmp_path / "blind.csv", rows)])
    assert (row["models"], row["blind_models"], row["blind_scores"], row["new_blind_scores"]) == (2, 2, 2, 2)
    shown = open_panel(panel)
    assert shown["blind_model"].to_numpy().tolist() == ["llm", "m1"]
    np.testing.assert_array_equal(
        shown["blind"].to_numpy(), np.array([[np.nan, np.nan, 1], [np.nan, 0, np.nan]], np.float32)
    )
    assert matrix(panel).shape == (2, 3)
    assert import_panel(panel, [], blind=[tmp_path / "blind.csv"])["repeats"] == 2


def test_a_panel_of_blind_runs_alone(tmp_path: Path) -> None:
    import_panel(tmp_path / "p", [], blind=[table(tmp_path / "blind.csv", [("b", "1", "m", 1)])])
    shown = open_panel(tmp_path / "p")
    assert shown["score"].shape == (0, 1)
    assert shown["blind"].to_numpy().tolist() == [[1.0]]
    import_panel(tmp_path / "p", [table(tmp_path / "a.csv", [("b", "1", "m", 0)])])
    assert open_panel(tmp_path / "p")["score"].to_numpy().tolist() == [[0.0]]


def test_tables_of_items_and_models(panel: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text(
        "\ufeffbenchmark,item_id,category,n_choices,my/own,scale_min,scale_max\n"
        "b1,0,c,4,u,,\nb1,x,c,4,v,0,1\nb1,y,d,,w,0,1\nb1,x,c,4,v,0,1\nb4,1,,,,-1,1\nb9,1,,,,0,5\n",
        encoding="utf-8",
    )
    models = tmp_path / "models.csv"
    models.write_text(
        "model,family,release_date,axis,note\nm1,f,2024-05,depth:1,n\nm3,,,,\nm9,g,,,\n", encoding="utf-8"
    )
    rows = [("b4", "1", "m3", -1), ("b1", "y", "m3", 1)]
    before = snapshot(panel / "part-0001")
    row = import_panel(panel, [table(tmp_path / "b.csv", rows)], items=items, models=models)
    assert snapshot(panel / "part-0001") == before
    assert (row["ignored_items"], row["ignored_models"], row["repeated_table_rows"]) == (2, 1, 1)
    shown = open_panel(panel)
    keys = list(zip(shown["benchmark"].to_numpy(), shown["item"].to_numpy(), strict=True))
    assert keys == [("b2", "1"), ("b2", "0"), ("b1", "x"), ("b1", "y"), ("b4", "1")]
    assert shown["category"].to_numpy().tolist() == ["", "", "c", "d", ""]
    assert shown["n_choices"].to_numpy().tolist() == ["", "", "4", "", ""]
    assert shown["item_my/own"].to_numpy().tolist() == ["", "", "v", "w", ""]
    assert shown["scale_min"].to_numpy().tolist() == [0, 0, 0, 0, -1]
    assert shown["family"].to_numpy().tolist() == ["f", "", ""]
    assert shown["release_date"].to_numpy().tolist() == ["2024-05", "", ""]
    assert shown["model_note"].to_numpy().tolist() == ["n", "", ""]
    assert "vendor" not in shown.coords
    # Metadata alone make a part of their own.
    models.write_text("model,vendor\nm2,v\nm1,\nm3,\n", encoding="utf-8")
    assert import_panel(panel, [tmp_path / "b.csv"], models=models)["parts"] == 3
    assert open_panel(panel)["vendor"].to_numpy().tolist() == ["", "v", ""]
    np.testing.assert_array_equal(open_panel(panel)["score"].to_numpy(), shown["score"].to_numpy())


def test_an_item_takes_the_place_that_the_table_gives_it(tmp_path: Path) -> None:
    items = table(tmp_path / "items.csv", [("b", str(i)) for i in range(6)] + [("a", "0")], "benchmark item_id")
    for number, chosen in enumerate(([5, 2], [0, 4], [1], [3])):
        rows = [("b", str(i), f"m{number}", 1) for i in chosen] + [("a", "0", f"m{number}", 0)] * (number == 1)
        import_panel(tmp_path / "p", [table(tmp_path / f"{number}.csv", rows)], items=items)
    shown = open_panel(tmp_path / "p")
    assert shown["item"].to_numpy().tolist() == ["0", "1", "2", "3", "4", "5", "0"]
    whole = matrix(tmp_path / "p")
    assert whole.loc["m0", ("b", "5")] == whole.loc["m1", ("b", "4")] == whole.loc["m3", ("b", "3")] == 1
    assert int(whole.count().sum()) == 7


def test_everything_wrong_with_tables_at_once(tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    items.write_text(
        "benchmark,item_id,answer,n_choices,scale_min,scale_max\nb,1,A,x,0,1\nb,1,B,4,0,2\nb,2,,0,1,1\n c,3,,,y,1\n",
        encoding="utf-8",
    )
    models = tmp_path / "models.csv"
    models.write_text("model,release_date,axis\nm,2024-13,depth\nm,2024,\n", encoding="utf-8")
    rows = [("b", "1", "m", 1), ("b", "7", "m", 2), ("b", "8", "q", float("inf")), ("b", "1", "q ", 1)]
    found = refused(
        tmp_path / "p", [table(tmp_path / "a.csv", rows)], items=items, models=models, scales={"z": (0, 1), "b": (0, 3)}
    )
    assert sorted({kind for kind, _ in found}) == [
        "bad-axis",
        "bad-date",
        "bad-scale",
        "conflicting-item",
        "conflicting-model",
        "conflicting-scale",
        "id-blank",
        "not-a-count",
        "off-scale",
        "unknown-benchmark",
        "unknown-item",
        "unknown-model",
    ]
    messages = [message for _, message in found]
    assert "b, m: 1 score off the scale 0:1 (2)" in messages
    assert "b, q: 1 score off the scale 0:1 (inf)" in messages
    assert "there is no item b/7, which has scores" in messages
    assert "there is no model 'q', which has scores" in messages
    assert not (tmp_path / "p").exists()


def test_scores_off_the_declared_scale(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", [("b", "1", "m", 100), ("b", "2", "m", 0), ("b", "3", "m", 55.5)])
    assert refused(tmp_path / "p", [path]) == [("off-scale", "b, m: 2 scores off the scale 0:1 (from 55.5 to 100)")]
    import_panel(tmp_path / "p", [path], scales={"b": (0, 100)})
    assert open_panel(tmp_path / "p")["scale_max"].to_numpy().tolist() == [100, 100, 100]
    found = refused(tmp_path / "p", [path], scales={"b": (0, 200)})
    assert [kind for kind, _ in found] == ["conflicting-scale"]
    import_panel(tmp_path / "p", [table(tmp_path / "b.csv", [("b", "4", "m", 99)])])  # the panel knows its scale


def test_names_that_cannot_be_told_apart(tmp_path: Path) -> None:
    rows = [("b", "e\u0301", "m", 1), ("b", "\u00e9", "m", 1), ("b", " x", "m", 1), ("b", "a\tb", "m", 1)]
    found = refused(tmp_path / "p", [table(tmp_path / "a.csv", rows)])
    assert sorted(kind for kind, _ in found) == ["ambiguous-id", "id-blank", "id-control"]


def test_small_blocks_and_shards_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (f"b{b}", str(i), f"m{m}", round(float(rng.random()), 3))
        for b in range(3)
        for i in range(40)
        for m in range(5)
        if rng.random() < 0.8
    ]
    path = table(tmp_path / "a.csv", rows)
    import_panel(tmp_path / "whole", [path])
    from optotype.store.importers.scores import tables
    from optotype.store.panels import merge, parts, writing

    monkeypatch.setattr(tables, "_CSV_BYTES", 300)
    monkeypatch.setattr(shards, "_INNER_BYTES", 64)
    monkeypatch.setattr(shards, "_SHARD_BYTES", 512)
    monkeypatch.setattr(writing, "_BLOCK_ITEMS", 7)
    monkeypatch.setattr(merge, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(parts, "_CHUNK_BYTES", 400)
    import_panel(tmp_path / "pieces", [path])
    half = pd.DataFrame(rows[::2], columns=["benchmark", "item_id", "model", "score"])
    half.to_csv(tmp_path / "half.csv", index=False)
    import_panel(tmp_path / "later", [tmp_path / "half.csv"])
    import_panel(tmp_path / "later", [path])
    whole = matrix(tmp_path / "whole")
    assert open_panel(tmp_path / "pieces")["score"].data.npartitions > 3
    pd.testing.assert_frame_equal(matrix(tmp_path / "pieces"), whole)
    pd.testing.assert_frame_equal(matrix(tmp_path / "later")[whole.columns], whole)
    expected = pd.DataFrame(rows).pivot(index=2, columns=[0, 1], values=3).astype(np.float32)  # noqa: PD010
    pd.testing.assert_frame_equal(whole, expected[whole.columns], check_names=False)


def test_a_killed_import_leaves_the_old_panel(panel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def die(*args: object) -> None:
        raise Killed

    before = snapshot(panel)
    more = table(tmp_path / "b.csv", [("b1", "y", "m1", 1)])
    with monkeypatch.context() as patch:
        patch.setattr(importing, "draft_file", die)
        with pytest.raises(Killed):
            import_panel(panel, [more])
    assert (panel / "part-0002" / "manifest.json").is_file()
    assert {name: entry for name, entry in snapshot(panel).items() if not name.startswith("part-0002")} == before
    assert open_panel(panel)["item"].size == 3
    row = import_panel(panel, [table(tmp_path / "c.csv", [("b1", "z", "m1", 1)])])
    assert (row["parts"], row["items"]) == (2, 4)
    assert open_panel(panel)["item"].to_numpy().tolist() == ["1", "0", "x", "z"]


def test_a_panel_does_not_take_the_place_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine.txt").write_text("mine")
    with pytest.raises(ConflictError, match="not a panel"):
        import_panel(tmp_path / "p", [table(tmp_path / "a.csv", [("b", "1", "m", 1)])])
    assert (tmp_path / "p" / "mine.txt").read_text() == "mine"


def test_damaged_panels(panel: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no panel of scores"):
        open_panel(tmp_path)
    text = (panel / "panel.json").read_text()
    document = json.loads(text)
    (panel / "panel.json").unlink()
    (panel / "panel.json").write_text(text.replace('"b1"', '"b7"'))
    with pytest.raises(IntegrityError, match="changed"):
        open_panel(panel)
    (panel / "panel.json").write_text(json.dumps({**document, "format_version": 99}))
    with pytest.raises(FormatError, match="format_version 99"):
        open_panel(panel)
    (panel / "panel.json").write_text(json.dumps({"format_version": 1, "kind": "ranking"}))
    with pytest.raises(FormatError, match="not the document"):
        open_panel(panel)
    document["parts"][0]["digest"] = "sha256:0"
    (panel / "panel.json").write_text(json.dumps({**document, "digest": document_digest(document)}))
    with pytest.raises(IntegrityError, match="another part"):
        open_panel(panel)
    (panel / "panel.json").write_text(text)
    (panel / "part-0001").rename(tmp_path / "gone")
    with pytest.raises(IntegrityError, match="missing"):
        open_panel(panel)


def test_through_a_url(panel: Path) -> None:
    import fsspec

    fs = fsspec.filesystem("memory")
    for path in panel.rglob("*"):
        if path.is_file():
            fs.pipe_file(f"/remote/p/{path.relative_to(panel)}", path.read_bytes())
    remote = open_panel("memory://remote/p")
    np.testing.assert_array_equal(remote["score"].to_numpy(), open_panel(panel)["score"].to_numpy())
    assert remote.attrs["name"] == "p"


def test_the_stored_score_is_models_by_items(panel: Path) -> None:
    import xarray as xr

    stored = xr.open_zarr(panel / "part-0001", consolidated=True)
    assert stored["score"].dims == ("model", "item")
    assert stored["score"].to_numpy()[1, 2] == 0.5
    assert read_manifest(panel / "part-0001").kind == "scores"


def test_real_matrices(shared_panel: Path, tmp_path: Path) -> None:
    row = import_panel(
        tmp_path / "real",
        [shared_panel / "scores.parquet"],
        items=shared_panel / "items.parquet",
        models=shared_panel / "models.csv",
        invalid_response=r"^\(Z\)$",
    )
    scores = pd.read_parquet(shared_panel / "scores.parquet")
    unparsed = scores["response"] == "(Z)"
    assert row["scores"] == int(((scores["modality"] == "image") & ~unparsed).sum())
    assert (
        row["missing"] - sum(sum(told.values()) for told in row["invalid"]["blink_val"].values()) == 19 * 1901 - 36119
    )
    counts = scores[unparsed].groupby("model").size().to_dict()
    assert {model: sum(told.values()) for model, told in row["invalid"]["blink_val"].items()} == counts
    shown = open_panel(tmp_path / "real")
    items = pd.read_parquet(shared_panel / "items.parquet")
    assert shown["item"].to_numpy().tolist() == items["item_id"].tolist()
    for name, modality, axis in (("score", "image", "model"), ("blind", "blind", "blind_model")):
        part = scores[(scores["modality"] == modality) & ~unparsed]
        whole = part.pivot(index="model", columns=["benchmark", "item_id"], values="score")  # noqa: PD010
        index = pd.MultiIndex.from_arrays([shown["benchmark"].to_numpy(), shown["item"].to_numpy()])
        wanted = whole.reindex(index=shown[axis].to_numpy(), columns=index).to_numpy(np.float32)
        np.testing.assert_array_equal(shown[name].to_numpy(), wanted)
    told = shown["score"].where(shown["benchmark"] == "blink_val")
    assert int(np.isnan(told.sel(model="QwenVLMax").to_numpy()).sum() - (4748 - 1901)) == 297


def test_cells_that_are_no_numbers_hide_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "off.csv"
    rows = ["x,1,a,1", "x,,a,1", "x,2,a,abc", "x,3,a,7", "x,3,b,-0.5", "x,4,c,inf", "x,1,a,0", "y,1,a,n"]
    path.write_text("\n".join(["benchmark,item_id,model,score", *rows]) + "\n", encoding="utf-8")
    wide = tmp_path / "w.csv"
    wide.write_text("model,i,j\nm,x,3\n,0,5\n", encoding="utf-8")
    found = refused(tmp_path / "p", [path, wide], scales={"y": (0.0, 1.0)})
    assert [kind for kind, _ in found].count("off-scale") == 4
    assert sorted({kind for kind, _ in found}) == ["blank-id", "conflicting-score", "not-a-number", "off-scale"]
    assert sum(kind == "not-a-number" for kind, _ in found) == 3
    assert sum(kind == "blank-id" for kind, _ in found) == 2
    for span in ("(7)", "(-0.5)", "(inf)", "(3)"):
        assert any(span in message for _, message in found)


def test_a_negative_zero_is_zero(tmp_path: Path) -> None:
    import_panel(tmp_path / "p", [table(tmp_path / "a.csv", [("b", "1", "m", "-0"), ("b", "2", "m", "-1e-60")])])
    assert not np.signbit(matrix(tmp_path / "p").to_numpy()).any()
