"""``docs/cli.md``, made of the commands themselves: ``python -m optotype.registry.cli.reference > docs/cli.md``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from optotype.registry.cli.commands import Group
from optotype.registry.cli.root import cli
from optotype.schemas import errors
from optotype.schemas.errors import OptotypeError

__all__ = ["commands", "reference"]

_HEAD = """\
# Command line

Made of the commands' own help by `python -m optotype.registry.cli.reference > docs/cli.md`; a test compares the two.

- The project is the nearest folder upward that holds `.optotype`, or the one named by `-C`. Files are found from the
  working directory, with `-C` too.
- stdout holds the result: a table, or with `--json` one JSON document. Progress, warnings and errors go to stderr.
- A name with a slash in it is a path or URL and needs no project.
- Verbs, options and names of arrays complete in the shell: put `eval "$(_OPTOTYPE_COMPLETE=bash_source optotype)"` into
  `~/.bashrc` (`zsh_source` and `fish_source` for the others).

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
"""


def commands(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its path below ``optotype``, groups before their verbs."""
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            if not child.hidden:
                yield from commands(child, (*path, name))


def reference() -> str:
    """The whole page as Markdown."""
    parts = [_HEAD + "".join(f"| {code} | {_cell(text)} |\n" for code, text in _exit_codes())]
    parts += [_section(path, command) for path, command in commands()]
    return "\n".join(parts)


def _exit_codes() -> Iterator[tuple[int, str]]:
    """Codes of the error classes with the first lines of their docstrings, and the shell's own."""
    kinds = {getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    for kind in sorted((k for k in kinds if issubclass(k, OptotypeError)), key=lambda k: k.exit_code):
        if kind is not OptotypeError:
            yield kind.exit_code, inspect.cleandoc(kind.__doc__ or "").splitlines()[0]
    yield 70, "A bug: one line says what happened and where to report it; `OPTOTYPE_DEBUG=1` adds the traceback."
    yield 130, "Interrupted (Ctrl-C)."
    yield 141, "The reader of stdout has left (`| head`)."


def _section(path: tuple[str, ...], command: click.Command) -> str:
    title = " ".join(["optotype", *path])
    usage = " ".join([title, *_usage(command)])
    lines = [
        f"{'#' * (2 + min(len(path), 1))} {title}",
        "",
        "```text",
        usage,
        "```",
        "",
        *_paragraphs(command.help or ""),
    ]
    options = [p for p in command.params if isinstance(p, click.Option)]
    if options:
        lines += ["| option | meaning | default |", "|---|---|---|", *map(_option, options), ""]
    if isinstance(command, Group):
        names = [f"[`{title} {name}`](#{'-'.join([*title.split(), name])})" for name in command.commands]
        lines += [f"Verbs: {', '.join(names)}", ""]
    examples = getattr(command, "examples", ())
    if examples:
        lines += ["```console", *(f"$ {line}" for line in examples), "```", ""]
    return "\n".join(lines)


def _usage(command: click.Command) -> list[str]:
    arguments = [str(p.metavar or p.name) for p in command.params if isinstance(p, click.Argument)]
    return ["[OPTIONS]", *(["COMMAND ..."] if isinstance(command, click.Group) else arguments)]


def _paragraphs(text: str) -> list[str]:
    """Help as Markdown: one line for each paragraph."""
    cleaned = inspect.cleandoc(text)
    return [line for part in re.split(r"\n\s*\n", cleaned) for line in (" ".join(part.split()), "")]


def _option(option: click.Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {_value(option)}"
    text = option.help or ""
    stated = re.search(r"\s*\[default: (.+)\]$", text)
    if stated is not None:
        text = text[: stated.start()]
    if option.required:
        default = "required"
    elif stated is not None:
        default = stated[1]
    elif option.show_default:
        default = f"`{option.default}`"
    else:
        default = ""
    repeatable = " May be repeated." if option.multiple and "repeat" not in text else ""
    return f"| {_cell(flags + value)} | {_cell(text + repeatable)} | {_cell(default)} |"


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    return option.metavar or option.type.name.upper()


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)[|<>]", lambda found: f"\\{found[0]}", text)


if __name__ == "__main__":
    print(reference(), end="")
