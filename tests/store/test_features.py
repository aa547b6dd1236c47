"""Patch features: what is written is read, whole or not at all, the same bytes for the same data."""

import json
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

import dask
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from optotype.schemas.arrays import array_problems
from optotype.schemas.errors import (
    ConflictError,
    FormatError,
    IntegrityError,
    InvalidDataError,
    NotFoundError,
    UsageError,
)
from optotype.store import shards
from optotype.store.features import as_padded, open_features, select_images, write_features
from optotype.store.manifest import read_manifest, verify


def write(target, data, rows=3, dtype=None, inputs=None, **options):
    return write_features(
        target,
        ids=data.ids,
        row_size=data.row_size,
        blocks=data.blocks(rows),
        dtype=dtype or data.tokens.dtype,
        inputs=inputs or {"a": 1},
        **options,
    )


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of a few rows, so that small arrays have many."""
    monkeypatch.setattr(shards, "_INNER_BYTES", 64)
    monkeypatch.setattr(shards, "_SHARD_BYTES", 400)


def test_round_trip(tmp_path, ragged):
    data = ragged()
    manifest = write(tmp_path / "a", data, attrs={"zeta": 1, "alpha": np.float64(0.5)})
    ds = open_features(tmp_path / "a")
    assert ds["patches"].dims == ("token", "channel")
    np.testing.assert_array_equal(ds["patches"].values, data.tokens)
    np.testing.assert_array_equal(ds["row_size"].values, data.row_size)
    assert ds["row_size"].dtype == np.int64
    assert ds["row_size"].attrs["sample_dimension"] == "token"
    assert ds["image"].dtype == object
    assert ds["image"].values.tolist() == data.ids
    assert all(type(value) is str for value in ds["image"].values)
    assert ds.attrs == {"alpha": 0.5, "zeta": 1, "digest": manifest.digest, "key": manifest.key, "name": "a"}
    assert array_problems(ds, "features", values=True) == []
    assert verify(tmp_path / "a") == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row_size=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    channels=st.integers(1, 6),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    rows=st.integers(1, 50),
    data=st.data(),
)
def test_any_ragged_set_comes_back(tmp_path_factory, small_shards, row_size, channels, dtype, rows, data):
    width = np.dtype(dtype).itemsize * 8
    floats = st.floats(width=width, allow_nan=False, allow_infinity=False)
    tokens = data.draw(hnp.arrays(dtype, (sum(row_size), channels), elements=floats))
    ids = sorted(
        data.draw(st.sets(st.text("abcäöé字-_ 0", min_size=1).map(lambda t: f"i{t}i"), min_size=len(row_size)))
    )
    ids = ids[: len(row_size)]
    target = tmp_path_factory.mktemp("p") / "a"
    blocks = [tokens[i : i + rows] for i in range(0, len(tokens), rows)]
    write_features(target, ids=ids, row_size=np.array(row_size), blocks=blocks, dtype=dtype, inputs={})
    ds = open_features(target)
    assert ds["patches"].values.tobytes() == tokens.tobytes()  # -0.0 and subnormals too
    assert ds["row_size"].values.tolist() == row_size
    assert ds["image"].values.tolist() == ids
    padded = as_padded(ds).values
    mask = np.arange(max(row_size)) < np.array(row_size)[:, None]
    np.testing.assert_array_equal(padded[mask], tokens)
    assert np.isnan(padded[~mask]).all()


def test_layout_on_disk(tmp_path, ragged, small_shards):
    data = ragged(images=40, channels=8)
    write(tmp_path / "a", data)
    document = json.loads((tmp_path / "a" / "patches" / "zarr.json").read_text())
    assert document["zarr_format"] == 3
    assert document["dimension_names"] == ["token", "channel"]
    (sharding,) = document["codecs"]
    assert sharding["name"] == "sharding_indexed"
    assert sharding["configuration"]["index_location"] == "start"
    assert [codec["name"] for codec in sharding["configuration"]["codecs"]] == ["bytes", "crc32c"]
    image = json.loads((tmp_path / "a" / "image" / "zarr.json").read_text())
    assert image["data_type"] == "string"
    shard_rows = document["chunk_grid"]["configuration"]["chunk_shape"][0]
    assert len(list((tmp_path / "a" / "patches" / "c").iterdir())) == -(-len(data.tokens) // shard_rows) > 3
    # dask chunks are shards, never parts of them
    assert open_features(tmp_path / "a")["patches"].data.chunksize == (shard_rows, 8)


def test_plain_xarray_opens_it_without_a_warning(tmp_path, ragged):
    data = ragged()
    write(tmp_path / "a", data)
    ds = xr.open_zarr(tmp_path / "a")
    np.testing.assert_array_equal(ds["patches"].values, data.tokens)
    assert ds["image"].values.tolist() == data.ids


def test_other_processes_read_it(tmp_path, ragged, small_shards):
    data = ragged(images=30)
    write(tmp_path / "a", data)
    ds = pickle.loads(pickle.dumps(open_features(tmp_path / "a")))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        patches = ds["patches"].data.compute(scheduler="processes", pool=pool)
    np.testing.assert_array_equal(patches, data.tokens)


def test_opening_computes_nothing(tmp_path, ragged, small_shards):
    def no_compute(*_args, **_kwargs):
        raise AssertionError("opening computes nothing")

    write(tmp_path / "a", ragged(images=30))
    with dask.config.set(scheduler=no_compute):
        ds = open_features(tmp_path / "a")
        as_padded(ds)
        select_images(ds, [3, 1])


@pytest.mark.parametrize("rows", [1, 4, 1000])
def test_digest_does_not_depend_on_blocks(tmp_path, ragged, small_shards, rows):
    data = ragged(images=30)
    assert write(tmp_path / "a", data, rows=rows).digest == write(tmp_path / "b", data, rows=7).digest


def test_digest_does_not_depend_on_inputs_name_or_order_of_attributes(tmp_path, ragged):
    one = write(tmp_path / "a", ragged(), inputs={"x": 1}, attrs={"b": 1, "a": {"d": 1, "c": 2}})
    two = write(tmp_path / "b", ragged(), inputs={"x": 2}, attrs={"a": {"c": 2, "d": 1}, "b": 1})
    assert one.digest == two.digest
    assert one.key != two.key


def test_another_process_writes_the_same_bytes(tmp_path, ragged):
    data = ragged(images=20)
    np.savez(tmp_path / "x.npz", ids=np.array(data.ids), row_size=data.row_size, tokens=data.tokens)
    script = """
