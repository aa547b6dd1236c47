"""``optotype pairs score``, ``match`` and ``correlate`` as they are typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from pair_suites import make_questions, make_statements, write_answers, write_pair_suite

from optotype.registry.cli import pair_scores
from optotype.registry.cli.commands import Group, Root
from optotype.schemas.pair_suites import PATTERNS
from optotype.store.features import write_features
from optotype.store.states import write_states


@click.group(cls=Root)
@click.option("-C", "project", type=click.Path(path_type=Path))
def cli(project: Path | None) -> None:
    """The verbs alone."""


@cli.group(cls=Group)
def pairs() -> None:
    """Pairs."""


for _verb in (pair_scores.score, pair_scores.match, pair_scores.correlate):
    pairs.add_command(_verb)
_EXAMPLES = [line for verb in pairs.commands.values() for line in verb.examples]  # type: ignore[attr-defined]


def _run(line: str) -> Result:
    return CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="optotype")


@pytest.fixture(autouse=True)
def _project(project: Path) -> None:
    questions = make_questions(4)
    write_pair_suite(project / "mmvp", questions)
    letters = {"answers": "abab?bab", "swapped": "babababa", "numbered": "12121212"}
    for name, some in letters.items():
        rows = [{"id": row["id"], "model": "llava", "response": c} for row, c in zip(questions, some, strict=True)]
        write_answers(project / f"{name}.csv", rows)
    correction = {"question": "1", "was": "a", "answer": "b", "why": "x"}
    overlay = {"format_version": 1, "kind": "question-overlay", "corrections": [correction]}
    (project / "corrected.json").write_text(json.dumps(overlay))
    statements = make_statements(PATTERNS)
    write_pair_suite(project / "mmvp-vlm", statements=statements)
    values = np.random.default_rng(0).normal(size=(18, 4)).astype(np.float32)
    inputs = {"operation": "test"}
    images = [row["image"] for row in statements]
    sizes = np.ones(18, int)
    where = project / "data" / "features" / "clip-joint"
    write_features(where, ids=images, row_size=sizes, blocks=[values], dtype="float32", inputs=inputs)
    texts = [row["id"] for row in statements]
    write_states(project / "data" / "states" / "clip-joint", ids=texts, blocks=[values], inputs=inputs)
    accuracies = [{"encoder": "clip", "pattern": name, "accuracy": i / 15} for i, name in enumerate(PATTERNS)]
    write_answers(project / "encoders.csv", accuracies)
    rows = [{"model": "llava", "pattern": name, "accuracy": (i * i % 7) / 15} for i, name in enumerate(PATTERNS)]
    write_answers(project / "models.csv", rows)


@pytest.mark.parametrize("line", _EXAMPLES)
def test_example(line: str) -> None:
    result = _run(line)
    assert result.exit_code == 0, result.stderr
    if "--json" in line:
        document = json.loads(result.stdout)
        assert document["format_version"] == 1
        assert document["rows"]
    else:
        assert result.stdout.count("\n") >= 2
    if "--out" in line:
        assert list(Path(shlex.split(line)[shlex.split(line).index("--out") + 1]).glob("pair-*.json"))


def test_scores_are_printed() -> None:
    result = _run("optotype pairs score mmvp answers.csv --variant swap=swapped.csv")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[1][:6] == ["llava", "original", "3/4", "75.0", "25.0", "75.0"]
    assert lines[2][:3] == ["llava", "swap", "4/4"]
    assert lines[2][-1] == "7/7"
    assert ["llava", "original", "orientation", "1/2", "50.0", "75.0", "1"] in lines
    assert "missing, and so wrong: no-option 1" in result.stderr


def test_an_overlay_is_told() -> None:
    result = _run("optotype pairs score mmvp answers.csv --overlay corrected.json --json")
    assert json.loads(result.stdout)["suite"]["overlay"]["corrections"] == 1
    assert json.loads(result.stdout)["rows"][0]["pairs_right"] == 2


def test_matches_are_printed() -> None:
    result = _run("optotype pairs match mmvp-vlm --features clip-joint --states clip-joint")
    assert result.exit_code == 0
    assert "9/9" in result.stdout
    assert "viewpoint and perspective" in result.stdout


def test_null_correlations_say_why() -> None:
    write_answers(Path("flat.csv"), [{"model": "m", "pattern": name, "accuracy": 0.5} for name in PATTERNS[:5]])
    result = _run("optotype pairs correlate encoders.csv flat.csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split() == ["clip", "m", "-", "-", "-", "5"]
    assert "the model scores the same on every pattern" in result.stderr
    assert "only one of the two has color and appearance" in result.stderr
    document = json.loads(_run("optotype pairs correlate encoders.csv flat.csv --json").stdout)
    assert document["rows"][0]["r"] is None
    assert document["rows"][0]["reason"]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("score mmvp", 2, "ANSWERS"),
        ("score mmvp nothing.csv", 3, "nothing.csv"),
        ("score nowhere answers.csv", 3, "nowhere"),
        ("score mmvp answers.csv --variant mirror=x.csv", 2, "VARIANT one of"),
        ("score mmvp answers.csv --overlay nothing.json", 3, "nothing.json"),
        ("score mmvp answers.csv --id-offset 1", 4, "no question '9'"),
        ("score mmvp-vlm answers.csv", 4, "no questions"),
        ("score mmvp models.csv", 5, "not a table of answers"),
        ("score mmvp answers.csv --out answers.csv", 2, "file"),
        ("match mmvp --features clip-joint --states clip-joint", 4, "no statements"),
        ("match mmvp-vlm --features clip-joint --states nothing", 3, "nothing"),
        ("match mmvp-vlm --features clip-joint", 2, "--states"),
        ("match mmvp-vlm --features clip-joint --states clip-joint --tie first", 2, "--tie"),
        ("correlate encoders.csv nothing.csv", 3, "nothing.csv"),
        ("correlate encoders.csv answers.csv", 5, "accuracy"),
        ("correlate encoders.csv models.csv --level 1", 2, "--level"),
    ],
)
def test_refusals(line: str, code: int, message: str) -> None:
    result = _run(f"optotype pairs {line}")
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert not result.stdout
