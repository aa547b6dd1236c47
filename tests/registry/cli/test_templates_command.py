"""``optotype templates``, and what ``optotype encode texts`` asks for with a template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from optotype.pipelines.encode import text_states
from optotype.pipelines.encode.runs import EncodedArray
from optotype.registry.cli.root import cli
from optotype.registry.templates import list_templates, show_template
from optotype.store.importers import import_states


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="optotype")


def test_list() -> None:
    lines = _run("templates", "list").stdout.splitlines()
    assert lines[0].split() == ["name", "tasks", "languages", "title", "digest"]
    assert [line.split()[0] for line in lines[1:]] == ["bare@1.0.0", "mmmeb@1.0.0"]
    assert json.loads(_run("templates", "list", "--json").stdout) == list_templates()


def test_show() -> None:
    result = _run("templates", "show", "mmmeb@1", "--text", "a dog")
    lines = result.stdout.splitlines()
    assert len(lines) == 1 + 44 * 3
    assert lines[0].split() == ["task", "side", "language", "style", "text"]
    wanted = 't2i   query      en        newline  "Find me an everyday image that matches the given caption: a dog.\\n"'
    assert wanted in lines
    assert "arXiv 2503.09313" in result.stderr
    result = _run("templates", "show", "bare", "--json")
    assert json.loads(result.stdout) == show_template("bare")
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("name", "code", "said"), [("mmeb", 3, "mmmeb"), ("./x.json", 3, "templates list"), ("A", 2, "")]
)
def test_what_is_not_there(name: str, code: int, said: str) -> None:
    result = _run("templates", "show", name, "--json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_encode_texts_hands_everything_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []
    folder = project / "data" / "states" / "lm"

    def stand_in(*arguments: Any, **options: Any) -> EncodedArray:
        calls.append(options)
        return EncodedArray("lm", folder, import_states(folder, "qwen3.npz"))

    monkeypatch.setattr(text_states, "encode_texts", stand_in)
    command = ["encode", "texts", "lm", "--texts", "queries.csv", "--source", "model"]
    line = (
        "--where task=t2i --where note=a=b --template mmmeb@1 --template-task t2i --template-side query --style punct"
    )
    more = "--language it --pooling last-before-eos --padding left"
    assert _run(*command, *line.split(), *more.split()).exit_code == 0
    expected = {
        "where": {"task": "t2i", "note": "a=b"},
        "template": "mmmeb@1",
        "template_task": "t2i",
        "template_side": "query",
        "language": "it",
        "style": "punct",
        "pooling": "last-before-eos",
        "padding": "left",
    }
    assert calls[0].items() >= expected.items()
    assert _run(*command).exit_code == 0
    assert {calls[1][name] for name in expected if name not in ("where", "pooling", "padding")} == {None}
    assert (calls[1]["where"], calls[1]["pooling"], calls[1]["padding"]) == ({}, "mean", "right")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--where t2i", "'t2i' is not COLUMN=VALUE"),
        ("--where =t2i", "is not COLUMN=VALUE"),
        ("--where task=a --where task=b", "'task' is given twice"),
        ("--style loud", "'loud' is not one of 'plain', 'punct', 'newline'"),
    ],
)
def test_what_encode_texts_refuses(project: Path, words: str, said: str) -> None:
    result = _run("encode", "texts", "lm", "--texts", "queries.csv", "--source", "model", *words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_file_of_brackets_is_no_template(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    result = _run("templates", "show", str(tmp_path / "deep.json"))
    assert (result.exit_code, result.stdout) == (5, "")
    assert "not a JSON template" in result.stderr
