"""Manifests: digests of files, keys of inputs, and what does not belong to them."""

import json

import numpy as np
import pytest

from optotype.schemas.documents import cache_key
from optotype.schemas.errors import FormatError, IntegrityError
from optotype.store.manifest import FileEntry, Manifest, hash_folder, read_manifest, verify
from optotype.store.states import write_states

FILES = [FileEntry("b", 1, "1" * 64), FileEntry("a/c", 2, "0" * 64)]


def test_order_of_files_and_inputs_does_not_matter():
    one = Manifest.of("states", FILES, {"x": 1, "y": [1, 2]})
    two = Manifest.of("states", reversed(FILES), {"y": (1, 2), "x": 1})
    assert one == two
    assert one.to_bytes() == two.to_bytes()
    assert one.key == cache_key({"x": 1, "y": [1, 2]})
    assert one.digest.startswith("sha256:")
    assert [entry.path for entry in one.files] == ["a/c", "b"]
    assert one.size == 3


def test_parse_gives_it_back():
    one = Manifest.of("features", FILES, {"x": {"é": None}})
    assert Manifest.parse(one.to_bytes(), "here") == one


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format_version": 2}, FormatError),
        ({"kind": "opinions"}, FormatError),
        ({"files": [{"path": "a"}]}, FormatError),
        ({"files": 3}, FormatError),
        ({"digest": "sha256:" + "0" * 64}, IntegrityError),
        ({"key": "0" * 64}, IntegrityError),
        ({"inputs": {"x": 2}}, IntegrityError),
    ],
)
def test_changed_manifests_are_refused(change, error):
    document = {**json.loads(Manifest.of("states", FILES, {"x": 1}).to_bytes()), **change}
    with pytest.raises(error, match="here"):
        Manifest.parse(json.dumps(document).encode(), "here")


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "a/../../b", "", "a\\b"])
def test_paths_do_not_leave_the_array(path):
    manifest = Manifest.of("states", [FileEntry(path, 1, "0" * 64)], {})
    with pytest.raises(FormatError, match="not a path inside"):
        Manifest.parse(manifest.to_bytes(), "here")


def test_missing_field_is_named():
    document = json.loads(Manifest.of("states", FILES, {}).to_bytes())
    del document["created_by"]
    with pytest.raises(FormatError, match="created_by"):
        Manifest.parse(json.dumps(document).encode(), "here")


def test_verify_lists_every_difference(tmp_path):
    write_states(tmp_path / "a", ids=["a", "b"], blocks=[np.ones((2, 2))], inputs={})
    assert verify(tmp_path / "a") == []
    (tmp_path / "a" / "text" / "c" / "0").unlink()
    (tmp_path / "a" / "extra").write_text("x")
    (tmp_path / "a" / "text" / "zarr.json").write_text("{}")
    values = tmp_path / "a" / "states" / "c" / "0" / "0"
    values.write_bytes(b"\0" * values.stat().st_size)
    assert {(p.where, p.kind) for p in verify(tmp_path / "a")} == {
        ("text/c/0", "missing-file"),
        ("extra", "extra-file"),
        ("text/zarr.json", "size"),
        ("states/c/0/0", "digest"),
    }


def test_hashes_are_those_of_the_files(tmp_path):
    (tmp_path / "manifest.json").write_text("left out")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "empty").touch()
    (entry,) = hash_folder(tmp_path)
    assert entry == FileEntry("a/empty", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


def test_read_manifest_of_a_file(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "manifest.json").write_text("{")
    with pytest.raises(FormatError, match="not a JSON"):
        read_manifest(tmp_path / "a")
