"""The root command, its ``-C``, and how every verb finds its project."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

import optotype
from optotype.registry.cli import (
    catalog,
    compress,
    embeddings,
    emoji,
    encode,
    evaluate,
    export,
    features,
    frontier,
    init,
    judge,
    neighbours,
    pairs,
    pin,
    place,
    publish,
    published,
    pull,
    rank,
    report,
    retrieve,
    scores,
    states,
    tasks,
    templates,
    unlock,
    update,
)
from optotype.registry.cli.commands import Root

__all__ = ["cli"]


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=[
        "optotype init",
        "optotype features import siglip siglip.npz",
        "optotype states import qwen3 qwen3.npz",
        "optotype rank --features siglip --states qwen3",
        "optotype scores import panel scores.csv --items items.csv",
        "optotype compress panel --out suite",
        "optotype -C project features list --json",
    ],
)
@click.option(
    "-C",
    "project",
    type=click.Path(path_type=Path),
    metavar="PROJECT",
    help="Folder of the project. Default: the nearest one upward from the working directory.",
)
@click.version_option(optotype.__version__, prog_name="optotype", message="%(prog)s %(version)s")
def cli(project: Path | None) -> None:
    """Keep what vision-language evaluation is made of; rank encoders by it, compress benchmarks with it.

    Files named on the command line are found from the working directory, with -C too.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # an id that the terminal cannot spell is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")


cli.add_command(init.init)
cli.add_command(features.features)
cli.add_command(states.states)
cli.add_command(encode.encode)
cli.add_command(templates.templates)
cli.add_command(neighbours.neighbours)
cli.add_command(rank.rank)
cli.add_command(judge.judge)
cli.add_command(scores.scores)
cli.add_command(embeddings.embeddings)
cli.add_command(tasks.tasks)
cli.add_command(retrieve.retrieve)
cli.add_command(compress.compress)
cli.add_command(frontier.frontier)
cli.add_command(evaluate.evaluate)
cli.add_command(pairs.pairs)
cli.add_command(publish.publish)
cli.add_command(published.list_)
cli.add_command(published.show)
cli.add_command(published.diff)
cli.add_command(published.verify)
cli.add_command(publish.yank)
cli.add_command(publish.alias)
cli.add_command(pin.pin)
cli.add_command(pull.pull)
cli.add_command(update.update)
cli.add_command(export.export)
cli.add_command(place.place)
cli.add_command(catalog.catalog)
cli.add_command(report.report)
cli.add_command(emoji.emoji)
cli.add_command(unlock.unlock)
