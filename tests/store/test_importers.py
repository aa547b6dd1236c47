"""Importers: every format gives the same bytes; every problem is listed and nothing written."""

import json
import os
import pickle
import zipfile

import numpy as np
import pytest
import zarr
from safetensors.numpy import save_file

from optotype.schemas.errors import ConflictError, FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.store.export import export_states
from optotype.store.features import open_features, write_features
from optotype.store.importers import import_features, import_states, source, table
from optotype.store.states import open_states, write_states

FORMATS = ("npz", "npz-packed", "npy", "safetensors", "safetensors-sidecar", "pt", "zarr", "zarr2", "ours")


def save(form, folder, data):
    """Write ragged features in one of the forms that are read."""
    folder.mkdir(exist_ok=True)
    ids = np.array(data.ids)
    if form == "npz":
        return data.save(folder / "x.npz")
    if form == "npz-packed":
        np.savez_compressed(folder / "x.npz", ids=ids, row_size=data.row_size, tokens=data.tokens)
        return folder / "x.npz"
    if form == "npy":
        np.save(folder / "x.npy", data.tokens)
        np.save(folder / "x.row_size.npy", data.row_size)
        (folder / "x.ids.txt").write_text("\n".join(data.ids) + "\n")
        return folder / "x.npy"
    if form.startswith("safetensors"):
        metadata = {"ids": json.dumps(data.ids)} if form == "safetensors" else None
        save_file({"tokens": data.tokens, "row_size": data.row_size}, folder / "x.safetensors", metadata)
        if metadata is None:
            (folder / "x.safetensors.ids.json").write_text(json.dumps(data.ids))
        return folder / "x.safetensors"
    if form == "pt":
        import torch

        content = {
            "ids": data.ids,
            "tokens": torch.from_numpy(data.tokens),
            "row_size": torch.from_numpy(data.row_size),
        }
        torch.save(content, folder / "x.pt")
        return folder / "x.pt"
    if form.startswith("zarr"):
        group = zarr.open_group(folder / "x.zarr", mode="w", zarr_format=2 if form == "zarr2" else 3)
        group.create_array("tokens", data=data.tokens, chunks=(4, 3))
        group.create_array("row_size", data=data.row_size)
        names = group.create_array("ids", shape=len(ids), dtype="string", filters="auto")
        names[:] = np.array(data.ids, dtype=object)
        return folder / "x.zarr"
    ordered = sorted(range(len(data.ids)), key=data.ids.__getitem__)
    write_features(
        folder / "ours",
        ids=sorted(data.ids),
        row_size=data.row_size[ordered],
        blocks=[data.image(i) for i in ordered],
        dtype=data.tokens.dtype,
        inputs={},
    )
    return folder / "ours"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_array(tmp_path, ragged, form, dtype):
    data = ragged(images=9, dtype=dtype)
    want = import_features(tmp_path / "want", data.save(tmp_path / "want.npz"))
    got = import_features(tmp_path / "a", str(save(form, tmp_path / form, data.shuffled(3))))
    assert got == want
    ds = open_features(tmp_path / "a")
    assert ds["patches"].dtype == dtype
    np.testing.assert_array_equal(ds["patches"].values, data.tokens)
    assert ds["image"].values.tolist() == data.ids


def test_block_size_does_not_matter(tmp_path, ragged, monkeypatch):
    data = ragged(images=30).shuffled(1)
    file = data.save(tmp_path / "x.npz")
    want = import_features(tmp_path / "a", file)
    for size in (1, 57, 200):
        monkeypatch.setattr(table, "_BLOCK_BYTES", size)
        assert import_features(tmp_path / f"a{size}", file) == want


def test_fixed_patches(tmp_path):
    patches = np.random.default_rng(0).standard_normal((4, 3, 2)).astype("float32")
    for name, values in (("c", patches), ("f", np.asfortranarray(patches)), ("b", patches.astype(">f4"))):
        np.savez(tmp_path / f"{name}.npz", ids=np.array(["d", "b", "a", "c"]), patches=values)
        import_features(tmp_path / name, tmp_path / f"{name}.npz")
        ds = open_features(tmp_path / name)
        np.testing.assert_array_equal(ds["patches"].values, patches[[2, 1, 3, 0]].reshape(-1, 2))
        assert ds["row_size"].values.tolist() == [3, 3, 3, 3]
    assert open_features(tmp_path / "c").attrs["digest"] == open_features(tmp_path / "f").attrs["digest"]
    assert open_features(tmp_path / "c").attrs["digest"] == open_features(tmp_path / "b").attrs["digest"]


