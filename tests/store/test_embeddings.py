"""Item embeddings: what is written is read, every format gives the same bytes, every problem is listed."""

import json

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from optotype.schemas.errors import (
    ConflictError,
    FormatError,
    IntegrityError,
    InvalidDataError,
    NotFoundError,
    UsageError,
)
from optotype.store import embeddings as module
from optotype.store.embedding_export import export_embeddings
from optotype.store.embeddings import describe_embeddings, open_embeddings, write_embeddings
from optotype.store.importers import embeddings as importer
from optotype.store.importers.embeddings import import_embeddings

FORMATS = ("npz", "npz-packed", "safetensors", "zarr", "zarr2", "ours")


class Items:
    """Items of three benchmarks in a random order; some were not embedded."""

    def __init__(self, n=23, d=4, dtype="float32", seed=0):
        rng = np.random.default_rng(seed)
        order = rng.permutation(n)
        self.benchmark = [("mmmu", "blink", "seed")[i % 3] for i in order]
        self.item = [f"{i // 3:03d}" for i in order]
        self.text = rng.standard_normal((n, d)).astype(dtype)
        self.vision_text = rng.standard_normal((n, d)).astype(dtype)
        self.text[2] = np.nan
        self.vision_text[[1, 2, 5]] = np.nan

    def sorted(self, name):
        """Rows by (benchmark, item), float32: the slow obvious way."""
        rows = zip(self.benchmark, self.item, getattr(self, name), strict=True)
        return np.array([row[2] for row in sorted(rows, key=lambda row: row[:2])]).astype(np.float32)

    def write(self, target, **more):
        return write_embeddings(
            target,
            **{
                "benchmark": self.benchmark,
                "item": self.item,
                "text": self.text,
                "vision_text": self.vision_text,
                "inputs": {},
                **more,
            },
        )


def save(form, folder, data):
    folder.mkdir(exist_ok=True)
    arrays = {"text": data.text, "vision_text": data.vision_text}
    labels = {"benchmark": data.benchmark, "item_id": data.item}
    if form.startswith("npz"):
        path = folder / "x.npz"
        write = np.savez_compressed if form == "npz-packed" else np.savez
        write(path, **arrays, **{name: np.array(values) for name, values in labels.items()})
    elif form == "safetensors":
        path = folder / "x.safetensors"
        save_file(arrays, path, {name: json.dumps(values) for name, values in labels.items()})
    elif form == "ours":
        path = folder / "ours"
        data.write(path)
    else:
        path = folder / "x.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=2 if form == "zarr2" else 3)
        for name, values in arrays.items():
            array = group.create_array(
                name, shape=values.shape, dtype=values.dtype, chunks=(4, 3), config={"write_empty_chunks": True}
            )
            array[:] = values
        for name, texts in labels.items():
            strings = group.create_array(name, shape=len(texts), dtype="string", filters="auto")
            strings[:] = np.array(texts, dtype=object)
    return path


def kinds(error):
    return sorted({problem.kind for problem in error.value.problems})


def test_round_trip(tmp_path):
    data = Items()
    data.write(tmp_path / "a", attrs={"pooling": "mean"})
    ds = open_embeddings(tmp_path / "a")
    assert list(zip(ds["benchmark"].values, ds["item"].values, strict=True)) == sorted(
        zip(data.benchmark, data.item, strict=True)
    )
    for name in ("text", "vision_text"):
        assert ds[name].dtype == np.float32
        assert ds[name].chunks is not None
        np.testing.assert_array_equal(ds[name].values, data.sorted(name))
    assert ds.attrs["items_embedded"] == {"text": 22, "vision_text": 20}
    assert (ds.attrs["pooling"], ds.attrs["benchmarks"], ds.attrs["name"]) == ("mean", 3, "a")
    row = describe_embeddings(tmp_path / "a", whole=True)
    assert (row["items"], row["channels"], row["text"], row["vision_text"]) == (23, 4, 22, 20)
    assert row["digest"] == ds.attrs["digest"]


def test_one_member_alone(tmp_path):
    data = Items()
    data.write(tmp_path / "a", vision_text=None)
    ds = open_embeddings(tmp_path / "a")
    assert set(ds.data_vars) == {"text"}
    assert describe_embeddings(tmp_path / "a")["vision_text"] is None
    data.write(tmp_path / "b", text=None)
    assert set(open_embeddings(tmp_path / "b").data_vars) == {"vision_text"}


