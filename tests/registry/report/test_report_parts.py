"""The parts of the ranking report, each against an obvious reference."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from optotype.registry.report import formats
from optotype.registry.report.energy import energy_plot
from optotype.registry.report.ranking.examples import choose_items, neighbour_examples
from optotype.registry.report.ranking.inputs import Graph
from optotype.registry.report.ranking.patch_match import match_patches, square_side
from optotype.registry.report.ranking.rows import main_combination, read_rows, tables, ties, warning_groups
from optotype.registry.report.ranking.thumbnails import make_thumbnails, read_rgb
from optotype.registry.report.svg import COLOURS, inline_svg, styled
from optotype.schemas.errors import InvalidDataError


def row(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "encoder": "e",
        "model": "m",
        "metric": "ravel",
        "score": 0.3,
        "chance": 0.1,
        "adjusted": 0.2,
        "n": 11,
        "k": 1,
        "eps": 1e-4,
        "prenorm_features": "none",
        "prenorm_states": "l2",
        "features_digest": "sha256:1",
        "states_digest": "sha256:2",
        "n_over_d": {"features": 2.0, "states": 0.5},
        "share_below_eps": {"features": 0.0, "states": 0.5},
        "interval": None,
        "null": None,
        "warnings": [],
    }
    return {**found, **changes}


def test_rows_come_out_best_first_whatever_their_order() -> None:
    rows = [row(encoder=name, score=score) for name, score in (("b", 0.2), ("c", 0.5), ("a", 0.2))]
    assert [found["encoder"] for found in read_rows(rows)] == ["c", "a", "b"]
    assert read_rows(rows) == read_rows(rows[::-1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"score": float("nan")}, "score is a finite number, got nan"),
        ({"score": True}, "score is a finite number, got True"),
        ({"encoder": ""}, "encoder is a string, got ''"),
        ({"k": 2}, "one k for all rows, got 1, 2"),
        ({"n_over_d": None}, "n_over_d is an object of two numbers"),
        ({"share_below_eps": {"features": 1.0}}, "share_below_eps is an object of two numbers"),
        ({"encoder": "e"}, "the same as rows[0]"),
    ],
)
def test_bad_rows_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidDataError, match=re.escape(words)):
        read_rows([row(), row(**{"encoder": "f", **change})])


def test_every_problem_of_the_rows_is_listed() -> None:
    with pytest.raises(InvalidDataError) as caught:
        read_rows([row(score=None), row(encoder="f", chance=None, model=None)])
    assert len(caught.value.problems) == 3


def test_main_combination_is_the_default_one_where_there_is_one() -> None:
    default, other = row(), row(prenorm_features="l2", prenorm_states="none")
    assert main_combination([other, default]) == ("none", "l2")
    assert main_combination([other]) == ("l2", "none")


def test_tables_hold_one_combination_each_model_apart() -> None:
    rows = read_rows([row(model="y", score=0.1), row(model="x"), row(model="x", prenorm_states="none", score=0.9)])
    assert {model: [r["score"] for r in table] for model, table in tables(rows, ("none", "l2")).items()} == {
        "x": [0.3],
        "y": [0.1],
    }


def test_ties_are_overlaps_with_the_interval_of_the_best() -> None:
    intervals = [[0.40, 0.50], [0.30, 0.40], [0.30, 0.39], None]
    assert ties([{"interval": interval} for interval in intervals]) == ["best", "tie", "below", "unknown"]
    assert ties([{"interval": None}, {"interval": [0.1, 0.2]}]) == ["best", "unknown"]


def test_a_warning_is_told_once_with_all_it_concerns() -> None:
    rows = [row(encoder=e, model=m, warnings=["w", e]) for e in "ab" for m in "xy"]
    assert warning_groups(rows) == [
        {"text": "w", "encoders": ["a", "b"], "models": ["x", "y"]},
        {"text": "a", "encoders": ["a"], "models": ["x", "y"]},
        {"text": "b", "encoders": ["b"], "models": ["x", "y"]},
    ]


def test_patch_matches_against_loops() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(9, 5)), rng.normal(size=(16, 5))
    b[3] = b[12] = a[4]  # an exact tie
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    match = match_patches("e", ("one", "two"), a, b)
    assert match.grids == (3, 4)
    for i in range(9):
        values = [round(float(a[i] @ b[j]), 9) for j in range(16)]
        assert match.best_of_a[i] == values.index(max(values))
        assert match.best_a[i] == pytest.approx(max(values), abs=1e-9)
    assert match.best_of_a[4] == 3
    for j in range(16):
        values = [round(float(a[i] @ b[j]), 9) for i in range(9)]
        assert match.best_of_b[j] == values.index(max(values))
    both = (np.mean([max(a[i] @ b.T) for i in range(9)]) + np.mean([max(b[j] @ a.T) for j in range(16)])) / 2
    assert match.chamfer == pytest.approx(both, abs=1e-8)
    strongest = match.strongest(3, 1)
    assert strongest[0] == 4
    assert len({patch // 3 for patch in strongest}) == len(strongest), "one in each row of the grid"
    assert len({int(match.best_of_a[patch]) for patch in strongest}) == len(strongest)
    similarities = [match.best_a[patch] for patch in strongest]
    assert similarities == sorted(similarities, reverse=True)
    assert len(match.strongest(3, 3)) == len(set(match.best_of_a.tolist())), "one for each patch of B that is matched"


def test_only_squares_are_grids() -> None:
    assert [square_side(tokens) for tokens in (1, 3, 4, 49, 50, 256)] == [None, None, 2, 7, None, 16]
    with pytest.raises(ValueError, match="square"):
        match_patches("e", ("one", "two"), np.eye(5)[:3], np.eye(5)[:4])


def test_examples_are_drawn_by_seed_and_never_more_than_there_are() -> None:
    assert choose_items(50, 4, 1) == choose_items(50, 4, 1) != choose_items(50, 4, 2)
    assert choose_items(3, 9, 0) == [0, 1, 2]


def test_shared_neighbours_count_all_k_not_only_those_shown() -> None:
    def graph(neighbours: list[list[int]]) -> Graph:
        found = np.array(neighbours, dtype=np.int32)
        return Graph(found, np.linspace(1, 0, found.size).reshape(found.shape), np.ones(1), np.ones(1))

    ids = ["a", "b", "c", "d", "e"]
    visual = graph([[1, 2, 3]] + [[0, 0, 0]] * 4)
    textual = {"x": graph([[4, 3, 1]] + [[0, 0, 0]] * 4), "y": graph([[4, 2, 3]] + [[0, 0, 0]] * 4)}
    (example,) = neighbour_examples(ids, {item: item.upper() for item in ids}, visual, textual, [0], shown=2)
    assert [(near["id"], near["text"], near["shared"]) for near in example["visual"]] == [
        ("b", "B", ["x"]),
        ("c", "C", ["y"]),
    ]
    assert [side["overlap"] for side in example["textual"]] == [2, 2]
    assert [near["shared"] for near in example["textual"][0]["neighbours"]] == [False, True]


def drawn(name: str) -> str:
    with styled():
        figure = Figure(figsize=(2, 1))
        axes = figure.add_subplot(title="a < b")
        axes.plot([1, 2, 3], marker="o", color=COLOURS["c1"])
        axes.imshow(np.eye(3))
        return inline_svg(figure, name=name, label='say "x" & y')


def test_a_plot_is_the_same_under_any_settings_and_fits_the_page() -> None:
    before = dict(mpl.rcParams)
    first = drawn("p")
    assert dict(mpl.rcParams) == before
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert drawn("p") == first
    assert 'aria-label="say &quot;x&quot; &amp; y"' in first
    assert "a &lt; b</text>" in first, "text stays text"
    assert "var(--c1)" in first
    assert not [colour for colour in COLOURS.values() if colour in first]
    assert "metadata" not in first
    assert "matplotlib" not in first.lower()


def test_two_plots_on_a_page_share_no_id() -> None:
    ids = [set(re.findall(r' id="([^"]+)"', drawn(name))) for name in ("p", "q")]
    assert ids[0]
    assert not ids[0] & ids[1]
    for name, found in zip("pq", ids, strict=True):
        svg = drawn(name)
        assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)) <= {(i, "") for i in found} | {
            ("", i) for i in found
        }


def decoded(uri: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))).convert("RGB")


def test_thumbnails_keep_the_shape_and_stand_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (100, 50), (255, 0, 0, 255)).save(tmp_path / "wide.png")
    Image.new("RGBA", (10, 10), (0, 0, 255, 0)).save(tmp_path / "clear.png")
    Image.new("L", (10, 10), 0).save(tmp_path / "grey.png")
    paths = {name: tmp_path / f"{name}.png" for name in ("wide", "clear", "grey", "same")}
    paths["same"] = paths["wide"]
    made = make_thumbnails(paths, ["wide", "clear", "wide", "same", "grey"], side=20)
    assert made.number == {"wide": 0, "clear": 1, "same": 0, "grey": 2}
    pixels = np.asarray(decoded(made.uris[0]))
    assert pixels.shape == (20, 20, 3)
    assert (pixels[0] == 255).all()
    assert (pixels[10] == (255, 0, 0)).all()
    assert (np.asarray(decoded(made.uris[1])) == 255).all(), "a transparent image is white, not what lies under it"
    assert read_rgb(paths["grey"]).mode == "RGB"


def test_thumbnails_name_every_image_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\nand no more")
    Image.new("RGB", (4, 4)).save(tmp_path / "good.png")
    paths = {name: tmp_path / f"{name}.png" for name in ("bad", "good", "gone")}
    with pytest.raises(InvalidDataError) as caught:
        make_thumbnails(paths, ["bad", "good", "gone"])
    assert [problem.where for problem in caught.value.problems] == ["bad", "gone"]


def test_numbers_and_names_as_the_pages_write_them() -> None:
    assert [formats.count(value) for value in (None, 0, 1234567, 46.83)] == ["–", "0", "1,234,567", "47"]
    assert [formats.signed(value) for value in (None, 0.0125, -0.2, 0)] == ["–", "+0.013", "−0.200", "+0.000"]
    assert [formats.share(value) for value in (0.05, 0.005, 1 / 3)] == ["5 %", "0.5 %", "33.3333 %"]
    assert [formats.span(value) for value in (None, [45, 45.2], [9, 1200])] == ["–", "45", "9–1,200"]
    names = list("abcdefgh")
    assert [formats.listed(names[:n]) for n in (0, 1, 2, 3)] == ["–", "a", "a and b", "a, b and c"]
    assert formats.listed(names) == "a, b, c, d, e, f and 2 more"


def test_the_energy_of_a_spectrum_is_told_in_words() -> None:
    drawn_energy = energy_plot([0.6, 0.9, 0.95, 1.0], name="energy")
    assert "the first holds 60 %, 3 hold 95 %" in drawn_energy
