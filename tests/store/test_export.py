"""Exports: what goes out comes back in, the same array."""

import json

import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import load_file

from optotype.schemas.errors import ConflictError, InvalidDataError, UsageError
from optotype.store import export, shards
from optotype.store.export import export_features, export_states
from optotype.store.features import open_features, write_features
from optotype.store.importers import import_features, import_states
from optotype.store.manifest import read_manifest
from optotype.store.states import write_states

FORMATS = ["npz", "npy", "safetensors", "zarr"]


def write(target, data, dtype="float32", blocks=None):
    return write_features(
        target, ids=data.ids, row_size=data.row_size, blocks=blocks or [data.tokens], dtype=dtype, inputs={"a": 1}
    )


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("form", FORMATS)
def test_features_come_back(tmp_path, ragged, form, fixed, monkeypatch):
    monkeypatch.setattr(shards, "_INNER_BYTES", 64)
    monkeypatch.setattr(shards, "_SHARD_BYTES", 400)
    monkeypatch.setattr(export, "_BLOCK_BYTES", 200)
    data = ragged(images=20, most=1 if fixed else 6)
    want = write(tmp_path / "a", data)
    file = export_features(tmp_path / "a", tmp_path / "out" / f"x.{form}")
    first = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    export_features(tmp_path / "a", file)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == first
    assert import_features(tmp_path / "b", file).digest == want.digest
    if form == "zarr":
        assert read_manifest(file) == want
        assert xr.open_zarr(file)["image"].values.tolist() == data.ids


@pytest.mark.parametrize("form", FORMATS)
def test_states_come_back(tmp_path, form):
    values = np.random.default_rng(0).standard_normal((5, 3))
    want = write_states(tmp_path / "a", ids=list("abcde"), blocks=[values], dtype="float64", inputs={})
    file = export_states(tmp_path / "a", tmp_path / f"x.{form}")
    assert import_states(tmp_path / "b", file).digest == want.digest


@pytest.mark.parametrize("form", FORMATS)
def test_bfloat16(tmp_path, ragged, form):
    data = ragged()
    bits = (data.tokens.view(np.uint32) >> 16).astype(np.uint16)
    want = write(tmp_path / "a", data, "bfloat16", [bits])
    got = import_features(tmp_path / "b", export_features(tmp_path / "a", tmp_path / f"x.{form}"))
    np.testing.assert_array_equal(
        open_features(tmp_path / "b")["patches"].values, open_features(tmp_path / "a")["patches"].values
    )
    assert (got.digest == want.digest) is (form in ("safetensors", "zarr"))  # NumPy's formats hold float32


def test_members(tmp_path, ragged):
    data = ragged()
    write(tmp_path / "a", data)
    with np.load(export_features(tmp_path / "a", tmp_path / "x.npz"), allow_pickle=False) as arrays:
        assert set(arrays) == {"ids", "tokens", "row_size"}
        np.testing.assert_array_equal(arrays["tokens"], data.tokens)
    np.testing.assert_array_equal(
        load_file(export_features(tmp_path / "a", tmp_path / "x.safetensors"))["tokens"], data.tokens
    )
    export_features(tmp_path / "a", tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), data.tokens)
    assert (tmp_path / "x.ids.txt").read_text().splitlines() == data.ids


def test_stale_sidecar_does_not_survive(tmp_path, ragged):
    write(tmp_path / "a", ragged())
    export_features(tmp_path / "a", tmp_path / "x.npy")
    assert (tmp_path / "x.row_size.npy").exists()
    write(tmp_path / "a", ragged(most=1))
    export_features(tmp_path / "a", tmp_path / "x.npy")
    assert not (tmp_path / "x.row_size.npy").exists()


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_order(tmp_path, ragged, form):
    data = ragged(images=8)
    write(tmp_path / "a", data)
    order = [5, 6, 2, 0]
    file = export_features(tmp_path / "a", tmp_path / f"x.{form}", order=[data.ids[i] for i in order])
    want = np.concatenate([data.image(i) for i in order])
    got = load_file(file) if form == "safetensors" else np.load(file)
    np.testing.assert_array_equal(got["tokens"], want)
    np.testing.assert_array_equal(got["row_size"], data.row_size[order])
    if form == "safetensors":
        header = file.read_bytes()
        length = int.from_bytes(header[:8], "little")
        ids = json.loads(json.loads(header[8 : 8 + length])["__metadata__"]["ids"])
        assert ids == [data.ids[i] for i in order]
    else:
        got.close()


def test_errors(tmp_path, ragged, files):
    data = ragged()
    write(tmp_path / "a", data)
    before = files(tmp_path)
    with pytest.raises(UsageError, match="npz"):
        export_features(tmp_path / "a", tmp_path / "x.csv")
    with pytest.raises(UsageError, match="sorted"):
        export_features(tmp_path / "a", tmp_path / "x.zarr", order=data.ids)
    with pytest.raises(InvalidDataError) as caught:
        export_features(tmp_path / "a", tmp_path / "x.npz", order=["none", data.ids[0], data.ids[0]])
    assert {problem.kind for problem in caught.value.problems} == {"unknown-id", "duplicate-id"}
    assert files(tmp_path) == before


@pytest.mark.parametrize("form", ["npz", "npy", "safetensors"])
def test_a_folder_is_not_replaced_by_a_file(tmp_path, ragged, files, form):
    write(tmp_path / "a", ragged())
    (tmp_path / "out").mkdir()
    before = files(tmp_path)
    with pytest.raises(ConflictError, match=rf"/out is a folder; {form}") as caught:
        export_features(tmp_path / "a", tmp_path / "out", file_format=form)
    assert "draft" not in str(caught.value)
    assert files(tmp_path) == before
