"""``optotype templates``: the prompts that texts are put into."""

from __future__ import annotations

import json
from operator import itemgetter

import click

from optotype.registry.cli.commands import Command, Group
from optotype.registry.cli.options import as_json
from optotype.registry.cli.output import Column, emit_json, emit_table, note, short_digest

__all__ = ["templates"]

_STYLES = ("plain", "punct", "newline")

templates = Group(
    "templates",
    help="Prompt templates, which optotype encode texts takes: list, show.",
    examples=["optotype templates list", "optotype templates show mmmeb@1 --json"],
)


@templates.command(
    "list",
    cls=Command,
    short_help="List the templates that are shipped.",
    examples=["optotype templates list", "optotype templates list --json"],
)
@as_json
def list_(as_json: bool) -> None:
    """List the templates that are shipped. One of your own is a JSON file, named by its path."""
    from optotype.registry.templates import list_templates

    rows = list_templates()
    if as_json:
        emit_json(rows)
        return
    columns = [
        Column("name", lambda row: f"{row['name']}@{row['version']}"),
        Column("tasks", lambda row: ", ".join(row["tasks"])),
        Column("languages", lambda row: ", ".join(row["languages"])),
        Column("title", lambda row: row["title"]),
        Column("digest", lambda row: short_digest(row["digest"])),
    ]
    emit_table(columns, rows)


@templates.command(
    "show",
    cls=Command,
    short_help="Show all prompts of a template.",
    examples=[
        "optotype templates show mmmeb",
        "optotype templates show bare@1.0.0 --text 'a red dog' --json",
    ],
)
@click.argument("template", metavar="NAME[@VERSION]|FILE")
@click.option("--text", default="{text}", show_default=True, metavar="TEXT", help="What stands for a text.")
@as_json
def show(template: str, text: str, as_json: bool) -> None:
    """Show every prompt of a template as a model reads it, in all styles."""
    from optotype.registry.templates import show_template

    shown = show_template(template, text)
    if as_json:
        emit_json(shown)
        return
    note(f"{shown['name']}@{shown['version']}: {shown['title']}. {shown['source']}. {shown['digest']}")
    rows = [
        # as JSON spells it, so that a line feed is seen and a row stays a row
        {**prompt, "style": style, "text": json.dumps(prompt[style], ensure_ascii=False)}
        for prompt in shown["prompts"]
        for style in _STYLES
    ]
    names = ("task", "side", "language", "style", "text")
    emit_table([Column(name, itemgetter(name)) for name in names], rows)
