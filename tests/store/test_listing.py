"""What arrays there are and what is in them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from optotype.schemas.errors import FormatError, IntegrityError, NotFoundError
from optotype.store.features import write_features
from optotype.store.listing import describe, show
from optotype.store.neighbours import write_neighbours
from optotype.store.project import Project
from optotype.store.states import write_states


@pytest.fixture
def project(tmp_path, ragged):
    project = Project(tmp_path)
    data = ragged(images=4)
    for name, inputs in (("vit-l8", {"layer": 8}), ("vit-l10", {"layer": 10})):
        write_features(
            project.features / "vit" / name,
            ids=data.ids,
            row_size=data.row_size,
            blocks=[data.tokens],
            dtype="float16",
            inputs=inputs,
            attrs={"flushed": 0.25},
        )
    bits = np.full((2, 3), 0x3F80, "uint16")
    write_states(project.states / "lm", ids=["a", "b"], blocks=[bits], dtype="bfloat16", inputs={})
    return project


def test_rows(project, ragged):
    first, second = describe("features", project)
    assert [first["name"], second["name"]] == ["vit-l10", "vit-l8"]
    tokens = len(ragged(images=4).tokens)
    assert {name: first[name] for name in ("images", "tokens", "channels", "dtype", "path")} == {
        "images": 4,
        "tokens": tokens,
        "channels": 5,
        "dtype": "float16",
        "path": "data/features/vit/vit-l10",
    }
    assert first["digest"] == second["digest"]
    assert first["key"] != second["key"]
    (row,) = describe("states", project)
    assert (row["texts"], row["tokens"], row["channels"], row["dtype"]) == (2, None, 3, "bfloat16")
    assert row["bytes"] == sum(
        f.stat().st_size for f in (project.states / "lm").rglob("*") if f.is_file() and f.name != "manifest.json"
    )
    json.dumps([first, row])
    assert describe("neighbours", project) == []


def test_show(project, ragged):
    shown = show("features", project.features / "vit" / "vit-l8")
    sizes = ragged(images=4).row_size
    assert shown["row_size"] == {"min": sizes.min(), "max": sizes.max()}
    assert shown["inputs"] == {"layer": 8}
    assert shown["attrs"] == {"flushed": 0.25}
    assert shown["shards"] == 1
    assert shown["chunk_rows"] == shown["shard_rows"] == shown["tokens"]
    json.dumps(shown)
    assert show("states", project.states / "lm")["kind"] == "states"


def test_neighbours(tmp_path):
    ds = xr.Dataset(
        {
            "neighbours": (("item", "rank"), np.array([[1], [0]], "int32")),
            "similarity": (("item", "rank"), np.ones((2, 1))),
        },
        coords={"item": ["a", "b"]},
    )
    write_neighbours(tmp_path / "g", ds, inputs={})
    (row,) = describe("neighbours", tmp_path / "g")
    assert (row["items"], row["k"], row["name"]) == (2, 1, "g")


def test_errors(project, tmp_path):
    with pytest.raises(NotFoundError):
        describe("features", tmp_path / "none")
    with pytest.raises(FormatError, match="holds states"):
        show("features", project.states / "lm")
    (project.states / "lm" / "zarr.json").write_text("{}")
    with pytest.raises(IntegrityError, match="damaged"):
        describe("states", project.states / "lm")


def test_a_damaged_array_hides_no_other(project):
    good = describe("features", project)[1]
    assert good["error"] is None
    manifest = project.features / "vit" / "vit-l10" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format_version": 99}))
    bad, other = describe("features", project)
    assert other == good
    assert "format_version 99" in bad["error"]
    assert list(bad) == list(good)
    assert (bad["name"], bad["path"], bad["digest"]) == ("vit-l10", "data/features/vit/vit-l10", None)


def test_listing_loads_nothing_heavy(project):
    script = """
import sys
from pathlib import Path
from optotype.store.listing import describe
from optotype.store.project import Project
assert len(describe("features", Project(Path(sys.argv[1])))) == 2
heavy = {"numpy", "xarray", "zarr", "dask", "pandas", "pandera", "torch", "dvc", "scipy", "fsspec"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script, str(project.root)], check=True)
