"""Graphs are computed once and found again by what they were made of."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from optotype.pipelines import graphs
from optotype.pipelines.graphs import features_graph, states_graph, write_graphs
from optotype.pipelines.operators.neighbours import feature_neighbours
from optotype.pipelines.progress import Plain
from optotype.schemas.errors import ConflictError, IntegrityError, InvalidDataError, NotFoundError, UsageError
from optotype.store.features import open_features, select_images
from optotype.store.manifest import read_manifest, verify
from optotype.store.neighbours import open_neighbours
from optotype.store.project import Project


@pytest.fixture
def filled(project: Project, put: SimpleNamespace, make: SimpleNamespace) -> Project:
    """Two encoders and a language model over 20 items."""
    put.features("a", make.ragged(0, 20, 6))
    put.features("b", make.ragged(1, 20, 5))
    put.states("t", np.random.default_rng(2).standard_normal((20, 7)).astype(np.float32))
    return project


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with a word for every graph that is computed."""
    calls: list[str] = []
    for name in ("feature_neighbours", "state_neighbours"):
        plain = getattr(graphs, name)

        def counted(*arguments: object, name: str = name, plain: object = plain, **options: object) -> object:
            calls.append(name.split("_", maxsplit=1)[0])
            return plain(*arguments, **options)  # type: ignore[operator]

        monkeypatch.setattr(graphs, name, counted)
    return calls


def test_a_second_call_computes_nothing(filled: Project, computed: list[str]) -> None:
    first = features_graph(filled, "a", k=3)
    assert computed == ["feature"]
    xr.testing.assert_identical(features_graph(filled, "a", k=3), first)
    states_graph(filled, "t", k=3)
    states_graph(filled, "t", k=3)
    assert computed == ["feature", "state"]


@pytest.mark.parametrize(
    "change", [{"k": 4}, {"eps": 1e-3}, {"prenorm": "l2"}, {"images": [f"i{i:04}" for i in range(9)]}]
)
def test_every_input_is_part_of_the_key(change: dict[str, object], filled: Project, computed: list[str]) -> None:
    features_graph(filled, "a", k=3)
    features_graph(filled, "a", **{"k": 3, **change})  # type: ignore[arg-type]
    assert computed == ["feature", "feature"]


def test_the_content_is_part_of_the_key_and_the_name_is_not(
    filled: Project, computed: list[str], put: SimpleNamespace, make: SimpleNamespace
) -> None:
    features_graph(filled, "a", k=3)
    put.features("a", make.ragged(5, 20, 6))
    features_graph(filled, "a", k=3)
    assert computed == ["feature", "feature"]
    put.features("copy", make.ragged(5, 20, 6))
    features_graph(filled, "copy", k=3)
    assert computed == ["feature", "feature"]


def test_a_version_of_the_code_is_part_of_the_key(
    filled: Project, computed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    features_graph(filled, "a", k=3)
    monkeypatch.setattr(graphs, "GRAPH_VERSION", graphs.GRAPH_VERSION + 1)
    features_graph(filled, "a", k=3)
    assert computed == ["feature", "feature"]


def test_all_ids_as_a_subset_are_no_subset(filled: Project, computed: list[str]) -> None:
    whole = features_graph(filled, "a", k=3)
    again = features_graph(filled, "a", k=3, images=[f"i{i:04}" for i in range(20)][::-1])
    assert computed == ["feature"]
    xr.testing.assert_identical(whole, again)


def test_a_subset_is_the_graph_of_these_images_alone(filled: Project) -> None:
    chosen = [1, 2, 5, 8, 13, 17, 19]
    found = features_graph(filled, "a", k=3, images=[f"i{i:04}" for i in chosen])
    alone = feature_neighbours(select_images(open_features(filled.features / "a"), chosen), k=3)
    xr.testing.assert_identical(found, alone)
    with pytest.raises(InvalidDataError, match="'zz'"):
        features_graph(filled, "a", k=3, images=["i0001", "zz"])


def test_without_a_project_a_path_is_enough(filled: Project) -> None:
    expected = features_graph(filled, "a", k=3)
    xr.testing.assert_identical(features_graph(None, str(filled.features / "a"), k=3), expected)
    with pytest.raises(UsageError, match="no project"):
        features_graph(None, "a", k=3)


def test_a_damaged_cache_is_made_again(filled: Project, computed: list[str]) -> None:
    first = features_graph(filled, "a", k=3)
    (cached,) = (filled.cache / "neighbours").iterdir()
    (chunk,) = (path for path in (cached / "similarity").rglob("*") if path.is_file() and path.name != "zarr.json")
    chunk.write_bytes(b"")
    xr.testing.assert_identical(features_graph(filled, "a", k=3), first)
    assert computed == ["feature", "feature"]
    assert verify(cached) == []


def _cut(manifest: Path) -> None:
    manifest.write_bytes(manifest.read_bytes()[:40])


def _newer(manifest: Path) -> None:
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format_version": 99}))


def _other_digest(manifest: Path) -> None:
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "digest": "sha256:" + "0" * 64}))


def _flip(manifest: Path) -> None:
    (chunk,) = _chunks(manifest.parent / "similarity")
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)


def _chunks(member: Path) -> list[Path]:
    return [path for path in member.rglob("*") if path.is_file() and path.name != "zarr.json"]


def _no_group(manifest: Path) -> None:
    (manifest.parent / "zarr.json").unlink()


DAMAGES = [_cut, _newer, _other_digest, Path.unlink, _flip]


