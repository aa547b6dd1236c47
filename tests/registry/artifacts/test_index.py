"""Finding, yanking and naming published versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from payloads import make_report

from optotype.registry.artifacts.index import Registry, latest
from optotype.registry.artifacts.listing import list_versions, show_version, verify_versions
from optotype.registry.artifacts.publish import publish
from optotype.registry.artifacts.status import Status
from optotype.schemas.errors import (
    ConflictError,
    FormatError,
    IntegrityError,
    NotFoundError,
    UsageError,
)

Publish = Callable[..., None]


@pytest.fixture
def registry(root: Path, tmp_path: Path) -> Registry:
    """Reports ``r`` in several versions, and one other thing of the same name."""
    for version in ("1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1"):
        publish("report", f"r@{version}", make_report(tmp_path / version, text=version), root=root)
    publish("report", "other@0.1.0", make_report(tmp_path / "other", text="other"), root=root)
    return Registry(root)


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        ("r@1.2.0", "1.2.0"),
        ("report/r@1.2", "1.2.0"),
        ("r@^1", "1.10.0"),
        ("r@*", "1.10.0"),
        ("r@latest", "1.10.0"),
        ("r@2.0.0-rc.1", "2.0.0-rc.1"),
        ("r@>=2.0.0-rc.1", "2.0.0-rc.1"),
    ],
)
def test_resolved(registry: Registry, reference: str, version: str) -> None:
    hit = registry.resolve(reference)
    assert (hit.kind, hit.name, hit.version) == ("report", "r", version)
    assert registry.resolve(f"r@{hit.digest[:20]}").version == version
    assert registry.payload(hit) == hit.place.payload


def test_versions_are_in_semantic_order(registry: Registry) -> None:
    assert registry.versions("report", "r") == ["1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1"]
    assert registry.names("report") == ["other", "r"]
    assert [str(v) for v in registry.all("report")][:2] == ["report/other@0.1.0", "report/r@1.0.0"]
    assert registry.all("suite") == []
    assert latest(["2.0.0-a"]) is None


def test_no_version_asks_which(registry: Registry) -> None:
    with pytest.raises(UsageError) as error:
        registry.resolve("r")
    assert "there are 2.0.0-rc.1, 1.10.0, 1.2.0, 1.0.0" in error.value.message
    assert "report/r@1.10.0" in str(error.value.hint)
    pinned = Registry(registry.root, pins=lambda kind, name: "1.2.0" if name == "r" else None)
    assert pinned.resolve("r").version == "1.2.0"
    assert pinned.resolve("r@1.0.0").version == "1.0.0"


def test_what_is_not_there(registry: Registry) -> None:
    with pytest.raises(NotFoundError, match=r"no version of report/r is \^3: there are 2\.0\.0-rc\.1, 1\.10\.0"):
        registry.resolve("r@^3")
    with pytest.raises(NotFoundError, match="stable"):
        registry.resolve("r@stable")
    with pytest.raises(NotFoundError):
        registry.resolve("r@sha256:00000000")
    with pytest.raises(NotFoundError) as error:
        registry.resolve("report/othr@latest")
    assert "Did you mean 'other'?" in str(error.value.hint)
    with pytest.raises(NotFoundError):
        registry.resolve("suite/r@latest")
    with pytest.raises(NotFoundError, match="no version of report/r is 9"):
        registry.version("report", "r", "9.0.0")
    with pytest.raises(NotFoundError) as error:
        Registry(registry.root / "nothing").resolve("r@latest")
    assert "optotype publish" in str(error.value.hint)


def test_one_name_of_two_kinds_asks_which(registry: Registry, tmp_path: Path) -> None:
    from payloads import make_ranking

    publish("ranking", "r@1.0.0", make_ranking(tmp_path / "ranking", {"a": 0.3}), root=registry.root)
    with pytest.raises(UsageError, match="name of 2 things: ranking/r, report/r"):
        registry.resolve("r@latest")
    assert registry.resolve("r@latest", kind="ranking").kind == "ranking"


def test_a_yanked_version_is_passed_by_and_stays_readable_by_digest(registry: Registry) -> None:
    digest = registry.resolve("r@1.10.0").digest
    registry.alias("r@1.10.0", "stable")
    yanked = registry.yank("r@1.10.0", "  wrong \n answers ")
    assert yanked.yanked == "wrong answers"
    assert registry.resolve("r@latest").version == "1.2.0"
    assert registry.resolve("r@^1").version == "1.2.0"
    for reference in ("r@1.10.0", "r@stable"):
        with pytest.raises(ConflictError, match=r"report/r@1\.10\.0 was yanked: wrong answers") as error:
            registry.resolve(reference)
        assert "Use report/r@1.2.0." in str(error.value.hint)
        assert f"report/r@{digest[:19]}" in str(error.value.hint)
        assert registry.resolve(reference, yanked=True).version == "1.10.0"
    assert registry.resolve(f"r@{digest}").yanked == "wrong answers"
    assert registry.yank("r@1.10.0", "wrong answers").yanked == "wrong answers"
    with pytest.raises(ConflictError, match="yanked already"):
        registry.yank("r@1.10.0", "another reason")
    with pytest.raises(UsageError, match="for a reason"):
        registry.yank("r@1.2.0", "  ")
    with pytest.raises(ConflictError):
        registry.alias("r@1.10.0", "newest")
    document = json.loads((registry.root / "artifacts/report/r/status.json").read_text())
    assert document == {
        "format_version": 1,
        "kind": "status",
        "yanked": {"1.10.0": "wrong answers"},
        "aliases": {"stable": "1.10.0"},
    }
    assert (registry.root / "artifacts/report/r/1.10.0/payload/ranking.html").is_file()


def test_an_alias_can_be_moved(registry: Registry) -> None:
    version, before = registry.alias("r@1.0.0", "stable")
    assert (version.aliases, before) == (["stable"], None)
    assert registry.resolve("r@stable").version == "1.0.0"
    assert registry.alias("r@^1", "stable")[1] == "1.0.0"
    assert registry.resolve("r@stable").version == "1.10.0"
    for word in ("latest", "1.0.0", "x"):
        with pytest.raises(UsageError):
            registry.alias("r@1.0.0", word)


def test_a_damaged_version_does_not_hide_the_others(registry: Registry) -> None:
    folder = registry.root / "artifacts" / "report" / "r"
    (folder / "1.2.0" / "manifest.json").write_text("{")
    (folder / "draft").mkdir()
    (folder / "9.9.9").mkdir()  # an empty folder is no version
    (folder / ".1.3.0.0123abcd.draft").mkdir()
    rows = list_versions(registry, "report")
    assert [row["version"] for row in rows] == ["0.1.0", "2.0.0-rc.1", "1.10.0", "1.2.0", "1.0.0"]
    bad = rows[3]
    assert "not a JSON" in bad["error"]
    assert bad["digest"] is None
    assert rows[2]["latest"]
    assert not rows[1]["latest"]
    with pytest.raises(FormatError):
        show_version(registry, "r@1.2.0")
    assert registry.resolve(f"r@{registry.resolve('r@1.0.0').digest}").version == "1.0.0"


def test_a_folder_that_was_renamed_is_told(registry: Registry) -> None:
    folder = registry.root / "artifacts" / "report" / "r"
    (folder / "1.2.0").rename(folder / "1.3.0")
    with pytest.raises(IntegrityError, match=r"it is the manifest of report/r@1\.2\.0, not of report/r@1\.3\.0"):
        show_version(registry, "r@1.3.0")


def test_a_damaged_status_is_an_error_and_not_nothing(registry: Registry) -> None:
    path = registry.root / "artifacts" / "report" / "r" / "status.json"
    for text in ("{", '{"format_version": 9}', '{"format_version": 1, "yanked": {"../x": "y"}, "aliases": {}}'):
        path.write_text(text)
        with pytest.raises(FormatError):
            registry.resolve("r@latest")


def test_a_missing_manifest_is_damage_and_not_absence(registry: Registry) -> None:
    place = registry.version("report", "r", "1.10.0").place
    place.manifest.unlink()
    row = next(row for row in list_versions(registry, "report") if row["version"] == "1.10.0")
    assert "manifest.json: missing" in row["error"]
    assert row["latest"]  # no older one passes for the latest
    for reference in ("r@latest", "r@1.10.0"):
        with pytest.raises(IntegrityError, match=r"manifest\.json: missing") as error:
            show_version(registry, reference)
        assert f"git checkout -- {place.relative}/manifest.json" in str(error.value.hint)
    (problem,) = registry.verify(registry.resolve("r@1.10.0"))
    assert problem.where == f"{place.relative}/manifest.json"
    assert problem.message.startswith("missing")
    assert [row["state"] for row in verify_versions(registry)].count("bad") == 1


def test_an_unreadable_status_concerns_its_name_alone(registry: Registry) -> None:
    path = registry.root / "artifacts" / "report" / "r" / "status.json"
    texts = ["{", '{"format_version": 9}', '{"format_version": 1, "kind": "status", "yanked": {}, "aliases": []}']
    for text in texts:
        path.write_text(text)
        rows = list_versions(registry)
        assert {row["name"]: row["error"] is None for row in rows} == {"other": True, "r": False}
        assert not any(row["latest"] for row in rows if row["name"] == "r")
        assert len(registry.contents()) == 5
        found = {row["reference"]: row for row in verify_versions(registry)}
        assert found["report/other@0.1.0"]["state"] == "good"
        (problem,) = found["report/r@1.0.0"]["problems"]
        assert problem["where"] == "artifacts/report/r/status.json"
        assert str(path) not in problem["message"]
        (one,) = verify_versions(registry, "r@1.0.0")
        assert one["problems"] == [problem]
        with pytest.raises(IntegrityError, match=r"status\.json"):
            verify_versions(registry, "r@latest")


def test_a_status_of_versions_that_are_not_there(registry: Registry) -> None:
    status = Status({"7.0.0": "why"}, {"stable": "8.0.0", "good": "1.0.0"})
    (registry.root / "artifacts" / "report" / "r" / "status.json").write_bytes(status.to_bytes())
    problems = registry.verify(registry.resolve("r@1.0.0"))
    assert [p.message for p in problems] == [
        "it yanks 7.0.0, which is not published",
        "the alias stable stands for 8.0.0, which is not published",
    ]
    pulled = registry.root.with_name("optotype_pins")  # holds some versions, and the status of all
    registry.root.rename(pulled)
    assert Registry(pulled).verify(Registry(pulled).resolve("r@1.0.0")) == []


def test_what_is_yanked_is_said_exactly(registry: Registry) -> None:
    registry.alias("r@1.0.0", "stable")
    for reference in ("r@stable", "r@^1", "r@latest"):
        with pytest.raises(UsageError, match="by version or digest") as error:
            registry.yank(reference, "it's wrong")
        assert "optotype yank report/r@1." in str(error.value.hint)
    assert registry.status("report", "r").yanked == {}
    assert registry.yank(f"r@{registry.resolve('r@1.0.0').digest}", "wrong").aliases == ["stable"]


def test_shown(registry: Registry) -> None:
    registry.alias("r@1.10.0", "stable")
    record = show_version(registry, "r@stable", lineage=True)
    assert record["aliases"] == ["stable"]
    assert record["title"] == "1.10.0"
    assert record["seed"] == 3
    assert record["lineage"] == []
    assert "content_digests" not in record["facts"]
    assert show_version(registry, "r@stable")["made_of"] == 0


def test_a_digest_of_two_versions(registry: Registry, tmp_path: Path) -> None:
    publish("report", "r@1.10.1", make_report(tmp_path / "again", text="1.10.0"), root=registry.root)
    digest = registry.resolve("r@1.10.1").digest
    assert registry.resolve(f"r@{digest}").version == "1.10.0"
    registry.yank("r@1.10.0", "withdrawn")
    assert registry.resolve(f"r@{digest}").version == "1.10.1"
