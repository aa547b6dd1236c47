"""The files of mined pairs: table, document and contact sheet, and a look at the sheet with a browser."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words
from PIL import Image

from optotype.registry.pair_mining import mine_pairs
from optotype.schemas.errors import InvalidDataError, NotFoundError, UsageError
from optotype.store.features import open_features, write_features
from optotype.store.project import Project

N = 20
QUANTILES: dict[str, Any] = {"above_quantile": 0.6, "below_quantile": 0.5}


@dataclass(frozen=True)
class Made:
    project: Project
    table: Path


def make(root: Path) -> Made:
    """A project with encoders ``clip`` and ``dino`` over twenty drawn images."""
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n')
    project = Project(root.resolve())
    generator = np.random.default_rng(0)
    ids = [f"i{number:02}" for number in range(N)]
    for name, channels in (("clip", 3), ("dino", 4)):
        sizes = generator.integers(1, 5, N)
        rows = generator.normal(size=(sizes.sum(), channels)).astype(np.float16)
        target = project.features / name
        write_features(target, ids=ids, row_size=sizes, blocks=[rows], dtype="float16", inputs={"name": name})
    images = root / "pairs" / "images"
    images.mkdir(parents=True)
    with (root / "pairs" / "pairs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "image", "text"])
        for number, item in enumerate(ids):
            Image.new("RGB", (30 + number, 40), (10 * number, 80, 250 - 9 * number)).save(images / f"{item}.png")
            writer.writerow([item, f"images/{item}.png", f"shape <{number}> & “more”"])
    return Made(project, root / "pairs" / "pairs.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("mined") / "project")


@pytest.fixture(scope="module")
def out(made: Made) -> Path:
    folder = made.project.root / "data" / "mined"
    mine_pairs("clip", "dino", project=made.project, images=made.table, per_image=3, out=folder, **QUANTILES)
    return folder


@pytest.fixture(scope="module")
def document(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "pairs.json").read_text())
    return found


@pytest.fixture(scope="module")
def page(out: Path) -> str:
    return (out / "contact-sheet.html").read_text(encoding="utf-8")


def test_the_table_has_the_pairs_in_order(made: Made, out: Path, document: dict[str, Any]) -> None:
    table = pd.read_parquet(out / "pairs.parquet")
    assert list(table.columns) == ["image_a", "image_b", "sim_similar", "sim_different"]
    assert len(table) == document["table"]["rows"] == document["counts"]["kept"] > 5
    assert (table["image_a"] < table["image_b"]).all()
    gaps = (table["sim_similar"] - table["sim_different"]).round(12)
    assert gaps.is_monotonic_decreasing
    assert (table["sim_similar"] > document["thresholds"]["above"]["cosine"]).all()
    assert (table["sim_different"] < document["thresholds"]["below"]["cosine"]).all()
    assert pd.concat([table["image_a"], table["image_b"]]).value_counts().max() == 3
    clip = open_features(made.project.features / "clip")
    ends = np.cumsum(clip["row_size"].to_numpy())
    items = np.split(clip["patches"].to_numpy().astype(float), ends[:-1])
    means = dict(zip(clip["image"].to_numpy(), (item.mean(axis=0) for item in items), strict=True))
    for a, b, similar in table[["image_a", "image_b", "sim_similar"]].itertuples(index=False):
        expected = means[a] @ means[b] / np.linalg.norm(means[a]) / np.linalg.norm(means[b])
        assert similar == pytest.approx(expected, abs=1e-11)


def test_the_document_says_what_was_done(made: Made, out: Path, document: dict[str, Any]) -> None:
    assert (document["format_version"], document["kind"]) == (1, "pair-mining")
    for side, name in (("similar", "clip"), ("different", "dino")):
        array = open_features(made.project.features / name)
        assert document[side] == {
            "name": name,
            "digest": array.attrs["digest"],
            "dtype": "float16",
            "channels": array.sizes["channel"],
        }
    counts = document["counts"]
    assert counts["images"] == N
    assert counts["pairs_of_images"] == N * (N - 1) // 2
    assert counts["above"] == document["thresholds"]["above"]["pairs_beyond"]
    assert counts["above"] >= counts["above_and_below"] > counts["kept"]
    plain = mine_pairs("clip", "dino", project=made.project)["counts"]
    printed = counts["at_printed_thresholds"]
    assert (plain["above"], plain["above_and_below"]) == (printed["above"], printed["above_and_below"])
    assert (printed["above_threshold"], printed["below_threshold"]) == (0.95, 0.6)
    assert document["thresholds"]["above"]["quantile"] == document["parameters"]["above_quantile"] == 0.6
    assert document["table"]["sha256"] == hashlib.sha256((out / "pairs.parquet").read_bytes()).hexdigest()


def test_equal_input_gives_equal_bytes_elsewhere(out: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "another place")
    mine_pairs(
        str(other.project.features / "clip"),
        str(other.project.features / "dino"),
        images=other.table,
        per_image=3,
        out=tmp_path / "out" / "deep",
        **QUANTILES,
    )
    names = ["contact-sheet.html", "pairs.json", "pairs.parquet"]
    assert sorted(path.name for path in (tmp_path / "out" / "deep").iterdir()) == names
    for name in names:
        content = (out / name).read_bytes()
        assert content == (tmp_path / "out" / "deep" / name).read_bytes()
        assert str(tmp_path).encode() not in content


def test_the_sheet_shows_the_pairs(page: str, document: dict[str, Any], out: Path) -> None:
    table = pd.read_parquet(out / "pairs.parquet")
    cards = page.split('<ol class="sheet">')[1].split("</ol>")[0].split("</li>")[:-1]
    assert len(cards) == len(table)
    for card, row in zip(cards, table.itertuples(), strict=True):
        named = re.findall(r'class="note mono">([^<]+)<', card)
        assert named == [row.image_a, row.image_b]
        values = re.findall(r"<dd>([−\d.]+)</dd>", card)
        assert values == [f"{value:.3f}".replace("-", "−") for value in (row.sim_similar, row.sim_different)]
        assert len(re.findall(r'<use href="#t\d+"', card)) == 2
    assert "shape &lt;3&gt; &amp; “more”" in page
    assert f"{document['counts']['pairs_of_images']}</td>" in page
    assert "--above-quantile 0.6" in page


def test_each_picture_is_stored_once(page: str) -> None:
    uris = re.findall(r'<symbol id="t\d+" [^>]*><image [^>]*href="(data:image/png;base64,[^"]+)"', page)
    assert len(uris) == len(set(uris)) > 5


def test_the_sheet_is_a_page_like_the_others(page: str, tmp_path: Path) -> None:
    check_self_contained(page)
    check_ids(page)
    assert check_words(page) > 10
    check_fits_a_phone(page, tmp_path)


def test_without_pictures_the_sheet_names_the_images(made: Made, tmp_path: Path) -> None:
    document = mine_pairs("clip", "dino", project=made.project, shown=2, out=tmp_path, **QUANTILES)
    page = (tmp_path / "contact-sheet.html").read_text()
    check_self_contained(page)
    check_ids(page)
    check_words(page)
    assert page.count('<dl class="scale">') == 2
    assert f"The first 2 of {document['counts']['kept']}" in page
    assert "<symbol" not in page
    folder = mine_pairs(
        "clip", "dino", project=made.project, images=made.table.parent / "images", out=tmp_path, **QUANTILES
    )
    assert not folder["warnings"]
    assert "<symbol" in (tmp_path / "contact-sheet.html").read_text()


def test_no_pairs_is_a_result(made: Made, tmp_path: Path) -> None:
    document = mine_pairs("clip", "dino", project=made.project, above=1.0, images=made.table, out=tmp_path)
    assert document["counts"]["kept"] == document["counts"]["above"] == 0
    table = pd.read_parquet(tmp_path / "pairs.parquet")
    assert list(table.columns) == ["image_a", "image_b", "sim_similar", "sim_different"]
    assert len(table) == 0
    page = (tmp_path / "contact-sheet.html").read_text()
    check_self_contained(page)
    assert "none at these thresholds" in page


def test_images_that_the_table_lacks_are_named_before_anything_is_written(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.table.parent, tmp_path / "pairs")
    table = tmp_path / "pairs" / "pairs.csv"
    lines = made.table.read_text().splitlines()
    table.write_text("\n".join(line for line in lines if not line.startswith(("i03", "i07"))) + "\n")
    with pytest.raises(InvalidDataError, match="2 of 20 images of the features are not in it: i03, i07"):
        mine_pairs("clip", "dino", project=made.project, images=table, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_picture_that_cannot_be_read_costs_no_pair(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made.table.parent, tmp_path / "pairs")
    best = pd.read_parquet(made.project.root / "data" / "mined" / "pairs.parquet")["image_a"][0]
    (tmp_path / "pairs" / "images" / f"{best}.png").write_bytes(b"not a picture")
    document = mine_pairs(
        "clip", "dino", project=made.project, images=tmp_path / "pairs" / "pairs.csv", out=tmp_path, **QUANTILES
    )
    assert [text for text in document["warnings"] if best in text]
    page = (tmp_path / "contact-sheet.html").read_text()
    check_self_contained(page)
    assert "No picture." in page


def test_what_is_not_there_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="clup"):
        mine_pairs("clup", "dino", project=made.project, out=tmp_path / "out")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        mine_pairs("clip", "dino", project=made.project, out=tmp_path / "file")
    with pytest.raises(UsageError, match="shown"):
        mine_pairs("clip", "dino", project=made.project, shown=-1, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
