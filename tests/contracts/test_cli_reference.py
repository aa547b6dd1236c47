"""``docs/cli.md`` says what the commands say, and everything that the contract of the command line names is there."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from optotype.registry.cli.reference import commands, reference
from optotype.registry.cli.root import cli
from optotype.schemas.errors import OptotypeError

_PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
_ALL = list(commands())

# Words that scripts of others rely on: a verb or option may be added, never renamed or dropped.
_CONTRACT = {
    "": {"-C"},
    "init": {"--json"},
    "features import": {"--no-track", "--json"},
    "features list": {"--json"},
    "features show": {"--json"},
    "features export": {"--format", "--json"},
    "states import": {"--no-track", "--json"},
    "states list": {"--json"},
    "states show": {"--json"},
    "states export": {"--format", "--json"},
    "encode images": {
        *("--images", "--source", "--layers", "--layer", "--batch-size", "--device", "--dtype", "--image-size"),
        *("--trust-remote-code", "--threads", "--json"),
    },
    "encode texts": {
        *("--texts", "--source", "--column", "--layer", "--pooling", "--batch-size", "--device", "--dtype"),
        *("--trust-remote-code", "--json", "--template", "--template-task", "--template-side", "--style", "--language"),
        "--padding",
    },
    "tasks import": {"--form", "--queries", "--candidates", "--relevance", "--task", "--language", "--json"},
    "tasks list": {"--json"},
    "tasks show": {"--json"},
    "tasks export": {"--out"},
    "retrieve": {"--queries", "--candidates", "--task", "--ties", "--at", "--unable", "--out", "--json"},
    "templates list": {"--json"},
    "templates show": {"--json"},
    "judge": {"--bootstrap", "--seed", "--rename", "--metric", "--curve", "--pool-repeats", "--out", "--json"},
    "emoji names": {"--pairs", "--languages", "--seed", "--out"},
    "emoji retrieval": {"--pairs", "--features", "--tasks", "--names", "--seed", "--out", "--json"},
    "report retrieval": {"--retrieval", "--out", "--json"},
    "report judgement": {"--judgement", "--out", "--json"},
    "neighbours build": {"--of", "--array", "--prenorm", "-k", "--k", "--eps", "--scheduler", "--json"},
    "rank": {
        *("--features", "--states", "--metric", "-k", "--k", "--eps", "--prenorm-features", "--prenorm-states"),
        *("--null", "--common", "--seed", "--bootstrap", "--scheduler", "--out", "--all-prenorms", "--json", "--set"),
        *("--labels", "--keypoints", "--downstream", "--captions", "--language-model", "--train", "--post-features"),
        *("--post-states", "--gamma", "--images", "--sweep"),
    },
    "scores import": {"--format", "--items", "--models", "--blind", "--json"},
    "scores show": {"--json"},
    "scores export": {"--json"},
    "compress": {
        *("--stop-after", "--tau", "--retention", "-k", "--alpha", "--seed", "--category-by", "--floor", "--normalise"),
        *("--rho-target", "--embeddings", "--out", "--json"),
    },
    "frontier": {"--gain", "--axis", "--out", "--json"},
    "evaluate": {"--selectors", "--retention", "--splits", "--seed", "--min-held-out", "--out", "--json"},
    "encode items": {"--source", "--json"},
    "publish": {"--from", "--message", "--tag", "--json"},
    "list": {"--kind", "--json"},
    "show": {"--lineage", "--json"},
    "diff": {"--json"},
    "verify": {"--all", "--json"},
    "yank": {"--why"},
    "pin": {"--from", "--json"},
    "pull": {"--locked", "--json"},
    "export": {"--to", "--blind"},
    "place": {"--json"},
    "catalog build": {"--json"},
    "emoji pairs": {"--n", "--seed", "--out", "--json"},
    "emoji model": {"--out", "--json"},
    "report ranking": {"--ranking", "--pairs", "--out", "--json"},
}


def test_the_page_is_what_the_commands_say() -> None:
    assert _PAGE.read_text(encoding="utf-8") == reference(), (
        "docs/cli.md is old: python -m optotype.registry.cli.reference > docs/cli.md"
    )


def test_the_page_lists_every_exit_code_once() -> None:
    codes = [line.split("|")[1].strip() for line in reference().splitlines() if line.startswith("| ")]
    numbers = [int(code) for code in codes if code.isdigit()]
    assert numbers == sorted(set(numbers))
    assert {kind.exit_code for kind in OptotypeError.__subclasses__()} | {0, 70, 130} <= set(numbers)


@pytest.mark.parametrize("path", list(_CONTRACT), ids=lambda path: path or "optotype")
def test_promised_options_are_there(path: str) -> None:
    by_path = {" ".join(path): command for path, command in _ALL}
    flags = {flag for option in by_path[path].params if isinstance(option, click.Option) for flag in option.opts}
    assert _CONTRACT[path] <= flags


@pytest.mark.parametrize(("path", "command"), _ALL, ids=[" ".join(path) or "optotype" for path, _ in _ALL])
def test_every_command_explains_itself(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help
    examples = getattr(command, "examples", ())
    assert examples
    with click.Context(command, info_name=" ".join(["optotype", *path])) as context:
        text = command.get_help(context)
    assert "Examples:\n" in text
    for line in examples:
        assert f"  {line}\n" in text + "\n", "an example is printed whole, on one line"
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{option.name} has no help"
            assert any(flag.startswith("--") for flag in option.opts) or option.opts == ["-C"]


@pytest.mark.parametrize("line", sorted({line for _, command in _ALL for line in getattr(command, "examples", ())}))
def test_every_example_parses(line: str) -> None:
    """Down to the verb, all options included; nothing is run."""
    program, *words = shlex.split(line)
    assert program == "optotype"
    command: click.Command = cli
    context = cli.make_context("optotype", words)
    while isinstance(command, click.Group):
        name, child, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert child is not None
        command, context = child, child.make_context(name, words, parent=context)