import sys, numpy as np
from pathlib import Path
from optotype.store.features import write_features
z = np.load(sys.argv[1])
m = write_features(Path(sys.argv[2]), ids=z["ids"].tolist(), row_size=z["row_size"], blocks=[z["tokens"]],
                   dtype="float32", inputs={"a": 1})
print(m.digest)
"""
    command = [sys.executable, "-W", "error", "-c", script, str(tmp_path / "x.npz"), str(tmp_path / "b")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == write(tmp_path / "a", data).digest
    assert done.stderr == ""


def test_same_again_is_left_alone(tmp_path, ragged):
    write(tmp_path / "a", ragged())
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")}
    write(tmp_path / "a", ragged(), rows=5)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")} == before


def test_damaged_array_is_replaced_by_the_same_data(tmp_path, ragged):
    write(tmp_path / "a", ragged())
    (tmp_path / "a" / "row_size" / "c" / "0").unlink()
    write(tmp_path / "a", ragged())
    assert verify(tmp_path / "a") == []


def test_replacing_read_only_links(tmp_path, ragged):
    """DVC leaves its links read-only."""
    write(tmp_path / "a", ragged())
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            path.chmod(0o444)
    manifest = write(tmp_path / "a", ragged(seed=1))
    assert open_features(tmp_path / "a").attrs["digest"] == manifest.digest


def test_bfloat16_keeps_its_bits(tmp_path, ragged):
    data = ragged()
    bits = (data.tokens.view(np.uint32) >> 16).astype(np.uint16)
    write_features(
        tmp_path / "a", ids=data.ids, row_size=data.row_size, blocks=[bits[:4], bits[4:]], dtype="bfloat16", inputs={}
    )
    ds = open_features(tmp_path / "a")
    assert ds["patches"].dtype == np.float32
    assert ds["patches"].attrs["stored_dtype"] == "bfloat16"
    np.testing.assert_array_equal(ds["patches"].values.view(np.uint32) >> 16, bits)
    np.testing.assert_array_equal(ds["patches"].values.view(np.uint32) & 0xFFFF, 0)


@pytest.mark.parametrize(("bits", "kind"), [(0x7F80, "infinite"), (0xFF80, "infinite"), (0x7FC0, "nan")])
def test_bfloat16_specials_are_found(tmp_path, bits, kind):
    block = np.full((2, 3), 0x3F80, dtype=np.uint16)
    block[1, 2] = bits
    with pytest.raises(InvalidDataError) as caught:
        write_features(tmp_path / "a", ids=["a", "b"], row_size=[1, 1], blocks=[block], dtype="bfloat16", inputs={})
    assert [(p.kind, "'b'" in p.message) for p in caught.value.problems] == [(kind, True)]


def test_every_problem_is_listed_and_nothing_written(tmp_path, files):
    block = np.ones((4, 2), dtype="float32")
    bad = block.copy()
    bad[1, 1] = np.nan
    bad[3, 0] = -np.inf
    with pytest.raises(InvalidDataError) as caught:
        write_features(
            tmp_path / "a",
            ids=["b", "a", "a", ""],
            row_size=[2, 0, 3, 2],
            blocks=[bad, block.reshape(2, 2, 2), np.ones((1, 3), "float32"), np.ones((1, 2), "int64")],
            dtype="float32",
            inputs={},
        )
    kinds = {problem.kind for problem in caught.value.problems}
    assert kinds == {
        *("id-blank", "duplicate-id", "row-size-range", "nan", "infinite"),
        *("wrong-rank", "channels", "wrong-dtype", "length"),
    }
    assert files(tmp_path) == []


def test_problem_in_the_last_block_removes_what_was_written(tmp_path, ragged, files, small_shards):
    data = ragged(images=30)
    data.tokens[-1, 0] = np.inf
    with pytest.raises(InvalidDataError, match="'image-0029'"):
        write(tmp_path / "a", data)
    assert files(tmp_path) == []


def test_failed_replacement_keeps_the_old_array(tmp_path, ragged, files):
    write(tmp_path / "a", ragged())
    before = files(tmp_path)
    data = ragged(seed=1)
    data.tokens[0, 0] = np.nan
    with pytest.raises(InvalidDataError):
        write(tmp_path / "a", data)

    def broken():
        yield ragged(seed=1).tokens[:3]
        raise RuntimeError("the model stopped")

    with pytest.raises(RuntimeError, match="the model stopped"):
        write_features(
            tmp_path / "a",
            ids=ragged().ids,
            row_size=ragged().row_size,
            blocks=broken(),
            dtype="float32",
            inputs={},
        )
    assert files(tmp_path) == before
    np.testing.assert_array_equal(open_features(tmp_path / "a")["patches"].values, ragged().tokens)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"ids": []}, "empty"),
        ({"ids": ["a", "b", "c"]}, "length"),
        ({"ids": ["b", "a"]}, "unsorted-ids"),
        ({"ids": ["a", 7]}, "id-not-string"),
        ({"row_size": [1]}, "length"),
        ({"row_size": [1, 3]}, "length"),
        ({"row_size": [1.0, 2.0]}, "wrong-dtype"),
        ({"row_size": [[1, 2]]}, "wrong-rank"),
        ({"blocks": []}, "empty"),
        ({"blocks": [np.ones((3, 0))]}, "zero-channels"),
        ({"blocks": [np.ones(3)]}, "wrong-rank"),
        ({"blocks": [np.full((3, 2), 1e6)], "dtype": "float16"}, "infinite"),
    ],
)
def test_problem_kinds(tmp_path, files, change, kind):
    sound = {"ids": ["a", "b"], "row_size": [1, 2], "blocks": [np.ones((3, 2))], "dtype": "float64", "inputs": {}}
    with pytest.raises(InvalidDataError) as caught:
        write_features(tmp_path / "a", **{**sound, **change})
    assert kind in {problem.kind for problem in caught.value.problems}
    assert files(tmp_path) == []


def test_many_problems_of_a_kind_are_counted(tmp_path):
    blocks = [np.full((100, 2), np.nan)]
    with pytest.raises(InvalidDataError) as caught:
        write_features(
            tmp_path / "a",
            ids=[f"{i:03d}" for i in range(100)],
            row_size=[1] * 100,
            blocks=blocks,
            dtype="f8",
            inputs={},
        )
    (problem,) = caught.value.problems
    assert "NaN (200) in 100 images: '000', '001', '002', '003', '004', …" in problem.message


def test_what_is_in_the_way(tmp_path, ragged):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.txt").write_text("mine")
    (tmp_path / "b").write_text("mine")
    for name in ("a", "b"):
        with pytest.raises(ConflictError, match="in the way"):
            write(tmp_path / name, ragged())
    assert (tmp_path / "a" / "thesis.txt").read_text() == "mine"
    assert (tmp_path / "b").read_text() == "mine"
    write(tmp_path / "c", ragged())
    with pytest.raises(ConflictError, match="inside"):
        write(tmp_path / "c" / "d", ragged())


def test_select_images(tmp_path, ragged, small_shards):
    data = ragged(images=25)
    write(tmp_path / "a", data)
    ds = open_features(tmp_path / "a")
    mask = np.arange(25) % 3 == 0
    for positions in ([4], [5, 6, 7], [20, 3, 11], list(range(25)), mask, [0, 0]):
        wanted = np.flatnonzero(mask) if positions is mask else positions
        chosen = select_images(ds, positions)
        assert chosen["image"].values.tolist() == [data.ids[i] for i in wanted]
        assert chosen["row_size"].values.tolist() == [data.row_size[i] for i in wanted]
        np.testing.assert_array_equal(chosen["patches"].values, np.concatenate([data.image(i) for i in wanted]))
    for positions in ([25], [-1], [[1]]):
        with pytest.raises(UsageError):
            select_images(ds, positions)


def test_nothing_there_or_not_ours(tmp_path, ragged):
    with pytest.raises(NotFoundError):
        open_features(tmp_path / "none")
    data = ragged()
    xr.Dataset({"patches": (("token", "channel"), data.tokens)}).to_zarr(
        tmp_path / "other", zarr_format=3, consolidated=False
    )
    with pytest.raises(FormatError, match="import"):
        open_features(tmp_path / "other")


def test_missing_shard_is_an_error_not_zeros(tmp_path, ragged, small_shards):
    write(tmp_path / "a", ragged(images=30))
    ds = open_features(tmp_path / "a")
    (tmp_path / "a" / "patches" / "c" / "1" / "0").unlink()
    with pytest.raises(IntegrityError, match="missing"):
        ds["patches"].values  # noqa: B018
    with pytest.raises(IntegrityError, match="missing"):
        open_features(tmp_path / "a")


def test_flipped_bit_is_an_error(tmp_path, ragged):
    write(tmp_path / "a", ragged())
    shard = tmp_path / "a" / "patches" / "c" / "0" / "0"
    content = bytearray(shard.read_bytes())
    content[-9] ^= 1
    shard.write_bytes(bytes(content))
    with pytest.raises(IntegrityError, match="checksum"):
        open_features(tmp_path / "a")["patches"].values  # noqa: B018
    assert [problem.kind for problem in verify(tmp_path / "a")] == ["digest"]


def test_flipped_bit_in_the_ids_is_an_error(tmp_path, ragged):
    write(tmp_path / "a", ragged())
    chunk = tmp_path / "a" / "image" / "c" / "0"
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(bytes(content))
    with pytest.raises(IntegrityError, match="image: a chunk does not have its checksum"):
        open_features(tmp_path / "a")


def test_changed_metadata_is_an_error(tmp_path, ragged):
    write(tmp_path / "a", ragged(), attrs={"layer": 8})
    document = tmp_path / "a" / "zarr.json"
    document.write_text(document.read_text().replace('"layer": 8', '"layer": 9'))
    with pytest.raises(IntegrityError, match="digest"):
        open_features(tmp_path / "a")


def test_replaced_while_open(tmp_path, ragged):
    write(tmp_path / "a", ragged())
    ds = open_features(tmp_path / "a")
    write(tmp_path / "a", ragged(seed=1))
    with pytest.raises(ConflictError, match="replaced"):
        ds["patches"].values  # noqa: B018


def test_same_data_under_the_same_path_may_come_back(tmp_path, ragged):
    """What DVC does when it links an output anew."""
    write(tmp_path / "a", ragged())
    ds = open_features(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "old")
    write(tmp_path / "a", ragged())
    np.testing.assert_array_equal(ds["patches"].values, ragged().tokens)


def test_manifest_has_no_clock_and_all_inputs(tmp_path, ragged):
    inputs = {"dataset": "sha256:1", "layer": 8, "shape": (1, 2)}
    write(tmp_path / "a", ragged(), inputs=inputs)
    write(tmp_path / "b", ragged(), inputs=inputs)
    assert (tmp_path / "a" / "manifest.json").read_bytes() == (tmp_path / "b" / "manifest.json").read_bytes()
    assert read_manifest(tmp_path / "a").inputs == {"dataset": "sha256:1", "layer": 8, "shape": [1, 2]}


def test_bytes_of_a_known_array(tmp_path):
    """The same on every machine and with every version that writes this format: keys downstream depend on it."""
    manifest = write_features(
        tmp_path / "a",
        ids=["a", "ä"],
        row_size=[1, 2],
        blocks=[np.arange(6, dtype="float16").reshape(3, 2)],
        dtype="float16",
        inputs={"x": 1},
    )
    assert manifest.digest == "sha256:de1995d35cbba4703a36533c96aea0f20612c1b575adac5e5f2957839705215a"
    assert manifest.key == "5041bf1f713df204784353e82f6a4a535931cb64f1f4b4a5aeaffcb720918b22"
