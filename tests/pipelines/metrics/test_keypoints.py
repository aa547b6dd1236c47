"""Tables of keypoints, and the share of them that nearest patches find."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from labelled_inputs import make_inputs

from optotype.pipelines.metrics.keypoints import Keypoints, correspondence, read_keypoints
from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError

HEADER = "id_a,id_b,kp,x_a,y_a,x_b,y_b\n"


def table(folder: Path, text: str, name: str = "points.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def points(rows: list[tuple[str, str, str, float, float, float, float]]) -> Keypoints:
    places = np.array([row[3:] for row in rows], dtype=float)
    a, b, name = (tuple(row[column] for row in rows) for column in (0, 1, 2))
    return Keypoints(a, b, name, places[:, :2], places[:, 2:])


def slow_pck(patches: dict[str, np.ndarray], grid: tuple[int, int], keypoints: Keypoints, alpha: float) -> float:
    rows, columns = grid
    shares: dict[tuple[str, str], list[float]] = {}
    for n in range(len(keypoints.name)):
        first, second = patches[keypoints.id_a[n]], patches[keypoints.id_b[n]]
        column = min(int(keypoints.a[n, 0] * columns), columns - 1)
        row = min(int(keypoints.a[n, 1] * rows), rows - 1)
        query = first[row * columns + column]
        best, where = -math.inf, -1
        for cell, other in enumerate(second):
            norms = float(np.linalg.norm(query) * np.linalg.norm(other))
            cosine = round(float(query @ other) / norms, 12) if norms else 0.0
            if cosine > best:
                best, where = cosine, cell
        x, y = (where % columns + 0.5) / columns, (where // columns + 0.5) / rows
        near = round(math.hypot(x - keypoints.b[n, 0], y - keypoints.b[n, 1]), 12) <= alpha
        shares.setdefault((keypoints.id_a[n], keypoints.id_b[n]), []).append(float(near))
    return sum(sum(each) / len(each) for each in shares.values()) / len(shares)


def random_case(seed: int, grid: tuple[int, int], kind: str) -> tuple[list[np.ndarray], Keypoints]:
    rng = np.random.default_rng(seed)
    patches = [rng.standard_normal((grid[0] * grid[1], 4)).astype(np.float32) for _ in range(5)]
    if kind == "tied":
        patches = [np.round(each) for each in patches]
    if kind == "constant":
        patches = [np.ones_like(each) for each in patches]
    if kind == "zero":
        patches[1][:] = 0.0
    rows = []
    for number in range(40):
        a, b = rng.choice(5, 2, replace=False)
        xy = rng.choice([0.0, 1.0, 0.5, *rng.random(8)], 4)
        rows.append((f"i{a:03}", f"i{b:03}", f"k{number}", *map(float, xy)))
    return patches, points(sorted(rows))


@pytest.mark.parametrize("kind", ["random", "tied", "constant", "zero"])
@pytest.mark.parametrize("grid", [(3, 3), (2, 5), (1, 1)])
@pytest.mark.parametrize("alpha", [0.1, 0.35])
def test_correspondence_is_what_loops_find(kind: str, grid: tuple[int, int], alpha: float) -> None:
    patches, keypoints = random_case(0, grid, kind)
    inputs = make_inputs(np.ones((5, 4)), patches=patches, grid=grid)
    found = correspondence(inputs.features, keypoints, alpha=alpha)
    each = {f"i{number:03}": rows.astype(float) for number, rows in enumerate(patches)}
    assert found.value == pytest.approx(slow_pck(each, grid, keypoints, alpha), abs=1e-12)
    assert (found.points, found.left_out) == (40, 0)
    lazy = inputs.features.assign(
        patches=(("token", "channel"), da.from_array(inputs.features.patches.values, chunks=(3, 4)))
    )
    assert correspondence(lazy, keypoints, alpha=alpha) == found


def test_a_planted_shift_is_found_and_noise_is_not() -> None:
    rng = np.random.default_rng(1)
    codes = rng.standard_normal((16, 8))
    moved = np.roll(codes.reshape(4, 4, 8), 1, axis=1).reshape(16, 8)  # one column to the right
    rows = [
        ("i000", "i001", f"k{c}{r}", (c + 0.5) / 4, (r + 0.5) / 4, (c + 1.5) / 4, (r + 0.5) / 4)
        for c in range(3)
        for r in range(4)
    ]
    inputs = make_inputs(np.ones((2, 8)), patches=[codes, moved], grid=(4, 4))
    assert correspondence(inputs.features, points(rows), alpha=0.1).value == 1.0
    noise = make_inputs(np.ones((2, 8)), patches=[codes, rng.standard_normal((16, 8))], grid=(4, 4))
    assert correspondence(noise.features, points(rows), alpha=0.1).value < 0.5


def test_pairs_of_images_weigh_the_same_and_strangers_are_counted() -> None:
    patches = [np.eye(4), np.eye(4), np.eye(4)[::-1]]
    rows = [("i000", "i001", "p", 0.25, 0.25, 0.25, 0.25)]
    rows += [("i000", "i002", f"k{n}", 0.25, 0.25, 0.25, 0.25) for n in range(3)]
    rows += [("i000", "nobody", "p", 0.5, 0.5, 0.5, 0.5)]
    found = correspondence(make_inputs(np.ones((3, 4)), patches=patches, grid=(2, 2)).features, points(rows), alpha=0.1)
    assert (found.value, found.pairs, found.points, found.left_out) == (0.5, 2, 4, 1)


def test_the_grid_must_be_known() -> None:
    patches, keypoints = random_case(0, (2, 2), "random")
    unknown = make_inputs(np.ones((5, 4)), patches=patches).features
    with pytest.raises(UsageError, match="grid"):
        correspondence(unknown, keypoints, alpha=0.1)
    known = correspondence(unknown, keypoints, alpha=0.1, grid="2x2")
    stated = make_inputs(np.ones((5, 4)), patches=patches, grid=(2, 2)).features
    assert known == correspondence(stated, keypoints, alpha=0.1)
    for wrong, where in (("4x1", stated), ("3x3", unknown), ("x", unknown), ("0x4", unknown)):
        with pytest.raises(UsageError, match="grid"):
            correspondence(where, keypoints, alpha=0.1, grid=wrong)
    ragged = make_inputs(np.ones((2, 4)), patches=[np.ones((4, 4)), np.ones((3, 4))], grid=(2, 2)).features
    with pytest.raises(UsageError, match="3 to 4"):
        correspondence(ragged, keypoints, alpha=0.1)


def test_no_pair_among_the_items_and_bad_patches_are_refused() -> None:
    patches, keypoints = random_case(0, (2, 2), "random")
    with pytest.raises(UsageError, match="no two images"):
        correspondence(make_inputs(np.ones((1, 4)), patches=patches[:1], grid=(2, 2)).features, keypoints, alpha=0.1)
    patches[2][0, 0] = np.nan
    with pytest.raises(InvalidDataError, match="i002"):
        correspondence(make_inputs(np.ones((5, 4)), patches=patches, grid=(2, 2)).features, keypoints, alpha=0.1)


class TestTable:
    def test_parts_of_the_sides_and_pixels_say_the_same(self, tmp_path: Path) -> None:
        parts = read_keypoints(table(tmp_path, HEADER + "b,a,eye,0.5,0.25,1,0\na,b,eye,0,1,0.125,0.75\n"))
        assert (parts.id_a, parts.id_b, parts.name) == (("a", "b"), ("b", "a"), ("eye", "eye"))
        assert parts.a.tolist() == [[0.0, 1.0], [0.5, 0.25]]
        assert parts.b.tolist() == [[0.125, 0.75], [1.0, 0.0]]
        rows = [
            {"id_a": "b", "id_b": "a", "kp": "eye", "x_a": 50, "y_a": 20, "x_b": 30, "y_b": 0},
            {"id_a": "a", "id_b": "b", "kp": "eye", "x_a": 0, "y_a": 60, "x_b": 12.5, "y_b": 60},
        ]
        sizes = [
            {"width_a": 100, "height_a": 80, "width_b": 30, "height_b": 60},
            {"width_a": 30, "height_a": 60, "width_b": 100, "height_b": 80},
        ]
        lines = "".join(json.dumps({**row, **size}) + "\n" for row, size in zip(rows, sizes, strict=True))
        pixels = read_keypoints(table(tmp_path, lines, "points.jsonl"))
        assert (pixels.id_a, pixels.name) == (parts.id_a, parts.name)
        assert np.array_equal(pixels.a, parts.a)
        assert np.array_equal(pixels.b, parts.b)

    def test_every_problem_is_listed(self, tmp_path: Path) -> None:
        text = HEADER + "a,,eye,0.5,0.5,0.5,0.5\na,b,eye,0.5,oops,12,-0.1\na,b,ear,nan,0,0,0\na,b,eye,0,0,0,0\n"
        with pytest.raises(InvalidDataError) as caught:
            read_keypoints(table(tmp_path, text))
        assert [(problem.where, problem.kind) for problem in caught.value.problems] == [
            ("id_b[0]", "blank"),
            ("y_a[1]", "outside"),
            ("x_b[1]", "outside"),
            ("y_b[1]", "outside"),
            ("x_a[2]", "outside"),
            ("kp[3]", "repeat"),
        ]

    @pytest.mark.parametrize("size", ["0", "-3", "inf", "nan", "", "wide"])
    def test_pixels_need_sizes(self, tmp_path: Path, size: str) -> None:
        header = HEADER.strip() + ",width_a,height_a,width_b,height_b\n"
        with pytest.raises(InvalidDataError, match="a side is above 0"):
            read_keypoints(table(tmp_path, header + f"a,b,eye,1,1,1,1,9,9,9,{size}\n"))

    def test_pixels_need_all_sizes(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidDataError, match="height_a, height_b: pixels need all of"):
            read_keypoints(table(tmp_path, HEADER.strip() + ",width_a,width_b\na,b,eye,1,1,1,1,9,9\n"))

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("", InvalidDataError),
            (HEADER, InvalidDataError),
            ("id_a,id_b\nx,y\n", InvalidDataError),
            ("\x00\x01", InvalidDataError),
            (HEADER + "a,b,eye,1,1,1,1,1,1\n", FormatError),
        ],
    )
    def test_what_is_no_table_is_refused(self, tmp_path: Path, text: str, error: Any) -> None:
        with pytest.raises(error):
            read_keypoints(table(tmp_path, text))
        with pytest.raises(NotFoundError):
            read_keypoints(tmp_path / "nothing.csv")
        with pytest.raises(UsageError):
            read_keypoints(table(tmp_path, text, "points.txt"))
