"""Pair suites in the registry: published, opened, scored, matched, correlated, and the files of it all."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pair_suites import make_questions, make_statements, write_answers, write_pair_suite

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.kinds import adapter
from optotype.registry.artifacts.listing import diff_versions
from optotype.registry.artifacts.publish import publish
from optotype.registry.pair_correlations import correlate_pairs, read_accuracies
from optotype.registry.pair_scores import match_pairs, score_pairs
from optotype.registry.pair_suites import open_pair_suite
from optotype.schemas.errors import (
    FormatError,
    IntegrityError,
    InvalidDataError,
    NotFoundError,
    UsageError,
)
from optotype.schemas.pair_suites import PATTERNS
from optotype.store.features import write_features
from optotype.store.states import write_states

CORRECTIONS = [
    {"question": "1", "was": "a", "answer": "b", "why": "They are closed."},
    {"question": "2", "was": "b", "answer": "a", "why": "They are open."},
]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without git and DVC, which is the working directory."""
    folder = (tmp_path / "project").resolve()
    (folder / ".optotype").mkdir(parents=True)
    (folder / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def _overlay(folder: Path, base: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    document: dict[str, Any] = {"format_version": 1, "kind": "question-overlay", "suite": "mmvp"}
    document |= {"corrections": CORRECTIONS} | ({"base": base} if base else {})
    (folder / "overlay.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def _answers(path: Path, letters: str, **more: str) -> Path:
    return write_answers(path, [{"id": str(i), "response": c, "model": "m", **more} for i, c in enumerate(letters, 1)])


def _arrays(root: Path, name: str, pairs: int, noise: float, seed: int = 0) -> None:
    """Images and statements whose vectors are alike up to noise."""
    random = np.random.default_rng(seed)
    truth = random.normal(size=(2 * pairs, 8))
    rows = [truth + noise * random.normal(size=truth.shape) for _ in range(2)]
    images = [f"img-{i:03d}" for i in range(2 * pairs)]
    texts = [f"s{i // 2}-{i % 2 + 1}" for i in range(2 * pairs)]
    order = sorted(range(2 * pairs), key=lambda i: texts[i])
    inputs = {"operation": "test"}
    sizes = np.ones(2 * pairs, int)
    target = root / "data" / "features" / name
    write_features(
        target, ids=images, row_size=sizes, blocks=[rows[0].astype(np.float32)], dtype="float32", inputs=inputs
    )
    states = rows[1].astype(np.float32)[order]
    write_states(root / "data" / "states" / name, ids=sorted(texts), blocks=[states], inputs=inputs)


def test_a_pair_suite_is_published_as_pairs(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(
        tmp_path / "s", make_questions(3), title="Wings", licences=["MIT (wings)"], limits=["Small."]
    )
    digest = "sha256:" + "ab" * 32
    encoder = {"name": "clip", "digest": digest, "dtype": "float32", "channels": 8}
    mining = {"format_version": 1, "kind": "pair-mining", "similar": encoder, "parameters": {"above": 0.95}}
    (source / "pairs.json").write_text(json.dumps(mining))
    mined = {"image_a": ["img-000", "img-002", "x"], "image_b": ["img-001", "img-003", "y"]}
    pq.write_table(pa.table(mined), source / "pairs.parquet")
    manifest = publish("pairs", "mmvp@1.0.0", source, root=root).version.manifest
    assert manifest.title == "Wings"
    assert manifest.licences == ("MIT (wings)",)
    assert manifest.parameters == {"mining_above": 0.95}
    facts = {name: manifest.facts[name] for name in ("pairs", "questions", "statements", "images", "mined_pairs")}
    assert facts == {"pairs": 3, "questions": 6, "statements": 0, "images": 6, "mined_pairs": 2}
    assert [(node["role"], node["kind"], node["name"], node["digest"]) for node in manifest.lineage] == [
        ("similar", "features", "clip", digest)
    ]
    card = (root / "artifacts" / "pairs" / "mmvp" / "1.0.0" / "CARD.md").read_text()
    assert "Small." in card
    assert "not part of it" in card
    opened = open_pair_suite("mmvp@1.0.0")
    assert (opened.name, opened.version) == ("mmvp", "1.0.0")
    assert opened.suite.digest == open_pair_suite(source).suite.digest == manifest.facts["questions_digest"]


def test_unsound_suites_are_not_published(root: Path, tmp_path: Path) -> None:
    questions = make_questions(1)
    questions[0]["answer"] = "z"
    source = write_pair_suite(tmp_path / "s", questions)
    with pytest.raises(InvalidDataError, match="got 'z'"):
        publish("pairs", "mmvp@1.0.0", source, root=root)
    write_pair_suite(source, make_questions(1))
    (source / "pairs.parquet").write_bytes(b"no table")
    with pytest.raises(InvalidDataError, match="mined pairs"):
        publish("pairs", "mmvp@1.0.0", source, root=root)
    (source / "pair-suite.json").write_text('{"format_version": 7}')
    with pytest.raises(InvalidDataError, match="reads up to 1"):
        publish("pairs", "mmvp@1.0.0", source, root=root)


def test_image_text_pairs_are_still_pairs(tmp_path: Path) -> None:
    from payloads import make_pairs

    folder = make_pairs(tmp_path)
    assert adapter("pairs").problems(folder) == []
    assert adapter("pairs").describe(folder).facts["texts"] == 4


def test_versions_of_suites_and_overlays_are_compared(root: Path, tmp_path: Path) -> None:
    questions = make_questions(2)
    publish("pairs", "mmvp@1.0.0", write_pair_suite(tmp_path / "a", questions), root=root)
    questions[3]["option_b"] = "Shut"
    publish("pairs", "mmvp@1.1.0", write_pair_suite(tmp_path / "b", questions), root=root)
    items = diff_versions(Registry(root), "mmvp@1.0.0", "mmvp@1.1.0")["items"]
    assert (items["added"], items["removed"], len(items["changed"])) == ([], [], 1)
    rows = [adapter("pairs").rows(tmp_path / name) for name in "ab"]
    assert rows[0] is not None
    assert rows[1] is not None
    assert rows[0].rows["question", "4"]["options"] == ["Open", "Closed"]
    assert [key for key in rows[0].rows if rows[0].rows[key] != rows[1].rows[key]] == [("question", "4")]
    corrections = adapter("pairs").rows(_overlay(tmp_path / "o"))
    assert corrections is not None
    assert corrections.rows["1",] == {"was": "a", "answer": "b", "why": "They are closed."}


def test_an_overlay_is_published_and_leaves_the_base_as_it_is(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "s", make_questions(2))
    base = publish("pairs", "mmvp@1.0.0", source, root=root).version
    before = {path: path.read_bytes() for path in base.place.folder.rglob("*") if path.is_file()}
    digest = open_pair_suite("mmvp@1.0.0").suite.digest
    overlay = publish("pairs", "mmvp-keys@1.0.0", _overlay(tmp_path / "o", digest), root=root).version
    assert overlay.manifest.facts["corrections"] == 2
    assert overlay.manifest.lineage[0]["name"] == "mmvp"
    answers = _answers(tmp_path / "m.csv", "baab")
    plain = score_pairs("pairs/mmvp@latest", [answers])
    under = score_pairs("pairs/mmvp@latest", [answers], overlay="mmvp-keys@1.0.0")
    assert (plain["rows"][0]["pairs_right"], under["rows"][0]["pairs_right"]) == (1, 2)
    assert plain["suite"] == {"name": "mmvp", "version": "1.0.0", "digest": digest, "overlay": None}
    told = under["suite"]["overlay"]
    assert (told["name"], told["version"], told["corrections"]) == ("mmvp-keys", "1.0.0", 2)
    assert {path: path.read_bytes() for path in base.place.folder.rglob("*") if path.is_file()} == before
    # a file and a folder serve as well
    for given in (tmp_path / "o", tmp_path / "o" / "overlay.json"):
        assert score_pairs(source, [answers], overlay=given)["rows"] == under["rows"]


def test_an_overlay_of_other_questions_that_fits_is_noted(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "s", make_questions(2))
    opened = open_pair_suite(source, overlay=_overlay(tmp_path / "o", "sha256:" + "00" * 32))
    assert "other questions" in opened.notes[0]


def test_what_is_no_suite(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "s", statements=make_statements(["texts"]))
    with pytest.raises(NotFoundError, match=r"pair-suite\.json"):
        open_pair_suite(tmp_path)
    with pytest.raises(NotFoundError, match="nothing at"):
        open_pair_suite("no/such/folder")
    with pytest.raises(NotFoundError):
        open_pair_suite("nowhere")
    with pytest.raises(InvalidDataError, match="no questions"):
        score_pairs(source, [_answers(tmp_path / "m.csv", "a")])
    publish("pairs", "keys@1.0.0", _overlay(tmp_path / "o"), root=root)
    with pytest.raises(NotFoundError, match="holds no pair suite"):
        open_pair_suite("keys@1.0.0")


def test_damaged_versions_are_not_scored(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "s", make_questions(2))
    version = publish("pairs", "mmvp@1.0.0", source, root=root).version
    path = version.place.folder / "payload" / "questions.csv"
    path.write_bytes(path.read_bytes().replace(b",a,", b",b,", 1))
    with pytest.raises(IntegrityError, match="not the bytes"):
        open_pair_suite("mmvp@1.0.0")


def test_files_of_a_score(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "s", make_questions(4))
    answers = _answers(tmp_path / "m.csv", "ab?bab")
    swapped = _answers(tmp_path / "w.csv", "bababaab")
    document = score_pairs(source, [answers], variants=[("swap", swapped)], out=tmp_path / "out")
    original, swap = document["rows"]
    assert (original["pairs_right"], original["missing"]) == (2, {"no-option": 1, "not-asked": 2})
    assert (swap["variant"], swap["pairs_right"]) == ("swap", 3)
    assert swap["against_original"] == {"questions": 5, "same_option": 5, "pair_accuracy_change": 0.25}
    assert [row["pairs"] for row in original["patterns"]] == [2, 2]
    assert json.loads((tmp_path / "out" / "pair-score.json").read_text()) == document
    with (tmp_path / "out" / "pair-score.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(row["variant"], row["pattern"], row["pairs_right"], row["missing"]) for row in lines[:3]] == [
        ("original", "", "2", "3"),
        ("original", "orientation", "2", "0"),
        ("original", "count", "0", "3"),
    ]
    with (tmp_path / "out" / "answers.csv").open(newline="") as file:
        kept = list(csv.DictReader(file))
    assert len(kept) == 16
    assert [(row["option"], row["answer"], row["right"], row["missing"]) for row in kept[1:3]] == [
        ("b", "b", "1", ""),
        ("", "a", "0", "no-option"),
    ]
    again = score_pairs(source, [answers], variants=[("swap", swapped)], out=tmp_path / "again")
    assert again == document
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    assert str(tmp_path) not in (tmp_path / "out" / "pair-score.json").read_text()


def test_unreadable_answers_are_pointed_at(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "s", make_questions(1))
    document = score_pairs(source, [_answers(tmp_path / "m.csv", "12")])
    assert "--variant numbers" in document["notes"][0]
    with pytest.raises(UsageError, match="no answers"):
        score_pairs(source)
    with pytest.raises(UsageError, match="no variant"):
        score_pairs(source, variants=[("mirror", "x.csv")])


def test_statements_are_matched_in_a_joint_space(root: Path, tmp_path: Path) -> None:
    source = write_pair_suite(tmp_path / "vlm", statements=make_statements(PATTERNS * 3))
    for name, noise in (("good", 0.1), ("poor", 3.0)):
        _arrays(root, name, 27, noise)
    document = match_pairs(source, ["poor", "good"], ["poor", "good"], out=tmp_path / "out")
    assert [row["encoder"] for row in document["rows"]] == ["good", "poor"]
    assert document["rows"][0]["pair_accuracy"] == 1.0
    assert 0 < document["rows"][1]["pair_accuracy"] < 0.9
    assert document["rows"][1]["pair_accuracy"] == pytest.approx(document["rows"][1]["pattern_mean"])
    assert [row["pattern"] for row in document["rows"][0]["patterns"]] == list(PATTERNS)
    assert document["notes"] == []
    with (tmp_path / "out" / "matches.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 2 * 27
    with pytest.raises(UsageError, match="2 features and 1 states"):
        match_pairs(source, ["poor", "good"], ["poor"])
    with pytest.raises(NotFoundError):
        match_pairs(source, ["nowhere"], ["poor"])


def test_encoders_are_correlated_with_models(root: Path, tmp_path: Path) -> None:
    _arrays(root, "poor", 27, 2.0)
    vlm = write_pair_suite(tmp_path / "vlm", statements=make_statements(PATTERNS * 3))
    matched = match_pairs(vlm, ["poor"], ["poor"], out=tmp_path / "match")
    questions = [row | {"pattern": PATTERNS[i // 2 % 9]} for i, row in enumerate(make_questions(27))]
    letters = "".join(np.random.default_rng(0).choice(list("ab"), size=54))
    score_pairs(
        write_pair_suite(tmp_path / "s", questions),
        [_answers(tmp_path / "m.csv", letters)],
        variants=[("swap", _answers(tmp_path / "w.csv", letters))],
        out=tmp_path / "score",
    )
    document = correlate_pairs(tmp_path / "match", tmp_path / "score", out=tmp_path / "out")
    assert [(row["encoder"], row["model"]) for row in document["rows"]] == [("poor", "m"), ("poor", "m (swap)")]
    assert document["rows"][0]["n"] == 9
    assert document["rows"][0]["low"] < document["rows"][0]["r"] < document["rows"][0]["high"]
    # tables of either serve as well, and say the same
    tables = [tmp_path / "match" / "pair-match.csv", tmp_path / "score" / "pair-score.csv"]
    assert correlate_pairs(*tables)["rows"] == document["rows"]
    assert read_accuracies(tables[0], "pair-match")["poor"] == {
        row["pattern"]: row["pair_accuracy"] for row in matched["rows"][0]["patterns"]
    }
    assert (tmp_path / "out" / "pair-correlation.csv").read_text().splitlines()[0].startswith("encoder,model,r,low")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("encoder,pattern\na,x\n", FormatError, "accuracy"),
        ("encoder,pattern,accuracy\na,x,high\n", InvalidDataError, "'high'"),
        ("encoder,pattern,accuracy\na,x,nan\n", InvalidDataError, "'nan'"),
        ("encoder,pattern,accuracy\na,x,0.1\na,x,0.2\n", InvalidDataError, "two accuracies"),
        ("encoder,pattern,accuracy\n", InvalidDataError, "no accuracies"),
        ("encoder,pattern,accuracy\n,x,0.1\n", InvalidDataError, "encoder is blank"),
        ("encoder,pattern,accuracy\na,x,-1\n", InvalidDataError, "got -1"),
        ("encoder,pattern,accuracy\na,x,101\n", InvalidDataError, "got 101"),
        ("encoder,pattern,accuracy\na,x,0.4\na,y,2\n", InvalidDataError, "percent or fractions"),
    ],
)
def test_tables_of_accuracies_are_checked(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text)
    with pytest.raises(error, match=words):
        correlate_pairs(path, path)


def test_results_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        correlate_pairs(tmp_path, tmp_path)
    path = tmp_path / "x.json"
    with pytest.raises(NotFoundError):
        correlate_pairs(path, path)
    for text in ('{"format_version": 1, "kind": "ranking", "rows": []}', '{"format_version": 1, "kind": "pair-score"}'):
        path.write_text(text)
        with pytest.raises(FormatError):
            correlate_pairs(path, path)
    path.write_text('{"format_version": 1, "kind": "pair-score", "rows": [{"x": 1}]}')
    with pytest.raises(FormatError, match="not the rows"):
        correlate_pairs(path, path)
    with pytest.raises(UsageError, match="level"):
        correlate_pairs(path, path, level=2)
