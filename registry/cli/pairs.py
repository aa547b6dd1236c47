"""``optotype pairs``: pairs of images that one encoder takes for alike, and how models answer about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from optotype.registry.cli import options, pair_scores
from optotype.registry.cli.commands import Command, Group
from optotype.registry.cli.output import Column, emit, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed

__all__ = ["mine", "pairs"]


def _cosine(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not -1 <= value <= 1:
        raise click.BadParameter(f"{value} is not a cosine from -1 to 1", ctx, param)
    return value


def _quantile(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and 0 < value < 1):
        raise click.BadParameter(f"{value} is not between 0 and 1", ctx, param)
    return value


@click.group(
    cls=Group,
    short_help="Mine pairs of images, score answers about them.",
    examples=["optotype pairs mine --similar siglip --different dinov2 --out mined"],
)
def pairs() -> None:
    """Pairs of images that one encoder takes for alike and another tells apart.

    Mine them, score the answers of models about two questions per pair, match images and statements by an encoder, and
    correlate the failures of the two.
    """


@pairs.command(
    "mine",
    cls=Command,
    examples=[
        "optotype pairs mine --similar siglip --different dinov2 --out mined",
        "optotype pairs mine --similar siglip --different dinov2 --above-quantile 0.95 --below-quantile 0.05 "
        "--per-image 3 --out mined --json",
    ],
    short_help="Find pairs that one encoder takes for alike and another tells apart.",
)
@click.option(
    "--similar",
    required=True,
    metavar="FEATURES",
    shell_complete=complete_names("features"),
    help="Features under which the images of a pair are alike (CLIP-like): name, path or URL.",
)
@click.option(
    "--different",
    required=True,
    metavar="FEATURES",
    shell_complete=complete_names("features"),
    help="Features under which they differ (vision-only): name, path or URL.",
)
@click.option(
    "--above",
    type=float,
    callback=_cosine,
    metavar="COSINE",
    help="Cosine of a pair under --similar is above this.  [default: 0.95]",
)
@click.option(
    "--below",
    type=float,
    callback=_cosine,
    metavar="COSINE",
    help="Cosine of a pair under --different is below this.  [default: 0.6]",
)
@click.option(
    "--above-quantile",
    type=float,
    callback=_quantile,
    metavar="Q",
    help="Instead of --above: this quantile of all pairs under --similar, 0.99 for the top hundredth; estimated "
    "on 4,096 images where there are more.",
)
@click.option(
    "--below-quantile",
    type=float,
    callback=_quantile,
    metavar="Q",
    help="Instead of --below: this quantile of all pairs under --different, 0.1 for the bottom tenth; estimated "
    "on 4,096 images where there are more.",
)
@options.number("--per-image", default=None, minimum=1, text="Pairs that one image may be in, best first.")
@click.option("--common", is_flag=True, help="Use the images that both have instead of asking for equal sets.")
@click.option(
    "--images",
    type=click.Path(path_type=Path, exists=True),
    metavar="TABLE",
    help="Table with id, image and perhaps text, or a folder of images: pictures for the contact sheet.",
)
@options.number("--shown", default=60, minimum=0, text="Pairs on the contact sheet.")
@options.seed
@options.out_folder("Write pairs.parquet, pairs.json and contact-sheet.html into DIR.")
@options.as_json
@click.pass_context
def mine(
    ctx: click.Context,
    similar: str,
    different: str,
    above: float | None,
    below: float | None,
    above_quantile: float | None,
    below_quantile: float | None,
    per_image: int | None,
    common: bool,
    images: Path | None,
    shown: int,
    seed: int,
    out: Path,
    as_json: bool,
) -> None:
    """Find pairs of images that --similar takes for alike and --different tells apart.

    All pairs are gone through, in bounded memory; the cosine is that of the mean over the stored tokens, and both
    thresholds are strict. DIR/pairs.parquet has the pairs by falling difference of the two cosines.
    """
    from optotype.pipelines.progress import reporter
    from optotype.registry import pair_mining

    for side, cosine, quantile in (("above", above, above_quantile), ("below", below, below_quantile)):
        if cosine is not None and quantile is not None:
            raise click.UsageError(f"--{side} and --{side}-quantile set one threshold: give one of the two", ctx)
    document = pair_mining.mine_pairs(
        similar,
        different,
        project=project_if_needed(ctx, [similar, different]),
        above=above,
        below=below,
        above_quantile=above_quantile,
        below_quantile=below_quantile,
        per_image=per_image,
        common=common,
        images=images,
        shown=shown,
        seed=seed,
        out=out,
        progress=reporter(),
    )
    if as_json:
        emit_json(document)
    else:
        emit_table(_COLUMNS, _rows(document))
        emit(f"{document['counts']['kept']} pairs kept in {out}")
    for text in document["warnings"]:
        note(f"Warning: {text}")


def _rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The thresholds that were asked for, and those of the paper."""
    counts, printed = document["counts"], document["counts"]["at_printed_thresholds"]
    used = {side: document["thresholds"][side] for side in ("above", "below")}
    return [
        {
            "thresholds": "asked for",
            **{side: _threshold(each, counts["images"]) for side, each in used.items()},
            "pairs": counts["pairs_of_images"],
            "passed": counts["above"],
            "found": counts["above_and_below"],
        },
        {
            "thresholds": "of the paper",
            **{side: f"{printed[f'{side}_threshold']:g}" for side in used},
            "pairs": counts["pairs_of_images"],
            "passed": printed["above"],
            "found": printed["above_and_below"],
        },
    ]


def _threshold(threshold: Mapping[str, Any], images: int) -> str:
    if threshold["quantile"] is None:
        return f"{threshold['cosine']:g}"
    over = threshold["quantile_over_images"]
    sample = "" if over == images else f", estimated on {over:,} images"
    return f"{threshold['cosine']:g} (quantile {threshold['quantile']:g}{sample})"


_COLUMNS = [
    Column("thresholds", lambda row: row["thresholds"]),
    Column("above", lambda row: row["above"], right=True),
    Column("below", lambda row: row["below"], right=True),
    Column("pairs", lambda row: f"{row['pairs']:,}", right=True),
    Column("above in similar", lambda row: f"{row['passed']:,}", right=True),
    Column("and below in different", lambda row: f"{row['found']:,}", right=True),
]

pairs.add_command(pair_scores.score)
pairs.add_command(pair_scores.match)
pairs.add_command(pair_scores.correlate)
