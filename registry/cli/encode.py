"""``optotype encode``: run a vision encoder, a language model or an embedder and keep what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from optotype.registry.cli import options
from optotype.registry.cli.arrays import array_columns
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import needed_project

__all__ = ["encode"]

_SOURCE = "hf:<repo>@<revision>, a local folder, or python:<module>:<factory>[@<folder>]."


def _where(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    """``COLUMN=VALUE``, each column once."""
    chosen: dict[str, str] = {}
    for text in values:
        column, equals, value = text.partition("=")
        if not equals or not column:
            raise click.BadParameter(f"{text!r} is not COLUMN=VALUE, such as task=t2i", ctx, param)
        if column in chosen:
            raise click.BadParameter(f"the column {column!r} is given twice", ctx, param)
        chosen[column] = value
    return chosen


@click.group(
    cls=Group,
    examples=[
        "optotype encode images dinov2-l12 --images photos/ --source hf:facebook/dinov2-small@ed25f3a --layers 12",
        "optotype encode texts minilm --texts pairs.csv --source data/models/minilm-l6",
    ],
)
def encode() -> None:
    """Run a model over images, texts or benchmark items and keep what comes out.

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
    _report(rows, array_columns("features"), as_json)


@encode.command(
    examples=[
        "optotype encode texts qwen3 --texts pairs.csv --source hf:Qwen/Qwen3-1.7B@70d244c --layer -2",
        "optotype encode texts minilm --texts pairs.csv --column text --source data/models/minilm-l6",
        "optotype encode texts captions --texts query-texts.csv --source data/models/smollm2-135m --pooling last "
        "--where task=t2i --template mmmeb@1 --template-side query --style punct",
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
    type=click.Choice(["mean", "last", "cls", "last-before-eos"]),
    default="mean",
    show_default=True,
    help="Mean over the real tokens, the last real token, the first, or the last before the end-of-sequence token.",
)
@click.option(
    "--where",
    multiple=True,
    callback=_where,
    metavar="COLUMN=VALUE",
    help="Only rows whose cell in this column is that value; several narrow it down.",
)
@click.option(
    "--template",
    metavar="NAME[@VERSION]|FILE",
    help="Put the texts into prompts: one of optotype templates list, or a JSON file.  [default: the texts alone]",
)
@click.option("--template-task", metavar="TASK", help="Task of the prompts.  [default: the table's column task]")
@click.option("--template-side", type=click.Choice(["query", "candidate"]), help="Side of the prompts.")
@click.option("--language", metavar="CODE", help="Language of the prompts.  [default: the table's column language]")
@click.option(
    "--style",
    type=click.Choice(["plain", "punct", "newline"]),
    help="End of a prompt: no punctuation, its full stop or question mark, or that and a new line.  [default: as it "
    "is]",
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
@click.option(
    "--padding",
    type=click.Choice(["right", "left"]),
    default="right",
    show_default=True,
    help="Where the shorter texts of a batch are filled up.",
)
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
    where: dict[str, str],
    template: str | None,
    template_task: str | None,
    template_side: str | None,
    language: str | None,
    style: str | None,
    batch_size: int,
    device: str,
    dtype: str,
    max_length: int | None,
    padding: str,
    gguf_file: str | None,
    trust_remote_code: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Encode texts to states called NAME: one hidden layer, pooled over the tokens of each text.

    With --template the texts are put into prompts first; see optotype templates show.
    """
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
        where=where,
        template=template,
        template_task=template_task,
        template_side=template_side,
        language=language,
        style=style,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        max_length=max_length,
        padding=padding,
        gguf_file=gguf_file,
        trust_remote_code=trust_remote_code,
        threads=threads,
        progress=reporter(),
    )
    _report([row], array_columns("states"), as_json)


@encode.command(
    examples=[
        "optotype encode items clip --items items.csv --source hf:openai/clip-vit-base-patch32@3d74acf",
        "optotype encode items minilm --panel openvlm --source data/models/minilm-l6",
    ],
    short_help="Encode benchmark items to embeddings.",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--items",
    metavar="TABLE",
    help="A table (.csv, .tsv, .jsonl, .parquet) with columns benchmark, item_id, one of texts, and perhaps image.",
)
@click.option("--panel", metavar="PANEL", help="A panel whose items have these, instead of a table.")
@click.option("--source", required=True, metavar="SOURCE", help="hf:<repo>@<revision> or a local folder.")
@click.option(
    "--images-root",
    metavar="DIR",
    help="Folder that the images' paths start from.  [default: the table's; of a panel the project's]",
)
@click.option(
    "--text-column", default="question", show_default=True, metavar="NAME", help="Column that holds the texts."
)
@click.option(
    "--pooling",
    type=click.Choice(["mean", "last", "cls"]),
    help="Of the last layer.  [default: mean for text models, last for vision-language models]",
)
@options.number("--batch-size", default=16, minimum=1, text="Items per forward pass.")
@options.device
@options.number("--max-length", default=None, minimum=1, text="Tokens kept of a text.  [default: what the model takes]")
@click.option("--trust-remote-code", is_flag=True, help="Run code that comes with the model.")
@options.number("--threads", default=None, minimum=1, text="CPU threads of the model.  [default: all]")
@options.as_json
@click.pass_context
def items(
    ctx: click.Context,
    name: str,
    items: str | None,
    panel: str | None,
    source: str,
    images_root: str | None,
    text_column: str,
    pooling: str | None,
    batch_size: int,
    device: str,
    max_length: int | None,
    trust_remote_code: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Encode benchmark items to embeddings called NAME.

    A text model embeds their texts. A dual encoder (CLIP) or a vision-language model also embeds text and image
    together, from which vision dependence and coverage cells are computed.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry.cli.embeddings import EMBEDDING_COLUMNS
    from optotype.registry.encoding import encode_item_array

    row = encode_item_array(
        needed_project(ctx),
        name,
        source,
        items=items,
        panel=panel,
        images_root=images_root,
        text_column=text_column,
        pooling=pooling,
        batch_size=batch_size,
        device=device,
        max_length=max_length,
        trust_remote_code=trust_remote_code,
        threads=threads,
        progress=reporter(),
    )
    _report([row], EMBEDDING_COLUMNS, as_json)


def _report(rows: Sequence[dict[str, Any]], columns: Sequence[Column], as_json: bool) -> None:
    for row in rows:
        if row["skipped"]:
            note(f"{row['name']}: up to date, nothing to do")
        elif row["resumed"]:
            note(f"{row['name']}: went on where an earlier run had stopped")
    if as_json:
        emit_json(rows)
    else:
        emit_table(columns, rows)
