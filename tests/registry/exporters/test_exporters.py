"""Every form a suite is exported in: what is in the files, and what is refused."""

from __future__ import annotations

import base64
import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from payloads import make_suite

from optotype.registry.exporters.conformance import exporter_problems
from optotype.registry.exporters.exporter import EXPORTERS, Exported, Request, export, get_exporter
from optotype.schemas.errors import ConflictError, InvalidDataError, UsageError

_IMAGE = base64.b64encode(bytes(range(90))).decode()
_ITEMS = {"mmvp/1": 1.0, "mmvp/2": 2.0, "blink/val_1": 1.0}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return make_suite(tmp_path / "mini", _ITEMS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Questions of all items; one image is a file, one base64, one that of another row."""
    (tmp_path / "a.png").write_bytes(b"picture")
    rows = [
        {"benchmark": "mmvp", "item_id": "1", "question": "Q1\tand more", "A": "x", "B": "y", "image": "a.png"},
        {"benchmark": "mmvp", "item_id": "9", "question": "Q9", "A": "x", "B": "y", "image": _IMAGE},
        {"benchmark": "mmvp", "item_id": "2", "question": "Q2", "A": "None", "B": "y", "image": "9"},
        {"benchmark": "blink", "item_id": "val_1", "question": "Q3", "answer": "B", "sub_task": "Jigsaw"},
    ]
    rows[3]["image"] = _IMAGE
    path = tmp_path / "items.parquet"
    pd.DataFrame(rows).to_parquet(path)
    return path


@pytest.mark.parametrize("name", EXPORTERS)
def test_conforms(name: str, tmp_path: Path) -> None:
    exporter = get_exporter(name)
    assert exporter.name == name
    assert exporter_problems(exporter, tmp_path) == []


def test_conformance_sees_faults(tmp_path: Path) -> None:
    class Careless:
        name = "careless"
        needs_content = True
        options = frozenset({"blind"})
        calls = 0

        def write(self, request: Request) -> Exported:
            self.calls += 1
            (request.target.parent / ".suite.12345678.draft").write_text("left")
            text = [f"{item.item_id} {item.columns['image']} {self.calls}" for item in request.items[1:]]
            request.target.write_text("\n".join(text))
            return Exported((request.target,), ({"name": "run", "benchmark": "one", "items": 1},))

    found = {problem.kind for problem in exporter_problems(Careless(), tmp_path)}
    assert found == {"bytes", "items", "runs", "again", "blind", "leftovers"}


def test_ids(suite: Path, tmp_path: Path) -> None:
    done = export(str(suite), "ids", tmp_path / "ids.txt")
    assert (tmp_path / "ids.txt").read_text() == "mmvp\t1\nmmvp\t2\nblink\tval_1\n"
    assert (done["items"], done["suite"], done["version"]) == (3, "mini", None)


def test_jsonl(suite: Path, table: Path, tmp_path: Path) -> None:
    export(str(suite), "jsonl", tmp_path / "o.jsonl", items=[str(table)])
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["benchmark"], row["item_id"], row["weight"]) for row in rows] == [
        ("mmvp", "1", 1.0),
        ("mmvp", "2", 2.0),
        ("blink", "val_1", 1.0),
    ]
    assert rows[0]["options"] == {"A": "x", "B": "y"}
    assert rows[1]["image"] == _IMAGE
    assert rows[2]["sub_task"] == "Jigsaw"
    done = export(str(suite), "jsonl", tmp_path / "o.jsonl", items=[str(table)], blind=True)
    assert _IMAGE not in (tmp_path / "o.jsonl").read_text(encoding="utf-8")
    assert done["notes"] == []


def _tsv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_vlmevalkit(suite: Path, table: Path, tmp_path: Path) -> None:
    done = export(str(suite), "vlmevalkit", tmp_path / "mini.tsv", items=[str(table)], tasks={"blink": "BLINK"})
    assert [run["name"] for run in done["runs"]] == ["mini_mmvp", "mini_BLINK"]
    rows = _tsv(tmp_path / "mini_mmvp.tsv")
    assert [row["index"] for row in rows] == ["1", "2"]
    assert base64.b64decode(rows[0]["image"]) == b"picture"
    assert rows[1]["image"] == _IMAGE  # of row 9, which is no item of the suite
    assert rows[0]["question"] == "Q1\tand more"
    read = pd.read_csv(tmp_path / "mini_mmvp.tsv", sep="\t")  # as the harness does
    assert read["A"].notna().all()
    assert read["index"].tolist() == [1, 2]
    assert "l2-category" in _tsv(tmp_path / "mini_BLINK.tsv")[0]
    assert len(done["notes"]) == 1


def test_vlmevalkit_blind(suite: Path, table: Path, tmp_path: Path) -> None:
    done = export(str(suite), "vlmevalkit", tmp_path / "mini.tsv", items=[str(table)], blind=True)
    assert [run["name"] for run in done["runs"]] == ["mini_mmvp_blind", "mini_blink_blind"]
    for path in done["files"]:
        assert not {"image", "image_path"} & set(_tsv(Path(path))[0])


def test_vlmevalkit_lists_all_that_is_missing(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError) as error:
        export(str(suite), "vlmevalkit", tmp_path / "mini.tsv")
    kinds = [problem.kind for problem in error.value.problems]
    assert (kinds.count("no-question"), kinds.count("no-image")) == (3, 3)
    assert not list(tmp_path.glob("*.tsv"))


@pytest.mark.parametrize(
    ("ids", "kind"),
    [(("1", "01"), "same-number"), (("1", "1000001"), "rotation"), (("NA", "x"), "id-missing")],
)
def test_vlmevalkit_refuses_ids_that_it_would_confuse(ids: tuple[str, str], kind: str, tmp_path: Path) -> None:
    make_suite(tmp_path / "mini", {f"b/{item}": 1.0 for item in ids})
    table = tmp_path / "items.csv"
    table.write_text("item_id,question,image\n" + "".join(f"{item},Q,{_IMAGE}\n" for item in ids))
    with pytest.raises(InvalidDataError) as error:
        export(str(tmp_path / "mini"), "vlmevalkit", tmp_path / "mini.tsv", items=[str(table)])
    assert [problem.kind for problem in error.value.problems] == [kind]


def _harness(tmp_path: Path) -> Path:
    tasks = tmp_path / "site" / "lmms_eval" / "tasks"
    for name, text in {
        "mmvp/mmvp.yaml": "include: _base\ntask: mmvp\n",
        "mmvp/_base": "dataset_path: x/MMVP\ndataset_kwargs: {token: true}\ndoc_to_visual: !function utils.visual\n",
        "blink/jigsaw.yaml": "task: 'blink_jigsaw'  # one of many\n",
        "blink/blink.yaml": "group: blink\ntask:\n  - blink_jigsaw\n",
    }.items():
        (tasks / name).parent.mkdir(parents=True, exist_ok=True)
        (tasks / name).write_text(text)
    return tasks


class _Loader(yaml.SafeLoader):
    pass


_Loader.add_constructor("!function", lambda loader, node: f"!{node.value}")


def _yaml(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def test_lmms_eval(suite: Path, table: Path, tmp_path: Path) -> None:
    tasks = _harness(tmp_path)
    done = export(
        str(suite),
        "lmms-eval",
        tmp_path / "out",
        items=[str(table)],
        tasks={"mmvp": str(tasks / "mmvp" / "mmvp.yaml"), "blink/Jigsaw": "blink_jigsaw"},
        revisions={"mmvp": "abc"},
        columns={"blink": "idx"},
    )
    out = tmp_path / "out"
    assert [run["name"] for run in done["runs"]] == ["mini_mmvp", "mini_blink_Jigsaw"]
    assert _yaml(out / "mini.yaml") == {"group": "mini", "task": ["mini_mmvp", "mini_blink_Jigsaw"]}
    digest = done["digest"]
    assert _yaml(out / "mini_mmvp" / "mini_mmvp.yaml") == {
        "include": "../tasks/mmvp/mmvp.yaml",
        "task": "mini_mmvp",
        "tag": [],
        "dataset_kwargs": {"token": True, "revision": "abc"},
        "process_docs": "!utils.pick",
        "metadata": [{"version": digest, "suite": "mini", "digest": digest}],
    }
    other = _yaml(out / "mini_blink_Jigsaw" / "mini_blink_Jigsaw.yaml")
    assert other["include"] == "../tasks/blink/jigsaw.yaml"
    assert (out / "tasks").resolve() == tasks.resolve()
    plan = json.loads((out / "mini_blink_Jigsaw" / "suite.json").read_text())
    assert (plan["ids"], plan["columns"]) == (["val_1"], ["idx"])
    assert "no revision" in " ".join(done["notes"])

    plain = {"mmvp": "mmvp/mmvp.yaml", "blink": "b/b.yaml"}
    blind = export(str(suite), "lmms-eval", out, items=[str(table)], blind=True, tasks=plain)
    assert [run["name"] for run in blind["runs"]] == ["mini_mmvp_blind", "mini_blink_blind"]
    task = _yaml(out / "mini_mmvp_blind" / "mini_mmvp_blind.yaml")
    assert (task["doc_to_visual"], task["doc_to_messages"]) == ("!utils.no_images", None)
    assert not (out / "mini_mmvp").exists()
    assert not (out / "tasks").exists()  # lmms-eval is not known here
    assert tasks.is_dir()


def test_lmms_eval_lists_base_tasks_that_are_not_there(suite: Path, tmp_path: Path) -> None:
    tasks = _harness(tmp_path)
    given = {"mmvp": str(tasks / "mmvp" / "mmvp.yaml"), "blink": "blink_jigsav"}
    with pytest.raises(InvalidDataError, match="Did you mean 'blink_jigsaw'"):
        export(str(suite), "lmms-eval", tmp_path / "out", tasks=given)
    with pytest.raises(InvalidDataError, match="no items of this sub-task"):
        export(str(suite), "lmms-eval", tmp_path / "out", tasks={**given, "blink": "b/b.yaml", "blink/Art": "x/y.yaml"})
    with pytest.raises(InvalidDataError) as error:
        export(str(suite), "lmms-eval", tmp_path / "out", tasks={"mmvp": "../mmvp.yaml"})
    assert len(error.value.problems) == 2
    assert not (tmp_path / "out").exists()


def test_lmms_eval_leaves_other_folders_alone(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(ConflictError):
        export(str(suite), "lmms-eval", tmp_path / "out", tasks={"mmvp": "m/m.yaml", "blink": "b/b.yaml"})
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("to", "options", "message"),
    [
        ("pdf", {}, "not exported to 'pdf'"),
        ("ids", {"blind": True}, "--blind says nothing"),
        ("ids", {"items": ["x.csv"]}, "nothing but ids"),
        ("jsonl", {"revisions": {"mmvp": "a"}}, "--revision says nothing"),
        ("lmms-eval", {"revisions": {"mmpv": "a"}}, "no benchmark 'mmpv'"),
        ("jsonl", {"items": ["mmpv=x.csv"]}, "no benchmark 'mmpv'"),
    ],
)
def test_refuses_options_that_do_not_fit(
    suite: Path, tmp_path: Path, to: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        export(str(suite), to, tmp_path / "out", **options)


def test_tables_are_refused_in_words(suite: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,question\n1,Q\n")
    with pytest.raises(UsageError, match="2 benchmarks"):
        export(str(suite), "jsonl", tmp_path / "o", items=[str(tmp_path / "a.csv")])
    (tmp_path / "b.csv").write_text("item_id,question\n1,Q\n1,R\n7,S\n7,T\n")
    with pytest.raises(InvalidDataError) as error:
        export(str(suite), "jsonl", tmp_path / "o", items=[f"mmvp={tmp_path / 'b.csv'}"])
    assert len(error.value.problems) == 1
    (tmp_path / "c.csv").write_text("benchmark,question\nmmvp,Q\n")
    with pytest.raises(UsageError, match="item_id"):
        export(str(suite), "jsonl", tmp_path / "o", items=[str(tmp_path / "c.csv")])


def test_a_damaged_suite_is_refused(suite: Path, tmp_path: Path) -> None:
    (suite / "compression.json").unlink()
    shutil.copy(suite / "models.csv", suite / "other.csv")
    with pytest.raises(InvalidDataError, match=r"compression\.json"):
        export(str(suite), "ids", tmp_path / "o")