@pytest.mark.parametrize("form", ["npz", "npy", "safetensors", "pt", "zarr", "ours"])
def test_states(tmp_path, form):
    states = np.random.default_rng(0).standard_normal((4, 3))
    ids = ["d", "b", "a", "c"]
    file = tmp_path / f"x.{form}"
    if form == "npz":
        np.savez(file, ids=np.array(ids), states=states)
    elif form == "npy":
        np.save(file, states)
        (tmp_path / "x.ids.json").write_text(json.dumps(ids))
    elif form == "safetensors":
        save_file({"states": states}, file, {"ids": json.dumps(ids)})
    elif form == "pt":
        import torch

        torch.save(torch.from_numpy(states), file)
        (tmp_path / "x.ids.txt").write_text("\r\n".join(ids))
    elif form == "zarr":
        group = zarr.open_group(file, mode="w")
        group.create_array("states", data=states, chunks=(1, 3))
        group.create_array("ids", shape=4, dtype="string")[:] = np.array(ids, dtype=object)
    else:
        write_states(file, ids=sorted(ids), blocks=[states[[2, 1, 3, 0]]], dtype="float64", inputs={})
    import_states(tmp_path / "a", file)
    ds = open_states(tmp_path / "a")
    assert ds["text"].values.tolist() == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(ds["states"].values, states[[2, 1, 3, 0]])


@pytest.mark.parametrize("form", ["safetensors", "pt"])
def test_bfloat16(tmp_path, form):
    import torch
    from safetensors.torch import save_file as save_torch

    values = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    ids = ["b", "a", "c"]
    if form == "pt":
        torch.save({"ids": ids, "patches": values}, tmp_path / "x.pt")
    else:
        save_torch({"patches": values}, tmp_path / "x.safetensors", {"ids": json.dumps(ids)})
    import_features(tmp_path / "a", tmp_path / f"x.{form}")
    ds = open_features(tmp_path / "a")
    assert ds["patches"].attrs["stored_dtype"] == "bfloat16"
    np.testing.assert_array_equal(ds["patches"].values, values[[1, 0, 2]].reshape(-1, 4).float().numpy())


def test_import_again(tmp_path, ragged):
    file = ragged().save(tmp_path / "x.npz")
    import_features(tmp_path / "a", file)
    before = {path: path.stat().st_ino for path in (tmp_path / "a").rglob("*")}
    import_features(tmp_path / "a", file)
    assert {path: path.stat().st_ino for path in (tmp_path / "a").rglob("*")} == before
    import_features(tmp_path / "a", ragged(seed=1).save(tmp_path / "x.npz"))
    np.testing.assert_array_equal(open_features(tmp_path / "a")["patches"].values, ragged(seed=1).tokens)


def refuse(tmp_path, import_array=import_features, **members):
    np.savez(tmp_path / "x.npz", **members)
    with pytest.raises(InvalidDataError) as caught:
        import_array(tmp_path / "out" / "a", tmp_path / "x.npz")
    assert not (tmp_path / "out" / "a").exists()
    assert not list((tmp_path / "out").glob("**/*"))
    return {problem.kind for problem in caught.value.problems}


IDS = np.array(["a", "b"])
PATCHES = np.ones((2, 3, 4), "float32")


