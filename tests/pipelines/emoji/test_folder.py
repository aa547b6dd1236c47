"""Folders appear whole, or the old one stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from optotype.pipelines.emoji.folder import SOURCE, new_folder, write_json
from optotype.schemas.errors import ConflictError


def _write(target: Path, text: str) -> None:
    with new_folder(target) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text(text, encoding="utf-8")
        write_json(folder / SOURCE, {"b": 1, "a": "ä"})


def test_written_and_replaced(tmp_path: Path) -> None:
    target = tmp_path / "made" / "target"
    _write(target, "one")
    (target / "left-over").touch()
    _write(target, "two")
    assert (target / "inner" / "file").read_text(encoding="utf-8") == "two"
    assert sorted(p.name for p in target.iterdir()) == [SOURCE, "inner"]
    assert [p.name for p in target.parent.iterdir()] == ["target"]
    assert (target / SOURCE).read_bytes() == '{\n  "a": "ä",\n  "b": 1\n}\n'.encode()


def test_an_error_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "target"
    _write(target, "one")

    def fail() -> None:
        with new_folder(target) as folder:
            (folder / "half").touch()
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert (target / "inner" / "file").read_text(encoding="utf-8") == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    _write(target, "one")
    assert (target / SOURCE).is_file()


def test_a_folder_of_other_things_is_not_touched(tmp_path: Path) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter1.tex").touch()
    with pytest.raises(ConflictError, match="in the way"):
        _write(target, "one")
    assert [p.name for p in target.iterdir()] == ["chapter1.tex"]
