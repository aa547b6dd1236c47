"""Ctrl-C while an array is written leaves nothing behind, though Zarr's threads are still writing then."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr.storage

from optotype.store import drafts
from optotype.store.writer import ArrayWriter


def test_an_interrupt_waits_for_what_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes as the first chunk is written; chunks are put there after the wait for them was ended."""
    real = zarr.storage.LocalStore.set
    written: list[str] = []

    async def slow(self: Any, key: str, *rest: Any) -> None:
        if "/c/" in key:
            if key == "query/c/0":
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(0.3)
        await real(self, key, *rest)
        written.append(key)

    monkeypatch.setattr(zarr.storage.LocalStore, "set", slow)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt), ArrayWriter(tmp_path / "a", "tasks") as writer:
            writer.add_strings("query", ("query",), ["x"] * (1 << 17))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert any("/c/" in key for key in written)  # it was written, and then removed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["flock", "open"])
def test_an_interrupt_while_the_draft_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    def interrupted(draft: drafts.Draft, before: Any = drafts.Draft._make) -> None:
        if moment == "flock":
            before(draft)
        else:
            draft.path = drafts._draft_name(draft.target)
            draft.path.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(drafts.Draft, "_make", interrupted)
    with pytest.raises(KeyboardInterrupt), drafts.Draft(tmp_path / "a"):
        pass
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    with ArrayWriter(tmp_path / "a", "states") as writer:  # the lock was given back
        writer.add_rows("x", ("n",), (2,), np.dtype("<i8"), [np.arange(2)])
        writer.commit({})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
