"""Runs that are killed with SIGKILL end in the bytes of an undisturbed one, without doing anything twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from optotype.pipelines.encode import EncodedArray, encode_images, runs
from optotype.store.drafts import is_draft
from optotype.store.project import Project
from optotype.store.staging import Staging

PLUGIN = """
import os, signal
from pathlib import Path
import numpy as np

class Counting:
    layers = 2

    def preprocess(self, images):
        return [np.asarray(image.resize((8, 8)), dtype=np.float32) / 255 for image in images]

    def encode(self, batch, layers):
        log = Path(os.environ["ENCODE_LOG"])
        calls = len(log.read_text().splitlines()) if log.exists() else 0
        if os.environ.get("DIE_AT_CALL") == str(calls):
            os.kill(os.getpid(), signal.SIGKILL)
        with log.open("a") as file:
            file.write(f"{len(batch)} {sum(float(p.sum()) for p in batch):.6f}\\n")
        return [[pixels * (1 if layer is None else 2 + layer) for pixels in batch] for layer in layers]

def load():
    return Counting()
"""

SCRIPT = """
import os, signal, sys
from pathlib import Path
from optotype.pipelines.encode import encode_images, image_features, runs
from optotype.store.project import Project

runs.PART_BYTES = int(os.environ["PART_BYTES"])
if os.environ.get("DIE_AT_WRITE"):
    write, written = image_features.write_features, []
    def dying(*args, **options):
        if len(written) == int(os.environ["DIE_AT_WRITE"]):
            os.kill(os.getpid(), signal.SIGKILL)
        written.append(write(*args, **options))
        return written[-1]
    image_features.write_features = dying
encode_images(
    Project.find(Path(sys.argv[1])), "run", sys.argv[2], "python:counting_plugin:load",
    layers=[0, None, 1], batch_size=2, threads=1,
)
"""


class Runner:
    """Runs the same encoding again and again in a project of its own."""

    def __init__(self, root: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.table, self.log, self.monkeypatch = root, table, root / "log", monkeypatch
        (root / ".optotype").mkdir(parents=True)
        (root / ".optotype" / "project.json").write_text('{"format_version": 1}')
        (root / "counting_plugin.py").write_text(PLUGIN)

    def killed(self, *, parts: int = 1, **environment: str) -> None:
        """A process of its own that kills itself; ``parts`` is the size at which a part is kept."""
        variables = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "ENCODE_LOG": str(self.log),
            "PART_BYTES": str(parts),
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(self.root), str(self.table)],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    def finished(self, *, parts: int = 1) -> list[EncodedArray]:
        """A run in this process that ends."""
        sys.modules.pop("counting_plugin", None)
        with self.monkeypatch.context() as patch:
            patch.syspath_prepend(self.root)
            patch.setenv("ENCODE_LOG", str(self.log))
            patch.setattr(runs, "PART_BYTES", parts)
            return encode_images(
                Project.find(self.root),
                "run",
                self.table,
                "python:counting_plugin:load",
                layers=[0, None, 1],
                batch_size=2,
                threads=1,
            )

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def identity(arrays: list[EncodedArray]) -> list[tuple[str, str, str]]:
    return [(array.name, array.manifest.digest, array.manifest.key) for array in arrays]


@pytest.fixture
def runner(tmp_path: Path, image_table: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(tmp_path / "killed", image_table, monkeypatch)


@pytest.fixture
def undisturbed(
    tmp_path: Path, image_table: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """What a run without a kill ends in, and the batches it encoded."""
    runner = Runner(tmp_path / "undisturbed", image_table, monkeypatch)
    arrays = runner.finished()
    assert [array.name for array in arrays] == ["run-l0", "run-final", "run-l1"]
    assert not any(array.resumed or array.skipped for array in arrays)
    assert len(runner.calls) == 4  # seven images in pairs
    return identity(arrays), runner.calls


Undisturbed = tuple[list[tuple[str, str, str]], list[str]]


def test_a_killed_run_goes_on_where_it_stopped(runner: Runner, undisturbed: Undisturbed) -> None:
    expected, calls = undisturbed
    runner.killed(DIE_AT_CALL="1")
    runner.killed(DIE_AT_CALL="3")
    assert all(is_draft(path.name) for path in (runner.root / "data").glob("*/*"))  # nothing half
    arrays = runner.finished()
    assert runner.calls == calls  # each batch once, in order, as in one run
    assert identity(arrays) == expected
    assert all(array.resumed for array in arrays)
    again = runner.finished()
    assert all(array.skipped for array in again)
    assert runner.calls == calls


def test_only_finished_parts_count(runner: Runner, undisturbed: Undisturbed) -> None:
    expected, calls = undisturbed
    two_batches = 2 * 2 * 3 * 8 * 8 * 3 * 2  # batches, images, layers, rows, columns, channels, bytes
    runner.killed(parts=two_batches, DIE_AT_CALL="3")
    arrays = runner.finished(parts=two_batches)
    assert runner.calls == [*calls[:3], *calls[2:]]  # the third batch was not kept yet
    assert identity(arrays) == expected


def test_a_kill_between_the_arrays_of_a_bundle(runner: Runner, undisturbed: Undisturbed) -> None:
    expected, calls = undisturbed
    runner.killed(DIE_AT_WRITE="1")
    arrays = runner.finished()
    assert runner.calls == calls  # nothing was encoded twice
    assert identity(arrays) == expected
    assert [array.skipped for array in arrays] == [True, False, False]
    assert not list((runner.root / ".optotype" / "staging").iterdir())


def test_parts_left_behind_by_a_finished_run_are_swept(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:  # as if killed when all arrays stood
        patch.setattr(Staging, "discard", Staging.close)
        runner.finished()
    staging = runner.root / ".optotype" / "staging"
    assert list(staging.iterdir())
    assert all(array.skipped for array in runner.finished())
    assert not list(staging.iterdir())
