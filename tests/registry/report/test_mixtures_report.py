"""The page of mixtures: self-contained, the numbers of its ranking, and no more claimed than they show."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words

from optotype.registry.cli.root import cli
from optotype.registry.rankings import write_ranking
from optotype.registry.report.mixtures.report import write_mixtures_report
from optotype.registry.report.mixtures.sweeps import sweeps, verdict
from optotype.schemas.errors import FormatError, NotFoundError


def _row(
    model: str, alpha: float | None, score: float, *, half: float | None = 0.01, norms: str = "none"
) -> dict[str, Any]:
    kind = "interleaved" if alpha is None else "additive"
    ratio = None if alpha is None else 1 - alpha
    return {
        "encoder": f"mof-{alpha}", "model": model, "score": score, "adjusted": score / 2, "chance": 0.2,
        "n": 40, "k": 8,
        "interval": None if half is None else [score - half, score + half], "prenorm_features": norms,
        "prenorm_states": "l2",
        "mixture": {"kind": kind, "alpha": alpha, "ssl_ratio": ratio, "a": "clip <l14>", "b": "dinov2"},
    }  # fmt: skip


def _rows(**options: Any) -> list[dict[str, Any]]:
    scores = {1.0: 0.30, 0.5: 0.40, 0.0: 0.31, None: 0.35}
    made = [_row(model, alpha, score, **options) for model in ("lm-b", "lm-a") for alpha, score in scores.items()]
    made.append({**_row("lm-a", 0.5, 0.2), "mixture": None, "encoder": "clip"})
    made.append(_row("lm-a", 0.5, 0.9, norms="l2"))
    del made[-2]["mixture"]
    return made


def test_sweeps_hold_the_rows_by_ratio() -> None:
    first, second = sweeps(_rows())
    assert [first["model"], second["model"]] == ["lm-a", "lm-b"]
    assert [(point["ssl_ratio"], point["score"]) for point in first["additive"]] == [(0, 0.30), (0.5, 0.40), (1, 0.31)]
    assert first["interleaved"]["score"] == 0.35
    assert sweeps([]) == []


@pytest.mark.parametrize(
    ("scores", "half", "said"),
    [
        ({1.0: 0.30, 0.5: 0.40, 0.0: 0.31}, 0.01, "the intervals are apart"),
        ({1.0: 0.30, 0.5: 0.32, 0.0: 0.31}, 0.01, "does not tell them apart"),
        ({1.0: 0.30, 0.5: 0.32, 0.0: 0.31}, None, "Without intervals"),
        ({1.0: 0.30, 0.5: 0.30, 0.0: 0.41}, 0.01, "no mixture is better"),
        ({1.0: 0.30, 0.5: 0.40}, 0.01, "not both in the sweep"),
        ({1.0: 0.30, 0.0: 0.31, None: 0.5}, 0.01, "that of interleaving, 0.5000"),
    ],
)
def test_the_verdict_claims_no_more_than_the_intervals(
    scores: dict[float | None, float], half: float | None, said: str
) -> None:
    (sweep,) = sweeps([_row("lm", alpha, score, half=half) for alpha, score in scores.items()])
    assert said in verdict(sweep)


@pytest.mark.parametrize("half", [0.01, None])
def test_page(half: float | None, tmp_path: Path) -> None:
    write_ranking(_rows(half=half), tmp_path / "ranking")
    told = write_mixtures_report(tmp_path / "ranking" / "ranking.json", tmp_path / "one")
    assert (told["sweeps"], told["points"]) == (2, 8)
    page = Path(told["html"]).read_text()
    check_self_contained(page)
    check_ids(page)
    assert check_words(page) == 2
    assert "clip &lt;l14&gt;" in page
    check_fits_a_phone(page, tmp_path)
    rows = list(csv.DictReader(Path(told["csv"]).read_text().splitlines()))
    assert {(row["model"], row["ssl_ratio"]): float(row["score"]) for row in rows}["lm-a", "0.5"] == 0.40
    assert json.loads(Path(told["json"]).read_text())["sweeps"] == sweeps(_rows(half=half))
    again = write_mixtures_report(tmp_path / "ranking" / "ranking.json", tmp_path / "two")
    for name in ("html", "json", "csv"):
        assert Path(again[name]).read_bytes() == Path(told[name]).read_bytes()


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        write_mixtures_report(tmp_path / "none.json", tmp_path)
    plain = [{key: value for key, value in row.items() if key != "mixture"} for row in _rows()]
    write_ranking(plain, tmp_path / "plain")
    with pytest.raises(FormatError, match="no row of this ranking is of a mixture"):
        write_mixtures_report(tmp_path / "plain" / "ranking.json", tmp_path)
    broken = tmp_path / "broken.json"
    broken.write_text('{"format_version": 1, "kind": "ranking", "rows": [{"mixture": {}}]}')
    with pytest.raises(FormatError, match="not whole"):
        write_mixtures_report(broken, tmp_path)


def test_command(tmp_path: Path) -> None:
    write_ranking(_rows(), tmp_path)
    words = ["report", "mixtures", "--ranking", str(tmp_path / "ranking.json"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["points"] == 8
    assert CliRunner().invoke(cli, words).stdout.count("mixtures.") == 3
