"""``optotype embeddings import|list|show|export`` and ``optotype encode items``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from optotype.pipelines.encode.runs import EncodedArray
from optotype.registry.cli.root import cli
from optotype.store.embeddings import write_embeddings


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="optotype")


def _json(*arguments: str) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def file(project: Path) -> str:
    random = np.random.default_rng(0)
    values = random.normal(size=(6, 4)).astype(np.float32)
    seen = values + 1
    seen[2] = np.nan
    labels = {"benchmark": np.array(list("bbbaaa")), "item_id": np.array(list("012012"))}
    np.savez(project / "clip-items.npz", text=values, vision_text=seen, **labels)
    return "clip-items.npz"


def test_import_list_show(project: Path, file: str) -> None:
    taken = _json("embeddings", "import", "clip", file)
    (listed,) = _json("embeddings", "list")
    assert listed == taken
    assert (listed["items"], listed["benchmarks"], listed["channels"]) == (6, 2, 4)
    assert (listed["text"], listed["vision_text"]) == (6, 5)
    assert listed["path"] == "data/embeddings/clip"
    shown = _json("embeddings", "show", "clip")
    assert shown.items() >= listed.items()
    assert shown["inputs"] == {"operation": "import", "digest": listed["digest"]}
    assert _json("embeddings", "show", "./data/embeddings/clip")["digest"] == listed["digest"]
    assert listed["digest"] in _run("embeddings", "show", "clip").stdout


def test_lists_for_people(project: Path, file: str) -> None:
    empty = _run("embeddings", "list")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "optotype embeddings import NAME FILE" in empty.stderr
    _json("embeddings", "import", "clip", file)
    head, row = _run("embeddings", "list").stdout.splitlines()
    assert head.split() == ["name", "items", "benchmarks", "text", "vision_text", "channels", "size", "digest"]
    assert row.split()[:6] == ["clip", "6", "2", "6", "5", "4"]
    (project / "data" / "embeddings" / "clip" / "zarr.json").write_text("{}")
    damaged = _run("embeddings", "list")
    assert damaged.exit_code == 0
    assert "damaged" in damaged.stdout
    assert "clip cannot be read" in damaged.stderr


def test_export_and_import_again(project: Path, file: str) -> None:
    taken = _json("embeddings", "import", "clip", file)
    for form in ("npz", "safetensors", "zarr"):
        assert _json("embeddings", "export", "clip", f"copy.{form}")["format"] == form
        assert _json("embeddings", "import", f"copy-{form}", f"copy.{form}")["digest"] == taken["digest"]
    again = _run("embeddings", "export", "clip", "copy.npz")
    assert again.exit_code == 6
    assert "--force" in again.stderr
    assert _run("embeddings", "export", "clip", "copy.npz", "--force").stdout == "clip -> copy.npz\n"


def test_what_is_said_of_what_was_there(project: Path, file: str) -> None:
    _json("embeddings", "import", "clip", file)
    assert "the same data was there already" in _run("embeddings", "import", "clip", file).stderr
    np.savez("other.npz", benchmark=np.array(["a"]), item_id=np.array(["0"]), text=np.ones((1, 3)))
    assert "replaced what was there (sha256:" in _run("embeddings", "import", "clip", "other.npz").stderr


def test_refusals(project: Path) -> None:
    np.savez("bad.npz", benchmark=np.array(["a", "a"]), item_id=np.array(["0", "0"]), text=np.ones((3, 2)))
    result = _run("embeddings", "import", "bad", "bad.npz", "--json")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "occurs 2 times" in result.stderr
    assert "3 rows for 2 items" in result.stderr
    assert _run("embeddings", "import", "Bad Name", "bad.npz").exit_code == 2
    missing = _run("embeddings", "show", "clip")
    assert missing.exit_code == 3
    assert "optotype embeddings import" in missing.stderr


def test_encode_items_passes_its_options_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def fake(found: Any, name: str, source: str, **options: Any) -> EncodedArray:
        seen.update(options, name=name, source=source)
        folder = found.folder("embeddings") / name
        manifest = write_embeddings(folder, benchmark=["a"], item=["0"], text=np.ones((1, 2)), inputs={})
        return EncodedArray(name, folder, manifest, notes=("a note",))

    monkeypatch.setattr("optotype.pipelines.encode.items.encode_items", fake)
    (row,) = _json("encode", "items", "e", "--items", "t.csv", "--source", "m", "--pooling", "last", "--threads", "2")
    assert (row["name"], row["items"], row["notes"], row["skipped"]) == ("e", 1, ["a note"], False)
    assert (seen["items"], seen["panel"], seen["source"], seen["pooling"]) == ("t.csv", None, "m", "last")
    assert (seen["text_column"], seen["batch_size"], seen["threads"], seen["max_length"]) == ("question", 16, 2, None)
    table = _run("encode", "items", "e", "--panel", "p", "--source", "m", "--images-root", "i")
    assert table.exit_code == 0, table.stderr
    assert table.stdout.splitlines()[0].split()[:2] == ["name", "items"]
    assert (seen["panel"], seen["images_root"]) == ("p", "i")
