"""Whatever is changed in a published version is named, and left as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from payloads import make_suite

from optotype.registry.artifacts.index import Registry, Version
from optotype.registry.artifacts.listing import verify_versions
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.publish import publish

BASE = "artifacts/suite/prime/1.0.0"


@pytest.fixture
def version(root: Path, tmp_path: Path) -> Version:
    return publish("suite", "prime@1.0.0", make_suite(tmp_path / "s", {"a/1": None, "b/1": None}), root=root).version


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def test_a_whole_version_has_no_problems(version: Version) -> None:
    registry = Registry(version.place.root)
    assert registry.verify(version) == []
    assert registry.verified(version).copies == {"workspace": "whole"}


@pytest.mark.parametrize(
    ("change", "where", "kind"),
    [
        (lambda f: _flip(f / "payload" / "items.parquet"), "payload/items.parquet", "digest"),
        (lambda f: (f / "payload" / "models.csv").unlink(), "payload/models.csv", "missing-file"),
        (lambda f: (f / "payload" / "models.csv").write_text("x"), "payload/models.csv", "size"),
        (lambda f: (f / "payload" / "more").write_text("x"), "payload/more", "extra-file"),
        (lambda f: (f / "payload" / "link").symlink_to("gone"), "payload/link", "extra-file"),
        (lambda f: _flip(f / "CARD.md"), "CARD.md", "digest"),
        (lambda f: (f / "CARD.md").unlink(), "CARD.md", "missing-file"),
        (lambda f: _flip(f / "manifest.json"), "manifest.json", "manifest"),
        (lambda f: (f / "payload").rename(f / "elsewhere"), "payload", "missing-folder"),
    ],
)
def test_a_change_is_named_and_not_repaired(
    version: Version, change: Callable[[Path], object], where: str, kind: str
) -> None:
    change(version.place.folder)
    before = {p: p.read_bytes() for p in version.place.folder.rglob("*") if p.is_file()}
    registry = Registry(version.place.root)
    (problem,) = registry.verify(version)  # whose manifest was read before
    assert (problem.where, problem.kind) == (f"{BASE}/{where}", kind)
    assert {p: p.read_bytes() for p in version.place.folder.rglob("*") if p.is_file()} == before


def test_lineage_that_the_payload_does_not_have(version: Version) -> None:
    from dataclasses import replace

    node = {"role": "panel", "kind": "scores", "name": "tiny", "digest": "sha256:" + "00" * 32, "inputs": []}
    changed = replace(version.manifest, lineage=(node,))
    version.place.manifest.write_bytes(changed.to_bytes())
    registry = Registry(version.place.root)
    problems = registry.verify(registry.version("suite", "prime", "1.0.0"))
    assert {p.kind for p in problems} == {"lineage"}
    assert len(problems) == 2
    inner = {**dict(version.manifest.lineage[0]), "inputs": [dict(version.manifest.lineage[0], inputs=[node])]}
    version.place.manifest.write_bytes(replace(version.manifest, lineage=(inner,)).to_bytes())
    (problem,) = registry.verify(registry.version("suite", "prime", "1.0.0"))
    assert "was made of itself" in problem.message


def test_a_payload_that_breaks_its_schema_is_told_although_its_digests_are_right(version: Version) -> None:
    from dataclasses import replace

    from optotype.registry.artifacts.copies import hashed, payload_files
    from optotype.store.manifest import files_digest

    document = version.place.payload / "compression.json"
    document.write_text('{"format_version": 1, "kind": "frontier"}')
    entries = hashed(payload_files(version.place.payload))
    changed = replace(version.manifest, files=tuple(entries), digest=files_digest(entries))
    version.place.manifest.write_bytes(changed.to_bytes())
    registry = Registry(version.place.root)
    (problem,) = registry.verify(registry.version("suite", "prime", "1.0.0"))
    assert problem.where == f"{BASE}/payload/compression.json"


def test_all_versions_are_verified(version: Version, tmp_path: Path) -> None:
    root = version.place.root
    publish("suite", "prime@1.0.1", make_suite(tmp_path / "t", {"a/1": None}), root=root)
    _flip(version.place.payload / "items.parquet")
    rows = verify_versions(Registry(root))
    assert [(row["reference"], len(row["problems"])) for row in rows] == [
        ("suite/prime@1.0.0", 1),
        ("suite/prime@1.0.1", 0),
    ]
    assert rows[0]["copies"] == {"workspace": "damaged"}
    assert ArtifactManifest.parse(version.place.manifest.read_bytes(), "x") == version.manifest
