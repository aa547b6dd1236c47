"""The page of a judgement: self-contained, its numbers those of the judgement, no more claimed than they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from judged import planted, predicted, reached
from pages import check_fits_a_phone, check_ids, check_self_contained, check_words

from optotype.pipelines.judging.costs import Known
from optotype.pipelines.judging.judge import judge
from optotype.registry.cli.root import cli
from optotype.registry.judgements import write_judgement
from optotype.registry.report.judgement.report import write_judgement_report
from optotype.registry.report.judgement.verdict import DROPPED, LEVEL, verdicts
from optotype.schemas.errors import FormatError, NotFoundError

NOISE = {
    "ravel": 0.2,
    "ravel-pooled-raw": 2.0,
    "ravel-pooled-whitened": 0.5,
    "ravel-patch-raw": 1.0,
    "T-ACC <b>": 30.0,
}
SOURCES: dict[str, Any] = {
    "rankings": [{"name": "ranking.json", "digest": "sha256:" + "a" * 64}],
    "downstream": {"name": "downstream.csv", "digest": "sha256:" + "b" * 64},
    "costs": None,
}


def _document(**options: Any) -> dict[str, Any]:
    predictions, outcomes = planted(10, NOISE, models=("lm-a", "lm-b & c"))
    rows = [
        each.__class__(
            each.metric, each.encoder, each.model, each.score + 0.1 * number * hash_free(each.encoder),
            {**each.settings, "k": k, "n": 40, "gamma": gamma},
        )
        for number, (k, gamma) in enumerate([(100, 1.0), (50, 1.0), (150, 1.0), (100, 0.0), (100, 0.5)])
        for each in predictions
        if number == 0 or each.metric == "ravel"
    ]  # fmt: skip
    known = {f"e{number:02d}": Known(8, 4) for number in range(10)} | {"lm-a": Known(6), "lm-b & c": Known(7)}
    document = judge(rows, outcomes, bootstrap=50, pool_repeats=5, known=known, **options)
    document["parameters"]["rename"] = {}
    document["sources"] = SOURCES
    return document


def hash_free(name: str) -> float:
    """A number in [-1, 1] that is the same on every run."""
    return (int(name[1:]) * 7 % 11) / 5 - 1


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return _document()


def test_page(document: dict[str, Any], tmp_path: Path) -> None:
    write_judgement(document, tmp_path / "judgement")
    told = write_judgement_report(tmp_path / "judgement" / "judgement.json", tmp_path / "one")
    assert (told["metrics"], told["results"], told["encoders"], told["models"]) == (5, 9, 10, 2)
    page = Path(told["html"]).read_text()
    check_self_contained(page)
    check_ids(page)
    # Forests and ablations of two language models and their mean, k and γ, five pools, costs, points for each model.
    assert check_words(page) == 3 + 3 + 2 + 5 + 1 + 2
    # Plots stand in rows over their table, and the names of axes over them, not turned.
    assert page.count('<div class="plots three">') == 5
    assert 'side-by-side"' not in page
    assert "rotate(-90" not in page
    assert "T-ACC &lt;b&gt;" in page
    assert "This is a small pool: 10 encoders." in page
    for row in document["rows"]:
        if row["main"]:
            assert f"{row['rho']:.3f}".replace("-", "−") in page
    assert "0.194" in page  # printed in the paper
    assert "4nMd² + 9d³" in page
    check_fits_a_phone(page, tmp_path)
    again = write_judgement_report(tmp_path / "judgement", tmp_path / "two")
    assert Path(again["html"]).read_bytes() == Path(told["html"]).read_bytes()


def test_a_bare_judgement_has_a_page_too(tmp_path: Path) -> None:
    """One metric, one language model, no resamples, no costs, nothing varied."""
    document = judge(predicted({"m": {"lm": [1, 2, 4]}}), reached({"lm": [3, 1, 2]}), bootstrap=0, curves=["pool"])
    document["parameters"]["rename"] = {"a": "b"}
    document["sources"] = SOURCES
    write_judgement(document, tmp_path)
    page = Path(write_judgement_report(tmp_path, tmp_path)["html"]).read_text()
    check_self_contained(page)
    check_ids(page)
    check_words(page)
    assert page.count('<div class="side-by-side">') == 1
    assert "no ρ" in page
    assert "--rename a=b" in page


def test_a_metric_that_is_silent_on_a_language_model_stands_last_and_without_a_mean(tmp_path: Path) -> None:
    values = {"m": {"lm-a": [1, 2, 4], "lm-b": [1, 2, 0]}, "half": {"lm-a": [2, 1, 4]}}
    document = judge(predicted(values), reached({"lm-a": [3, 1, 2], "lm-b": [1, 2, 3]}), partial=True, bootstrap=9)
    document["parameters"]["rename"] = {}
    document["sources"] = SOURCES
    write_judgement(document, tmp_path)
    page = Path(write_judgement_report(tmp_path, tmp_path)["html"]).read_text()
    assert "half has no mean, as it says nothing of lm-b" in page
    assert "--partial" in page


def test_the_verdict_claims_no_more_than_the_intervals(document: dict[str, Any]) -> None:
    said = verdicts(document)
    assert said[0].startswith("This is a small pool")
    assert any(text.startswith("ravel has the highest ρ") for text in said)
    assert any("told too favourably" in text for text in said)
    clear = next(text for text in said if text.startswith("The interval of the difference is above 0 for"))
    near = next((text for text in said if text.startswith("It is not told apart from")), "")
    for row in document["comparisons"]:
        if row["statistic"] == "rho":
            assert (row["other"] in clear) == (row["low"] > 0 and row["p"] < LEVEL)
            assert (row["other"] in near) == (row["low"] <= 0)
    bare = judge(*planted(6, {"a": 0.1, "b": 3.0}), bootstrap=0)
    assert any("Without resamples nothing says" in text for text in verdicts(bare))


def _said(values: dict[str, Any], outcomes: Any, **options: Any) -> list[str]:
    metrics = {name: {"lm": scores} for name, scores in values.items()}
    return verdicts(judge(predicted(metrics), reached({"lm": outcomes}), pool_repeats=2, **options))


def test_equal_metrics_tie_and_are_never_behind() -> None:
    line = [0, 1, 2, 3, 4, 5]
    said = _said(
        {"a": line, "ravel": [value**2 for value in line], "b": [-value for value in line]}, [0, 1, 3, 2, 4, 5]
    )
    assert any(text.startswith("a and ravel tie for the highest ρ, 0.943 (lm)") for text in said)
    assert any(text.startswith("RAVEL is number 1 of 3") and text.endswith("a ties with it.") for text in said)
    assert not any("behind" in text for text in said)
    only = _said({"a": line, "c": [value**2 for value in line]}, [0, 1, 3, 2, 4, 5])
    assert not any("told apart" in text or "too favourably" in text or "noise" in text for text in only)


@pytest.mark.parametrize("count", [3, 4])
def test_pools_in_which_no_rho_is_rare_claim_nothing(count: int) -> None:
    said = _said({"a": list(range(count)), "b": [1, 0, *range(2, count)]}, list(range(count)))
    assert len(said) == 2
    assert said[1] == f"Nothing is concluded from {count} encoders."


def test_nothing_above_0_is_said_to_be_so() -> None:
    line = [0, 1, 2, 3, 4, 5]
    down, other = [-value for value in line], [5, 4, 3, 2, 0, 1]
    assert any(text.startswith("Every ρ is negative") for text in _said({"a": down, "b": other}, line))
    said = _said({"a": [0, 1, 2, 2, 1, 0], "b": down}, line)
    assert any(text.startswith("No ρ is above 0") for text in said)
    assert not any("ρ is negative" in text or "No ρ is" in text for text in _said({"a": line}, line))


def test_an_interval_above_0_is_believed_with_its_p_and_whole_resamples_alone() -> None:
    document = judge(*planted(8, {"a": 0.05, "b": 9.0}, models=("lm",)), bootstrap=100, pool_repeats=2)
    own = next(row for row in document["rows"] if row["label"] == "a" and row["model"] == "mean")
    gap = next(row for row in document["comparisons"] if row["statistic"] == "rho")
    own |= {"rho_low": 0.1, "rho_p": 0.01, "rho_resamples": 100}
    gap |= {"low": 0.1, "p": 0.01, "resamples": 100}
    claims: tuple[str, ...] = (
        "Intervals of ρ above 0 (p < 0.05 and at most 5 % of the resamples without a correlation): a",
    )
    claims += ("The interval of the difference is above 0 for b (p < 0.05",)
    assert [sum(text.startswith(claim) for text in verdicts(document)) for claim in claims] == [1, 1]
    for p, kept in ((0.05, 100), (0.01, 94)):
        assert p >= LEVEL or 1 - kept / 100 > DROPPED
        own |= {"rho_p": p, "rho_resamples": kept}
        gap |= {"p": p, "resamples": kept}
        said = verdicts(document)
        assert not any(text.startswith(claims) for text in said)
        doubt = f"(p {p:.3f}, {100 - kept} % of the resamples without a correlation)"
        assert f"The interval of ρ is above 0, and yet ρ is not surely so, for a {doubt}." in said
        assert f"The interval of the difference is above 0, and yet the difference is not sure, for b {doubt}." in said


@pytest.mark.parametrize(("scale", "told"), [(1e-300, "1.000·10⁻³⁰⁰"), (1e300, "−1.000·10³⁰⁰"), (1, "4.0000")])
def test_scores_of_any_scale_have_a_page(scale: float, told: str, tmp_path: Path) -> None:
    scores = [scale * value for value in (-1, 2, 4, 3, 1)]
    document = judge(predicted({"m": {"lm": scores}}), reached({"lm": scores[::-1]}), bootstrap=9, pool_repeats=2)
    document["parameters"]["rename"] = {}
    document["sources"] = SOURCES
    write_judgement(document, tmp_path)
    page = Path(write_judgement_report(tmp_path, tmp_path)["html"]).read_text()
    assert told in page
    assert "0" * 50 not in page


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        write_judgement_report(tmp_path / "none.json", tmp_path)
    path = tmp_path / "judgement.json"
    path.write_text('{"format_version": 1, "kind": "judgement"}')
    with pytest.raises(FormatError, match="has no parameters"):
        write_judgement_report(path, tmp_path)
    names = (
        "parameters",
        "downstream",
        "results",
        "rows",
        "comparisons",
        "curves",
        "costs",
        "points",
        "sources",
        "warnings",
    )
    path.write_text(json.dumps({"format_version": 1, "kind": "judgement", **{name: [1] for name in names}}))
    with pytest.raises(FormatError, match="not whole"):
        write_judgement_report(path, tmp_path)
    whole = judge(predicted({"m": {"lm": [1, 2, 4]}}), reached({"lm": [3, 1, 2]}), bootstrap=0)
    whole["parameters"]["rename"] = {}
    path.write_text(json.dumps({**whole, "sources": SOURCES, "rows": []}))
    with pytest.raises(FormatError, match="no results in it"):
        write_judgement_report(path, tmp_path)
    assert not (tmp_path / "judgement.html").exists()


def test_command(tmp_path: Path) -> None:
    document = judge(predicted({"m": {"lm": [1, 2, 4]}}), reached({"lm": [3, 1, 2]}), bootstrap=0)
    document["parameters"]["rename"] = {}
    document["sources"] = SOURCES
    write_judgement(document, tmp_path)
    words = ["report", "judgement", "--judgement", str(tmp_path / "judgement.json"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["metrics"] == 1
