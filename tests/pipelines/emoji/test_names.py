"""Names of emoji as tasks: which half, which candidates, and what counts as right."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from optotype.pipelines.emoji.names import read_names, task_tables, write_names
from optotype.pipelines.emoji.probe.halves import halves, repeats
from optotype.schemas.errors import ConflictError, InvalidDataError, UsageError


def write_table(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """``pairs.csv`` out of rows with ``id``, ``colour`` (of the image), ``text``, ``group`` and names."""
    (folder / "images").mkdir(parents=True)
    names = [name for name in rows[0] if name.startswith("name_")]
    with (folder / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "image", "text", "group", *names], extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            Image.new("RGB", (4, 4), (row["colour"] % 256, row["colour"] // 256, 9)).save(
                folder / "images" / f"{row['id']}.png"
            )
            writer.writerow({**row, "image": f"images/{row['id']}.png"})
    return folder / "pairs.csv"


def rows_of(n: int = 24, **change: dict[int, Any]) -> list[dict[str, Any]]:
    made = [
        {
            "id": f"e{i:02d}", "colour": i, "text": f"thing {i}, alias {i}", "group": "g" if i % 2 else "h",
            "name_en": f"thing {i}", "name_de": f"ding {i}",
        }
        for i in range(n)
    ]  # fmt: skip
    for column, values in change.items():
        for i, value in values.items():
            made[i][column] = value
    return made


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_tasks_are_over_the_half_that_probes_do_not_see(tmp_path: Path, seed: int) -> None:
    table = write_table(tmp_path / "pairs", rows_of())
    named = read_names(table, ("en", "de"))
    tables = task_tables(named, seed)
    train = halves(named.pairs.groups, repeats(named.pairs.texts, named.pairs.pixels), seed)
    held_out = {emoji for emoji, fitted in zip(named.pairs.ids, train, strict=True) if not fitted}
    assert len(held_out) == 12
    for side in ("queries", "candidates"):
        assert {row["item"] for row in tables[side]} == held_out
        assert len(tables[side]) == 12 * 2 * 2
    assert len(tables["relevance"]) == len(tables["queries"])
    for row in tables["queries"]:
        image = row["task"] == "i2t"
        assert row["embedding"] == (row["item"] if image else f"{row['language']}/{row['item']}")
        assert (row["text"] == "") is image
        assert (row["image"] == "") is not image


def slow_right(table: Path, language: str, task: str, held_out: list[str]) -> dict[str, set[str]]:
    """By emoji: what its query has to find, by plain reading: names as texts, images as pixels."""
    rows = {row["id"]: row for row in read(table) if row["id"] in held_out}
    pixels = {}
    for name in rows:
        with Image.open(table.parent / "images" / f"{name}.png") as image:
            pixels[name] = image.convert("RGB").tobytes().hex()
    names = {name: row[f"name_{language}"] for name, row in rows.items()}
    shown, wanted = (pixels, names) if task == "i2t" else (names, pixels)
    return {
        one: {wanted[other] for other in rows if shown[other] == shown[one] and names[other]}
        for one in rows
        if names[one]
    }


def test_twins_are_right_and_nameless_are_not_asked(tmp_path: Path) -> None:
    # All of one caption: they stay in one half, the one that the seed says. 3, 4: one image. 5, 6: one German name.
    same = dict.fromkeys(range(3, 9), "one caption")
    table = write_table(
        tmp_path / "pairs",
        rows_of(text=same, group=dict.fromkeys(range(24), "g"), colour={4: 3}, name_de={6: "ding 5", 7: ""}),
    )
    named = read_names(table, ("de", "en"))
    for seed in range(20):
        tables = task_tables(named, seed)
        held_out = sorted({row["item"] for row in tables["candidates"]})
        if "e03" in held_out:
            break
    assert {"e03", "e04", "e05", "e06", "e07"} <= set(held_out)
    target = {row["candidate"]: row["target"] for row in tables["candidates"]}
    pixels = dict(zip(named.pairs.ids, named.pairs.pixels, strict=True))
    for language in ("de", "en"):
        for task in ("i2t", "t2i"):
            expected = slow_right(table, language, task, held_out)
            asked = [r for r in tables["queries"] if (r["task"], r["language"]) == (task, language)]
            assert [row["item"] for row in asked] == sorted(expected)
            for row in asked:
                found = [target[r["candidate"]] for r in tables["relevance"] if r["query"] == row["query"]]
                assert len(found) == len(set(found)), "of equal candidates one is named"
                assert len(found) == len(expected[row["item"]])
                if task == "i2t":
                    assert set(found) == expected[row["item"]]
                else:
                    assert pixels[row["item"]] in found
    offered = [r["item"] for r in tables["candidates"] if (r["task"], r["language"]) == ("i2t", "de")]
    assert "e07" not in offered
    assert "e07" in [r["item"] for r in tables["candidates"] if (r["task"], r["language"]) == ("t2i", "de")]


def test_files(tmp_path: Path) -> None:
    table = write_table(tmp_path / "pairs", rows_of(name_de={1: " "}))
    told = write_names(tmp_path / "names", table, languages=("en", "de"), seed=2)
    names = read(tmp_path / "names" / "names.csv")
    assert len(names) == told["names"] == 24 + 23
    assert names[0] == {"id": "en/e00", "text": "thing 0", "language": "en", "emoji": "e00"}
    assert told["left_out"] == {"en": [], "de": ["e01"]}
    assert json.loads((tmp_path / "names" / "SOURCE.json").read_text()) == told
    assert "(de: 1)" in (tmp_path / "names" / "README.md").read_text()
    for name, key in (("queries", "queries"), ("candidates", "candidates")):
        assert len(read(tmp_path / "names" / f"{name}.csv")) == told[key]
    before = {path.name: path.read_bytes() for path in (tmp_path / "names").iterdir()}
    write_names(tmp_path / "names", table, languages=("en", "de"), seed=2)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "names").iterdir()}
    write_names(tmp_path / "other", table, languages=("en", "de"), seed=3)
    assert (tmp_path / "other" / "names.csv").read_bytes() == before["names.csv"], "the seed is of the halves alone"
    assert (tmp_path / "other" / "queries.csv").read_bytes() != before["queries.csv"]


def test_refusals(tmp_path: Path) -> None:
    table = write_table(tmp_path / "pairs", rows_of(name_de=dict.fromkeys(range(24), "")))
    with pytest.raises(InvalidDataError) as both:
        read_names(table, ("en", "fr", "pt"))
    assert [problem.where for problem in both.value.problems] == ["name_fr", "name_pt"]
    with pytest.raises(UsageError, match="twice: en"):
        read_names(table, ("en", "de", "en"))
    with pytest.raises(UsageError, match="no language"):
        read_names(table, ())
    with pytest.raises(InvalidDataError, match="nothing to ask"):
        write_names(tmp_path / "names", table, languages=("en", "de"))
    with pytest.raises(UsageError, match="seed"):
        write_names(tmp_path / "names", table, languages=("en",), seed=-1)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("mine")
    with pytest.raises(ConflictError):
        write_names(tmp_path / "mine", table, languages=("en",))
    assert not (tmp_path / "names").exists()
    assert np.all([path.name == "work.txt" for path in (tmp_path / "mine").iterdir()])
