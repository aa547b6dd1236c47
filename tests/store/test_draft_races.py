"""A writer whose draft is taken for a leftover before it is locked starts over."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from optotype.store import drafts


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_file_that_is_removed_before_it_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []
    real = fcntl.flock

    def flock(file: object, operation: int) -> None:
        if not removed and operation == fcntl.LOCK_EX:
            (draft,) = tmp_path.iterdir()
            removed.append(draft.name)
            _remove(draft)
        real(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", flock)
    with drafts.draft_file(tmp_path / "a") as file:
        file.write(b"x")
    assert len(removed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"x"


@pytest.mark.parametrize("moment", ["opened", "locked"])
def test_a_folder_that_is_removed_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    removed: list[str] = []
    real_open, real_lock = os.open, fcntl.flock

    def remove() -> None:
        for draft in tmp_path.iterdir():
            if draft.is_dir() and not removed:
                removed.append(draft.name)
                _remove(draft)

    def opened(path: object, flags: int, mode: int = 0o777, **more: object) -> int:
        if moment == "opened" and drafts.is_draft(Path(str(path)).name) and Path(str(path)).is_dir():
            remove()
        return real_open(path, flags, mode, **more)  # type: ignore[arg-type]

    def locked(file: object, operation: int) -> None:
        if moment == "locked" and operation == fcntl.LOCK_EX:
            remove()
        real_lock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(fcntl, "flock", locked)
    with drafts.Draft(tmp_path / "a") as draft:
        (draft.path / "x").write_text("x")
        draft.commit(lambda _: False)
    assert len(removed) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
