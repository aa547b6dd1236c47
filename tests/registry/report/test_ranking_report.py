"""The whole report over a real small project: numbers, bytes, errors, and a look with a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words

from optotype.pipelines.graphs import features_graph, states_graph
from optotype.registry.report import write_ranking_report
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError


@pytest.fixture(scope="module")
def written(ranked: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    write_ranking_report(ranking=ranked.rows, project=ranked.project, pairs=ranked.pairs, out=out)
    return out


@pytest.fixture(scope="module")
def document(written: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((written / "ranking.json").read_text())
    return found


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return (written / "ranking.html").read_text(encoding="utf-8")


def test_json_holds_the_rows_as_they_came(ranked: Any, document: dict[str, Any]) -> None:
    assert document["format_version"] == 1
    assert document["rows"] == sorted(ranked.rows, key=lambda row: -row["score"])
    assert document["summary"]["n"] == len(ranked.ids)
    assert [table["model"] for table in document["tables"]] == ["small", "wide"]
    for table in document["tables"]:
        shown = [(row["encoder"], row["score"]) for row in table["rows"]]
        expected = [
            (row["encoder"], row["score"])
            for row in ranked.rows
            if row["model"] == table["model"] and row["prenorm_states"] == "l2"
        ]
        assert shown == sorted(expected, key=lambda pair: -pair[1])


def test_page_shows_every_score(ranked: Any, page: str) -> None:
    for row in ranked.rows:
        assert f"{row['score']:.3f}" in page
        assert row["encoder"] in page
    assert "&lt;3&gt; &amp; “more”" in page, "captions are escaped"


def test_the_example_neighbours_are_those_of_the_graphs(ranked: Any, document: dict[str, Any]) -> None:
    visual = features_graph(ranked.project, "grid", k=5, eps=1e-4, prenorm="none")
    textual = states_graph(ranked.project, "small", k=5, eps=1e-4, prenorm="l2")
    group = next(group for group in document["examples"] if group["encoder"] == "grid")
    for item in group["items"]:
        index = ranked.ids.index(item["id"])
        mine = [ranked.ids[other] for other in visual["neighbours"].values[index]]
        theirs = [ranked.ids[other] for other in textual["neighbours"].values[index]]
        side = next(side for side in item["textual"] if side["model"] == "small")
        assert [near["id"] for near in item["visual"]] == mine
        assert [near["id"] for near in side["neighbours"]] == theirs
        assert side["overlap"] == len(set(mine) & set(theirs))
        assert [near["shared"] for near in side["neighbours"]] == [other in mine for other in theirs]
        assert [("small" in near["shared"]) for near in item["visual"]] == [other in theirs for other in mine]


def test_the_patch_match_averages_to_the_similarity_of_the_graph(ranked: Any, document: dict[str, Any]) -> None:
    match = document["patch_match"]
    assert match["encoder"] == "grid", "the ragged encoder has no square grid for every pair"
    assert match["grids"] == [4, 4]
    graph = features_graph(ranked.project, "grid", k=5, eps=1e-4, prenorm="none")
    first, place = ranked.ids.index(match["items"][0]), match["place"] - 1
    assert ranked.ids[int(graph["neighbours"].values[first, place])] == match["items"][1]
    assert match["chamfer"] == pytest.approx(float(graph["similarity"].values[first, place]), abs=2e-6)


def test_spectra_are_those_of_the_graphs(ranked: Any, document: dict[str, Any]) -> None:
    graph = states_graph(ranked.project, "wide", k=5, eps=1e-4, prenorm="l2")
    points = document["spectra"]["states"]["wide"]
    kept = int((graph["whitened_variance"].values > 0).sum())
    assert points["before"]["directions"] == kept < points["channels"] == 40
    assert points["before"]["index"] == list(range(1, kept + 1))
    np.testing.assert_allclose(points["before"]["variance"], graph["eigenvalues"].values[:kept], rtol=1e-5)
    np.testing.assert_allclose(points["after"]["variance"], graph["whitened_variance"].values[:kept], rtol=1e-5)


def test_equal_input_gives_equal_bytes_elsewhere(
    ranked: Any, make_ranked: Callable[[Path], Any], written: Path, tmp_path: Path
) -> None:
    other = make_ranked(tmp_path / "another place")
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(list(reversed(other.rows))))
    result = write_ranking_report(path, other.project, other.pairs, tmp_path / "out")
    again = (tmp_path / "out" / "ranking.html").read_bytes()
    assert result["html"] == str(tmp_path / "out" / "ranking.html")
    assert again == (written / "ranking.html").read_bytes()
    assert str(tmp_path).encode() not in again
    assert str(ranked.project.root).encode() not in (written / "ranking.json").read_bytes()
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"ranking.html", "ranking.json"}


def test_a_report_can_be_made_from_its_own_json(ranked: Any, written: Path, tmp_path: Path) -> None:
    write_ranking_report(written / "ranking.json", ranked.project, ranked.pairs, tmp_path)
    for name in ("ranking.html", "ranking.json"):
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes()


def test_page_is_self_contained_and_without_script(page: str) -> None:
    check_self_contained(page)


def test_ids_are_unique_and_every_reference_meets_one(page: str) -> None:
    check_ids(page)


def test_headings_are_in_order_and_pictures_have_words(page: str) -> None:
    assert check_words(page) > 10


def test_each_picture_is_stored_once(page: str) -> None:
    uris = re.findall(r'<symbol id="t\d+" [^>]*><image [^>]*href="(data:image/png;base64,[^"]+)"', page)
    used = re.findall(r'<use href="#t(\d+)"', page)
    assert len(uris) == len(set(uris))
    assert set(map(int, used)) <= set(range(len(uris)))
    assert len(used) > len(uris)


def test_degenerate_sides_are_warned_about(ranked: Any, document: dict[str, Any], page: str) -> None:
    told = {warning for row in ranked.rows for warning in row["warnings"]}
    assert told, "states of width 40 over 24 texts are degenerate"
    assert {group["text"] for group in document["warnings"] + document["other_warnings"]} == told
    for group in document["warnings"] + document["other_warnings"]:
        assert group["text"].split("ε")[0][:40] in page


def test_ragged_encoders_alone_leave_the_patch_match_out(ranked: Any, tmp_path: Path) -> None:
    rows = [row for row in ranked.rows if row["encoder"] == "ragged"]
    write_ranking_report(rows, ranked.project, ranked.pairs, tmp_path)
    document = json.loads((tmp_path / "ranking.json").read_text())
    match = document["patch_match"]
    page = (tmp_path / "ranking.html").read_text()
    if match is None:
        assert "Not drawn" in page
    else:
        assert match["grids"] == [2, 2]


def test_without_null_and_bootstrap_the_page_says_so(ranked: Any, tmp_path: Path) -> None:
    rows = [{**row, "null": None, "interval": None} for row in ranked.rows if row["prenorm_states"] == "l2"]
    write_ranking_report(rows, ranked.project, ranked.pairs, tmp_path)
    page = (tmp_path / "ranking.html").read_text()
    assert "no bootstrap was asked for" in page
    assert 'id="normalisation"' not in page, "one combination needs no comparison"
    assert "--bootstrap" not in page


def test_all_problems_of_the_arrays_and_pairs_come_at_once(ranked: Any, tmp_path: Path) -> None:
    shutil.copytree(ranked.pairs.parent, tmp_path / "pairs")
    for item in ("i002", "i005"):
        (tmp_path / "pairs" / "images" / f"{item}.png").unlink()
    rows = [dict(row) for row in ranked.rows]
    for row in rows:
        row["states_digest"] = "sha256:0" if row["model"] == "wide" else row["states_digest"]
        row["encoder"] = "gird" if row["encoder"] == "grid" else row["encoder"]
    with pytest.raises(InvalidDataError) as caught:
        write_ranking_report(rows, ranked.project, tmp_path / "pairs" / "pairs.csv", tmp_path / "out")
    text = str(caught.value)
    for part in ("i002.png", "i005.png", "gird", "wide", "sha256:0"):
        assert part in text
    assert not (tmp_path / "out").exists()


def test_items_without_a_pair_are_named(ranked: Any, tmp_path: Path) -> None:
    lines = ranked.pairs.read_text().splitlines()
    shutil.copytree(ranked.pairs.parent / "images", tmp_path / "images")
    (tmp_path / "pairs.csv").write_text("\n".join(line for line in lines if not line.startswith("i007")) + "\n")
    with pytest.raises(InvalidDataError, match=r"1 ranked items have no image: i007") as caught:
        write_ranking_report(ranked.rows, ranked.project, tmp_path / "pairs.csv", tmp_path)
    assert "no caption: i007" in str(caught.value)


def test_damaged_images_are_all_named_and_nothing_is_written(ranked: Any, tmp_path: Path) -> None:
    shutil.copytree(ranked.pairs.parent, tmp_path / "pairs")
    for path in (tmp_path / "pairs" / "images").iterdir():
        path.write_bytes(b"not a picture")
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidDataError) as caught:
        write_ranking_report(ranked.rows, ranked.project, tmp_path / "pairs" / "pairs.csv", tmp_path / "out")
    assert len(caught.value.problems) > 3
    assert not list((tmp_path / "out").iterdir())


def test_what_is_no_ranking_is_refused(ranked: Any, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="optotype rank"):
        write_ranking_report(tmp_path / "none.json", ranked.project, ranked.pairs, tmp_path)
    for content in ("{", "[]", "[1]", '{"rows": 3}', "3"):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(FormatError):
            write_ranking_report(tmp_path / "bad.json", ranked.project, ranked.pairs, tmp_path)
    (tmp_path / "new.json").write_text(json.dumps({"format_version": 99, "rows": ranked.rows}))
    with pytest.raises(FormatError, match="99"):
        write_ranking_report(tmp_path / "new.json", ranked.project, ranked.pairs, tmp_path)
    with pytest.raises(UsageError, match="examples"):
        write_ranking_report(ranked.rows, ranked.project, ranked.pairs, tmp_path, examples=0)


def test_nothing_overflows_on_a_phone(page: str, tmp_path: Path) -> None:
    check_fits_a_phone(page, tmp_path)