@pytest.mark.parametrize("damage", [*DAMAGES, _no_group])
def test_a_cached_graph_that_cannot_be_read_is_made_again(
    damage: Callable[[Path], None], filled: Project, computed: list[str]
) -> None:
    first = features_graph(filled, "a", k=3)
    (cached,) = (filled.cache / "neighbours").iterdir()
    damage(cached / "manifest.json")
    notes = io.StringIO()
    xr.testing.assert_identical(features_graph(filled, "a", k=3, progress=Plain(notes)), first)
    assert "made again" in notes.getvalue()
    assert computed == ["feature", "feature"]
    assert verify(cached) == []


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_graph_of_the_project_is_left_aside_and_built_again(
    damage: Callable[[Path], None], filled: Project, computed: list[str]
) -> None:
    (built,) = write_graphs(filled, "e", "features", ["a"], ["none"], k=3)
    sound = read_manifest(built).digest
    first = features_graph(filled, "a", k=3)
    assert computed == ["feature"]
    damage(built / "manifest.json")
    notes = io.StringIO()
    xr.testing.assert_identical(features_graph(filled, "a", k=3, progress=Plain(notes)), first)
    assert str(built) in notes.getvalue()
    assert "optotype neighbours build" in notes.getvalue()
    features_graph(filled, "b", k=3)
    assert computed == ["feature"] * 3
    write_graphs(filled, "e", "features", ["a"], ["none"], k=3)
    assert read_manifest(built).digest == sound
    assert verify(built) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_other_bytes_under_a_manifest_are_refused_before_computing(
    scheme: str, filled: Project, computed: list[str], put: SimpleNamespace, make: SimpleNamespace
) -> None:
    put.features("c", make.ragged(0, 20, 6)[::-1])  # as many patches as a, in another order
    kept = features_graph(filled, "a", k=3)
    (ours,), (theirs,) = (_chunks(filled.features / name / "patches") for name in ("a", "c"))
    assert ours.stat().st_size == theirs.stat().st_size
    ours.write_bytes(theirs.read_bytes())
    reference = scheme + str(filled.features / "a")
    xr.testing.assert_identical(features_graph(filled, reference, k=3), kept)  # found: nothing is read
    with pytest.raises(IntegrityError, match=r"patches/.*the manifest says") as caught:
        features_graph(filled, reference, k=4)
    assert "dvc checkout" in str(caught.value)
    assert computed == ["feature"]


def test_a_file_that_the_manifest_does_not_list_does_no_harm(filled: Project) -> None:
    expected = states_graph(None, str(filled.states / "t"), k=3)
    (filled.states / "t" / ".DS_Store").write_bytes(b"x")
    xr.testing.assert_identical(states_graph(filled, "t", k=3), expected)


def test_written_graphs_are_found_by_the_ranking(filled: Project, computed: list[str]) -> None:
    paths = write_graphs(filled, "encoders", "features", ["a", "b"], ["none", "l2"], k=3)
    root = filled.neighbours / "encoders"
    assert paths == [root / "a.none", root / "a.l2", root / "b.none", root / "b.l2"]
    assert len(computed) == 4
    assert not (filled.cache / "neighbours").exists()
    xr.testing.assert_identical(
        features_graph(filled, "b", k=3, prenorm="l2"),
        open_neighbours(root / "b.l2")
        .drop_attrs(deep=False)
        .assign_attrs(features_graph(filled, "b", k=3, prenorm="l2").attrs),
    )
    assert len(computed) == 4


def test_writing_again_gives_the_same_digests_and_drops_what_is_not_asked_for(filled: Project) -> None:
    first = [read_manifest(path).digest for path in write_graphs(filled, "e", "features", ["a", "b"], ["none"], k=3)]
    again = write_graphs(filled, "e", "features", ["a"], ["none"], k=3)
    assert [read_manifest(path).digest for path in again] == first[:1]
    assert [path.name for path in (filled.neighbours / "e").iterdir()] == ["a.none"]


def test_a_bundle_stands_for_its_arrays(filled: Project) -> None:
    bundle = filled.features / "run"
    bundle.mkdir()
    for name in ("a", "b"):
        (filled.features / name).rename(bundle / f"run-{name}")
    paths = write_graphs(filled, "g", "features", ["run"], ["none"], k=3)
    assert [path.name for path in paths] == ["run-a.none", "run-b.none"]


def test_everything_is_checked_before_anything_is_computed(
    filled: Project, computed: list[str], tmp_path: Path
) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        write_graphs(filled, "g", "features", ["a", "nowhere"], ["none"], k=3)
    with pytest.raises(UsageError, match="largest k"):
        write_graphs(filled, "g", "features", ["a"], ["none"], k=20)
    with pytest.raises(UsageError, match="none, l2"):
        write_graphs(filled, "g", "features", ["a"], ["none", "max"], k=3)
    with pytest.raises(UsageError, match="eps"):
        write_graphs(filled, "g", "features", ["a"], ["none"], k=3, eps=-1.0)
    with pytest.raises(UsageError, match="not a name"):
        write_graphs(filled, "../g", "features", ["a"], ["none"], k=3)
    with pytest.raises(UsageError, match="no graph"):
        write_graphs(filled, "g", "features", [], ["none"], k=3)
    with pytest.raises(ConflictError, match="two of the arrays"):
        write_graphs(filled, "g", "features", ["a", str(filled.features / "a")], ["none"], k=3)
    assert computed == []
