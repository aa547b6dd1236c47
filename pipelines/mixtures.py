"""Virtual encoders opened, and the documents they are made of checked against the arrays that are there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from optotype.pipelines.operators.mixtures import (
    SPACES,
    additive,
    check_alpha,
    interleaved,
    is_interleaved,
    project,
    resize,
    space,
)
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.features import open_features, select_images
from optotype.store.location import Location
from optotype.store.mixtures import Mixture, MixtureKind, Part, check_parts, is_mixture, read_mixture

__all__ = ["describe_mixture", "mix", "open_mixture"]


def open_mixture(source: str | Path | Location) -> xr.Dataset:
    """Open a virtual encoder lazily.

    Returns
    -------
    Dataset
        As :func:`optotype.store.features.open_features` gives it, of an additive mixture; as
        :func:`optotype.pipelines.operators.mixtures.interleaved` gives it, of an interleaved one. Attributes
        ``digest``, ``key``, ``name`` (of the mixture) and ``mixture`` (dict: ``kind``, ``alpha``, ``a``, ``b``).

    Raises
    ------
    ConflictError
        A part is another array than the one that was mixed.
    NotFoundError, FormatError, IntegrityError, ExternalError
        The mixture or a part cannot be read.
    """
    mixture = read_mixture(source)
    a, b = (open_features(where) for where in check_parts(source, mixture))
    made = mix(
        mixture.kind,
        a,
        b,
        alpha=mixture.alpha,
        grid=mixture.grid,
        channels=mixture.channels,
        seed=mixture.seed or 0,
        common=mixture.common,
    )
    told = {"kind": mixture.kind, "alpha": mixture.alpha, "a": str(a.attrs["name"]), "b": str(b.attrs["name"])}
    own = {"digest": mixture.digest, "key": mixture.key, "name": Location.of(source).name, "mixture": told}
    grid = {"grid": made.attrs["grid"]} if "grid" in made.attrs else {}
    made.attrs = {**grid, **own}
    return made


def mix(
    kind: MixtureKind,
    a: xr.Dataset,
    b: xr.Dataset,
    *,
    alpha: float | None = None,
    grid: tuple[int, int] | None = None,
    channels: int | None = None,
    seed: int = 0,
    common: bool = False,
) -> xr.Dataset:
    """Mix two opened arrays of features lazily.

    Parameters
    ----------
    kind : {"additive", "interleaved"}
    a, b : Dataset
        As :func:`optotype.store.features.open_features` gives them.
    alpha : float, optional
        Weight of A; needed by additive mixtures, and theirs alone.
    grid : (int, int), optional
        Bring the tokens of both onto this grid; see :func:`optotype.pipelines.operators.mixtures.resize`.
    channels : int, optional
        Project the tokens of both to so many channels; see :func:`optotype.pipelines.operators.mixtures.project`.
    seed : int
        Of the projection.
    common : bool
        Only the images that both have.

    Raises
    ------
    UsageError
        Options that do not go together, or are out of range.
    InvalidDataError
        Arrays that do not go together.
    """
    if (kind == "additive") != (alpha is not None):
        need = "an additive mixture needs alpha" if kind == "additive" else "an interleaved mixture has no alpha"
        raise UsageError(f"{need}: the weight of A, from 0 to 1")
    if common:
        a, b = _common(a, b)
    if grid is not None:
        a, b = resize(a, grid), resize(b, grid)
    if channels is not None:
        a, b = project(a, channels, seed), project(b, channels, seed)
    if alpha is not None:
        return additive(a, b, check_alpha(alpha))
    return interleaved(a, b)


def describe_mixture(
    kind: MixtureKind,
    references: tuple[str, str],
    sources: tuple[str | Path, str | Path],
    *,
    alpha: float | None = None,
    grid: tuple[int, int] | None = None,
    channels: int | None = None,
    seed: int = 0,
    common: bool = False,
) -> Mixture:
    """The document of a virtual encoder, made after a look at both arrays; none of their values is read.

    Parameters
    ----------
    references : (str, str)
        How the document is to name the parts.
    sources : (str or Path, str or Path)
        Where they lie.

    Other parameters and errors are those of :func:`mix`; a part that is a mixture itself is a UsageError.
    """
    for source in sources:
        if is_mixture(source):
            raise UsageError(
                f"{Location.of(source).name} is a mixture itself; the parts of a mixture are stored arrays",
                hint="Store it first: optotype features mix additive A B --store --as NAME",
            )
    a, b = (open_features(source) for source in sources)
    made = mix(kind, a, b, alpha=alpha, grid=grid, channels=channels, seed=seed, common=common)
    spaces = [space(made, suffix) for suffix in SPACES] if is_interleaved(made) else [made]
    dtypes = dict.fromkeys(_dtype(part) for part in spaces)
    draft = Mixture(
        kind=kind,
        parts=(
            Part(references[0], str(a.attrs["digest"])),
            Part(references[1], str(b.attrs["digest"])),
        ),
        alpha=None if alpha is None else float(alpha),
        grid=grid,
        channels=channels,
        seed=None if channels is None else seed,
        common=common,
        digest="",
        images=made.sizes["image"],
        tokens=sum(part.sizes["token"] for part in spaces),
        dims=sum(part.sizes["channel"] for part in spaces),
        dtype=", ".join(dtypes),
    )
    # Equal values, equal digest: where one part is given back as it is stored, its graphs are found and not made again.
    given_back = draft.given_back if made is a or made is b else None
    return replace(draft, digest=given_back or draft.own_digest)


def _common(a: xr.Dataset, b: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Both over the images that they share; as they are where these are all."""
    ids = [[str(value) for value in side["image"].values] for side in (a, b)]
    shared = set(ids[0]) & set(ids[1])
    if len(shared) < 2:
        problems = [
            Problem(str(side.attrs.get("name", letter)), "no-common-id", f"{len(own)} ids")
            for letter, side, own in zip("AB", (a, b), ids, strict=True)
        ]
        raise InvalidDataError(f"A and B have {len(shared)} id(s) in common; two or more are needed", problems)
    chosen: list[Any] = []
    for side, own in zip((a, b), ids, strict=True):
        there = np.flatnonzero([value in shared for value in own])
        chosen.append(side if len(there) == len(own) else select_images(side, there))
    return chosen[0], chosen[1]


def _dtype(features: xr.Dataset) -> str:
    patches = features["patches"]
    return str(patches.attrs.get("stored_dtype", patches.dtype))
