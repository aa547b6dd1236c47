"""Locks of DVC that killed processes left are released, those of living ones kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from optotype.store.dvc import release


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / ".dvc" / "tmp" / "rwlock"
    path.parent.mkdir(parents=True)
    return path


def test_dead_and_zombie_holders_are_released(lock: Path, tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    zombie = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    zombie.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # it has ended; nobody has collected it
    own = {"pid": os.getpid(), "cmd": "dvc repro"}
    holders = [{"pid": process.pid, "cmd": "dvc repro"} for process in (dead, zombie)]
    lock.write_text(json.dumps({"write": {"a": holders[0], "b": own}, "read": {"a": holders, "c": [holders[1], own]}}))
    assert release(tmp_path) == sorted([dead.pid, zombie.pid])
    assert json.loads(lock.read_text()) == {"write": {"b": own}, "read": {"c": [own]}}
    assert release(tmp_path) == []
    zombie.wait()


def test_a_lock_file_cut_short_is_emptied(lock: Path, tmp_path: Path) -> None:
    lock.write_text('{"write": {"a"')
    assert release(tmp_path) == []
    assert json.loads(lock.read_text()) == {"write": {}, "read": {}}


def test_no_lock_file_is_fine(tmp_path: Path) -> None:
    assert release(tmp_path) == []
