"""What is exported, read by the harnesses' own code, where it is installed (it is no dependency of the project)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from payloads import make_suite
from PIL import Image

from optotype.registry.exporters.exporter import export

# The harnesses warn of their own libraries.
pytestmark = pytest.mark.filterwarnings("ignore")

_BASE = """\
dataset_path: json
dataset_kwargs: {{data_files: {{test: "{data}", train: "{data}"}}}}
task: mmvp
tag: [of_the_base]
test_split: test
training_split: train
output_type: generate_until
process_docs: !function utils.prepare
doc_to_visual: !function utils.visual
doc_to_text: !function utils.text
doc_to_messages: !function utils.messages
doc_to_target: answer
process_results: !function utils.results
metric_list:
  - metric: mmvp_accuracy
    aggregation: mean
    higher_is_better: true
lmms_eval_specific_kwargs:
  default: {{post_prompt: "!"}}
"""
_UTILS = """\
def prepare(dataset):
    return dataset.map(lambda doc: {"prepared": True})
def visual(doc):
    return ["an image"]
def text(doc, lmms_eval_specific_kwargs=None):
    return doc["question"] + lmms_eval_specific_kwargs["post_prompt"]
def messages(doc, lmms_eval_specific_kwargs=None):
    return [{"role": "user", "content": [{"type": "image", "url": "an image"}]}]
def results(doc, results):
    return {"mmvp_accuracy": {"index": doc["index"], "score": float(results[0] == doc["answer"])}}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base task with a data set on disk, ids as numbers, not in the suite's order."""
    folder = tmp_path / "lmms_eval" / "tasks" / "mmvp"
    folder.mkdir(parents=True)
    data = tmp_path / "docs.json"
    docs = [{"index": i, "question": f"q{i}", "answer": "ab"[i % 2]} for i in range(20)]
    data.write_text("\n".join(map(json.dumps, docs)), encoding="utf-8")
    (folder / "mmvp.yaml").write_text(_BASE.format(data=data), encoding="utf-8")
    (folder / "utils.py").write_text(_UTILS, encoding="utf-8")
    return folder / "mmvp.yaml"


def _tasks(folder: Path, name: str, kind: str) -> dict[str, Any]:
    from lmms_eval.tasks import TaskManager

    manager = TaskManager("ERROR", include_path=str(folder), include_defaults=False, model_name="some")
    found = manager.load_task_or_group([name], task_type=kind)
    (group,) = found.values()
    return dict(group)


@pytest.mark.parametrize("kind", ["simple", "chat"])
def test_lmms_eval_runs_the_suite_and_no_more(tmp_path: Path, base: Path, kind: str) -> None:
    pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
    os.environ.setdefault("HF_DATASETS_CACHE", str(tmp_path / "hf"))
    make_suite(tmp_path / "mini", {"mmvp/7": 1.0, "mmvp/3": 1.0, "mmvp/12": 1.0})
    done = export(str(tmp_path / "mini"), "lmms-eval", tmp_path / "out", tasks={"mmvp": str(base)})
    assert [run["name"] for run in done["runs"]] == ["mini_mmvp"]
    (task,) = _tasks(tmp_path / "out", "mini", kind).values()
    assert task.config.task == "mini_mmvp"
    assert [doc["index"] for doc in task.test_docs()] == [7, 3, 12]
    assert all(doc["prepared"] for doc in task.test_docs())
    assert len(task.training_docs()) == 20
    assert task.doc_to_text(task.test_docs()[0]) == "q7!"
    assert task.doc_to_visual(task.test_docs()[0]) == ["an image"]


@pytest.mark.parametrize("kind", ["simple", "chat"])
def test_lmms_eval_runs_blind_without_images(tmp_path: Path, base: Path, kind: str) -> None:
    pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
    make_suite(tmp_path / "mini", {"mmvp/7": 1.0})
    export(str(tmp_path / "mini"), "lmms-eval", tmp_path / "out", tasks={"mmvp": str(base)}, blind=True)
    (task,) = _tasks(tmp_path / "out", "mini_blind", kind).values()
    doc = task.test_docs()[0]
    assert task.config.task == "mini_mmvp_blind"
    assert task.doc_to_visual(doc) == []
    if kind == "chat":
        (turn,) = task.doc_to_messages(doc)
        assert [part["type"] for part in turn["content"]] == ["text"]


def test_lmms_eval_fails_where_an_item_is_missing(tmp_path: Path, base: Path) -> None:
    pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
    make_suite(tmp_path / "mini", {"mmvp/7": 1.0, "mmvp/99": 1.0})
    export(str(tmp_path / "mini"), "lmms-eval", tmp_path / "out", tasks={"mmvp": str(base)})
    with pytest.raises(Exception, match=r"(?s)1 of 2 items of mini|RetryError"):
        _tasks(tmp_path / "out", "mini", "simple")


@pytest.fixture
def lmu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LMUData", str(tmp_path / "LMUData"))
    return tmp_path / "LMUData"


@pytest.mark.parametrize("blind", [False, True])
def test_vlmevalkit_builds_the_data_set(tmp_path: Path, lmu: Path, blind: bool) -> None:
    dataset = pytest.importorskip("vlmeval.dataset", reason="VLMEvalKit is not installed")
    make_suite(tmp_path / "mini", {"MMVP/7": 1.0, "MMVP/3": 1.0})
    Image.effect_noise((8, 8), 50).save(tmp_path / "a.png")
    table = "item_id,question,A,B,answer,image\n3,'What,\"quoted\"',x,None,A,a.png\n7,Is it?,yes,no,B,a.png\n"
    (tmp_path / "items.csv").write_text(table.replace("'What,\"quoted\"'", '"What, ""quoted"""'), encoding="utf-8")
    done = export(
        str(tmp_path / "mini"), "vlmevalkit", lmu / "mini_MMVP.tsv", items=[str(tmp_path / "items.csv")], blind=blind
    )
    (run,) = done["runs"]
    assert run["name"] == ("mini_MMVP_blind" if blind else "mini_MMVP")
    built = dataset.build_dataset(run["name"])
    assert list(built.data["index"]) == [7, 3]
    prompt = built.build_prompt(1)
    assert sum(part["type"] == "image" for part in prompt) == (0 if blind else 1)
    text = next(part["value"] for part in prompt if part["type"] == "text")
    assert 'What, "quoted"' in text
    assert "B.  None" in text
