"""Two versions compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from payloads import make_frontier, make_pairs, make_ranking, make_report, make_suite

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.listing import diff_versions
from optotype.registry.artifacts.publish import publish
from optotype.schemas.errors import IntegrityError, UsageError


def test_suites(root: Path, tmp_path: Path) -> None:
    one = make_suite(tmp_path / "1", {"a/1": 0.5, "a/2": 0.25, "b/1": 0.25}, ranks={"m1": 1, "m2": 2, "m3": 3})
    other = make_suite(
        tmp_path / "2",
        {"a/1": 0.5, "a/2": 0.375, "c/9": 0.125},
        ranks={"m1": 3, "m2": 2, "m4": 1},
        parameters={"retention": 0.1, "k": 5},
        panel="sha256:" + "12" * 32,
    )
    (other / "metrics.json").write_text("{}")
    publish("suite", "p@1.0.0", one, root=root)
    publish("suite", "p@2.0.0", other, root=root)
    found = diff_versions(Registry(root), "p@1.0.0", "p@2.0.0")
    assert not found["same"]
    items = found["items"]
    assert (items["noun"], items["key"], items["kept"]) == ("items", ["benchmark", "item_id"], 2)
    assert items["added"] == [["c", "9"]]
    assert items["removed"] == [["b", "1"]]
    assert items["reweighted"] == [{"key": ["a", "2"], "from": 0.25, "to": 0.375}]
    assert items["changed"] == []
    assert found["parameters"] == {"k": {"from": None, "to": 5}, "retention": {"from": 0.05, "to": 0.1}}
    assert found["models"] == [
        {"model": "m3", "from": 3.0, "to": None, "change": None},
        {"model": "m4", "from": None, "to": 1.0, "change": None},
        {"model": "m1", "from": 1.0, "to": 3.0, "change": 2.0},
        {"model": "m2", "from": 2.0, "to": 2.0, "change": 0.0},
    ]
    assert [node["digest"] for node in found["lineage"]["added"]] == ["sha256:" + "12" * 32]
    assert found["files"] == {
        "added": ["metrics.json"],
        "removed": [],
        "changed": ["compression.json", "items.parquet", "models.csv"],
    }
    same = diff_versions(Registry(root), "p@1.0.0", "p@1.0.0")
    assert same["same"]
    assert same["items"]["added"] == same["items"]["removed"] == same["items"]["reweighted"] == []
    assert all(row["change"] == 0 for row in same["models"])


def test_frontiers_rank_models_by_the_panel_where_it_is_here(root: Path, tmp_path: Path) -> None:
    from optotype.registry.panels import import_scores
    from optotype.store.panels import open_panel
    from optotype.store.project import Project

    # m0 is right on item 0 alone, m1 on items 1 and 2, m2 on item 2; m3 has no score on items 0 and 1.
    right = {0: [0], 1: [1, 2], 2: [2]}
    lines = ["benchmark,item_id,model,score"]
    lines += [f"a,{item},m{model},{int(item in right[model])}" for item in range(3) for model in range(3)]
    lines.append("a,2,m3,1")
    (root / "scores.csv").write_text("\n".join(lines) + "\n")
    import_scores(Project(root), "tiny", [root / "scores.csv"], track=False)
    digest = open_panel(root / "data" / "scores" / "tiny").attrs["digest"]
    publish("frontier", "f@1.0.0", make_frontier(tmp_path / "1", [("a", "0"), ("a", "1")], panel=digest), root=root)
    publish("frontier", "f@1.1.0", make_frontier(tmp_path / "2", [("a", "1"), ("a", "2")], panel=digest), root=root)
    found = diff_versions(Registry(root), "f@1.0.0", "f@1.1.0")
    assert found["models"] == [
        {"model": "m3", "from": None, "to": 1.5, "change": None},
        {"model": "m0", "from": 1.5, "to": 4.0, "change": 2.5},
        {"model": "m1", "from": 1.5, "to": 1.5, "change": 0.0},
        {"model": "m2", "from": 3.0, "to": 3.0, "change": 0.0},
    ]
    shutil.rmtree(root / "data")
    assert diff_versions(Registry(root), "f@1.0.0", "f@1.1.0")["models"] is None


def test_rankings_and_pairs(root: Path, tmp_path: Path) -> None:
    publish("ranking", "r@1.0.0", make_ranking(tmp_path / "1", {"x": 0.3, "y": 0.4}), root=root)
    publish("ranking", "r@1.1.0", make_ranking(tmp_path / "2", {"x": 0.5, "y": 0.4, "z": 0.2}, k=50), root=root)
    found = diff_versions(Registry(root), "r@1.0.0", "ranking/r@latest")
    assert found["parameters"] == {"k": {"from": 100, "to": 50}}
    assert found["items"]["added"] == [["z", "lm", "none", "l2"]]
    changed = {row["key"][0]: row["values"] for row in found["items"]["changed"]}
    assert changed["x"]["score"] == {"from": 0.3, "to": 0.5}
    assert "score" not in changed["y"]
    moves = {row["model"]: (row["from"], row["to"]) for row in found["models"]}
    assert moves == {"x x lm": (2, 1), "y x lm": (1, 2), "z x lm": (None, 3)}
    publish("pairs", "p@1.0.0", make_pairs(tmp_path / "p", 3), root=root)
    pairs = make_pairs(tmp_path / "q", 4)
    (pairs / "images" / "0.png").write_bytes((pairs / "images" / "1.png").read_bytes())
    publish("pairs", "p@1.1.0", pairs, root=root)
    items = diff_versions(Registry(root), "p@1.0.0", "p@1.1.0")["items"]
    assert items["added"] == [["p3"]]
    assert [(row["key"], list(row["values"])) for row in items["changed"]] == [(["p0"], ["image_sha256"])]


@pytest.mark.parametrize("longer", [False, True])
@pytest.mark.parametrize("versions", [("s@1.0.0", "s@1.1.0"), ("s@1.1.0", "s@1.0.0"), ("s@1.0.0", "s@1.0.0")])
def test_damaged_bytes_are_not_compared(root: Path, tmp_path: Path, versions: tuple[str, str], longer: bool) -> None:
    for version, item in (("1.0.0", "a/1"), ("1.1.0", "a/2")):
        publish("suite", f"s@{version}", make_suite(tmp_path / version, {item: None}), root=root)
    path = Registry(root).version("suite", "s", "1.0.0").place.payload / "items.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(bytes(data) + b"x" * longer)
    with pytest.raises(IntegrityError, match=r"1\.0\.0/payload/items\.parquet"):
        diff_versions(Registry(root), *versions)


def test_what_cannot_be_compared(root: Path, tmp_path: Path) -> None:
    publish("report", "r@1.0.0", make_report(tmp_path / "r"), root=root)
    publish("suite", "s@1.0.0", make_suite(tmp_path / "s", {"a/1": None}), root=root)
    publish("suite", "s@1.1.0", make_suite(tmp_path / "t", {"a/2": None}), root=root)
    with pytest.raises(UsageError, match="different kinds"):
        diff_versions(Registry(root), "r@1.0.0", "s@1.0.0")
    assert diff_versions(Registry(root), "r@1.0.0", "r@1.0.0")["items"] is None
    shutil.rmtree(root / "artifacts" / "suite" / "s" / "1.0.0" / "payload")
    found = diff_versions(Registry(root), "s@1.0.0", "s@1.1.0")
    assert found["items"] is None
    assert "payload is not here" in found["notes"][0]
    assert found["files"]["changed"] == ["items.parquet"]
