"""``optotype features``: patch features of vision encoders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import click

from optotype.registry.cli import options
from optotype.registry.cli.arrays import array_columns, array_group
from optotype.registry.cli.output import Column, emit_json, emit_table, note
from optotype.registry.cli.project import complete_names, project_if_needed

__all__ = ["features"]

features = array_group(
    "features",
    help_text="Patch features of vision encoders: import, list, show, export, mix.",
    name="siglip",
    file="siglip.npz",
)


def _weights(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[float]:
    """Comma-separated weights, repeated or not, each from 0 to 1."""
    weights: list[float] = []
    for part in ",".join(values).split(",") if values else ():
        try:
            weights.append(float(part))
        except ValueError:
            raise click.BadParameter(f"{part.strip()!r} is not a number; several as 1,0.5,0", ctx, param) from None
        if not 0 <= weights[-1] <= 1:
            raise click.BadParameter(f"{part.strip()} is not from 0 to 1", ctx, param)
    return weights


def _grid(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """``ROWSxCOLUMNS``."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a grid: rows and columns, as 7x7", ctx, param)
    return int(found[1]), int(found[2])


@features.command(
    examples=[
        "optotype features mix interleaved siglip dinov2 --as siglip-dinov2",
        "optotype features mix additive clip-l14 dinov2-l14 --alpha 0.25 --as blend",
        "optotype features mix additive clip-l14 dinov2-l14 --alpha 1,0.75,0.5,0 --as sweep --json",
        "optotype features mix additive clip-l14 dinov2-l14 --alpha 0.5 --resize 3x3 --project 8 --as other-grid",
    ],
    short_help="Mix two encoders into a virtual one.",
)
@click.argument("kind", type=click.Choice(["additive", "interleaved"]))
@click.argument("a", metavar="A", shell_complete=complete_names("features"))
@click.argument("b", metavar="B", shell_complete=complete_names("features"))
@click.option(
    "--alpha",
    multiple=True,
    callback=_weights,
    metavar="WEIGHTS",
    help="Weight of A in an additive mixture, from 0 to 1; the SSL ratio is 1 - alpha. Several, as 1,0.5,0, make a "
    "bundle of NAME-1.0, NAME-0.5 ...",
)
@click.option(
    "--resize",
    "grid",
    callback=_grid,
    metavar="ROWSxCOLUMNS",
    help="Bring the tokens of both onto one grid, by linear interpolation.",
)
@options.number(
    "--project",
    "channels",
    default=None,
    minimum=1,
    text="Bring both to so many channels, by a random map that keeps lengths.",
)
@options.seed
@click.option("--common", is_flag=True, help="Mix over the images that both have instead of refusing other sets.")
@click.option("--as", "name", required=True, metavar="NAME", help="What to call it; or the path of a folder.")
@click.option("--store", is_flag=True, help="Write the mixed tokens as an array; one additive mixture alone.")
@click.option("--no-track", is_flag=True, help="Do not hand the folder to DVC.")
@options.as_json
@click.pass_context
def mix(
    ctx: click.Context,
    kind: Literal["additive", "interleaved"],
    a: str,
    b: str,
    alpha: list[float],
    grid: tuple[int, int] | None,
    channels: int | None,
    seed: int,
    common: bool,
    name: str,
    store: bool,
    no_track: bool,
    as_json: bool,
) -> None:
    """Mix the features A and B of two encoders into a virtual encoder NAME, which is ranked as any other.

    additive: alpha A + (1 - alpha) B, token by token, before any whitening; both need the same token grid and channels,
    or an explicit --resize and --project. interleaved: the tokens of both side by side; each space is whitened on its
    own, and tokens of unlike spaces never match.

    Nothing is computed or stored but a few lines that name A, B and their digests, unless --store is given. With alpha
    1 or 0 the mixture is A or B itself, down to its digest.
    """
    from optotype.registry.mixtures import mix_features

    rows = mix_features(
        kind,
        a,
        b,
        name,
        project=project_if_needed(ctx, (a, b, name)),
        alpha=alpha or None,
        grid=grid,
        channels=channels,
        seed=seed,
        common=common,
        store=store,
        track=not no_track,
        say=note,
    )
    if as_json:
        emit_json(rows)
        return
    kinds = [
        Column("mixture", lambda row: str(row["kind"])),
        Column("alpha", lambda row: "-" if row["alpha"] is None else f"{row['alpha']:g}", right=True),
    ]
    own, *others = array_columns("features")
    emit_table([own, *kinds, *others], rows)