@pytest.mark.parametrize(
    ("members", "kinds"),
    [
        ({"patches": PATCHES}, {"missing-ids"}),
        ({"ids": IDS}, {"missing-member"}),
        ({"ids": IDS, "tokens": np.ones((5, 2))}, {"missing-member"}),
        ({"ids": np.array(["a", "a"]), "patches": PATCHES}, {"duplicate-id"}),
        ({"ids": np.array(["a", ""]), "patches": PATCHES}, {"id-blank"}),
        ({"ids": np.array([1, 2]), "patches": PATCHES}, {"id-not-string"}),
        ({"ids": np.array(["a", "b"], dtype=object), "patches": PATCHES}, {"pickle"}),
        ({"ids": IDS[None], "patches": PATCHES}, {"wrong-rank"}),
        ({"ids": IDS, "patches": PATCHES[0]}, {"wrong-rank"}),
        ({"ids": IDS, "patches": PATCHES.astype(int)}, {"wrong-dtype"}),
        ({"ids": IDS, "patches": PATCHES.astype(complex)}, {"wrong-dtype"}),
        ({"ids": IDS, "patches": PATCHES[:1]}, {"length"}),
        ({"ids": IDS, "patches": PATCHES[:, :, :0]}, {"zero-channels"}),
        ({"ids": IDS, "patches": PATCHES[:, :0]}, {"row-size-range"}),
        ({"ids": IDS[:0], "patches": PATCHES[:0]}, {"empty"}),
        ({"ids": IDS, "patches": PATCHES, "tokens": PATCHES[0], "row_size": np.array([1, 2])}, {"ambiguous"}),
        ({"ids": IDS, "patches": PATCHES, "row_size": np.array([3, 3])}, {"ambiguous"}),
        ({"ids": IDS, "patches": PATCHES * np.nan}, {"nan"}),
        ({"ids": IDS, "patches": PATCHES * np.inf}, {"infinite"}),
        ({"ids": IDS, "tokens": PATCHES[0], "row_size": np.array([1, 1])}, {"row-size-sum"}),
        ({"ids": IDS, "tokens": PATCHES[0], "row_size": np.array([3, 0])}, {"row-size-range"}),
        ({"ids": IDS, "tokens": PATCHES[0], "row_size": np.array([3])}, {"length"}),
        ({"ids": IDS, "tokens": PATCHES[0], "row_size": np.array([1.0, 2.0])}, {"wrong-dtype"}),
        # all at once
        (
            {"ids": np.array(["a", "a", " "]), "tokens": np.full((4, 1), np.nan), "row_size": np.array([1, -1])},
            {"duplicate-id", "id-blank", "length", "row-size-range", "row-size-sum", "nan"},
        ),
        (
            {"ids": np.array(["a", "b", "b"]), "patches": np.array([[[np.inf, 1]], [[1, np.nan]]])},
            {"duplicate-id", "length", "nan", "infinite"},
        ),
    ],
)
def test_problems_of_features(tmp_path, members, kinds):
    assert refuse(tmp_path, **members) == kinds


@pytest.mark.parametrize(
    ("members", "kinds"),
    [
        ({"ids": IDS, "states": PATCHES}, {"wrong-rank"}),
        ({"ids": IDS, "state": PATCHES[0]}, {"missing-member"}),
        ({"ids": IDS, "states": PATCHES[0]}, {"length"}),
        ({"ids": IDS, "states": np.full((2, 2), np.nan)}, {"nan"}),
        ({"ids": np.array(["a", "a"]), "states": np.full((2, 0), 1)}, {"duplicate-id", "zero-channels", "wrong-dtype"}),
    ],
)
def test_problems_of_states(tmp_path, members, kinds):
    assert refuse(tmp_path, import_states, **members) == kinds


def test_problems_name_images_of_a_shuffled_file(tmp_path, ragged):
    data = ragged(images=12).shuffled(5)
    data.tokens[int(data.row_size[:4].sum()), 0] = np.nan
    with pytest.raises(InvalidDataError) as caught:
        import_features(tmp_path / "a", data.save(tmp_path / "x.npz"))
    (problem,) = caught.value.problems
    assert problem.message == f"NaN (1) in 1 image: {data.ids[4]!r}"


def test_suggests_the_member_that_was_meant(tmp_path):
    np.savez(tmp_path / "x.npz", ids=IDS, patchs=PATCHES)
    with pytest.raises(InvalidDataError, match="Did you mean 'patchs'"):
        import_features(tmp_path / "a", tmp_path / "x.npz")


class _Bomb:
    def __reduce__(self):
        return (pytest.fail, ("code of the file was run",))


