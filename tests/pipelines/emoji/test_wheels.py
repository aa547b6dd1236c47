"""Wheels: pinned, fetched by pip, checked at every use."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from optotype.pipelines.emoji import wheels
from optotype.pipelines.emoji.wheels import WHEELS, Wheel, WheelReader, fetch, wheel_cache
from optotype.schemas.errors import ExternalError, FormatError, IntegrityError, MissingPackageError


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands in for the package index, for a real pip without a network."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _publish(folder: Path, requires: str = "") -> Wheel:
    """A small valid wheel in ``folder`` and its pin."""
    info = "optotype_probe-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: optotype-probe\nVersion: 1.0\n{requires}"
    path = folder / "optotype_probe-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("optotype_probe/weights.bin", b"weights")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Wheel("optotype-probe", "1.0", path.name, hashlib.sha256(path.read_bytes()).hexdigest(), "MIT")


def test_pip_brings_the_wheel_without_its_dependencies(index: Path, tmp_path: Path) -> None:
    wheel = _publish(index, requires="Requires-Dist: nothing-of-this-name-exists\n")
    said: list[str] = []
    path = fetch(wheel, tmp_path / "cache", say=said.append)
    assert path == tmp_path / "cache" / wheel.file
    assert path.read_bytes() == (index / wheel.file).read_bytes()
    assert said == ["downloading optotype-probe 1.0"]
    assert [p.name for p in path.parent.iterdir()] == [wheel.file]


def test_a_wheel_in_the_cache_is_not_downloaded(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = _publish(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert fetch(wheel, tmp_path).is_file()


def test_no_network_is_said_so_and_leaves_nothing(index: Path, tmp_path: Path) -> None:
    wheel = _publish(tmp_path)
    with pytest.raises(ExternalError, match=r"optotype-probe 1\.0.*No matching distribution") as caught:
        fetch(wheel, tmp_path / "cache")
    assert caught.value.hint is not None
    assert "OPTOTYPE_WHEELS" in caught.value.hint
    assert list((tmp_path / "cache").iterdir()) == []


def test_other_bytes_from_the_index_are_refused(index: Path, tmp_path: Path) -> None:
    wheel = dataclasses.replace(_publish(index), sha256="0" * 64)
    with pytest.raises(IntegrityError, match=r"it is pinned at 0{64}"):
        fetch(wheel, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_damaged_file_in_the_cache_is_found_at_every_use(tmp_path: Path) -> None:
    wheel = _publish(tmp_path)
    assert fetch(wheel, tmp_path).is_file()
    with (tmp_path / wheel.file).open("r+b") as file:
        file.truncate(100)
    with pytest.raises(IntegrityError, match="is pinned at") as caught:
        fetch(wheel, tmp_path)
    assert "rm '" in str(caught.value.hint)


def test_a_python_without_pip_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "/usr/bin/python: No module named pip")

    monkeypatch.setattr(subprocess, "run", no_pip)
    with pytest.raises(MissingPackageError, match="has no pip"):
        fetch(_publish(tmp_path), tmp_path / "cache")


def test_the_cache_is_in_the_project_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPTOTYPE_WHEELS", raising=False)
    assert wheel_cache(Path("/p")) == Path("/p/.optotype/cache/wheels")
    monkeypatch.setenv("OPTOTYPE_WHEELS", "/elsewhere")
    assert wheel_cache(Path("/p")) == Path("/elsewhere")


def test_pins_are_whole() -> None:
    assert len(WHEELS) == 8
    for name, wheel in WHEELS.items():
        assert name == wheel.name
        assert wheel.file.startswith(f"{name.replace('-', '_')}-{wheel.version}-")
        assert len(wheel.sha256) == 64
        assert set(wheel.sha256) <= set("0123456789abcdef")
    assert len({wheel.sha256 for wheel in WHEELS.values()}) == len(WHEELS)


def test_reader_lists_and_reads_members(tmp_path: Path) -> None:
    with WheelReader(tmp_path / _publish(tmp_path).file) as reader:
        assert reader.names("optotype_probe/") == ["optotype_probe/weights.bin"]
        assert reader.names(suffix=".bin") == ["optotype_probe/weights.bin"]
        assert reader.read("optotype_probe/weights.bin") == b"weights"
        with pytest.raises(FormatError, match=r"cannot read absent\.bin"):
            reader.read("absent.bin")


def test_reader_refuses_what_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"<html>not found</html>")
    with pytest.raises(FormatError, match="is not a wheel"):
        WheelReader(tmp_path / "x.whl")


def test_no_host_is_named_in_the_code() -> None:
    text = Path(wheels.__file__).read_text(encoding="utf-8")
    assert "://" not in text
    assert "index-url" not in text
