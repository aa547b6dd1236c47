"""Verbs that need a model, a download or a ranking: what they ask their function for, and how they print it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from optotype.pipelines.emoji import models, pairs
from optotype.pipelines.encode import image_features, text_states
from optotype.pipelines.encode.runs import EncodedArray
from optotype.registry.cli.root import cli
from optotype.registry.report.ranking import report as ranking
from optotype.store.importers import import_features, import_states

Calls = list[dict[str, Any]]


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="optotype")


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str, Any], Calls]:
    """Replace a function by a value; the calls are kept, bound to the real function's parameters."""

    def replace(module: ModuleType, name: str, value: Any) -> Calls:
        signature = inspect.signature(getattr(module, name))
        calls: Calls = []

        def stand_in(*arguments: Any, **options: Any) -> Any:
            calls.append(signature.bind(*arguments, **options).arguments)
            return value

        monkeypatch.setattr(module, name, stand_in)
        return calls

    return replace


def _encoded(kind: str, folder: Path, file: str, **what: Any) -> EncodedArray:
    take = import_features if kind == "features" else import_states
    return EncodedArray(folder.name, folder, take(folder, file), **what)


def test_encode_images(project: Path, instead: Callable[..., Calls]) -> None:
    bundle = project / "data" / "features" / "vit"
    arrays = [
        _encoded("features", bundle / "vit-l8", "siglip.npz", skipped=True),
        _encoded("features", bundle / "vit-final", "dinov2.npz", resumed=True, notes=("0.1 % flushed",)),
    ]
    calls = instead(image_features, "encode_images", arrays)
    line = "encode images vit --images photos --source hf:a/b@main --layers 8,final --image-size 224 --batch-size 4"
    more = "--device cuda:1 --dtype float32 --trust-remote-code --threads 2 --json"
    result = _run(*line.split(), *more.split())
    assert result.exit_code == 0, result.stderr
    expected = {
        "name": "vit",
        "table_path": "photos",
        "source": "hf:a/b@main",
        "layers": [8, None],
        "batch_size": 4,
        "device": "cuda:1",
        "dtype": "float32",
        "image_size": 224,
        "trust_remote_code": True,
        "threads": 2,
    }
    assert calls[0].items() >= expected.items()
    assert calls[0]["progress"] is not None
    rows = json.loads(result.stdout)
    assert [(row["name"], row["images"], row["skipped"], row["resumed"]) for row in rows] == [
        ("vit-l8", 128, True, False),
        ("vit-final", 128, False, True),
    ]
    assert rows[0]["path"] == "data/features/vit/vit-l8"
    assert rows[1]["notes"] == ["0.1 % flushed"]
    assert "vit-l8: up to date" in result.stderr
    assert "vit-final: went on" in result.stderr


def test_encode_images_by_default_takes_the_final_output(project: Path, instead: Callable[..., Calls]) -> None:
    defaults = inspect.signature(image_features.encode_images).parameters
    calls = instead(image_features, "encode_images", [])
    assert _run("encode", "images", "vit", "--images", "photos", "--source", "model").exit_code == 0
    for name in ("layers", "batch_size", "device", "dtype", "image_size", "trust_remote_code", "threads"):
        assert calls[0][name] == defaults[name].default


@pytest.mark.parametrize(
    ("words", "layers"),
    [("--layers 8,10,12", [8, 10, 12]), ("--layer 8 --layer 10 --layers 12", [8, 10, 12]), ("--layer -1", [-1])],
)
def test_layers(words: str, layers: list[int], project: Path, instead: Callable[..., Calls]) -> None:
    calls = instead(image_features, "encode_images", [])
    assert _run("encode", "images", "vit", "--images", "photos", "--source", "model", *words.split()).exit_code == 0
    assert calls[0]["layers"] == layers


def test_encode_texts(project: Path, instead: Callable[..., Calls]) -> None:
    array = _encoded("states", project / "data" / "states" / "lm", "qwen3.npz")
    defaults = inspect.signature(text_states.encode_texts).parameters
    calls = instead(text_states, "encode_texts", array)
    words = "--column name_de --layer -1 --pooling last --gguf-file a.gguf"
    result = _run("encode", "texts", "lm", "--texts", "pairs.csv", "--source", "model", *words.split())
    assert result.exit_code == 0, result.stderr
    assert calls[0].items() >= {"column": "name_de", "layer": -1, "pooling": "last", "gguf_file": "a.gguf"}.items()
    for name in ("batch_size", "device", "dtype", "trust_remote_code", "max_length", "threads"):
        assert calls[0][name] == defaults[name].default
    assert result.stdout.splitlines()[1].split()[:3] == ["lm", "128", "8"]


def test_emoji_pairs(project: Path, instead: Callable[..., Calls]) -> None:
    calls = instead(pairs, "write_pairs", {"n": 5, "seed": 2, "available": 1918})
    result = _run("emoji", "pairs", "--n", "5", "--seed", "2", "--out", "data/pairs", "--json")
    assert result.exit_code == 0, result.stderr
    assert calls[0].items() >= {"target": Path("data/pairs"), "n": 5, "seed": 2}.items()
    assert json.loads(result.stdout) == {"n": 5, "seed": 2, "available": 1918, "path": "data/pairs"}
    assert _run("emoji", "pairs", "--out", "data/pairs").stdout == "400 pairs in data/pairs\n"


def test_emoji_model(project: Path, instead: Callable[..., Calls]) -> None:
    calls = instead(models, "write_model", {"model": "minilm-l6"})
    result = _run("emoji", "model", "minilm-l6", "--out", "data/models/minilm-l6", "--json")
    assert result.exit_code == 0, result.stderr
    assert calls[0].items() >= {"model_id": "minilm-l6", "target": Path("data/models/minilm-l6"), "seed": 0}.items()
    assert json.loads(result.stdout)["source"] == "data/models/minilm-l6"


def test_an_unknown_model_is_answered_with_the_nearest(project: Path) -> None:
    result = _run("emoji", "model", "minilm", "--out", "data/models/minilm")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "minilm-l6" in result.stderr
    assert not (project / "data" / "models").exists()


def test_report(project: Path, instead: Callable[..., Calls]) -> None:
    written = {"html": "reports/ranking.html", "json": "reports/ranking.json", "rows": np.int64(2)}
    defaults = inspect.signature(ranking.write_ranking_report).parameters
    calls = instead(ranking, "write_ranking_report", written)
    command = ["report", "ranking", "--ranking", "results/ranking.json", "--pairs", "pairs.csv", "--out", "reports"]
    result = _run(*command, "--json")
    assert result.exit_code == 0, result.stderr
    for name in ("title", "examples", "shown", "seed", "scheduler"):
        assert calls[0][name] == defaults[name].default
    assert calls[0]["ranking"] == Path("results/ranking.json")
    assert json.loads(result.stdout) == {**written, "rows": 2}
    assert _run(*command).stdout == "reports/ranking.html\nreports/ranking.json\n"


def test_report_without_a_ranking(project: Path) -> None:
    result = _run(
        "report", "ranking", "--ranking", "nowhere.json", "--pairs", "pairs.csv", "--out", "reports", "--json"
    )
    assert (result.exit_code, result.stdout) == (3, "")
    assert "nowhere.json" in result.stderr
    assert not (project / "reports").exists()
