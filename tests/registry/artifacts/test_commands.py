"""The verbs of published versions, as typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from payloads import make_ranking, make_suite

from optotype.registry.cli.commands import Root
from optotype.registry.cli.publish import alias, publish, yank
from optotype.registry.cli.published import diff, list_, show, verify
from optotype.schemas.references import KINDS

VERBS = {"publish": publish, "list": list_, "show": show, "diff": diff, "verify": verify, "yank": yank, "alias": alias}
EXAMPLES = [line for verb in VERBS.values() for line in getattr(verb, "examples", ())]


@click.group(cls=Root)
@click.option("-C", "project", type=click.Path(path_type=Path))
def cli(project: Path | None) -> None:
    """The verbs alone."""


for _verb in VERBS.values():
    cli.add_command(_verb)


def call(line: str) -> Result:
    return CliRunner().invoke(cli, shlex.split(line)[1:], prog_name="optotype")


def good(line: str) -> str:
    result = call(line)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(line: str) -> Any:
    return json.loads(good(line))


@pytest.fixture
def project(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two rankings to publish, as its working directory."""
    make_ranking(root / "data" / "ranking", {"siglip": 0.4, "dinov2": 0.3})
    make_ranking(root / "data" / "ranking-k50", {"siglip": 0.2, "dinov2": 0.3}, k=50)
    monkeypatch.chdir(root)
    return root


@pytest.mark.parametrize("line", EXAMPLES)
def test_example(line: str, project: Path) -> None:
    verb = line.split()[1]
    if verb != "publish":
        good("optotype publish ranking emoji@0.1.0 --from data/ranking")
        good("optotype publish ranking emoji@0.2.0 --from data/ranking-k50")
    out = good(line)
    assert out.strip()
    if "--json" in line:
        json.loads(out)


def test_every_verb_has_an_example() -> None:
    assert {line.split()[1] for line in EXAMPLES} == set(VERBS)
    assert all(line.startswith("optotype ") for line in EXAMPLES)
    text = publish.get_help(click.Context(publish))
    assert all(kind in " ".join(text.split()) for kind in KINDS)


