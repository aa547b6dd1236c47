"""Hand-made wheels for the fast tests, the downloaded ones for those marked ``real``."""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from optotype.pipelines.emoji.wheels import WHEELS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def wheel_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Mapping[str, bytes]], Path]:
    """Put a wheel with the given members in a cache folder and pin its digest under a known name."""
    cache = tmp_path / "wheels"

    def make(name: str, members: Mapping[str, bytes]) -> Path:
        cache.mkdir(exist_ok=True)
        known = WHEELS[name]
        path = cache / known.file
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(zipfile.ZipInfo(member), data)
            if known.licence_member is not None and known.licence_member not in members:
                archive.writestr(zipfile.ZipInfo(known.licence_member), b"the licence\n")
        pinned = dataclasses.replace(known, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        monkeypatch.setitem(WHEELS, name, pinned)
        return cache

    return make


@pytest.fixture
def same_bytes() -> Callable[[Path, Path], bool]:
    """Whether two folders hold the same files with the same bytes."""

    def same(one: Path, other: Path) -> bool:
        trees = [{p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()} for root in (one, other)]
        return trees[0] == trees[1] and bool(trees[0])

    return same