def test_order_and_blocks_do_not_matter(tmp_path, monkeypatch):
    data = Items(n=60)
    digest = data.write(tmp_path / "a").digest
    order = sorted(range(60), key=lambda i: (data.benchmark[i], data.item[i]))
    ready = {name: data.sorted(name) for name in ("text", "vision_text")}
    for rows in (1, 7, 60):
        monkeypatch.setattr(module, "_BLOCK_BYTES", rows * 16)
        assert data.write(tmp_path / f"a{rows}").digest == digest
        blocks = {
            name: lambda values=values, rows=rows: (values[i : i + rows] for i in range(0, 60, rows))
            for name, values in ready.items()
        }
        labels = {"benchmark": [data.benchmark[i] for i in order], "item": [data.item[i] for i in order]}
        assert write_embeddings(tmp_path / f"b{rows}", **labels, **blocks, inputs={}).digest == digest
    with pytest.raises(InvalidDataError, match="in the order of"):
        data.write(tmp_path / "c", text=lambda: iter([data.text]))
    assert not (tmp_path / "c").exists()


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyzäñ")), unique=True, min_size=1, max_size=8),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
@settings(max_examples=25, deadline=None)
def test_any_order_gives_the_same_bytes(tmp_path_factory, pairs, d, random):
    folder = tmp_path_factory.mktemp("any")
    rows = {pair: np.arange(d) + i for i, pair in enumerate(pairs)}
    digests = set()
    for number in range(2):
        random.shuffle(pairs)
        manifest = write_embeddings(
            folder / f"a{number}",
            benchmark=[pair[0] for pair in pairs],
            item=[pair[1] for pair in pairs],
            text=np.array([rows[pair] for pair in pairs], dtype=np.float64),
            inputs={},
        )
        digests.add(manifest.digest)
        ds = open_embeddings(folder / f"a{number}")
        for name, item, values in zip(ds["benchmark"].values, ds["item"].values, ds["text"].values, strict=True):
            np.testing.assert_array_equal(values, rows[name, item])
    assert len(digests) == 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_array(tmp_path, form, dtype, monkeypatch):
    data = Items(dtype=dtype)
    want = data.write(tmp_path / "want")
    got = import_embeddings(tmp_path / "a", save(form, tmp_path / form, data))
    assert got.digest == want.digest
    assert got.inputs == {"operation": "import", "digest": want.digest}
    monkeypatch.setattr(importer, "_BLOCK_BYTES", 50)
    assert import_embeddings(tmp_path / "b", str(save(form, tmp_path / form, data))) == got


def test_bfloat16(tmp_path):
    import torch
    from safetensors.torch import save_file as save_torch

    values = torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=torch.bfloat16)
    labels = {"benchmark": json.dumps(["b", "a"]), "item_id": json.dumps(["1", "1"])}
    save_torch({"text": values}, tmp_path / "x.safetensors", labels)
    import_embeddings(tmp_path / "a", tmp_path / "x.safetensors")
    assert open_embeddings(tmp_path / "a")["text"].values.tolist() == [[0.25, 3.0], [1.5, -2.0]]


@pytest.mark.parametrize("form", ["npz", "safetensors", "zarr"])
@pytest.mark.parametrize("member", ["both", "text", "vision_text"])
def test_what_is_exported_can_be_imported(tmp_path, form, member):
    data = Items()
    absent = {name: None for name in ("text", "vision_text") if member not in ("both", name)}
    want = data.write(tmp_path / "a", **absent, attrs={"pooling": "mean"})
    first = export_embeddings(tmp_path / "a", tmp_path / f"x.{form}")
    second = export_embeddings(tmp_path / "a", tmp_path / f"y.{form}")
    if form == "zarr":
        assert open_embeddings(first).attrs["digest"] == want.digest
    else:
        assert first.read_bytes() == second.read_bytes()
    import_embeddings(tmp_path / "b", first)
    assert open_embeddings(tmp_path / "b").drop_attrs().equals(open_embeddings(tmp_path / "a").drop_attrs())


