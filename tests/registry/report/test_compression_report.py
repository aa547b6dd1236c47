"""The page of a compression over a real small suite: numbers, bytes, errors, and a look with a browser."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words
from panels import make_panel
from scipy.stats import rankdata, spearmanr

from optotype.registry import compressions, frontiers
from optotype.registry.cli.root import cli
from optotype.registry.panels import import_scores
from optotype.registry.report.compression.movers import moves
from optotype.registry.report.compression.report import write_compression_report
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError
from optotype.store.panels import open_panel

BENCHMARKS = {"a": 30, "b": 25, "c": 40, "d & <e>": 20, "f": 22}
FAMILIES = list("ppqqrrsst")


def make(root: Path) -> Path:
    """A project with the panel ``panel``, and beside it a suite, a frontier and a panel of probes."""
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    panel = make_panel(
        BENCHMARKS, models=9, blind=3, categories={"a": "x", "b": "x", "c": "y", "d & <e>": "z", "f": "w"},
        missing=0.1, families=FAMILIES, axis=["size:1", "size:2", *[""] * 7], seed=4,
    )  # fmt: skip
    parts = []
    for variable, names in (("score", "model"), ("blind", "blind_model")):
        scores = panel[variable].to_numpy()
        rows, columns = np.nonzero(np.isfinite(scores))
        part = {name: panel[name].to_numpy()[columns] for name in ("benchmark", "item")}
        part |= {"model": panel[names].to_numpy()[rows], "score": scores[rows, columns].astype(float)}
        parts.append(pd.DataFrame({**part, "modality": "image" if variable == "score" else "blind"}))
    pd.concat(parts).rename(columns={"item": "item_id"}).to_parquet(root / "scores.parquet")
    for name, columns_ in (("items", ("benchmark", "item", "category")), ("models", ("model", "family", "axis"))):
        table = pd.DataFrame({column: panel[column].to_numpy() for column in columns_})
        table.rename(columns={"item": "item_id"}).to_csv(root / f"{name}.csv", index=False)
    import_scores(
        root, "panel", [root / "scores.parquet"], items=root / "items.csv", models=root / "models.csv", track=False
    )
    compressions.compress("panel", project=root, out=root / "suite", retention=0.2, floor=3, k=2)
    frontiers.frontier("panel", project=root, gain=0.4, out=root / "frontier")
    _write_probe(root / "probe")
    return root


ENCODERS, MODELS, PROBES, KINDS = (
    ("net", "vit", "random-vit"),
    ("mini", "large"),
    ("ridge", "contrastive"),
    ("random", "group"),
)


def _write_probe(folder: Path) -> None:
    rng = np.random.default_rng(0)
    folder.mkdir()
    names = ["/".join(parts) for parts in itertools.product(ENCODERS, MODELS, PROBES)]
    with (folder / "models.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "encoder", "language_model", "probe"])
        writer.writerows([name, *name.split("/")] for name in names)
    with (folder / "accuracy.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "modality", "kind", "items", "accuracy", "low", "high"])
        for name, modality in [*((name, "image") for name in names), ("blind/mini", "blind")]:
            for kind in (*KINDS, "all"):
                value = round(float(rng.uniform(0.3, 0.9)) if modality == "image" else 0.24, 6)
                writer.writerow([name, modality, kind, 40, value, value - 0.05, value + 0.05])
    pairs = []
    for first, second in itertools.combinations(names, 2):
        words = zip(("encoder", "language_model", "probe"), first.split("/"), second.split("/"), strict=True)
        differ = [word for word, one, other in words if one != other]
        pairs.append({"first": first, "second": second, "differ_in": differ, "tied": bool(rng.random() < 0.5)})
    counts = {"all": {"compared": len(pairs), "tied": sum(bool(pair["tied"]) for pair in pairs)}}
    ties = {"format_version": 1, "kind": "probe-ties", "level": 0.95, "repeats": 100, "resampled": "images"}
    (folder / "ties.json").write_text(json.dumps({**ties, "summary": counts, "pairs": pairs}))


def write(root: Path, out: Path, **options: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"frontier": root / "frontier", "probe": root / "probe", "project": root, **options}
    return write_compression_report(given.pop("suite", root / "suite"), "panel", out, **given)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("project") / "here")


@pytest.fixture(scope="module")
def written(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    write(root, out)
    return out


@pytest.fixture(scope="module")
def document(written: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((written / "compression.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return (written / "compression.html").read_text(encoding="utf-8")


def test_the_document_holds_the_suite_as_it_came(root: Path, document: dict[str, Any]) -> None:
    assert document["suite"] == json.loads((root / "suite" / "compression.json").read_text(encoding="utf-8"))
    assert document["panel"]["items"] == sum(BENCHMARKS.values())
    assert (document["panel"]["models"], document["panel"]["families"], document["panel"]["blind_runs"]) == (9, 5, 3)


def test_the_page_shows_what_each_stage_did(document: dict[str, Any], page: str) -> None:
    table = re.search(r'aria-label="Stages".*?</table>', page, re.S)
    assert table is not None
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", table[0])
    for number, stage in enumerate(document["suite"]["stages"]):
        own = cells[9 * number : 9 * (number + 1)]
        assert own[:4] == [
            str(stage["items_in"]), str(stage["items_out"]), f"{stage['rho']:.3f}", f"{stage['rho_to_reference']:.3f}",
        ]  # fmt: skip
        assert own[8].replace("&#39;", "'") == stage["rho_compares"]
    assert "d &amp; &lt;e&gt;" in page
    assert "<e>" not in page


def test_bars_of_cleaning_hold_the_counts(document: dict[str, Any], page: str) -> None:
    table = re.search(r'aria-label="What each filter removed".*?</table>', page, re.S)
    assert table is not None
    bars = re.findall(r'<svg class="bar".*?</svg>', table[0])
    rows = document["suite"]["stages"][0]["details"]["benchmarks"]
    assert len(bars) == len(rows) + 1
    for row, bar in zip(rows, bars, strict=False):
        width = {shade: float(value) for shade, value in re.findall(r'class="(\w)" x="[\d.]+" width="([\d.]+)"', bar)}
        assert width.get("c", 0) == pytest.approx(100 * row["kept"] / row["items"], abs=0.01)
        assert width.get("a", 0) == pytest.approx(100 * (row["all_correct"] - row["both"]) / row["items"], abs=0.01)
        assert sum(width.values()) == pytest.approx(100, abs=0.03)


def test_moves_are_between_ranks_of_the_models_on_both_leaderboards(document: dict[str, Any]) -> None:
    rows = {row["model"]: row for row in document["moves"]["rows"]}
    models = [row for row in document["suite"]["models"] if row["rank_compressed"] and row["rank_reference"]]
    assert set(rows) == {row["model"] for row in models}
    before, after = (rankdata([-row[f"score_{name}"] for row in models]) for name in ("reference", "compressed"))
    for row, first, last in zip(models, before, after, strict=True):
        assert (rows[row["model"]]["rank_before"], rows[row["model"]]["rank_after"]) == (first, last)
    rho = spearmanr(before, after).statistic
    assert rho == pytest.approx(document["suite"]["stages"][-1]["rho_to_reference"], abs=1e-12)
    sizes = [abs(row["move"]) for row in document["moves"]["rows"]]
    assert sizes == sorted(sizes, reverse=True)


def test_moves_rank_again_where_a_model_is_on_one_leaderboard_alone() -> None:
    names, before, after = "abcd", (1.0, 2.0, 3.0, None), (2.0, None, 1.0, 3.0)
    models = [
        {"model": m, "score_all": x and -x, "rank_all": x, "score_compressed": y and -y, "rank_compressed": y}
        for m, x, y in zip(names, before, after, strict=True)
    ]
    rows = moves(models, {"a": "family"}, "all")
    assert [(row["model"], row["rank_before"], row["rank_after"], row["move"]) for row in rows] == [
        ("a", 1.0, 2.0, -1.0),
        ("c", 2.0, 1.0, 1.0),
    ]
    assert rows[0]["family"] == "family"
    assert moves([{**row, "rank_all": None} for row in models], {}, "all") == []


def test_family_means_are_those_of_the_panel(root: Path, document: dict[str, Any]) -> None:
    panel = open_panel(root / "data" / "scores" / "panel")
    scores = np.asarray(panel["score"], dtype=np.float64)
    kept = {(row["benchmark"], row["item_id"]) for row in document["frontier"]["kept_items"]}
    pairs = zip(panel["benchmark"].to_numpy().tolist(), panel["item"].to_numpy().tolist(), strict=True)
    inside = [pair in kept for pair in pairs]
    assert sum(inside) == document["frontier"]["kept"] > 0
    families = panel["family"].to_numpy()
    for row in document["frontier"]["family_means"]:
        own = scores[families == row["family"]]
        assert row["models"] == len(own)
        assert row["all_items"] == pytest.approx(np.mean([np.nanmean(line) for line in own]), abs=1e-9)
        means = [np.nanmean(line[inside]) for line in own if np.isfinite(line[inside]).any()]
        assert row["frontier"] == (pytest.approx(np.mean(means), abs=1e-9) if means else None)


def test_ties_of_probes_are_counted_as_an_obvious_loop_does(root: Path, document: dict[str, Any], page: str) -> None:
    pairs = json.loads((root / "probe" / "ties.json").read_text())["pairs"]
    rows = [row for row in document["probe"]["rows"] if row["kind"] == "all" and row["modality"] == "image"]
    best = max(rows, key=lambda row: row["accuracy"])["model"]
    tied = {pair["first"] for pair in pairs if pair["second"] == best and pair["tied"]}
    tied |= {pair["second"] for pair in pairs if pair["first"] == best and pair["tied"]}
    assert document["probe"]["tied_with_best"] == [best, *sorted(tied)]
    for found in document["probe"]["encoders"]:
        both = {found["first"], found["second"]}
        own = [
            pair["tied"]
            for pair in pairs
            if {pair["first"].split("/")[0], pair["second"].split("/")[0]} == both
            and pair["first"].split("/")[1:] == pair["second"].split("/")[1:]
        ]
        assert (found["compared"], found["tied"]) == (len(own), sum(own)) == (4, sum(own))
    assert document["probe"]["untrained"] == "random-vit"
    assert page.count("never trained</span>") == 1 + 4, "once among the ties, once for each of its probes"


def test_equal_input_gives_equal_bytes_elsewhere(root: Path, written: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "another place")
    result = write(other, tmp_path / "out")
    assert result["html"] == str(tmp_path / "out" / "compression.html")
    for name in ("compression.html", "compression.json"):
        again = (tmp_path / "out" / name).read_bytes()
        assert again == (written / name).read_bytes()
        assert str(tmp_path).encode() not in again
        assert str(root).encode() not in again
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"compression.html", "compression.json"}


def test_the_page_stands_alone_and_is_in_order(page: str) -> None:
    check_self_contained(page)
    check_ids(page)
    assert check_words(page) >= 7


def test_nothing_overflows_on_a_phone(page: str, tmp_path: Path) -> None:
    check_fits_a_phone(page, tmp_path)


@pytest.mark.parametrize("last", [0, 1, 2, 3])
def test_a_suite_that_stopped_early_has_a_page_of_what_there_is(root: Path, tmp_path: Path, last: int) -> None:
    compressions.compress("panel", project=root, out=tmp_path / "suite", stop_after=last, floor=3, k=9)
    write(root, tmp_path / "out", suite=tmp_path / "suite", frontier=None, probe=None)
    page = (tmp_path / "out" / "compression.html").read_text(encoding="utf-8")
    for number, name in enumerate(("cleaning", "representatives", "budget", "count")):
        assert (f'id="{name}"' in page) == (number <= last)
    for name in ("frontier", "probe"):
        assert f'id="{name}"' not in page
    assert ("Nothing was chosen" in page) == (last == 3), "there are no 9 categories"
    check_self_contained(page)
    check_ids(page)


def test_a_panel_that_ranks_nobody_has_a_page(root: Path, tmp_path: Path) -> None:
    suite = json.loads((root / "suite" / "compression.json").read_text(encoding="utf-8"))
    for row in suite["models"]:
        row |= {name: None for name in row if name != "model"}
    suite["stages"] = [{**suite["stages"][0], "rho": None, "rho_to_reference": None}]
    (tmp_path / "compression.json").write_text(json.dumps(suite))
    write(root, tmp_path / "out", suite=tmp_path)
    page = (tmp_path / "out" / "compression.html").read_text(encoding="utf-8")
    assert "No model is on both leaderboards" in page


def test_the_command_writes_both_and_says_where(root: Path, written: Path, tmp_path: Path) -> None:
    words = ["report", "compression", "--suite", str(root / "suite"), "--frontier", str(root / "frontier")]
    words += ["--probe", str(root / "probe"), "--panel", "panel", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(cli, ["-C", str(root), *words], prog_name="optotype")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["html"] == str(tmp_path / "compression.html")
    assert (told["stages"], told["models"]) == (4, 9)
    assert (tmp_path / "compression.html").read_bytes() == (written / "compression.html").read_bytes()


def test_what_cannot_be_shown_is_refused_and_nothing_is_written(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="would replace"):
        write(root, root / "suite")
    with pytest.raises(NotFoundError, match=r"compression\.json"):
        write(root, out, suite=tmp_path / "none")
    with pytest.raises(NotFoundError, match=r"frontier\.json"):
        write(root, out, frontier=tmp_path / "none")
    with pytest.raises(NotFoundError, match=r"accuracy\.csv"):
        write(root, out, probe=tmp_path / "none")
    suite = json.loads((root / "suite" / "compression.json").read_text(encoding="utf-8"))
    bad = tmp_path / "bad"
    bad.mkdir()
    other = {**suite, "panel": {"name": "other", "digest": "sha256:0"}}
    for content, error, words in (
        ("{", FormatError, "not a JSON"),
        (json.dumps({**suite, "format_version": 99}), FormatError, "99"),
        (json.dumps({**suite, "kind": "frontier"}), FormatError, "kind"),
        (json.dumps({**suite, "stages": []}), FormatError, "stages"),
        (json.dumps({key: suite[key] for key in suite if key != "models"}), FormatError, "models"),
        (json.dumps(other), InvalidDataError, "sha256:0"),
    ):
        (bad / "compression.json").write_text(content)
        with pytest.raises(error, match=words):
            write(root, out, suite=bad)
    shutil.copytree(root / "probe", tmp_path / "probe")
    (tmp_path / "probe" / "accuracy.csv").write_text("model,kind\na,b\n")
    with pytest.raises(FormatError, match="modality, items, accuracy"):
        write(root, out, probe=tmp_path / "probe")
    assert not out.exists()


def test_a_suite_and_a_frontier_of_another_panel_are_both_named(root: Path, tmp_path: Path) -> None:
    for name in ("suite", "frontier"):
        shutil.copytree(root / name, tmp_path / name)
        (path,) = (tmp_path / name).glob("*[!s].json" if name == "frontier" else "compression.json")
        path.write_text(re.sub(r"sha256:[0-9a-f]{64}", "sha256:0", path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(InvalidDataError) as caught:
        write(root, tmp_path / "out", suite=tmp_path / "suite", frontier=tmp_path / "frontier")
    assert [problem.where for problem in caught.value.problems] == ["compression.json", "frontier.json"]