def test_no_pickle_is_loaded(tmp_path):
    import torch

    np.savez(tmp_path / "x.npz", ids=IDS, patches=np.array([_Bomb()], dtype=object))
    with pytest.raises(InvalidDataError):
        import_features(tmp_path / "a", tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.array([_Bomb()], dtype=object))
    with pytest.raises(FormatError):
        import_features(tmp_path / "a", tmp_path / "x.npy")
    torch.save({"ids": ["a"], "patches": _Bomb()}, tmp_path / "x.pt")
    with pytest.raises(FormatError, match="of tensors alone"):
        import_features(tmp_path / "a", tmp_path / "x.pt")
    (tmp_path / "y.pt").write_bytes(pickle.dumps(_Bomb()))
    with pytest.raises(FormatError):
        import_features(tmp_path / "a", tmp_path / "y.pt")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("suffix", ["npz", "npy", "safetensors", "pt", "zarr"])
def test_rubbish(tmp_path, suffix):
    (tmp_path / f"x.{suffix}").write_bytes(b"not what it says" * 9)
    with pytest.raises(FormatError):
        import_features(tmp_path / "a", tmp_path / f"x.{suffix}")


def test_cut_short_and_flipped(tmp_path, ragged):
    file = ragged(images=50).save(tmp_path / "x.npz")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FormatError):
        import_features(tmp_path / "a", file)
    with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
        archive.writestr("tokens.npy", b"x" * 10)
    with pytest.raises(FormatError):
        import_features(tmp_path / "a", tmp_path / "y.npz")
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    file.write_bytes(bytes(flipped))
    with pytest.raises(FormatError, match="checksum"):
        import_features(tmp_path / "a", file)
    assert not (tmp_path / "a").exists()


def test_no_such_file_or_format(tmp_path):
    with pytest.raises(NotFoundError):
        import_features(tmp_path / "a", tmp_path / "none.npz")
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(UsageError, match=r"\.npz"):
        import_features(tmp_path / "a", tmp_path / "x.csv")


def test_two_sidecars_are_ambiguous(tmp_path):
    np.save(tmp_path / "x.npy", PATCHES)
    (tmp_path / "x.ids.txt").write_text("a\nb\n")
    (tmp_path / "x.ids.json").write_text('["a", "b"]')
    with pytest.raises(InvalidDataError) as caught:
        import_features(tmp_path / "a", tmp_path / "x.npy")
    assert {problem.kind for problem in caught.value.problems} == {"ambiguous"}


@pytest.mark.parametrize("form", FORMATS)
def test_values_are_read_in_blocks(tmp_path, ragged, form, monkeypatch):
    """No read takes more than a block, in any format and order."""
    monkeypatch.setattr(table, "_BLOCK_BYTES", 400)
    data = ragged(images=60, channels=5)
    file = save(form, tmp_path / "f", data.shuffled(2))
    longest = 0

    def watch(member):
        def read(start, stop):
            nonlocal longest
            longest = max(longest, (stop - start) * member.shape[1] * 4)
            return member.read(start, stop)

        return source.Member(member.shape, member.dtype, read, member.random_access)

    def add(members, path):
        sidecars(members, path)
        if "tokens" in members.arrays or source.BARE in members.arrays:
            name = "tokens" if "tokens" in members.arrays else source.BARE
            members.arrays[name] = watch(members.arrays[name])

    sidecars = source._add_sidecars
    monkeypatch.setattr(source, "_add_sidecars", add)
    import_features(tmp_path / "a", file)
    assert 0 < longest <= 400
    np.testing.assert_array_equal(open_features(tmp_path / "a")["patches"].values, data.tokens)


@pytest.mark.parametrize("damage", ["no manifest", "newer", "cut"])
def test_a_damaged_array_of_a_project_is_replaced(tmp_path, ragged, damage):
    (tmp_path / ".optotype").mkdir()
    (tmp_path / ".optotype" / "project.json").write_text('{"format_version": 1}')
    file = ragged().save(tmp_path / "x.npz")
    target = tmp_path / "data" / "features" / "a"
    want = import_features(target, file)
    manifest = target / "manifest.json"
    if damage == "no manifest":
        manifest.unlink()
    else:
        manifest.write_text('{"format_version": 99}' if damage == "newer" else "{")
    assert import_features(target, file) == want
    assert open_features(target).attrs["digest"] == want.digest


def test_a_zarr_group_of_someone_else_is_not_replaced(tmp_path, ragged):
    file = ragged().save(tmp_path / "x.npz")
    zarr.open_group(tmp_path / "theirs", mode="w").create_array("x", data=np.ones(2))
    with pytest.raises(ConflictError, match="in the way"):
        import_features(tmp_path / "theirs", file)


