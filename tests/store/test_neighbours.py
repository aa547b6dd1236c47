"""Neighbour graphs."""

import json

import numpy as np
import pytest
import xarray as xr

from optotype.schemas.arrays import array_problems
from optotype.schemas.errors import InvalidDataError
from optotype.store.manifest import verify
from optotype.store.neighbours import open_neighbours, write_neighbours


def graph(items=6, k=2):
    rng = np.random.default_rng(0)
    indices = np.array([[(i + j + 1) % items for j in range(k)] for i in range(items)], dtype="int32")
    return xr.Dataset(
        {
            "neighbours": (("item", "rank"), indices),
            "similarity": (("item", "rank"), rng.random((items, k)).round(12)),
            "eigenvalues": ("direction", np.array([3.0, 1.0, 0.5])),
            "whitened_variance": ("direction", np.array([1.0, 0.9, 0.8])),
        },
        coords={"item": ("item", np.array([f"i{i}" for i in range(items)], dtype=object))},
        attrs={"k": np.int64(k), "eps": 1e-4, "prenorm": "none", "null": None},
    )


def test_round_trip(tmp_path):
    ds = graph()
    manifest = write_neighbours(tmp_path / "g", ds, inputs={"k": 2})
    got = open_neighbours(tmp_path / "g")
    assert got.attrs == {**ds.attrs, "digest": manifest.digest, "key": manifest.key, "name": "g"}
    for name in ds.variables:
        np.testing.assert_array_equal(got[name].values, ds[name].values)
        assert got[name].dtype == ds[name].dtype
        assert got[name].chunks is None  # loaded
    assert array_problems(got, "neighbours", values=True) == []
    assert verify(tmp_path / "g") == []
    codecs = json.loads((tmp_path / "g" / "neighbours" / "zarr.json").read_text())["codecs"]
    assert [c["name"] for c in codecs[0]["configuration"]["codecs"]] == ["bytes", "zstd", "crc32c"]


def test_spectrum_is_optional(tmp_path):
    write_neighbours(tmp_path / "g", graph().drop_vars(["eigenvalues", "whitened_variance"]), inputs={})
    assert set(open_neighbours(tmp_path / "g").data_vars) == {"neighbours", "similarity"}


def test_lazy_graphs_give_the_same_bytes(tmp_path):
    one = write_neighbours(tmp_path / "a", graph(), inputs={})
    assert write_neighbours(tmp_path / "b", graph().chunk({"item": 2}), inputs={}).digest == one.digest


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda ds: ds.drop_vars("item"), {"missing-member"}),
        (lambda ds: ds.drop_vars("similarity"), {"missing-member"}),
        (lambda ds: ds.assign(neighbours=ds.neighbours.astype("int64")), {"wrong-dtype"}),
        (lambda ds: ds.assign(neighbours=(ds.neighbours + 1).astype("int32")), {"out-of-range"}),
        (lambda ds: ds.isel(rank=slice(0)), {"empty"}),
        (lambda ds: ds.transpose(), {"wrong-rank"}),
        (lambda ds: ds.assign(similarity=ds.similarity * np.nan), {"nan"}),
        (lambda ds: ds.isel(item=[1, 0, 2, 3, 4, 5]), {"unsorted-ids"}),
    ],
)
def test_problems(tmp_path, change, kinds, files):
    with pytest.raises(InvalidDataError) as caught:
        write_neighbours(tmp_path / "g", change(graph()), inputs={})
    assert {problem.kind for problem in caught.value.problems} == kinds
    assert files(tmp_path) == []
