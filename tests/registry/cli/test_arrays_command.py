"""``optotype features|states import|list|show|export``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from optotype.registry.cli.root import cli


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="optotype")


def _json(*arguments: str) -> Any:
    result = _run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("kind", "name", "rows", "dtype"),
    [
        ("features", "siglip", "images", "float32"),
        ("features", "dinov2", "images", "float16"),
        ("states", "qwen3", "texts", "float64"),
        ("states", "smollm2", "texts", "float32"),
    ],
)
def test_import_then_list_and_show(kind: str, name: str, rows: str, dtype: str, project: Path) -> None:
    taken = _json(kind, "import", name, f"{name}.npz")
    (listed,) = _json(kind, "list")
    assert listed == taken
    assert {"name", rows, "tokens", "channels", "dtype", "digest"} <= set(listed)
    with np.load(project / f"{name}.npz") as file:
        assert listed["name"] == name
        assert listed[rows] == len(file["ids"])
        assert listed["dtype"] == dtype
        if kind == "features":
            assert listed["tokens"] == (file["row_size"].sum() if "row_size" in file else 128 * 3)
    assert listed["digest"].startswith("sha256:")
    assert len(listed["digest"]) == 7 + 64
    assert listed["path"] == f"data/{kind}/{name}"
    shown = _json(kind, "show", name)
    assert shown.items() >= listed.items()
    assert listed["digest"] in _run(kind, "show", name).stdout


def test_lists_for_people(project: Path) -> None:
    empty = _run("features", "list")
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "optotype features import NAME FILE" in empty.stderr
    for name in ("siglip", "dinov2"):
        _json("features", "import", name, f"{name}.npz")
    head, *rows = _run("features", "list").stdout.splitlines()
    assert head.split() == ["name", "images", "tokens", "channels", "dtype", "size", "digest"]
    assert [row.split()[:2] for row in rows] == [["dinov2", "128"], ["siglip", "128"]]


def test_everything_wrong_is_listed_and_nothing_written(project: Path) -> None:
    tokens = np.ones((5, 3), dtype=np.float32)
    tokens[1, 2] = np.nan
    np.savez("bad.npz", ids=np.array(["a", "a", ""]), tokens=tokens, row_size=np.array([2, 0, 4]))
    result = _run("features", "import", "bad", "bad.npz", "--json")
    assert (result.exit_code, result.stdout) == (4, "")
    for said in ("'a' occurs 2 times", "row_size", "ids[2]", "NaN"):
        assert said in result.stderr
    assert not (project / "data" / "features" / "bad").exists()
    assert _json("features", "list") == []


def test_import_says_what_it_replaces(project: Path) -> None:
    first = _json("features", "import", "siglip", "siglip.npz")
    assert "the same data was there already" in _run("features", "import", "siglip", "siglip.npz").stderr
    changed = _run("features", "import", "siglip", "dinov2.npz")
    assert f"replaced what was there ({first['digest']})" in changed.stderr
    assert _json("features", "list")[0]["digest"] != first["digest"]


def test_a_name_in_a_bundle_is_taken(project: Path) -> None:
    _json("features", "import", "siglip", "siglip.npz")
    bundle = project / "data" / "features" / "vit"
    bundle.mkdir()
    (project / "data" / "features" / "siglip").rename(bundle / "siglip")
    assert _json("features", "list")[0]["path"] == "data/features/vit/siglip"
    taken = _run("features", "import", "siglip", "siglip.npz")
    assert taken.exit_code == 6
    assert "data/features/vit/siglip" in taken.stderr
    assert not (project / "data" / "features" / "siglip").exists()


@pytest.mark.parametrize("name", ["Siglip", "a/b", "..", "a b", "-x", "."])
def test_names(name: str, project: Path) -> None:
    result = _run("features", "import", "--", name, "siglip.npz")
    assert (result.exit_code, result.stdout) == (2, "")
    assert repr(name) in result.stderr
    assert not (project / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["features", "import", "a", "nowhere.npz"], 3, "nowhere.npz"),
        (["features", "import", "a", "a.txt"], 2, ".npz"),
        (["features", "show", "siglib"], 3, "Did you mean 'siglip'?"),
        (["features", "export", "siglib", "x.npz"], 3, "Did you mean 'siglip'?"),
        (["states", "show", "siglip"], 3, "There are none yet"),
        (["features", "show", "./nowhere"], 3, "nowhere"),
        (["states", "show", "./data/features/siglip"], 5, "features"),
        (["features", "export", "siglip", "x.csv"], 2, "npz, npy, safetensors, zarr"),
        (["rank", "--features", "siglib", "--states", "qwen3"], 3, "Did you mean 'siglip'?"),
        (["rank", "--features", "siglip", "--states", "qwen3", "-k", "128"], 2, "127"),
        (["rank", "--features", "siglip", "--states", "qwen3", "--scheduler", "cluster"], 2, "threads, processes"),
        (["neighbours", "build", "g", "--of", "features", "--array", "siglip", "-k", "128"], 2, "127"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_not_there(arguments: list[str], code: int, says: str, project: Path) -> None:
    (project / "a.txt").write_text("x", encoding="utf-8")
    _json("features", "import", "siglip", "siglip.npz")
    if arguments[0] == "rank":
        _json("states", "import", "qwen3", "qwen3.npz")
    result = _run(*arguments, "--json")
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert says in result.stderr


@pytest.mark.parametrize("ending", ["npz", "npy", "safetensors", "zarr"])
def test_what_is_exported_can_be_imported(ending: str, project: Path) -> None:
    before = _json("features", "import", "siglip", "siglip.npz")
    written = _json("features", "export", "siglip", f"copy.{ending}")
    assert written == {"name": "siglip", "file": f"copy.{ending}", "format": ending}
    after = _json("features", "import", "copy", f"copy.{ending}")
    assert after["digest"] == before["digest"]
    refused = _run("features", "export", "siglip", f"copy.{ending}")
    assert (refused.exit_code, refused.stdout) == (6, "")
    assert "--force" in refused.stderr
    assert _run("features", "export", "siglip", f"copy.{ending}", "--force").exit_code == 0


def test_graphs_are_built_once_and_found_by_rank(project: Path) -> None:
    _json("features", "import", "siglip", "siglip.npz")
    _json("states", "import", "qwen3", "qwen3.npz")
    rows = _json(
        *(
            "neighbours",
            "build",
            "siglip",
            "--of",
            "features",
            "--array",
            "siglip",
            "--prenorm",
            "none",
            "--prenorm",
            "l2",
        )
    )
    assert [(row["array"], row["prenorm"], row["n"], row["k"]) for row in rows] == [
        ("siglip", "none", 128, 100),
        ("siglip", "l2", 128, 100),
    ]
    assert (project / "data" / "neighbours" / "siglip" / "siglip.l2" / "zarr.json").is_file()
    assert _json("neighbours", "build", "qwen3", "--of", "states", "--array", "qwen3")[0]["prenorm"] == "l2"
    _json("rank", "--features", "siglip", "--states", "qwen3")
    cache = project / ".optotype" / "cache" / "neighbours"
    assert not cache.exists() or not list(cache.iterdir()), "graphs that were there are not computed again"


def test_a_damaged_array_does_not_hide_the_rest_and_can_be_imported_again(project: Path) -> None:
    for name in ("siglip", "dinov2"):
        assert _run("features", "import", name, f"{name}.npz").exit_code == 0
    manifest = project / "data" / "features" / "siglip" / "manifest.json"
    manifest.unlink()
    manifest.write_text("{")
    listed = {row["name"]: row["error"] for row in _json("features", "list")}
    assert listed["dinov2"] is None
    assert "manifest" in listed["siglip"]
    shown = _run("features", "list")
    assert "dinov2" in shown.stdout
    assert "siglip" in shown.stderr
    again = _run("features", "import", "siglip", "siglip.npz")
    assert again.exit_code == 0, again.stderr
    assert [row["error"] for row in _json("features", "list")] == [None, None]


@pytest.mark.parametrize(
    "line",
    [
        "rank --features siglip --states broken -k 5",
        "rank --features siglip --states broken -k 5 --metric ravel-pooled-raw",
        "rank --features siglip --states broken --metric cka",
        "neighbours build g --of states --array broken -k 5",
    ],
)
def test_what_needs_finite_states_names_the_texts_that_are_not(line: str, project: Path) -> None:
    with np.load("qwen3.npz") as file:
        ids, rows = file["ids"], file["states"].copy()
    rows[5, 1], rows[7] = np.nan, np.inf
    np.savez("broken.npz", ids=ids, states=rows)
    _json("features", "import", "siglip", "siglip.npz")
    taken = _run("states", "import", "broken", "broken.npz", "--keep-invalid")
    assert "broken: 2 rows hold NaN or Inf; stored as NaN" in taken.stderr
    assert _json("states", "show", "broken")["attrs"] == {"invalid_rows": 2}
    result = _run(*line.split(), "--json")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "2 text(s)" in result.stderr
    for name in (ids[5], ids[7]):
        assert f"{name}" in result.stderr


def test_features_keep_no_invalid_rows(project: Path) -> None:
    result = _run("features", "import", "siglip", "siglip.npz", "--keep-invalid")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--keep-invalid" in result.stderr
    _json("states", "import", "qwen3", "qwen3.npz")
    again = _run("states", "import", "qwen3", "qwen3.npz", "--keep-invalid")
    assert "the same data was there already" in again.stderr
    assert "every row is finite" in again.stderr