def test_a_life_of_two_versions(project: Path) -> None:
    done = document("optotype publish ranking emoji@0.1.0 --from data/ranking --message first --json")
    assert done["created"] is True
    assert done["storage"] == "git"
    assert (done["reference"], done["path"]) == ("ranking/emoji@0.1.0", "artifacts/ranking/emoji/0.1.0")
    assert (project / done["path"] / "payload" / "ranking.json").is_file()
    again = call("optotype publish ranking emoji@0.1.0 --from data/ranking")
    assert "published before" in again.stdout
    good("optotype publish ranking emoji@0.2.0 --from data/ranking-k50")

    rows = document("optotype list --json")
    assert [(row["version"], row["latest"]) for row in rows] == [("0.2.0", True), ("0.1.0", False)]
    assert "ranking/emoji" in good("optotype list --kind ranking")
    assert document("optotype list --kind suite --json") == []

    assert document("optotype alias emoji@0.1.0 stable --json")["before"] is None
    assert "(was 0.1.0)" in good("optotype alias emoji@0.2.0 stable")
    record = document("optotype show emoji@stable --json")
    assert record["version"] == "0.2.0"
    assert record["parameters"]["k"] == 50
    shown = good("optotype show emoji@0.1.0 --lineage")
    assert "message" in shown
    assert "  features: features/siglip" in shown

    found = document("optotype diff emoji@0.1.0 emoji@0.2.0 --json")
    assert {row["model"]: row["change"] for row in found["models"]} == {"siglip x lm": 1, "dinov2 x lm": -1}
    text = good("optotype diff emoji@0.1.0 emoji@0.2.0")
    assert "parameters: 1\n  k: 100 -> 50" in text
    assert "dinov2 x lm: 2 -> 1" in text
    assert "byte for byte" in good("optotype diff emoji@0.1.0 emoji@0.1.0")

    assert [row["problems"] for row in document("optotype verify --all --json")] == [[], []]
    payload = project / done["path"] / "payload" / "ranking.csv"
    payload.write_text(payload.read_text().replace("0.4", "0.5"))
    result = call("optotype verify --all --json")
    assert result.exit_code == 7
    assert [len(row["problems"]) for row in json.loads(result.stdout)] == [1, 0]
    assert "artifacts/ranking/emoji/0.1.0/payload/ranking.csv" in result.stderr
    assert call("optotype verify emoji@0.2.0").exit_code == 0

    good("optotype yank emoji@0.2.0 --why 'wrong k'")
    assert "yanked" in good("optotype list")
    assert document("optotype show emoji@0.2.0 --json")["yanked"] == "wrong k"
    refused = call("optotype alias emoji@0.2.0 best")
    assert refused.exit_code == 6
    assert "wrong k" in refused.stderr


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("optotype publish rankin emoji@0.1.0 --from data/ranking", 2, "Did you mean 'ranking'?"),
        ("optotype publish ranking emoji@0.1 --from data/ranking", 2, "instead of a version"),
        ("optotype publish ranking ../x@0.1.0 --from data/ranking", 2, "not a kind"),
        ("optotype publish ranking emoji@0.3.0 --from data", 4, "ranking.json: it belongs to this kind"),
        ("optotype publish ranking emoji@0.3.0 --from nothing", 3, "no folder"),
        ("optotype publish ranking emoji@0.1.0 --from data/ranking-k50", 6, "ranking.csv: other bytes"),
        ("optotype publish ranking emoji@0.1.0 --from data/ranking --tag", 2, "--tag needs git"),
        ("optotype show emoji", 2, "which version? there are 0.1.0"),
        ("optotype show emoj@latest", 3, "Did you mean 'emoji'?"),
        ("optotype show emoji@9.0.0", 3, "there are 0.1.0"),
        ("optotype diff emoji@0.1.0 prime@1.0.0", 2, "different kinds"),
        ("optotype verify", 2, "--all"),
        ("optotype verify emoji@0.1.0 --all", 2, "--all"),
        ("optotype alias emoji@0.1.0 latest", 2, "its meaning is fixed"),
        ("optotype list --kind nothing", 2, "not a kind"),
        ("optotype -C elsewhere list", 3, "does not exist"),
    ],
)
def test_mistakes(project: Path, tmp_path: Path, line: str, code: int, words: str) -> None:
    good("optotype publish ranking emoji@0.1.0 --from data/ranking")
    good(f"optotype publish suite prime@1.0.0 --from {make_suite(tmp_path / 's', {'a/1': 1.0})}")
    result = call(line)
    assert result.exit_code == code, result.output
    assert words in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_yank_tells_of_aliases_and_verify_of_a_missing_manifest(project: Path) -> None:
    good("optotype publish ranking emoji@0.1.0 --from data/ranking")
    good("optotype publish ranking emoji@0.2.0 --from data/ranking-k50")
    good("optotype alias emoji@0.1.0 stable")
    assert call("optotype yank emoji@stable --why x").exit_code == 2
    assert "@stable still stands for it" in call("optotype yank emoji@0.1.0 --why x").stderr
    (project / "artifacts/ranking/emoji/0.2.0/manifest.json").unlink()
    for line in ("optotype verify --all", "optotype verify emoji@0.2.0"):
        result = call(line)
        assert result.exit_code == 7
        assert "artifacts/ranking/emoji/0.2.0/manifest.json: missing" in result.stderr
    assert "damaged" in good("optotype list")
    result = call("optotype publish ranking emoji@0.2.0 --from data/ranking-k50")
    assert result.exit_code == 6
    (project / "artifacts/ranking/emoji/status.json").write_text("{")
    result = call("optotype verify --all")
    assert result.stderr.count("status.json") == 1


def test_nothing_published(project: Path) -> None:
    result = call("optotype list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing is published yet" in result.stderr
    assert document("optotype verify --all --json") == []
    assert call("optotype verify --all").exit_code == 0


def test_a_damaged_manifest_in_the_list(project: Path) -> None:
    good("optotype publish ranking emoji@0.1.0 --from data/ranking")
    (project / "artifacts/ranking/emoji/0.1.0/manifest.json").write_text("{")
    result = call("optotype list")
    assert result.exit_code == 0
    assert "damaged" in result.stdout
    assert "cannot be read" in result.stderr
    assert call("optotype show emoji@0.1.0").exit_code == 5
    assert call("optotype verify --all").exit_code == 7
