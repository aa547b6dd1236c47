"""What publishing writes, once and whole, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from payloads import (
    PANEL_DIGEST,
    make_frontier,
    make_pairs,
    make_ranking,
    make_report,
    make_states,
    make_suite,
)

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.layout import is_inside
from optotype.registry.artifacts.manifest import ArtifactManifest
from optotype.registry.artifacts.publish import publish
from optotype.schemas.errors import (
    ConflictError,
    FormatError,
    IntegrityError,
    InvalidDataError,
    NotFoundError,
    UsageError,
)


def _tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_version_is_a_manifest_a_card_and_the_files_under_their_names(root: Path, tmp_path: Path) -> None:
    source = make_suite(tmp_path / "suite", {"blink/1": None, "mmmu/7": None})
    done = publish("suite", "prime@1.0.0", source, root=root, message="The first one.", licences=["MIT (blink)"])
    assert done.created
    assert str(done.version) == "suite/prime@1.0.0"
    folder = root / "artifacts" / "suite" / "prime" / "1.0.0"
    assert sorted(path.name for path in folder.iterdir()) == ["CARD.md", "manifest.json", "payload"]
    assert _tree(folder / "payload") == _tree(source)
    document = json.loads((folder / "manifest.json").read_bytes())
    assert set(document) == {
        "card", "code", "digest", "facts", "files", "format_version", "kind", "licences", "lineage", "message", "name",
        "parameters", "seal", "seed", "storage", "title", "version",
    }  # fmt: skip
    for entry in document["files"]:
        data = (source / entry["path"]).read_bytes()
        assert (entry["size"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    listing = json.dumps(document["files"], sort_keys=True, separators=(",", ":")).encode()
    assert document["digest"] == "sha256:" + hashlib.sha256(listing).hexdigest()
    assert document["storage"] == "git"
    assert document["seed"] == 0
    assert document["parameters"]["retention"] == 0.05
    assert document["code"] == {"version": "0.1.0", "git_commit": None, "dirty": None}
    assert document["licences"] == ["MIT (blink)"]
    assert document["lineage"] == [
        {"role": "panel", "kind": "scores", "name": "tiny", "digest": PANEL_DIGEST, "inputs": []}
    ]
    text = (folder / "manifest.json").read_text()
    assert str(tmp_path) not in text
    assert text == json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    card = (folder / "CARD.md").read_text()
    for words in ("2 items of 2 benchmarks", "The first one.", "MIT (blink)", "scores/tiny", "few models", "retention"):
        assert words in card
    assert (root / "artifacts" / ".gitattributes").read_text() == "* -text\n"


def test_the_same_publication_is_the_same_bytes_anywhere(tmp_path: Path) -> None:
    trees = []
    for name in ("one", "two"):
        source = make_pairs(tmp_path / name / "pairs")
        publish("pairs", "emoji@0.1.0", source, root=tmp_path / name, message="m")
        trees.append(_tree(tmp_path / name / "artifacts"))
    assert trees[0] == trees[1]


def test_the_same_bytes_again_do_nothing(root: Path, tmp_path: Path) -> None:
    source = make_suite(tmp_path / "suite", {"blink/1": None})
    publish("suite", "prime@1.0.0", source, root=root, message="a")
    before = {path: path.stat().st_mtime_ns for path in (root / "artifacts").rglob("*") if path.is_file()}
    again = publish("suite", "prime@1.0.0", source, root=root, message="b")
    assert not again.created
    assert "another message" in " ".join(again.notes)
    assert {path: path.stat().st_mtime_ns for path in (root / "artifacts").rglob("*") if path.is_file()} == before


def test_other_bytes_are_refused_and_named(root: Path, tmp_path: Path) -> None:
    publish("suite", "prime@1.0.0", make_suite(tmp_path / "a", {"blink/1": None}), root=root)
    before = _tree(root)
    other = make_suite(tmp_path / "b", {"blink/2": None})
    (other / "extra.txt").write_text("x")
    (other / "models.csv").unlink()
    with pytest.raises(ConflictError) as error:
        publish("suite", "prime@1.0.0", other, root=root)
    for words in ("items.parquet: other bytes", "extra.txt: not in the published version", "models.csv: not in "):
        assert words in error.value.message
    assert _tree(root) == before


def test_a_damaged_version_is_not_taken_for_the_same(root: Path, tmp_path: Path) -> None:
    source = make_report(tmp_path / "report")
    done = publish("report", "r@1.0.0", source, root=root)
    manifest = done.version.place.manifest
    manifest.write_bytes(manifest.read_bytes().replace(b'"seed": 3', b'"seed": 4'))
    with pytest.raises(IntegrityError):
        publish("report", "r@1.0.0", source, root=root)


def test_every_problem_is_told_and_nothing_is_left(root: Path, tmp_path: Path) -> None:
    source = make_suite(tmp_path / "suite", {"blink/1": -2.0, "blink/2": 1.0})
    document = json.loads((source / "compression.json").read_text())
    document["stages"] = None
    (source / "compression.json").write_text(json.dumps(document))
    with pytest.raises(InvalidDataError) as error:
        publish("suite", "prime@1.0.0", source, root=root)
    kinds = {problem.kind for problem in error.value.problems}
    assert kinds == {"value", "no-stages"}
    assert any("weight" in problem.where and "-2.0" in problem.message for problem in error.value.problems)
    assert Registry(root).all() == []
    assert not any(path.name.endswith(".draft") for path in root.rglob("*"))
    source = make_suite(tmp_path / "suite", {"blink/1": 1.0})
    assert publish("suite", "prime@1.0.0", source, root=root).created


@pytest.mark.parametrize(
    ("items", "words"),
    [({}, "no items"), ({"blink/1": None, "blink/ ": None}, "not blank"), ({"blink/1": float("inf")}, "finite")],
)
def test_items_that_are_none(root: Path, tmp_path: Path, items: dict[str, float | None], words: str) -> None:
    with pytest.raises(InvalidDataError, match=words):
        publish("suite", "prime@1.0.0", make_suite(tmp_path / "s", items), root=root)


def test_items_twice_and_without_columns(root: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = make_suite(tmp_path / "s", {"a/1": None})
    pq.write_table(
        pa.table({"benchmark": ["a", "a"], "item_id": ["1", "1"], "vaw": ["x", "y"]}), source / "items.parquet"
    )
    with pytest.raises(InvalidDataError) as error:
        publish("suite", "prime@1.0.0", source, root=root)
    kinds = [problem.kind for problem in error.value.problems]
    assert kinds.count("missing-column") == 5
    assert "duplicate-item" in kinds
    assert any(p.where == "items.parquet: vaw" for p in error.value.problems)
    (source / "items.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InvalidDataError, match="not a Parquet table"):
        publish("suite", "prime@1.0.0", source, root=root)


def test_hidden_files_and_those_of_dvc_are_left_out_and_named(root: Path, tmp_path: Path) -> None:
    source = make_report(tmp_path / "report")
    (source / ".gitignore").write_text("*")
    (source / "ranking.html.dvc").write_text("outs: []")
    (source / "dvc.yaml").write_text("stages: {}")
    (source / ".cache").mkdir()
    (source / ".cache" / "x").write_text("x")
    done = publish("report", "r@1.0.0", source, root=root)
    assert done.notes[0] == "left out: .cache/, .gitignore, dvc.yaml, ranking.html.dvc"
    assert [entry.path for entry in done.version.manifest.files] == ["ranking.html", "ranking.json"]


def test_links_to_files_are_followed_inside_and_into_the_cache_alone(root: Path, tmp_path: Path) -> None:
    source = make_report(tmp_path / "report")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("a")
    (root / ".dvc" / "cache").mkdir(parents=True)
    (root / ".dvc" / "config").write_text("")
    (root / ".dvc" / "cache" / "0").write_text("a")
    (source / "a.txt").symlink_to(root / ".dvc" / "cache" / "0")
    (source / "inside.html").symlink_to("ranking.html")
    done = publish("report", "r@1.0.0", source, root=root)
    copy = done.version.place.payload / "a.txt"
    assert not copy.is_symlink()
    assert copy.read_text() == "a"
    (source / "secret").symlink_to(tmp_path / "elsewhere" / "a.txt")
    (source / "passwd").symlink_to("/etc/passwd")
    (source / "folder").symlink_to(tmp_path / "elsewhere")
    (source / "gone").symlink_to(tmp_path / "nothing")
    (source / "A.txt").write_text("b")
    (source / "new\nline").write_text("c")
    os.mkfifo(source / "pipe")
    with pytest.raises(InvalidDataError) as error:
        publish("report", "r@1.0.1", source, root=root)
    kinds = {p.kind for p in error.value.problems}
    assert kinds == {"linked-folder", "not-a-file", "same-name", "file-name", "link-outside"}
    assert {p.where for p in error.value.problems if p.kind == "link-outside"} == {"secret", "passwd"}


def test_a_folder_without_a_manifest_is_in_the_way(root: Path, tmp_path: Path) -> None:
    source = make_report(tmp_path / "report")
    place = publish("report", "r@0.2.0", source, root=root).version.place
    place.manifest.unlink()
    before = _tree(root)
    with pytest.raises(
        ConflictError, match=r"report/r/0\.2\.0: a folder without manifest\.json is in the way"
    ) as error:
        publish("report", "r@0.2.0", source, root=root)
    assert "git checkout -- artifacts/report/r/0.2.0/manifest.json" in str(error.value.hint)
    assert "rm -r artifacts/report/r/0.2.0" in str(error.value.hint)
    assert _tree(root) == before
    (root / "artifacts/report/r/0.3.0").mkdir()  # empty: nobody's
    assert publish("report", "r@0.3.0", source, root=root).created


def test_a_refused_first_publication_leaves_no_folder_and_names_the_source(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_suite(tmp_path / "suite", {"a/1": None})
    document = (source / "compression.json").read_bytes()
    (source / "compression.json").write_text("{")
    with pytest.raises(InvalidDataError) as error:
        publish("suite", "prime@1.0.0", source, root=root)
    assert ".draft" not in str(error.value)
    assert not (root / "artifacts" / "suite").exists()
    (source / "compression.json").write_bytes(document)

    def failing(_: object, payload: Path) -> None:
        raise FormatError(f"{payload / 'items.parquet'}: odd")

    monkeypatch.setattr(type(adapter("suite")), "describe", failing)
    with pytest.raises(FormatError) as other:
        publish("suite", "prime@1.0.0", source, root=root)
    assert other.value.message == f"{source / 'items.parquet'}: odd"
    assert not (root / "artifacts" / "suite").exists()


def test_an_unreadable_status_is_told_before_anything_is_written(root: Path, tmp_path: Path) -> None:
    publish("report", "r@1.0.0", make_report(tmp_path / "a"), root=root)
    (root / "artifacts/report/r/status.json").write_text("{")
    before = _tree(root)
    with pytest.raises(FormatError, match=r"status\.json"):
        publish("report", "r@1.1.0", make_report(tmp_path / "b", text="b"), root=root)
    assert _tree(root) == before


@pytest.mark.parametrize(
    "reference", ["../x@1.0.0", "x@../1.0.0", "a/b@1.0.0", "frontier/x@1.0.0", "x@1.0", "x", "x@latest", "x@^1"]
)
def test_what_is_no_name_or_version(root: Path, tmp_path: Path, reference: str) -> None:
    source = make_report(tmp_path / "report")
    before = _tree(tmp_path)
    with pytest.raises(UsageError):
        publish("report", reference, source, root=root)
    assert _tree(tmp_path) == before


def test_sources_that_are_none(root: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no folder"):
        publish("report", "r@1.0.0", tmp_path / "nothing", root=root)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        publish("report", "r@1.0.0", tmp_path / "file", root=root)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidDataError, match="no files"):
        publish("report", "r@1.0.0", tmp_path / "empty", root=root)
    with pytest.raises(UsageError, match="not a kind"):
        publish("reprot", "r@1.0.0", tmp_path / "empty", root=root)
    with pytest.raises(UsageError, match="--tag needs git"):
        publish("report", "r@1.0.0", make_report(tmp_path / "r"), root=root, tag=True)


def test_a_large_payload_needs_dvc(root: Path, tmp_path: Path) -> None:
    source = make_report(tmp_path / "report")
    (source / "data.bin").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(UsageError, match="kept by DVC") as error:
        publish("report", "r@1.0.0", source, root=root)
    assert "optotype init" in str(error.value.hint)
    assert Registry(root).all() == []


def test_lineage_goes_down_to_the_raw_files(root: Path, tmp_path: Path) -> None:
    from optotype.registry.artifacts.kinds.pairs import content_digests
    from optotype.store.manifest import read_manifest

    pairs = make_pairs(root / "data" / "pairs")
    model = {"source": f"{tmp_path}/models/minilm", "files": "99" * 32}
    inputs = {"dataset": content_digests(pairs)["text"], "model": model, "threads": 2, "platform": {"processor": "X"}}
    states = make_states(root / "data" / "states" / "minilm", inputs=inputs)
    done = publish("states", "minilm@1.0.0", states, root=root)
    wheel = {
        "role": "wheel", "kind": "wheel", "name": "drawings==2.0.0", "digest": "sha256:" + "cd" * 32, "inputs": [],
        "licence": "CC-BY-4.0",
    }  # fmt: skip
    dataset = {"role": "dataset", "kind": "pairs", "name": "pairs", "digest": inputs["dataset"], "inputs": [wheel]}
    source = {"role": "model", "kind": "model", "name": "minilm", "digest": "sha256:" + "99" * 32, "inputs": []}
    assert list(done.version.manifest.lineage) == [dataset, source]
    assert done.version.manifest.parameters == {"threads": 2}
    assert done.version.manifest.licences == ("CC-BY-4.0",)
    # An array in the project is found by its digest, whatever it is called by.
    ranking = make_ranking(tmp_path / "ranking", {"enc": 0.3}, digests={"enc": read_manifest(states).digest})
    made_of = publish("ranking", "emoji@1.0.0", ranking, root=root).version.manifest.lineage
    assert made_of[0]["kind"] == "states"
    assert made_of[0]["name"] == "minilm"
    assert made_of[0]["inputs"] == [dataset, source]
    # Without the project's data the published version tells the same.
    (root / "data").rename(tmp_path / "moved")
    found = publish("ranking", "emoji@1.0.1", ranking, root=root).version.manifest.lineage[0]
    assert (found["kind"], found["inputs"]) == ("states", [dataset, source])


def test_a_panel_of_scores_is_published_with_its_parts(root: Path, tmp_path: Path) -> None:
    panel = _panel(root)
    done = publish("scores", "tiny@1.0.0", panel, root=root)
    facts = done.version.manifest.facts
    assert (facts["models"], facts["items"], facts["benchmarks"]) == (3, 4, 2)
    suite = make_suite(tmp_path / "s", {"a/0": None}, panel=facts["content_digests"][0])
    (node,) = publish("suite", "s@1.0.0", suite, root=root).version.manifest.lineage
    assert (node["kind"], node["name"], node["inputs"][0]["role"]) == ("scores", "tiny", "part")
    copy = tmp_path / "panel"
    copy.mkdir()
    (copy / "panel.json").write_bytes((panel / "panel.json").read_bytes().replace(b'"tiny"', b'"tinx"'))
    with pytest.raises(InvalidDataError) as error:
        publish("scores", "tiny@1.0.1", copy, root=root)
    assert [p.where for p in error.value.problems] == ["part-0001"]


def _panel(root: Path) -> Path:
    from optotype.registry.panels import import_scores
    from optotype.store.project import Project

    lines = ["benchmark,item_id,model,score"]
    for benchmark in "ab":
        for item in range(2):
            lines += [f"{benchmark},{item},m{model},{(model + item) % 2}" for model in range(3)]
    (root / "scores.csv").write_text("\n".join(lines) + "\n")
    import_scores(Project(root), "tiny", [root / "scores.csv"], track=False)
    return root / "data" / "scores" / "tiny"


def test_a_frontier_and_a_bundle_of_states(root: Path, tmp_path: Path) -> None:
    done = publish("frontier", "f@1.0.0", make_frontier(tmp_path / "f", [("a", "1"), ("b", "1")]), root=root)
    assert done.version.manifest.facts["candidates"] == 40
    for layer in (2, 10):
        make_states(tmp_path / "bundle" / f"lm-l{layer}", inputs={"operation": "test", "layer": layer})
    done = publish("states", "lm@1.0.0", tmp_path / "bundle", root=root)
    assert list(done.version.manifest.facts["arrays"]) == ["lm-l10", "lm-l2"]
    assert done.version.manifest.parameters["layer"] == [10, 2]
    next((tmp_path / "bundle" / "lm-l2" / "states" / "c" / "0").iterdir()).write_bytes(b"x")
    (tmp_path / "bundle" / "stray.txt").write_text("x")
    with pytest.raises(InvalidDataError) as error:
        publish("states", "lm@1.0.1", tmp_path / "bundle", root=root)
    assert {(p.where, p.kind) for p in error.value.problems} == {
        ("lm-l2/states/c/0/0", "size"),
        ("stray.txt", "extra-file"),
    }
    with pytest.raises(InvalidDataError, match="neither an array"):
        publish("features", "x@1.0.0", tmp_path / "f", root=root)


def test_wrong_documents(root: Path, tmp_path: Path) -> None:
    ranking = make_ranking(tmp_path / "r", {"a": 0.3})
    (ranking / "ranking.json").write_text('{"format_version": 1, "kind": "ranking", "rows": [{"encoder": 3}, 7]}')
    with pytest.raises(InvalidDataError) as error:
        publish("ranking", "r@1.0.0", ranking, root=root)
    assert len(error.value.problems) == 7
    (ranking / "ranking.json").write_text('{"format_version": 2, "kind": "ranking", "rows": []}')
    with pytest.raises(InvalidDataError, match="format_version 2"):
        publish("ranking", "r@1.0.0", ranking, root=root)
    pairs = make_pairs(tmp_path / "p")
    (pairs / "images" / "1.png").unlink()
    (pairs / "SOURCE.json").write_text("[]")
    with pytest.raises(InvalidDataError) as error:
        publish("pairs", "p@1.0.0", pairs, root=root)
    assert {p.kind for p in error.value.problems} == {"missing-file", "document"}
    report = make_report(tmp_path / "w")
    (report / "ranking.html").unlink()
    (report / "ranking.json").write_text("{")
    with pytest.raises(InvalidDataError) as error:
        publish("report", "w@1.0.0", report, root=root)
    assert {p.kind for p in error.value.problems} == {"no-page", "document"}


def test_text_of_others_stays_text_in_the_card(root: Path, tmp_path: Path) -> None:
    source = make_report(tmp_path / "r", text="<script>alert(1)</script> | [x](javascript:1)")
    card = publish("report", "r@1.0.0", source, root=root, message="# not a\n\nheading").version.place.card.read_text()
    assert "<script>" not in card.replace("\\<script>", "")
    assert "\\[x\\](javascript:1)" in card
    assert "\n\\# not a heading\n" in card
    assert "\n# " not in card


def _change(text: bytes, before: bytes, after: bytes) -> bytes:
    assert before in text
    return text.replace(before, after)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        (b'"retention": 0.05', b'"retention": 0.06', IntegrityError),
        (b'"path": "items.parquet"', b'"path": "../../x"', FormatError),
        (b'"path": "items.parquet"', b'"path": "/etc/passwd"', FormatError),
        (b'"path": "items.parquet"', b'"path": "models.csv"', FormatError),
        (b'"storage": "git"', b'"storage": "ftp"', FormatError),
        (b'"format_version": 1', b'"format_version": 2', FormatError),
        (b'"kind": "suite"', b'"kind": "suit"', FormatError),
        (b'"version": "1.0.0"', b'"version": "../.."', FormatError),
        (b'"digest": "sha256:abab', b'"digest": "sha256:xbab', FormatError),
        (b'"inputs": []', b'"inputs": [3]', FormatError),
        (b'"seal": "sha256:', b'"sealed": "sha256:', FormatError),
    ],
)
def test_a_changed_manifest_is_refused(
    root: Path, tmp_path: Path, before: bytes, after: bytes, error: type[Exception]
) -> None:
    done = publish("suite", "prime@1.0.0", make_suite(tmp_path / "s", {"a/1": None}), root=root)
    text = done.version.place.manifest.read_bytes()
    assert ArtifactManifest.parse(text, "x").to_bytes() == text
    with pytest.raises(error):
        ArtifactManifest.parse(_change(text, before, after), "x")


@pytest.mark.parametrize("path", ["a", "a/b.c", "images/1f170.png", "ä b"])
def test_paths_inside(path: str) -> None:
    assert is_inside(path)


@pytest.mark.parametrize(
    "path", ["", "/a", "a/../b", "..", "a//b", "a/", "./a", "a\\b", "C:/x", "a\nb", "a\u0308", "x" * 1025]
)
def test_paths_outside(path: str) -> None:
    assert not is_inside(path)