def test_everything_wrong_is_listed_and_nothing_written(tmp_path):
    data = Items()
    data.item[0], data.benchmark[0] = data.item[3], data.benchmark[3]
    data.item[4] = " "
    data.text[6, 1] = np.nan
    data.vision_text[7, 0] = np.inf
    with pytest.raises(InvalidDataError) as error:
        data.write(tmp_path / "a")
    assert kinds(error) == ["duplicate-id", "id-blank", "infinite", "nan"]
    with pytest.raises(InvalidDataError) as error:
        import_embeddings(tmp_path / "a", save("npz", tmp_path / "f", data))
    assert kinds(error) == ["duplicate-id", "id-blank"]
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"text": None, "vision_text": None}, "missing-member"),
        ({"text": np.full((23, 4), np.nan)}, "empty"),
        ({"text": np.zeros((23, 3))}, "channels"),
        ({"text": np.zeros((22, 4))}, "length"),
        ({"text": np.zeros((23, 0))}, "wrong-dtype"),
        ({"text": np.zeros(23)}, "wrong-rank"),
        ({"text": np.zeros((23, 4), dtype=int)}, "wrong-dtype"),
        ({"text": np.full((23, 4), 1e39)}, "infinite"),
        ({"item": [], "benchmark": [], "text": np.zeros((0, 4)), "vision_text": None}, "empty"),
        ({"benchmark": ["a"]}, "length"),
    ],
)
def test_what_is_refused(tmp_path, changes, kind):
    with pytest.raises(InvalidDataError) as error:
        Items().write(tmp_path / "a", **changes)
    assert kind in kinds(error)
    assert not (tmp_path / "a").exists()


def test_files_that_are_not_what_they_should_be(tmp_path):
    np.savez(
        tmp_path / "p.npz", benchmark=np.array(["a"], dtype=object), item_id=np.array([1]), text=np.zeros((1, 2), int)
    )
    with pytest.raises(InvalidDataError) as error:
        import_embeddings(tmp_path / "a", tmp_path / "p.npz")
    assert kinds(error) == ["id-not-string", "pickle", "wrong-dtype"]
    save_file({"test": np.zeros((1, 2), np.float32)}, tmp_path / "q.safetensors", {"benchmark": '["a"]'})
    with pytest.raises(InvalidDataError, match="Did you mean 'test'") as error:
        import_embeddings(tmp_path / "a", tmp_path / "q.safetensors")
    assert kinds(error) == ["missing-member"]
    save_file({"text": np.zeros((1, 2), np.float32)}, tmp_path / "r.safetensors", {"benchmark": "{", "item_id": "[]"})
    with pytest.raises(FormatError):
        import_embeddings(tmp_path / "a", tmp_path / "r.safetensors")
    (tmp_path / "x.pt").write_bytes(b"")
    with pytest.raises(UsageError, match="npz"):
        import_embeddings(tmp_path / "a", tmp_path / "x.pt")
    with pytest.raises(NotFoundError):
        import_embeddings(tmp_path / "a", tmp_path / "none.npz")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError):
        import_embeddings(tmp_path / "a", tmp_path / "folder")
    data = Items()
    path = save("zarr", tmp_path / "z", data)
    (path / "text" / "c" / "0" / "0").unlink()
    with pytest.raises(InvalidDataError, match="chunks are missing"):
        import_embeddings(tmp_path / "a", path)
    assert not (tmp_path / "a").exists()


def test_replacing_and_damage(tmp_path):
    data = Items()
    first = data.write(tmp_path / "a")
    state = (tmp_path / "a" / "manifest.json").stat()
    assert data.write(tmp_path / "a") == first
    assert (tmp_path / "a" / "manifest.json").stat().st_mtime_ns == state.st_mtime_ns
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "file").write_text("x")
    with pytest.raises(ConflictError):
        data.write(tmp_path / "busy")
    with pytest.raises(ConflictError):
        export_embeddings(tmp_path / "a", tmp_path / "busy", file_format="npz")
    with pytest.raises(UsageError):
        export_embeddings(tmp_path / "a", tmp_path / "x.pt")
    (tmp_path / "a" / "zarr.json").write_text("{}")
    with pytest.raises(IntegrityError):
        describe_embeddings(tmp_path / "a")
    with pytest.raises(IntegrityError):
        open_embeddings(tmp_path / "a")


def test_kinds_are_told_apart(tmp_path):
    from optotype.store.states import open_states, write_states

    write_states(tmp_path / "s", ids=["a"], blocks=[np.zeros((1, 2))], inputs={})
    for opened in (open_embeddings, describe_embeddings):
        with pytest.raises(FormatError, match="holds states"):
            opened(tmp_path / "s")
    Items().write(tmp_path / "a")
    with pytest.raises(FormatError, match="holds embeddings"):
        open_states(tmp_path / "a")