def test_a_damaged_chunk(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("tokens", data=np.random.default_rng(0).standard_normal((8, 3)), chunks=(4, 3))
    group.create_array("row_size", data=np.full(4, 2))
    (tmp_path / "x.ids.txt").write_text("a\nb\nc\nd\n")
    chunk = tmp_path / "x.zarr" / "tokens" / "c" / "1" / "0"
    chunk.write_bytes(b"\xff" * chunk.stat().st_size)
    with pytest.raises(FormatError, match=r"x\.zarr: tokens has a chunk that cannot be read"):
        import_features(tmp_path / "a", tmp_path / "x.zarr")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_chunks(tmp_path, zarr_format):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=zarr_format)
    kept = group.create_array(
        "states", shape=(10, 3), chunks=(4, 2), dtype="float32", config={"write_empty_chunks": True}
    )
    kept[:] = np.zeros((10, 3))
    (tmp_path / "x.ids.txt").write_text("".join(f"{i}\n" for i in range(10)))
    import_states(tmp_path / "a", tmp_path / "x.zarr")
    folder = tmp_path / "x.zarr" / "states"
    for name in ("c/1/0", "c/2/1") if zarr_format == 3 else ("1.0", "2.1"):
        (folder / name).unlink()
    with pytest.raises(InvalidDataError, match=r"2 of 6 chunks are missing; zarr reads them as 0\.0") as caught:
        import_states(tmp_path / "a", tmp_path / "x.zarr")
    assert [problem.kind for problem in caught.value.problems] == ["missing-chunks"]


def test_missing_shards(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("states", data=np.ones((10, 2)), chunks=(2, 2), shards=(4, 2))
    (tmp_path / "x.ids.txt").write_text("".join(f"{i}\n" for i in range(10)))
    import_states(tmp_path / "a", tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "states" / "c" / "2" / "0").unlink()
    with pytest.raises(InvalidDataError, match="1 of 3 chunks are missing"):
        import_states(tmp_path / "a", tmp_path / "x.zarr")


@pytest.mark.parametrize("what", ["nested", "jagged", "quantized", "meta"])
def test_tensors_that_are_not_plain(tmp_path, what):
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, of making and saving them
        parts = [torch.ones(2, 3), torch.ones(1, 3)]
        tensor = {
            "nested": lambda: torch.nested.nested_tensor(parts),
            "jagged": lambda: torch.nested.nested_tensor(parts, layout=torch.jagged),
            "quantized": lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8),
            "meta": lambda: torch.ones(2, 3, device="meta"),
        }[what]()
        torch.save({"ids": ["a", "b"], "states": tensor}, tmp_path / "x.pt")
    with pytest.raises((InvalidDataError, FormatError), match=r"x\.pt") as caught:
        import_states(tmp_path / "a", tmp_path / "x.pt")
    if isinstance(caught.value, InvalidDataError):
        assert [problem.kind for problem in caught.value.problems] == ["wrong-dtype"]


def test_pt_files_say_what_is_wrong(tmp_path):
    import torch

    torch.save({"ids": list(np.array(["a", "b"])), "states": torch.ones(2, 3)}, tmp_path / "strings.pt")
    torch.save({"ids": ["a", "b"], "states": np.ones((2, 3))}, tmp_path / "array.pt")
    for name in ("strings", "array"):
        with pytest.raises(FormatError, match=r"it holds numpy\.") as caught:
            import_states(tmp_path / "a", tmp_path / f"{name}.pt")
        assert "[str(i) for i in ids]" in caught.value.hint
        assert "torch.from_numpy" in caught.value.hint
    (tmp_path / "empty.pt").touch()
    torch.save({"ids": ["a", "b"], "states": torch.ones(2, 3)}, tmp_path / "cut.pt")
    data = (tmp_path / "cut.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(data[: len(data) // 2])
    for name, message in (("empty", "the file is empty"), ("cut", "the file is cut short")):
        with pytest.raises(FormatError, match=message):
            import_states(tmp_path / "a", tmp_path / f"{name}.pt")


def test_what_is_no_file(tmp_path, ragged):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "dir.npz").mkdir()
    for name, message in (("pipe", "neither a file nor a folder"), ("dir", "a folder, and not a Zarr group")):
        with pytest.raises(FormatError, match=message):
            import_features(tmp_path / "a", tmp_path / f"{name}.npz")
    file = ragged().save(tmp_path / "o k.npz")
    want = import_features(tmp_path / "a", file)
    assert import_features(tmp_path / "b", file.as_uri()) == want
    with pytest.raises(NotFoundError, match=r"no file at /.*none\.npz"):
        import_features(tmp_path / "a", (tmp_path / "none.npz").as_uri())


