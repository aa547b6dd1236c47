"""The whole panel on made-up pairs whose answers are known."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xarray as xr
from probes import feature_array, make_pairs, state_array, write_pairs_table

from optotype.pipelines.emoji.probe import panel as module
from optotype.pipelines.emoji.probe.files import write_panel
from optotype.pipelines.emoji.probe.known import encoder_facts, released
from optotype.pipelines.emoji.probe.panel import ProbePanel, probe_panel
from optotype.pipelines.emoji.probe.results import accuracies, tie_report
from optotype.pipelines.emoji.probe.table import read_pairs
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError

GROUPS = {"Animals": 40, "Objects": 40, "Tiny": 4}
PAIRS = make_pairs(GROUPS)
N = len(PAIRS)


def arrays() -> tuple[list[xr.Dataset], list[xr.Dataset]]:
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(N, 6))
    seen = meaning @ rng.normal(size=(6, 24)) + rng.normal(scale=0.2, size=(N, 24))
    features = [
        feature_array(PAIRS, "sees", seen),
        feature_array(PAIRS, "vit-l8", seen + rng.normal(scale=4, size=(N, 24)), layer=8),
        feature_array(PAIRS, "noise", rng.normal(size=(N, 16)), layer="final"),
    ]
    states = [
        state_array(PAIRS, "reads", meaning @ rng.normal(size=(6, 18)) + 2),
        state_array(PAIRS, "babbles", rng.normal(size=(N, 18))),
    ]
    return features, states


@pytest.fixture(scope="module")
def panel() -> ProbePanel:
    return probe_panel(PAIRS, *arrays(), min_items=5)


def accuracy(panel: ProbePanel, name: str) -> float:
    names = [member.name for member in panel.members]
    return float((panel.choices[names.index(name)] == panel.answers).mean())


def test_every_pair_and_probe_is_a_model(panel: ProbePanel) -> None:
    assert [member.name for member in panel.members] == [
        f"{encoder}/{model}/{probe}"
        for encoder in ("sees", "vit-l8", "noise")
        for model in ("reads", "babbles")
        for probe in ("ridge", "contrastive")
    ]
    assert panel.nearest_by == "reads"
    assert panel.notes == ["Tiny: 2 held-out pairs, fewer than 5: no questions about them"]
    assert set(panel.train.tolist()).isdisjoint({question.target for question in panel.questions})


def test_what_is_aligned_answers_and_noise_guesses(panel: ProbePanel) -> None:
    for probe in ("ridge", "contrastive"):
        assert accuracy(panel, f"sees/reads/{probe}") > 0.9
        assert accuracy(panel, f"sees/reads/{probe}") > accuracy(panel, f"vit-l8/reads/{probe}")
        for name in (f"noise/reads/{probe}", f"sees/babbles/{probe}"):
            assert 0.1 < accuracy(panel, name) < 0.4  # chance is 0.25
    for choices in panel.blind.values():
        assert 0.05 < (choices == panel.answers).mean() < 0.45


def test_choices_are_the_best_scores_of_the_options(panel: ProbePanel) -> None:
    for member, choices in zip(panel.members, panel.choices, strict=True):
        for question, choice in zip(panel.questions, choices, strict=True):
            scores = [member.fit.similarity[question.target, pair] for pair in question.options]
            assert scores[choice] == max(scores)


def test_same_bytes_for_any_number_of_threads(
    panel: ProbePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_panel(panel, tmp_path / "a", seed=0, min_items=5, repeats=50)
    for workers in (1, 3):
        monkeypatch.setattr(module, "_workers", lambda workers=workers: workers)
        again = probe_panel(PAIRS, *arrays(), min_items=5)
        write_panel(again, tmp_path / "b", seed=0, min_items=5, repeats=50)
        for path in (tmp_path / "a").iterdir():
            assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_files_say_the_same(panel: ProbePanel, tmp_path: Path) -> None:
    source = write_panel(panel, tmp_path, seed=0, min_items=5, repeats=50)
    items = pq.read_table(tmp_path / "items.parquet").to_pylist()
    scores = pq.read_table(tmp_path / "scores.parquet").to_pylist()
    assert list(items[0]) == [
        *("benchmark", "item_id", "category", "sub_task", "question", "answer", "n_choices", "image"),
        *("A", "B", "C", "D", "text"),
    ]
    assert list(scores[0]) == ["benchmark", "item_id", "model", "score", "modality", "response"]
    by_item = {(row["benchmark"], row["item_id"]): row for row in items}
    assert len(by_item) == len(items) == len(panel.questions) == source["items"]
    captions = dict(zip(PAIRS.ids, PAIRS.texts, strict=True))
    for row in items:
        assert row[row["answer"]] == captions[row["item_id"]]
        assert row["text"].splitlines()[1:] == [f"{letter}. {row[letter]}" for letter in "ABCD"]
        assert row["image"] == f"images/{row['item_id']}.png"
        assert row["benchmark"] == f"{row['category'].lower()}-{row['sub_task']}"
    runs: dict[tuple[str, str], list[float]] = {}
    for row in scores:
        right = row["response"] == by_item[row["benchmark"], row["item_id"]]["answer"]
        assert row["score"] == float(right)
        runs.setdefault((row["modality"], row["model"]), []).append(row["score"])
    assert {len(values) for values in runs.values()} == {len(items)}
    assert sum(modality == "image" for modality, _ in runs) == 12
    assert sum(modality == "blind" for modality, _ in runs) == 8
    with (tmp_path / "models.csv").open(encoding="utf-8", newline="") as file:
        models = {row["model"]: row for row in csv.DictReader(file)}
    assert set(models) == {name for modality, name in runs if modality == "image"}
    assert models["vit-l8/reads/ridge"]["family"] == "vit"
    assert models["vit-l8/reads/ridge"]["axis"] == "vit-depth/reads/ridge:8"
    assert models["noise/reads/ridge"]["family"] == "noise"
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    for (_, name), values in runs.items():
        assert metrics[name]["all"] == pytest.approx(np.mean(values), abs=1e-11)
    assert {row["model"]: row["all"] for row in source["models"]} == {
        member.name: metrics[member.name]["all"] for member in panel.members
    }
    readme = (tmp_path / "README.md").read_text()
    assert "random-vit" not in readme
    assert max(len(line) for line in readme.splitlines()) <= 120
    assert json.loads((tmp_path / "SOURCE.json").read_text()) == source


def test_variants_are_tied_and_unlike_models_are_not(panel: ProbePanel) -> None:
    report = tie_report(panel, 300, 0)
    rows = {(row["first"], row["second"]): row for row in report["pairs"]}
    assert len(rows) == 12 * 11 // 2
    assert rows["sees/reads/ridge", "noise/reads/ridge"]["differ_in"] == ["encoder"]
    assert not rows["sees/reads/ridge", "noise/reads/ridge"]["tied"]
    assert rows["noise/reads/ridge", "noise/reads/contrastive"]["tied"]
    assert rows["sees/reads/ridge", "noise/babbles/contrastive"]["differ_in"] == ["encoder", "language_model", "probe"]
    assert report["summary"]["all"] == {"compared": 66, "tied": sum(row["tied"] for row in rows.values())}
    assert report["summary"]["encoder"]["compared"] == 12
    assert report["summary"]["language_model"]["compared"] == report["summary"]["probe"]["compared"] == 6
    by_kind = {(row["model"], row["kind"]): row for row in accuracies(panel, 300, 0)}
    assert by_kind["sees/reads/ridge", "random"]["above_chance"]
    assert not by_kind["noise/babbles/ridge", "all"]["above_chance"]
    row = by_kind["vit-l8/reads/ridge", "nearest"]
    assert row["low"] <= row["accuracy"] <= row["high"]


def test_wrong_arrays_are_all_named() -> None:
    features, states = arrays()
    with pytest.raises(InvalidDataError) as raised:
        probe_panel(PAIRS, [features[0].isel(image=slice(5, None)), features[1]], [states[0].isel(text=slice(0, 9))])
    assert [problem.kind for problem in raised.value.problems] == ["unmatched-id"] * 2
    assert "features sees" in str(raised.value)
    assert "states reads" in str(raised.value)
    with pytest.raises(UsageError, match="more than one array is called sees"):
        probe_panel(PAIRS, [features[0], features[0]], states)
    with pytest.raises(UsageError, match="--states"):
        probe_panel(PAIRS, features, [])
    with pytest.raises(NotFoundError, match="'read'") as missing:
        probe_panel(PAIRS, features, states, nearest_by="read")
    assert "reads" in str(missing.value.hint)
    flat = feature_array(PAIRS, "flat", np.ones((N, 4)))
    flat["patches"] = flat["patches"] * 0
    with pytest.raises(InvalidDataError, match="features flat: all 42 training rows are equal"):
        probe_panel(PAIRS, [flat], states)


def test_a_large_set_of_repeats_leaves_folds_that_can_be_judged() -> None:
    pairs = make_pairs({"A": 160}, texts=["same"] * 100 + [f"caption {i}" for i in range(60)])
    rows = np.random.default_rng(0).normal(size=(160, 5))
    panel = probe_panel(pairs, [feature_array(pairs, "e", rows)], [state_array(pairs, "m", rows)])
    assert all(np.isfinite(member.fit.validation) for member in panel.members)
    assert {len(set(panel.sets[list(question.options)])) for question in panel.questions} == {4}


def test_too_few_pairs() -> None:
    pairs = make_pairs({"A": 20})
    rows = np.random.default_rng(0).normal(size=(20, 5))
    with pytest.raises(InvalidDataError, match="10 different pairs in the training half"):
        probe_panel(pairs, [feature_array(pairs, "e", rows)], [state_array(pairs, "m", rows)])


def test_pairs_are_read_by_id_and_repeated_drawings_found(tmp_path: Path) -> None:
    table = write_pairs_table(tmp_path, ["b", "a", "c"], ["G", "", "H"])
    (tmp_path / "images" / "c.png").write_bytes((tmp_path / "images" / "a.png").read_bytes())
    pairs = read_pairs(table)
    assert (pairs.ids, pairs.groups, pairs.images[0]) == (("a", "b", "c"), ("", "G", "H"), "images/a.png")
    assert pairs.pixels[0] == pairs.pixels[2] != pairs.pixels[1]
    (tmp_path / "images" / "c.png").write_bytes(b"no image")
    with pytest.raises(FormatError, match=r"c\.png: not a readable image"):
        read_pairs(table)
    table.write_text(table.read_text().replace("group", "kind", 1))
    with pytest.raises(InvalidDataError, match="no column 'group'"):
        read_pairs(table)


@pytest.mark.parametrize(
    ("name", "layer", "family", "axis"),
    [
        ("efficientnet-lite1", "final", "efficientnet-lite", ("efficientnet-lite-size", 1)),
        ("vit-s14-focus-l10", 10, "vit-s14-focus", ("vit-s14-focus-depth", 10)),
        ("vit-s14-focus-l10", 9, "vit-s14-focus-l10", ("", 0)),
        ("random-vit", "final", "random-vit", ("", 0)),
    ],
)
def test_families_and_axes(name: str, layer: Any, family: str, axis: tuple[str, int]) -> None:
    facts = encoder_facts(name, layer)
    assert (facts.family, (facts.axis, facts.position)) == (family, axis)


def test_dates_are_of_the_younger_part_or_blank() -> None:
    lite = encoder_facts("efficientnet-lite0", "final")
    assert released(lite, "minilm-l6") == "2021"
    assert released(lite, "smollm2-135m") == "2024"
    assert released(lite, "mine") == ""
    assert released(encoder_facts("mobilenet-v2", "final"), "minilm-l6") == ""


def test_states_that_are_not_finite_are_refused() -> None:
    features, states = arrays()
    broken = states[0].compute()
    broken["states"][4, 1] = np.inf
    with pytest.raises(InvalidDataError, match="states that are finite") as raised:
        probe_panel(PAIRS, features, [broken, *states[1:]])
    assert [(problem.where, problem.kind) for problem in raised.value.problems] == [("states reads", "not-finite")]
