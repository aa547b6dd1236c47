"""The page of an evaluation over a real small panel: numbers, words, bytes, errors, and a look with a browser."""

from __future__ import annotations

import copy
import json
import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words
from panels import make_panel

from optotype.pipelines.evaluation.evaluate import evaluate
from optotype.pipelines.evaluation.plan import Options
from optotype.registry.cli.root import cli
from optotype.registry.evaluations import write_evaluation
from optotype.registry.report.evaluation.grids import grid, main_retention
from optotype.registry.report.evaluation.page import render
from optotype.registry.report.evaluation.report import write_evaluation_report
from optotype.registry.report.evaluation.verdict import against, verdicts
from optotype.schemas.errors import FormatError, NotFoundError

SELECTORS = ("vaw", "variance", "random")
RETENTIONS = (0.1, 0.3)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Every protocol but variants, over 24 models and four categories, one of which is always kept whole."""
    panel = make_panel(
        {"a": 40, "b": 30, "c & <d>": 36, "e": 24, "f": 3},
        models=24,
        blind=2,
        missing=0.05,
        families=[f"f{number % 4}" for number in range(24)],
        release_dates=[f"2024-{number // 2 + 1:02d}" for number in range(24)],
        chunk=200,
        seed=3,
    )
    options = Options(selectors=SELECTORS, retentions=RETENTIONS, splits=3, floor=4, k=2, resamples=50)
    return evaluate(panel, options, workers=1)


@pytest.fixture(scope="module")
def written(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("evaluation")
    write_evaluation(document, out)
    write_evaluation_report(out, out)
    return out


@pytest.fixture(scope="module")
def page(written: Path) -> str:
    return (written / "evaluation.html").read_text(encoding="utf-8")


def _table(page: str, label: str) -> str:
    found = re.search(rf'aria-label="{re.escape(label)}".*?</table>', page, re.S)
    assert found is not None, label
    return found[0]


def _rows(table: str) -> dict[str, list[str]]:
    """Cells of a table without their tags, by the name of the row."""
    lines = re.findall(r'<tr[^>]*><th class="pin" scope="row">(.*?)</th>(.*?)</tr>', table, re.S)
    plain = re.compile(r"<[^>]*>")
    return {
        plain.sub("", name): [plain.sub("", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", cells, re.S)]
        for name, cells in lines
    }


def test_the_page_shows_every_mean_with_its_k(document: dict[str, Any], page: str) -> None:
    summary = [row for row in document["tables"]["held_out_summary"] if row["protocol"] == "held-out"]
    assert len(summary) == len(SELECTORS) * len(RETENTIONS)
    whole = _rows(_table(page, "ρ by selector and retention"))
    for row in summary:
        place = RETENTIONS.index(row["retention"])
        assert whole[row["selector"]][place] == f"{row['mean']:.3f} ± {row['sd']:.3f}"
        own = _rows(_table(page, f"Selectors at {100 * row['retention']:g} %"))[row["selector"]]
        assert own[:2] == [f"{row['mean']:.3f}", f"{row['sd']:.3f}"]
        assert own[3:8] == [
            str(row["wins"]), str(row["splits"]), f"{row['K']:.0f}", f"{row['min']:.3f}", f"{row['max']:.3f}",
        ]  # fmt: skip
        assert f"{100 * row['retention']:g} % (K {row['K']:.0f})" in page


def test_categories_kept_whole_are_marked(document: dict[str, Any], page: str) -> None:
    assert any(row["whole"] for row in document["tables"]["held_out_categories"])
    rows = _rows(_table(page, "Categories at 10 %"))
    assert rows["f whole"][-4:] == ["–", "–", "–", "3"], "no ρ of it counts, on any of the 3 splits"
    assert rows["a"][:2] == [str(document["tables"]["held_out_categories"][0]["n"]), "4"]
    assert "c &amp; &lt;d&gt;" in page
    assert "<d>" not in page


def test_the_mean_error_is_over_benchmarks_with_every_size(document: dict[str, Any], page: str) -> None:
    rows = document["tables"]["left_out"]
    last = max(row["training"] for row in rows)
    targets = {row["target"] for row in rows if row["training"] == last}
    assert all({row["training"] for row in rows if row["target"] == name} >= {1, last} for name in targets)
    expected = np.mean([row["mae"] for row in rows if row["training"] == last])
    assert f"With {last} training models the errors are {expected:.3f} and" in page


def test_a_row_that_keeps_everything_is_never_the_bold_one(page: str, document: dict[str, Any]) -> None:
    table = _table(page, "End to end, with stage 3")
    others = {row["selector"] for row in document["tables"]["end_to_end_summary"]} - set(SELECTORS)
    assert len(others) == 1
    line = next(line for line in table.split("<tr>") if others.copy().pop() in line)
    assert "top" not in line
    assert table.count('class="top"') >= len(RETENTIONS)


def test_every_protocol_that_was_run_has_a_section(document: dict[str, Any], page: str) -> None:
    for name in ("held-out", "chronological", "end-to-end", "shelf-life", "left-out", "cross-family", "intervals"):
        assert f'<h2 id="{name}">' in page
    assert '<h2 id="variants">' not in page
    assert document["warnings"]
    for text in document["warnings"]:
        assert f"<li>{escape(text)}</li>" in page


def _row(gap: float | None, sd: float | None, ahead: int, splits: int = 20, selector: str = "vaw") -> dict[str, Any]:
    return {
        "selector": selector, "minus_baseline": gap, "minus_baseline_sd": sd, "ahead_of_baseline": ahead,
        "splits": splits,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "fewest", "expected"),
    [
        (_row(0.05, 0.02, 20), 15, "ahead"),
        (_row(0.05, 0.02, 18), 15, "ahead"),
        (_row(0.05, 0.02, 17), 15, "even"),
        (_row(0.05, 0.06, 20), 15, "even"),
        (_row(-0.05, 0.02, 0), 15, "behind"),
        (_row(-0.05, 0.02, 2), 15, "behind"),
        (_row(-0.05, 0.02, 3), 15, "even"),
        (_row(0.05, 0.02, 20), 9, "unknown"),
        (_row(0.05, 0.02, 20), None, "unknown"),
        (_row(0.05, None, 1, 1), 15, "unknown"),
        (_row(None, None, 0, 0), 15, "unknown"),
        (_row(None, None, 0, selector="random"), 15, "baseline"),
    ],
)
def test_ahead_takes_more_than_the_spread_and_most_splits(
    row: dict[str, Any], fewest: int | None, expected: str
) -> None:
    assert against(row, "random", fewest) == expected


def test_few_held_out_models_support_no_ranking(document: dict[str, Any]) -> None:
    few = copy.deepcopy(document)
    for row in few["tables"]["held_out_splits"]:
        row["held_out"] = 8
    (only,) = verdicts(few)
    assert "8 held-out models" in only
    assert "no ranking of selectors" in only
    page = render(few, "t")
    assert "not judged" in page
    assert "▲ ahead</span>" not in page


def test_the_words_say_what_the_numbers_say(document: dict[str, Any]) -> None:
    made = copy.deepcopy(document)
    values = {"vaw": (0.7, -0.1, 0), "variance": (0.9, 0.1, 3), "random": (0.8, None, 0)}
    for row in made["tables"]["held_out_summary"]:
        mean, gap, ahead = values[row["selector"]]
        row |= {"mean": mean, "sd": 0.01, "minus_baseline": gap, "minus_baseline_sd": gap and 0.01}
        row |= {"ahead_of_baseline": ahead, "K": 40.0}
    told = verdicts(made)
    assert "Only 3 splits were drawn" in told[1]
    assert "K is the same at 10 % and 30 %" in told[2]
    assert told[3] == (
        "At 10 % (K 40): variance has the highest mean ρ, 0.900. Ahead of random: variance. Behind random: vaw."
    )
    made["parameters"]["baseline"] = None
    assert "Without random items nothing says" in verdicts(made)[3]


def test_nothing_counted_and_nothing_run_are_said(document: dict[str, Any]) -> None:
    made = copy.deepcopy(document)
    for row in made["tables"]["held_out_splits"]:
        row |= {"counted": 0, "held_out": 0, "rho": None}
    for row in made["tables"]["held_out_summary"]:
        row |= dict.fromkeys(("mean", "sd", "min", "max", "minus_baseline", "minus_baseline_sd"))
    assert "No ρ counts" in verdicts(made)[0]
    assert "undefined" in render(made, "t")
    bare = {**document, "tables": {}}
    assert "No random splits" in verdicts(bare)[0]
    page = render(bare, "t")
    assert "Not run." in page
    check_ids(page)


def test_a_grid_marks_the_largest_of_those_compared() -> None:
    rows = [
        {"selector": name, "retention": retention, "mean": mean, "K": kept}
        for name, retention, mean, kept in (
            ("one", 0.1, 0.5, 10), ("two", 0.1, 0.5, 12), ("all", 0.1, 1.0, 99), ("one", 0.2, None, 20),
        )
    ]  # fmt: skip
    made = grid(rows, ["one", "two", "none", "all"], [0.1, 0.2], among=["one", "two"])
    assert [column["K"] for column in made["columns"]] == [[10, 12], [20, 20]]
    assert [line["selector"] for line in made["lines"]] == ["one", "two", "all"]
    marks = [[cell and cell["top"] for cell in line["cells"]] for line in made["lines"]]
    assert marks == [[True, False], [True, None], [False, None]]
    assert [main_retention(values) for values in ([0.01, 0.05], [0.5], [0.02, 0.1])] == [0.05, 0.5, 0.02]


def test_equal_input_gives_equal_bytes(document: dict[str, Any], written: Path, tmp_path: Path) -> None:
    write_evaluation(document, tmp_path / "evaluation")
    told = write_evaluation_report(tmp_path / "evaluation", tmp_path / "out")
    again = (tmp_path / "out" / "evaluation.html").read_bytes()
    assert again == (written / "evaluation.html").read_bytes()
    assert str(tmp_path).encode() not in again
    assert told["selectors"] == 3
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["evaluation.html"]


def test_the_page_stands_alone_and_is_in_order(page: str) -> None:
    check_self_contained(page)
    check_ids(page)
    assert check_words(page) >= 5


def test_nothing_overflows_on_a_phone(page: str, tmp_path: Path) -> None:
    check_fits_a_phone(page, tmp_path)


def test_the_command_writes_the_page_and_says_where(written: Path, tmp_path: Path) -> None:
    words = ["report", "evaluation", "--evaluation", str(written), "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(cli, words, prog_name="optotype")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["html"] == str(tmp_path / "evaluation.html")
    assert (tmp_path / "evaluation.html").read_bytes() == (written / "evaluation.html").read_bytes()


def test_what_is_no_evaluation_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="optotype evaluate"):
        write_evaluation_report(tmp_path, tmp_path / "out")
    damaged = copy.deepcopy(document)
    del damaged["tables"]["held_out_summary"][0]["wins"]
    for content, words in (
        ("[]", "JSON object"),
        (json.dumps({**document, "format_version": 99}), "99"),
        (json.dumps({**document, "kind": "compression"}), "kind"),
        (json.dumps({key: value for key, value in document.items() if key != "tables"}), "tables"),
        (json.dumps(damaged), "wins"),
    ):
        (tmp_path / "evaluation.json").write_text(content)
        with pytest.raises(FormatError, match=words):
            write_evaluation_report(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
