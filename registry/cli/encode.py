"""``optotype encode``: run a vision encoder or a language model and keep what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from optotype.registry.cli import options
from optotype.registry.cli.arrays import Kind, array_columns
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import emit_json, emit_table, note
from optotype.registry.cli.project import needed_project

__all__ = ["encode"]

_SOURCE = "hf:<repo>@<revision>, a local folder, or python:<module>:<factory>[@<folder>]."


@click.group(
    cls=Group,
    examples=[
        "optotype encode images dinov2-l12 --images photos/ --source hf:facebook/dinov2-small@ed25f3a --layers 12",
        "optotype encode texts minilm --texts pairs.csv --source data/models/minilm-l6",
    ],
)
def encode() -> None:
    """Run a model over images or texts and keep what comes out.

    A run that was stopped goes on where it stopped when the same command is given again.
    """


@encode.command(
    examples=[
        "optotype encode images vit --images photos/ --source data/models/vit-s14-focus --layers 8,10,12",
        "optotype encode images dinov2 --images pairs.csv --source hf:facebook/dinov2-small@ed25f3a --device cuda",
    ],
    short_help="Encode images to patch features.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--images",
    "table",
    required=True,
    metavar="TABLE|DIR",
    help="A table (.csv, .tsv, .jsonl, .parquet) with columns id and image, or a folder of images.",
)
@click.option("--source", required=True, metavar="SOURCE", help=_SOURCE)
@options.layers
@options.number("--batch-size", default=16, minimum=1, text="Images per forward pass.")
@options.device
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32", "float64"]),
    default="float16",
    show_default=True,
    help="Dtype in which the features are kept.",
)
@options.number(
    "--image-size", default=None, minimum=1, text="Side of the model's input in pixels.  [default: the model's]"
)
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model.")
@options.number("--threads", default=None, minimum=1, text="CPU threads of the model.  [default: all]")
@options.as_json
@click.pass_context
def images(
    ctx: click.Context,
    name: str,
    table: str,
    source: str,
    layers: list[int | None],
    batch_size: int,
    device: str,
    dtype: str,
    image_size: int | None,
    trust_remote_code: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Encode images to patch features called NAME.

    Special tokens are left out. Several layers come from one forward pass and are kept as NAME-l8, NAME-l10, ...
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.encoding import encode_image_arrays

    rows = encode_image_arrays(
        needed_project(ctx),
        name,
        table,
        source,
        layers=layers or None,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        image_size=image_size,
        trust_remote_code=trust_remote_code,
        threads=threads,
        progress=reporter(),
    )
    _report(rows, "features", as_json)


@encode.command(
    examples=[
        "optotype encode texts qwen3 --texts pairs.csv --source hf:Qwen/Qwen3-1.7B@70d244c --layer -2",
        "optotype encode texts minilm --texts pairs.csv --column text --source data/models/minilm-l6",
    ],
    short_help="Encode texts to states.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--texts",
    "table",
    required=True,
    metavar="TABLE",
    help="A table (.csv, .tsv, .jsonl, .parquet) with a column id and one of texts.",
)
@click.option("--source", required=True, metavar="SOURCE", help=_SOURCE)
@click.option("--column", default="text", show_default=True, metavar="NAME", help="Column that holds the texts.")
@click.option(
    "--layer",
    type=int,
    default=-2,
    show_default=True,
    metavar="INTEGER",
    help="Hidden layer; -1 is the last, -2 the one before it.",
)
@click.option(
    "--pooling",
    type=click.Choice(["mean", "last", "cls"]),
    default="mean",
    show_default=True,
    help="Mean over the real tokens, the last real token, or the first.",
)
@options.number("--batch-size", default=16, minimum=1, text="Texts per forward pass.")
@options.device
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32", "float64"]),
    default="float32",
    show_default=True,
    help="Dtype in which the states are kept.",
)
@options.number("--max-length", default=None, minimum=1, text="Tokens kept of a text.  [default: what the model takes]")
@click.option("--gguf-file", metavar="FILE", help="GGUF file inside the source that holds the weights.")
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model.")
@options.number("--threads", default=None, minimum=1, text="CPU threads of the model.  [default: all]")
@options.as_json
@click.pass_context
def texts(
    ctx: click.Context,
    name: str,
    table: str,
    source: str,
    column: str,
    layer: int,
    pooling: str,
    batch_size: int,
    device: str,
    dtype: str,
    max_length: int | None,
    gguf_file: str | None,
    trust_remote_code: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Encode texts to states called NAME: one hidden layer, pooled over the tokens of each text."""
    from optotype.pipelines.progress import reporter
    from optotype.registry.encoding import encode_text_array

    row = encode_text_array(
        needed_project(ctx),
        name,
        table,
        source,
        column=column,
        layer=layer,
        pooling=pooling,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        max_length=max_length,
        gguf_file=gguf_file,
        trust_remote_code=trust_remote_code,
        threads=threads,
        progress=reporter(),
    )
    _report([row], "states", as_json)


def _report(rows: Sequence[dict[str, Any]], kind: Kind, as_json: bool) -> None:
    for row in rows:
        if row["skipped"]:
            note(f"{row['name']}: up to date, nothing to do")
        elif row["resumed"]:
            note(f"{row['name']}: went on where an earlier run had stopped")
    if as_json:
        emit_json(rows)
    else:
        emit_table(array_columns(kind), rows)
