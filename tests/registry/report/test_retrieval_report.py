"""The page of retrieval over emoji: the numbers of its document, and no more claimed than they show."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words

from optotype.pipelines.emoji.retrieval.contrasts import contrasts
from optotype.registry.cli.root import cli
from optotype.registry.report.retrieval.page import render
from optotype.registry.report.retrieval.report import write_retrieval_report
from optotype.registry.report.retrieval.tables import by_encoder, grid
from optotype.registry.report.retrieval.verdict import points, verdicts
from optotype.schemas.errors import ConflictError, FormatError, NotFoundError

ENCODERS, MODELS, STYLES = ("<l14>", "random-vit"), ("lm-a", "lm-b"), ("plain", "punct")
TASKS, LANGUAGES, ITEMS = ("i2t", "t2i"), ("en", "it"), 40


def share(encoder: str, model: str, fitted_on: str, style: str, language: str) -> float:
    """Of right answers: Italian is guessed, lm-b falls to chance in a style that it was not fitted on."""
    if language == "it" or (model == "lm-b" and fitted_on != style):
        return 0.025
    return 0.6 if encoder == "<l14>" else 0.2


def make(
    bootstrap: int = 200, languages: tuple[str, ...] = LANGUAGES, styles: tuple[str, ...] = STYLES
) -> dict[str, Any]:
    outcomes: Any = {}
    rows = []
    for setting in ((e, m, f, s) for e in ENCODERS for m in MODELS for f in styles for s in styles):
        cells: Any = {}
        for task in TASKS:
            for language in languages:
                right = round(share(*setting, language) * ITEMS)
                cells[task, language] = {f"e{i:02d}": float(i < right) for i in range(ITEMS)}
                value = 100 * right / ITEMS
                policies = {"expected": value, "optimistic": value + 1, "pessimistic": value - 1}
                unit = {name: each / 100 for name, each in policies.items()}
                rows.append(
                    {
                        **dict(zip(("encoder", "language_model", "fitted_on", "style"), setting, strict=True)),
                        "task": task, "language": language, "queries": ITEMS, "candidates": ITEMS,
                        "invalid_queries": 0, "invalid_truths": 0, "p1": policies,
                        "hit": {"1": policies, "5": policies},
                        "mrr": unit, "ndcg": {"1": unit, "5": unit}, "chance": 2.5,
                        "interval": [value - 2, value + 2] if bootstrap else None,
                        "gap_to_english": None if language == "en" or "en" not in languages else 10.0,
                        "agreement": None if language == "en" or "en" not in languages else 12.5,
                    }
                )  # fmt: skip
        outcomes[setting] = cells
    clusters = {f"e{i:02d}": i for i in range(ITEMS)}
    return {
        "format_version": 1, "kind": "emoji-retrieval",
        "parameters": {"probe": "contrastive", "at": [1, 5], "bootstrap": bootstrap, "seed": 0},
        "inputs": {"pairs": "sha256:aa", "tasks": "sha256:bb", "features": dict.fromkeys(ENCODERS, "sha256:cc"),
                   "names": {f"{m}:{s}": "sha256:dd" for m in MODELS for s in styles}},
        "sizes": {"emoji": 80, "train": 40, "held_out": ITEMS},
        "rows": rows, "contrasts": contrasts(outcomes, clusters, bootstrap=bootstrap, seed=0), "fits": [],
        "notes": ["1 emoji <of> the training half has no English name"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return make()


def test_the_verdict_claims_what_the_intervals_show(document: dict[str, Any]) -> None:
    scope, of_a, of_b, floor, gap, style, other = verdicts(document)
    assert "over 40 queries, so one more right answer is 2.5 points" in scope
    for model, told in (("lm-a", of_a), ("lm-b", of_b)):
        assert told.startswith(f"{model}, plain names: Image to name, English has the highest P@1, 40.0 %")
        assert told.count("not told apart from chance: Italian") == 2
    assert "random-vit was never trained" in floor
    assert "20.0 %" in floor
    assert "behind English in all 4, by 37.5 to 37.5 points" in gap
    assert style.endswith("in English: not told apart: all 4.")
    assert "worse: lm-b, image to name, punct under a map of plain names (−37.5 points" in other
    assert other.endswith("not told apart: 4 of 8.")
    assert "better" not in style + other


def test_without_intervals_nothing_is_concluded() -> None:
    told = verdicts(make(bootstrap=0))
    assert len(told) == 2
    assert "nothing says whether" in told[1]


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.04, "0.0"), (-0.04, "0.0"), (-5.25, "−5.2"), (10, "10.0")])
def test_points(value: float | None, text: str) -> None:
    assert points(value) == text


def test_tables_have_every_cell(document: dict[str, Any]) -> None:
    means = grid(document["contrasts"], "mean", [*LANGUAGES, None])
    assert [(line["language_model"], line["task"], line["style"]) for line in means] == [
        (model, task, style) for model in MODELS for task in TASKS for style in STYLES
    ]
    for line in means:
        english, italian, both = (cell["value"] for cell in line["cells"])
        assert both == pytest.approx((english + italian) / 2)
    (first, second) = by_encoder(document["rows"], "lm-a", "plain", [("i2t", "en"), ("i2t", "it")])
    assert [cell["p1"]["expected"] for cell in first["cells"]] == [60, 2.5]
    assert [[cell["top"] for cell in line["cells"]] for line in (first, second)] == [[True, True], [False, True]]


@pytest.mark.parametrize(
    ("bootstrap", "languages", "styles"), [(200, LANGUAGES, STYLES), (0, ("it",), ("plain",)), (9, ("en",), STYLES)]
)
def test_page(bootstrap: int, languages: tuple[str, ...], styles: tuple[str, ...], tmp_path: Path) -> None:
    made = make(bootstrap, languages, styles)
    source = tmp_path / "retrieval.json"
    source.write_text(json.dumps(made))
    told = write_retrieval_report(source, tmp_path / "one")
    page = Path(told["html"]).read_text()
    check_self_contained(page)
    check_ids(page)
    assert check_words(page) == 4 + (0 if len(styles) == 1 else 4)
    assert "&lt;l14&gt;" in page
    assert "<l14>" not in page
    assert "&lt;of&gt;" in page
    assert ('id="styles"' in page) is (len(styles) > 1)
    assert "Gap to English" in page or "en" not in languages or languages == ("en",)
    numbers = json.loads(Path(told["json"]).read_text())
    assert numbers["verdicts"] == verdicts(made)
    assert numbers["rows"] == made["rows"]
    assert str(tmp_path) not in page


def test_nothing_overflows_on_a_phone(document: dict[str, Any], tmp_path: Path) -> None:
    check_fits_a_phone(render(document, "Retrieval"), tmp_path)


def test_every_p_at_1_is_on_the_page(document: dict[str, Any]) -> None:
    made = copy.deepcopy(document)
    rng = np.random.default_rng(0)
    for row in made["rows"]:
        row["p1"] = {name: round(float(rng.uniform(30, 90)), 1) for name in row["p1"]}
    page = render(made, "Retrieval")
    for row in made["rows"]:
        if row["fitted_on"] == row["style"] == "plain":
            assert all(f"<td>{value:.1f}</td>" in page for name, value in row["p1"].items() if name != "expected")
            assert f">{row['p1']['expected']:.1f}</td>" in page


def test_what_is_no_retrieval_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "retrieval.json"
    with pytest.raises(NotFoundError, match="optotype emoji retrieval"):
        write_retrieval_report(path, tmp_path / "out")
    damaged = copy.deepcopy(document)
    del damaged["rows"][3]["p1"]
    for content, words in (
        ("[]", "JSON object"),
        (json.dumps({**document, "format_version": 99}), "99"),
        (json.dumps({**document, "kind": "retrieval"}), "kind"),
        (json.dumps({key: value for key, value in document.items() if key != "contrasts"}), "contrasts"),
        (json.dumps({**document, "rows": []}), "not whole"),
        (json.dumps(damaged), "not whole"),
    ):
        path.write_text(content)
        with pytest.raises(FormatError, match=words):
            write_retrieval_report(path, tmp_path / "out")
    path.write_text(json.dumps(document))
    with pytest.raises(ConflictError, match="would be replaced"):
        write_retrieval_report(path, tmp_path)
    assert json.loads(path.read_text()) == document
    assert not (tmp_path / "out").exists()


def test_command_writes_the_same_bytes(document: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "retrieval.json").write_text(json.dumps(document))
    words = ["report", "retrieval", "--retrieval", str(tmp_path / "retrieval.json"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == len(document["rows"])
    assert (tmp_path / "out" / "retrieval.html").read_text() == render(document, "Retrieval over emoji")


def test_other_documents_called_retrieval_json(tmp_path: Path) -> None:
    path = tmp_path / "retrieval.json"
    path.write_text(json.dumps({"format_version": 1, "kind": "retrieval"}))
    words = ["report", "retrieval", "--retrieval", str(path), "--out", str(tmp_path / "out")]
    other = CliRunner().invoke(cli, words)
    assert other.exit_code == 5
    for said in ("its kind is 'retrieval', not 'emoji-retrieval'", "optotype retrieve", "cells.csv", "languages.csv"):
        assert said in other.stderr
    path.write_text("[" * 100_000)
    deep = CliRunner().invoke(cli, words)
    assert (deep.exit_code, "not a JSON emoji-retrieval" in deep.stderr) == (5, True)
    shown = " ".join(CliRunner().invoke(cli, ["report", "retrieval", "--help"]).stdout.split())
    assert "of kind emoji-retrieval" in shown
    assert "not of kind retrieval" in shown