def _states_with(bad, dtype):
    """Rows (5, 3), ids out of order; some of the values replaced."""
    rows = np.arange(1, 16, dtype="float32").reshape(5, 3).astype(dtype)
    for place, value in bad.items():
        rows[place] = value
    return {"ids": np.array(["d", "a", "c", "b", "e"]), "states": rows}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_rows_that_are_not_finite_are_kept_as_nan(dtype, step, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "_BLOCK_BYTES", step)
    arrays = _states_with({(1, 2): np.nan, (3, 0): -np.inf}, dtype)
    np.savez(tmp_path / "bad.npz", **arrays)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    with pytest.raises(InvalidDataError) as refused:
        import_states(tmp_path / "refused", tmp_path / "bad.npz")
    assert {problem.kind for problem in refused.value.problems} == {"nan", "infinite"}
    assert "count as wrong" in refused.value.hint
    assert "--keep-invalid" in refused.value.hint
    manifest = import_states(tmp_path / "a", tmp_path / "bad.npz", keep_invalid=True)
    assert manifest.inputs == {"operation": "import", "digest": manifest.digest, "invalid_rows": 2}
    opened = open_states(tmp_path / "a")
    assert opened.attrs["invalid_rows"] == 2
    assert opened["states"].dtype == dtype
    for name, row in zip(opened["text"].values, opened["states"].values, strict=True):
        given = arrays["states"][arrays["ids"].tolist().index(name)]
        np.testing.assert_array_equal(row, given if np.isfinite(given).all() else np.full(3, np.nan))
    for number, file in enumerate(("packed.npz", "out.npz", "out.safetensors", "out.zarr")):
        if number:
            export_states(tmp_path / "a", tmp_path / file)
        assert import_states(tmp_path / "b", tmp_path / file, keep_invalid=True).digest == manifest.digest


def test_rows_of_bfloat16_that_are_not_finite_are_kept_as_nan(tmp_path):
    header = {
        "states": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
        "__metadata__": {"ids": '["b", "a"]'},
    }
    text = json.dumps(header).encode()
    bits = np.array([[0x3F80, 0x7F80], [0x3F80, 0x4000]], "<u2")
    (tmp_path / "b.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bits.tobytes())
    import_states(tmp_path / "a", tmp_path / "b.safetensors", keep_invalid=True)
    np.testing.assert_array_equal(open_states(tmp_path / "a")["states"].values, [[1, 2], [np.nan, np.nan]])


def test_keeping_what_is_not_there_changes_nothing_and_other_problems_are_refused(tmp_path):
    np.savez(tmp_path / "good.npz", **_states_with({}, "float32"))
    plain = import_states(tmp_path / "a", tmp_path / "good.npz")
    assert import_states(tmp_path / "b", tmp_path / "good.npz", keep_invalid=True) == plain
    assert plain.inputs == {"operation": "import", "digest": plain.digest}
    assert "invalid_rows" not in open_states(tmp_path / "a").attrs
    arrays = _states_with({(0, 0): np.nan}, "float32")
    np.savez(tmp_path / "twice.npz", ids=np.array(["a", "a", "b", "c", "d"]), states=arrays["states"])
    with pytest.raises(InvalidDataError) as refused:
        import_states(tmp_path / "c", tmp_path / "twice.npz", keep_invalid=True)
    assert {problem.kind for problem in refused.value.problems} == {"duplicate-id"}


def test_ids_nested_too_deep_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), "float32"))
    (tmp_path / "x.ids.json").write_text("[" * 100_000)
    with pytest.raises(FormatError, match=r"x\.ids\.json: not readable"):
        import_states(tmp_path / "a", tmp_path / "x.npy")
