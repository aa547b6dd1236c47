"""Arrays written by earlier versions open, and the current version still writes the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from optotype.store.embeddings import open_embeddings
from optotype.store.features import open_features
from optotype.store.manifest import read_manifest, verify
from optotype.store.neighbours import open_neighbours
from optotype.store.panels import open_panel
from optotype.store.states import open_states
from optotype.store.tasks.dataset import open_tasks

HERE = Path(__file__).parent
VERSIONS = sorted(folder.name for folder in HERE.glob("v*"))
DIGESTS = {
    "v1": {
        "features": "sha256:bd5bf6c359e0c3dd9a2249816271f98b3c0da1618a11f56f4a64751b221d0da2",
        "states": "sha256:e0e900ce8e086d334384d62efe135b0246bcf95d014f24908d767c7f46fa3f2f",
        "neighbours": "sha256:5ab798545f3832036e2a16f0b84fb9ce97fc95f9e9b6bd05bfc0b21e8ce0b5df",
        "embeddings": "sha256:62314a754f2ee6fc6acdc1b41c3040f703a3d97bacdbc2a2ff8c4074c7c23a7a",
        "tasks": "sha256:e4119ac3151be6b935866a18de45a631b73b3616542dfb918d95a97fadabaf1e",
    },
}
PANELS = {"v1": "sha256:4b866c8c01bd584c63906148beac6916a745737cdf622d9ecf9f0a83aad5f569"}
IDS = ["1f600", "a b", "ä", "猫"]
ROWS = (np.arange(21).reshape(7, 3) - 10) / 4


@pytest.mark.parametrize("version", VERSIONS)
def test_old_features_open(version: str) -> None:
    opened = open_features(HERE / version / "features" / "tiny")
    assert list(opened["image"].values) == IDS
    assert opened["row_size"].values.tolist() == [2, 1, 3, 1]
    assert opened["patches"].dtype == np.float16
    np.testing.assert_array_equal(opened["patches"].values, ROWS)


@pytest.mark.parametrize("version", VERSIONS)
def test_old_states_open(version: str) -> None:
    opened = open_states(HERE / version / "states" / "tiny")
    assert list(opened["text"].values) == IDS
    assert opened["states"].dtype == np.float32
    np.testing.assert_array_equal(opened["states"].values, ROWS[:4])


@pytest.mark.parametrize("version", VERSIONS)
def test_old_neighbours_open(version: str) -> None:
    opened = open_neighbours(HERE / version / "neighbours" / "tiny")
    assert list(opened["item"].values) == IDS
    assert opened["neighbours"].values.tolist() == [[1, 2], [0, 2], [3, 0], [2, 1]]
    assert opened["similarity"].values.tolist() == [[0.5, 0.25], [0.5, 0.125], [1.0, 0.25], [1.0, 0.0]]
    assert opened["eigenvalues"].values.tolist() == [2.0, 1.0, 0.0]


@pytest.mark.parametrize("version", VERSIONS)
def test_old_embeddings_open(version: str) -> None:
    opened = open_embeddings(HERE / version / "embeddings" / "tiny")
    assert list(zip(opened["benchmark"].values, opened["item"].values, strict=True)) == [
        ("mmvp", "1"),
        ("mmvp", "2"),
        ("猫", "ä"),
    ]
    np.testing.assert_array_equal(opened["text"].values, ROWS[:3])
    np.testing.assert_array_equal(opened["vision_text"].values, [*ROWS[3:5].tolist(), [np.nan] * 3])


@pytest.mark.parametrize("version", VERSIONS)
def test_old_panels_open(version: str) -> None:
    opened = open_panel(HERE / version / "scores" / "tiny")
    assert opened.attrs["digest"] == PANELS[version]
    assert list(opened["benchmark"].values) == ["猫", "mmvp"]
    assert list(opened["scale_max"].values) == [10, 1]
    np.testing.assert_array_equal(opened["score"].values, [[2.5, 1], [10, 0]])
    np.testing.assert_array_equal(opened["blind"].values, [[np.nan, 1]])
    assert opened["response"].values.astype(bool).tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("version", VERSIONS)
def test_old_tasks_open(version: str) -> None:
    opened = open_tasks(HERE / version / "tasks" / "tiny")
    assert opened["query"].values.tolist() == ["q2", "q1", "q3"]
    assert opened["language"].values.tolist() == ["en", "it", "en"]
    assert opened["target"].values.tolist() == ["猫", "c2", "b.png"]
    assert opened["list_candidate"].values.tolist() == [0, 1, 0, 2]
    assert opened["grade"].values.tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["features", "states", "neighbours", "embeddings", "tasks"])
def test_golden_bytes_are_as_they_were(version: str, kind: str) -> None:
    folder = HERE / version / kind / "tiny"
    assert verify(folder) == []
    assert read_manifest(folder).digest == DIGESTS[version][kind]


def test_current_version_writes_the_newest_golden_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, HERE / "make.py", tmp_path], check=True)
    written = {kind: read_manifest(tmp_path / kind / "tiny").digest for kind in DIGESTS[VERSIONS[-1]]}
    assert written == DIGESTS[VERSIONS[-1]]
    assert open_panel(tmp_path / "scores" / "tiny").attrs["digest"] == PANELS[VERSIONS[-1]]
