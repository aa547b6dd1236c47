"""Virtual encoders are ranked as any other: as the same values stored would be, and from the cache the second time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from optotype.pipelines.graphs import features_graph, open_array, write_graphs
from optotype.pipelines.operators.mixtures import interleaved, space
from optotype.pipelines.operators.neighbours import feature_neighbours
from optotype.pipelines.rank import degeneracy, rank
from optotype.registry.mixtures import mix_features
from optotype.registry.rankings import write_ranking
from optotype.schemas.errors import ConflictError, IntegrityError, InvalidDataError, UsageError
from optotype.store.features import open_features
from optotype.store.listing import describe
from optotype.store.project import Project

K = 4


@pytest.fixture
def filled(project: Project, put: SimpleNamespace) -> Project:
    random = np.random.default_rng(0)
    for name, tokens, channels in (("clip", 4, 5), ("dino", 4, 5), ("swin", 9, 3)):
        put.features(name, [random.standard_normal((tokens, channels)).astype(np.float16) for _ in range(24)])
    put.states("lm", random.standard_normal((24, 6)))
    return project


def _cached(project: Project) -> set[str]:
    return {path.name for path in (project.cache / "neighbours").glob("*")}


def test_a_virtual_encoder_ranks_as_the_stored_one(filled: Project) -> None:
    mix_features("additive", "clip", "dino", "lazy", project=filled, alpha=0.25, track=False)
    mix_features("additive", "clip", "dino", "kept", project=filled, alpha=0.25, store=True, track=False)
    np.testing.assert_array_equal(
        open_array(filled, "features", "lazy")["patches"], open_features(filled.features / "kept")["patches"]
    )
    lazy, kept = (rank(filled, [name], ["lm"], k=K)[0] for name in ("lazy", "kept"))
    assert lazy["score"] == kept["score"]
    assert lazy["cosine_spread"] == kept["cosine_spread"]
    assert lazy["mixture"] == {"kind": "additive", "alpha": 0.25, "ssl_ratio": 0.75, "a": "clip", "b": "dino"}
    assert "mixture" not in kept
    assert lazy["features_digest"] != kept["features_digest"]
    assert lazy["features_dtype"] == "float32"


def test_interleaved_of_unlike_encoders(filled: Project) -> None:
    (row,) = mix_features("interleaved", "clip", "swin", "both", project=filled, track=False)
    assert (row["tokens"], row["channels"], row["dtype"], row["alpha"]) == (24 * 13, 8, "float16", None)
    (ranked,) = rank(filled, ["both"], ["lm"], k=K)
    a, b = (open_features(filled.features / name) for name in ("clip", "swin"))
    direct = feature_neighbours(interleaved(a, b), k=K)
    graph = features_graph(filled, "both", k=K)
    np.testing.assert_array_equal(graph["neighbours"], direct["neighbours"])
    assert ranked["mixture"]["ssl_ratio"] is None
    assert ranked["n_over_d"]["features"] == 24 * 13 / 8


def test_graphs_are_kept_by_both_digests_and_alpha(filled: Project) -> None:
    rows = [
        *mix_features("additive", "clip", "dino", "sweep", project=filled, alpha=[0.75, 0.5], track=False),
        *mix_features("additive", "dino", "clip", "turned", project=filled, alpha=0.75, track=False),
        *mix_features("interleaved", "clip", "dino", "il", project=filled, track=False),
    ]
    assert len({row["digest"] for row in rows}) == 4
    names = ["sweep-0.75", "sweep-0.5", "turned", "il"]
    first = rank(filled, names, ["lm"], k=K)
    assert len(_cached(filled)) == 5
    assert rank(filled, names, ["lm"], k=K) == first
    assert len(_cached(filled)) == 5
    mix_features("additive", "clip", "dino", "again", project=filled, alpha=0.5, track=False)
    features_graph(filled, "again", k=K)  # another name for the same mixture
    assert len(_cached(filled)) == 5


def test_all_the_weight_is_the_original_down_to_its_graph(filled: Project) -> None:
    rows = mix_features("additive", "clip", "dino", "ends", project=filled, alpha=[1, 0], track=False)
    assert [row["name"] for row in rows] == ["ends-1.0", "ends-0.0"]
    originals = rank(filled, ["clip", "dino"], ["lm"], k=K)
    before = _cached(filled)
    ends = rank(filled, ["ends-1.0", "ends-0.0"], ["lm"], k=K)
    assert _cached(filled) == before
    for name, end in (("clip", "ends-1.0"), ("dino", "ends-0.0")):
        one = next(row for row in originals if row["encoder"] == name)
        other = next(row for row in ends if row["encoder"] == end)
        assert {**one, "encoder": end} == {key: value for key, value in other.items() if key != "mixture"}
    # Resized first, it is the original no more.
    (row,) = mix_features("additive", "clip", "dino", "small", project=filled, alpha=1, grid=(1, 1), track=False)
    assert row["digest"] not in {each["features_digest"] for each in originals}
    assert row["tokens"] == 24


def test_resized_and_projected(filled: Project) -> None:
    with pytest.raises(InvalidDataError, match="cannot be added"):
        mix_features("additive", "clip", "swin", "x", project=filled, alpha=0.5, track=False)
    assert not (filled.features / "x").exists()
    (row,) = mix_features(
        "additive", "clip", "swin", "x", project=filled, alpha=0.5, grid=(3, 3), channels=5, track=False
    )
    assert (row["tokens"], row["channels"]) == (216, 5)
    assert open_array(filled, "features", "x").attrs["grid"] == [3, 3]
    seeded = mix_features(
        "additive", "clip", "swin", "y", project=filled, alpha=0.5, grid=(3, 3), channels=5, seed=1, track=False
    )
    assert seeded[0]["digest"] != row["digest"]
    assert rank(filled, ["x", "y"], ["lm"], k=K)[0]["n"] == 24


def test_common_images(filled: Project, put: SimpleNamespace) -> None:
    random = np.random.default_rng(1)
    ids = [f"i{number:04}" for number in (*range(5, 24), 30)]
    put.features("late", [random.standard_normal((4, 5)).astype(np.float32) for _ in ids], ids=ids)
    for kind, alpha in (("additive", 0.5), ("interleaved", None)):
        with pytest.raises(InvalidDataError) as caught:
            mix_features(kind, "clip", "late", "x", project=filled, alpha=alpha, track=False)  # type: ignore[arg-type]
        assert "--common" in str(caught.value.hint)
        (row,) = mix_features(kind, "clip", "late", "x", project=filled, alpha=alpha, common=True, track=False)  # type: ignore[arg-type]
        assert row["images"] == 19
        opened = open_array(filled, "features", "x", spaces=True)
        part = opened if kind == "additive" else space(opened, "a")
        assert part["image"].values.tolist() == ids[:-1]
        assert rank(filled, ["x"], ["lm"], k=K, common=True)[0]["n"] == 19


def test_ranking_over_fewer_images_takes_both_spaces(filled: Project) -> None:
    mix_features("interleaved", "clip", "swin", "both", project=filled, track=False)
    chosen = [f"i{number:04}" for number in range(3, 17)]
    graph = features_graph(filled, "both", k=K, images=chosen)
    assert graph["item"].values.tolist() == chosen
    assert (graph.attrs["a_rows"], graph.attrs["b_rows"]) == (14 * 4, 14 * 9)


def test_written_graphs_are_found(filled: Project) -> None:
    mix_features("interleaved", "clip", "swin", "both", project=filled, track=False)
    (folder,) = write_graphs(filled, "both", "features", ["both"], ["none"], k=K)
    assert folder.name == "both.none"
    found = features_graph(filled, "both", k=K)
    assert _cached(filled) == set()
    xr.testing.assert_equal(found, feature_neighbours(open_array(filled, "features", "both", spaces=True), k=K))


def test_those_who_know_one_space_refuse_two(filled: Project) -> None:
    mix_features("interleaved", "clip", "swin", "both", project=filled, track=False)
    with pytest.raises(UsageError, match="two spaces"):
        open_array(filled, "features", "both")
    with pytest.raises(UsageError, match="is a mixture itself"):
        mix_features("interleaved", "both", "clip", "more", project=filled, track=False)


def test_parts_that_changed(filled: Project, put: SimpleNamespace) -> None:
    mix_features("interleaved", "clip", "swin", "both", project=filled, track=False)
    damaged = filled.features / "clip" / "row_size" / "c" / "0"
    kept = damaged.read_bytes()
    damaged.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(IntegrityError):
        features_graph(filled, "both", k=K)
    damaged.write_bytes(kept)
    put.features("swin", [np.random.default_rng(7).standard_normal((9, 3)) for _ in range(24)])
    with pytest.raises(ConflictError, match="mixed of swin"):
        rank(filled, ["both"], ["lm"], k=K)


def test_mixtures_outside_the_project_and_without_one(
    filled: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mix_features("interleaved", "clip", "dino", "./out/il", project=filled, track=False)
    assert rank(None, ["./out/il"], [str(filled.states / "lm")], k=K)[0]["encoder"] == "il"
    clip, dino = (str(filled.features / name) for name in ("clip", "dino"))
    (row,) = mix_features("additive", clip, dino, "./out/add", alpha=0.5)
    assert row["name"] == "add"
    first = (tmp_path / "out" / "add" / "mixture.json").read_bytes()
    assert str(tmp_path).encode() not in first
    mix_features("additive", clip, dino, "./out/add", alpha=0.5)
    assert (tmp_path / "out" / "add" / "mixture.json").read_bytes() == first
    inside = filled.root / "reports" / "mixes"
    mix_features("additive", "clip", "dino", str(inside), project=filled, alpha=[0.5, 0.25], track=False)
    assert b'"array": "clip"' in (inside / "mixes-0.5" / "mixture.json").read_bytes()
    assert describe("features", inside / "mixes-0.5")[0]["error"] is None


def test_refused(filled: Project, put: SimpleNamespace) -> None:
    with pytest.raises(UsageError, match="needs the weight"):
        mix_features("additive", "clip", "dino", "x", project=filled)
    with pytest.raises(UsageError, match="has no weight"):
        mix_features("interleaved", "clip", "dino", "x", project=filled, alpha=0.5)
    with pytest.raises(UsageError, match="given twice"):
        mix_features("additive", "clip", "dino", "x", project=filled, alpha=[0.5, 0.5])
    with pytest.raises(UsageError, match="from 0 to 1"):
        mix_features("additive", "clip", "dino", "x", project=filled, alpha=1.5)
    with pytest.raises(UsageError, match="nothing to store"):
        mix_features("interleaved", "clip", "dino", "x", project=filled, store=True)
    with pytest.raises(UsageError, match="2 weights"):
        mix_features("additive", "clip", "dino", "x", project=filled, alpha=[0, 1], store=True)
    with pytest.raises(ConflictError, match="in the way"):
        mix_features("interleaved", "clip", "dino", "swin", project=filled, track=False)
    put.features("bundle/taken-0.5", [np.ones((1, 2)) + i for i in range(3)])
    with pytest.raises(ConflictError, match="there already"):
        mix_features("additive", "clip", "dino", "taken", project=filled, alpha=[0.5, 1], track=False)


def test_warnings_name_the_space(filled: Project, put: SimpleNamespace) -> None:
    random = np.random.default_rng(2)
    put.features("wide", [random.standard_normal((1, 60)) for _ in range(24)])
    mix_features("interleaved", "clip", "wide", "both", project=filled, track=False)
    graph = features_graph(filled, "both", k=K)
    (told,) = [text for text in degeneracy(graph.attrs, graph["similarity"].values) if "equidistant" in text]
    assert told.startswith("features (space b): whitening 24 patches in 60 channels")


def test_files_of_a_ranking_hold_the_mixtures(filled: Project, tmp_path: Path) -> None:
    mix_features("additive", "clip", "dino", "sweep", project=filled, alpha=[0.75, 0.5], track=False)
    rows = rank(filled, ["sweep-0.75", "sweep-0.5", "clip"], ["lm"], k=K)
    write_ranking(rows, tmp_path)
    header, *lines = (tmp_path / "ranking.csv").read_text().splitlines()
    assert "mixture.ssl_ratio" in header.split(",")
    assert len(lines) == 3
