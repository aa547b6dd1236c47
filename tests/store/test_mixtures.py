"""The documents of virtual encoders: what they say, what they notice, and what they never replace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optotype.schemas.errors import ConflictError, FormatError, IntegrityError, NotFoundError
from optotype.store.features import open_features, write_features
from optotype.store.listing import describe, show
from optotype.store.mixtures import Mixture, Part, check_parts, is_mixture, part_source, read_mixture, write_mixtures
from optotype.store.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / ".optotype").mkdir()
    (tmp_path / ".optotype" / "project.json").write_text('{"format_version": 1}')
    project = Project(tmp_path)
    for seed, name in enumerate(("clip", "dino")):
        put(project, name, seed)
    return project


def put(project: Project, name: str, seed: int) -> None:
    rows = np.random.default_rng(seed).standard_normal((8, 3)).astype(np.float32)
    write_features(
        project.features / name, ids=["a", "b"], row_size=[4, 4], blocks=[rows], dtype="float32", inputs={"seed": seed}
    )


def mixture(project: Project, **changes: object) -> Mixture:
    parts = tuple(Part(name, open_features(project.features / name).attrs["digest"]) for name in ("clip", "dino"))
    made = Mixture(
        kind="additive", parts=parts, alpha=0.25, grid=(2, 2), channels=3, seed=0, common=False, digest="", images=2,
        tokens=8, dims=3, dtype="float32",
    )  # fmt: skip
    made = replace(made, **changes)  # type: ignore[arg-type]
    return made if made.digest else replace(made, digest=made.own_digest)


def test_round_trip_and_listing(project: Project) -> None:
    made = mixture(project)
    write_mixtures(project.features / "blend", made)
    assert read_mixture(project.features / "blend") == made
    assert [row["name"] for row in describe("features", project)] == ["blend", "clip", "dino"]
    row = describe("features", project)[0]
    assert (row["images"], row["tokens"], row["channels"], row["error"]) == (2, 8, 3, None)
    assert row["digest"] == made.own_digest != row["key"]
    told = show("features", project.features / "blend")
    assert told["virtual"] is True
    assert [part["array"] for part in told["inputs"]["parts"]] == ["clip", "dino"]
    json.dumps(told)
    assert check_parts(project.features / "blend", made) == [project.features / "clip", project.features / "dino"]


def test_digests_stand_for_values_and_not_for_names(project: Project) -> None:
    made = mixture(project)
    renamed = replace(made, parts=tuple(replace(part, array=f"../{part.array}") for part in made.parts))
    assert renamed.own_digest == made.own_digest
    others = [
        replace(made, alpha=0.5),
        replace(made, grid=None),
        replace(made, seed=1),
        replace(made, channels=4),
        replace(made, common=True),
        replace(made, parts=made.parts[::-1]),
        replace(made, kind="interleaved", alpha=None),
    ]
    assert len({each.own_digest for each in [made, *others]}) == 8


def test_bundles(project: Project) -> None:
    made = {f"mof-{alpha}": mixture(project, alpha=alpha) for alpha in (0.25, 0.5)}
    write_mixtures(project.features / "mof", made)
    assert project.arrays("features", "mof") == ["mof-0.5", "mof-0.25"]
    path = str(project.features / "mof")
    assert project.arrays("features", path) == [f"{path}/mof-0.5", f"{path}/mof-0.25"]
    assert [Path(path).name for path in map(str, project.index("features")["mof-0.5"])] == ["mof-0.5"]
    # A later mixture of that name takes the place of the whole bundle.
    write_mixtures(project.features / "mof", mixture(project))
    assert sorted(path.name for path in (project.features / "mof").iterdir()) == ["mixture.json"]
    assert project.names("features") == ["clip", "dino", "mof"]


def test_a_part_made_anew_is_noticed(project: Project) -> None:
    made = mixture(project)
    write_mixtures(project.features / "blend", made)
    put(project, "dino", 5)
    with pytest.raises(ConflictError, match="mixed of dino with digest"):
        check_parts(project.features / "blend", made)
    assert "mixed of dino" in describe("features", project)[0]["error"]
    (project.features / "clip").rename(project.features / "gone")
    with pytest.raises(NotFoundError, match="clip"):
        part_source(project.features / "blend", made.parts[0])


def test_parts_by_path(project: Project, tmp_path: Path) -> None:
    made = mixture(project)
    made = replace(made, parts=(replace(made.parts[0], array="../data/features/clip"), made.parts[1]))
    write_mixtures(tmp_path / "blend", made)
    assert check_parts(tmp_path / "blend", made) == [project.features / "clip", project.features / "dino"]


def test_arrays_are_never_replaced_by_mixtures_and_mixtures_are_by_arrays(project: Project) -> None:
    with pytest.raises(ConflictError, match="in the way"):
        write_mixtures(project.features / "clip", mixture(project))
    assert open_features(project.features / "clip").sizes["image"] == 2
    write_mixtures(project.features / "blend", mixture(project))
    put(project, "blend", 9)
    assert not is_mixture(project.features / "blend")


def test_values_are_not_looked_for(project: Project) -> None:
    write_mixtures(project.features / "blend", mixture(project))
    with pytest.raises(FormatError, match="holds no values of its own") as caught:
        open_features(project.features / "blend")
    assert "--store" in str(caught.value.hint)


def test_damaged_documents(project: Project) -> None:
    made = mixture(project)
    document = json.loads(made.to_bytes())
    with pytest.raises(IntegrityError, match="digest"):
        Mixture.parse(json.dumps({**document, "alpha": 0.5}).encode(), "m")
    with pytest.raises(IntegrityError, match="digest"):
        Mixture.parse(json.dumps({**document, "digest": made.parts[0].digest}).encode(), "m")
    for change in (
        {"mixture": "stirred"},
        {"parts": []},
        {"alpha": None},
        {"alpha": 2},
        {"grid": "2x2"},
        {"images": "x"},
    ):
        with pytest.raises(FormatError):
            Mixture.parse(json.dumps({**document, **change}).encode(), "m")
    with pytest.raises(FormatError, match="format_version 2"):
        Mixture.parse(json.dumps({**document, "format_version": 2}).encode(), "m")
    whole = mixture(project, alpha=1.0, grid=None, channels=None, seed=None, digest=made.parts[0].digest)
    assert Mixture.parse(whole.to_bytes(), "m") == whole
