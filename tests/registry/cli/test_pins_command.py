"""``pin``, ``pull`` and ``update``, as typed in a folder that is no project."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from payloads import make_suite

from optotype.registry.artifacts.index import Registry
from optotype.registry.artifacts.publish import publish
from optotype.registry.cli.commands import Root
from optotype.registry.cli.pin import pin
from optotype.registry.cli.published import diff, list_, show, verify
from optotype.registry.cli.pull import pull
from optotype.registry.cli.update import update

VERBS = {"pin": pin, "pull": pull, "update": update}
EXAMPLES = [line for verb in VERBS.values() for line in getattr(verb, "examples", ())]


@click.group(cls=Root)
@click.option("-C", "project", type=click.Path(path_type=Path))
def cli(project: Path | None) -> None:
    """The verbs alone."""


for _verb in (*VERBS.values(), show, diff, list_, verify):
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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory beside a publisher of two suites, committed."""
    monkeypatch.setenv("OPTOTYPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    root = tmp_path / "publisher"
    (root / ".optotype").mkdir(parents=True)
    (root / ".optotype" / "project.json").write_text('{"format_version": 1}\n', encoding="utf-8")
    for version, items in (("1.0.0", {"a/1": 1.0, "a/2": 1.0}), ("1.1.0", {"a/1": 2.0, "b/1": 1.0})):
        publish("suite", f"prime@{version}", make_suite(tmp_path / version, items), root=root)
    identity = [f"-c user.{key}=test@example.org" for key in ("name", "email")]
    for words in ("init --quiet .", "add .", f"{' '.join(identity)} commit --quiet -m publish"):
        subprocess.run(["git", *words.split()], cwd=root, check=True)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize("line", EXAMPLES)
def test_example(line: str, folder: Path) -> None:
    if line.split()[1] != "pin":
        good("optotype pin suite/prime@1.0.0 --from ../publisher")
    out = good(line)
    assert out.strip()
    if "--json" in line:
        json.loads(out)


def test_every_verb_has_an_example() -> None:
    assert {line.split()[1] for line in EXAMPLES} == set(VERBS)


def test_a_session(folder: Path) -> None:
    made = document("optotype pin suite/prime@~1.0 --from ../publisher --json")
    assert (made["version"], made["source"], made["before"], made["notes"]) == ("1.0.0", "../publisher", None, [])
    (row,) = document("optotype pull --json")
    assert (row["reference"], row["state"]) == ("suite/prime@1.0.0", "pulled")
    assert Path(row["path"]).is_dir()
    assert "present" in good("optotype pull suite/prime --locked")
    # What was pulled can be looked at, and a name alone means the pin.
    assert document("optotype show suite/prime --json")["version"] == "1.0.0"
    assert [entry["version"] for entry in document("optotype list --json")] == ["1.0.0"]
    assert document("optotype verify --all --json")[0]["problems"] == []
    up_to_date = call("optotype update")
    assert (up_to_date.exit_code, "up to date" in up_to_date.stdout) == (0, True)
    waiting = call("optotype update suite/prime@^1")
    assert waiting.exit_code == 2
    assert "items added: 1" in waiting.stdout
    assert "Say --yes" in waiting.stderr
    assert json.loads((folder / "optotype.lock").read_text())["pins"][0]["version"] == "1.0.0"
    as_document = call("optotype update suite/prime@^1 --json")
    assert as_document.exit_code == 2
    assert json.loads(as_document.stdout)[0]["moved"] is False
    moved = good("optotype update suite/prime@^1 --yes")
    assert "items reweighted: 1" in moved
    assert "suite/prime@1.0.0 -> 1.1.0  moved" in moved
    good("optotype pull")
    found = document("optotype diff suite/prime@1.0.0 suite/prime --json")
    assert found["to"] == "suite/prime@1.1.0"
    assert "(was 1.1.0)" in good("optotype pin suite/prime@1.0.0")


def test_failures_name_the_file(folder: Path) -> None:
    nothing = call("optotype pull")
    assert (nothing.exit_code, nothing.stdout) == (3, "")
    assert "optotype.lock" in nothing.stderr
    good("optotype pin suite/prime@1.1.0 --from ../publisher")
    good("optotype pull")
    bad = folder / "optotype_pins/artifacts/suite/prime/1.1.0/payload/items.parquet"
    bad.write_bytes(b"x" + bad.read_bytes()[1:])
    damaged = call("optotype pull --json")
    assert (damaged.exit_code, damaged.stdout) == (7, "")
    assert str(bad) in damaged.stderr
    Registry(folder.parent / "publisher").yank("suite/prime@1.0.0", "a wrong key")
    yanked = call("optotype pin suite/prime@1.0.0 --from ../publisher")
    assert yanked.exit_code == 6
    assert "artifacts/suite/prime/status.json: suite/prime@1.0.0 was yanked: a wrong key" in yanked.stderr
    assert call("optotype -C nowhere pin suite/prime@1.0.0 --from ../publisher").exit_code == 3
    assert call("optotype show suite/prime@9.0.0").exit_code == 3


def test_a_terminal_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good("optotype pin suite/prime@1.0.0 --from ../publisher")
    asked: list[str] = []

    def confirm(text: str, **_: Any) -> bool:
        asked.append(text)
        return len(asked) > 1

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr("optotype.registry.cli.update.asked", lambda **_: True)
    assert "left as it was" in good("optotype update suite/prime@^1")
    assert "moved" in good("optotype update suite/prime@^1")
    assert asked == ["Move suite/prime@1.0.0 to 1.1.0?"] * 2
