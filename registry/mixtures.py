"""Virtual encoders: two arrays of features mixed by name, lazily or, if asked, as an array of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from optotype.registry.references import project_for
from optotype.schemas.errors import ConflictError, UsageError
from optotype.schemas.names import check_array_name, is_url_or_path

if TYPE_CHECKING:
    from optotype.store.mixtures import Mixture
    from optotype.store.project import Project

__all__ = ["mix_features"]

MixtureKind = Literal["additive", "interleaved"]


def mix_features(
    kind: MixtureKind,
    a: str,
    b: str,
    name: str,
    *,
    project: Project | str | Path | None = None,
    alpha: float | Sequence[float] | None = None,
    grid: tuple[int, int] | None = None,
    channels: int | None = None,
    seed: int = 0,
    common: bool = False,
    store: bool = False,
    track: bool = True,
    say: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Make a virtual encoder of two arrays of features; scores rank it as any other, and no model runs again.

    Parameters
    ----------
    kind : {"additive", "interleaved"}
        α A + (1 - α) B token by token, before any whitening; or the tokens of both side by side, each space whitened on
        its own, where tokens of unlike spaces never match.
    a, b : str
        Names, paths or URLs of features; A is the CLIP-like side.
    name : str
        What to call it: a name among the project's features, or the path of a folder.
    project : Project or path, optional
        By default the one that the working directory lies in; none is needed where all references are paths.
    alpha : float or sequence of float, optional
        Weight of A, from 0 to 1; additive alone. Several make a bundle ``name`` of ``<name>-<alpha>``, which
        ``optotype rank --features NAME`` takes as a whole.
    grid : (int, int), optional
        Bring the tokens of both onto this grid by linear interpolation.
    channels : int, optional
        Bring both to so many channels by a seeded random map that keeps lengths.
    seed : int
        Of that map.
    common : bool
        Mix over the images that both have instead of asking for equal sets.
    store : bool
        Write the mixed tokens as an array; additive with one ``alpha`` alone.
    track : bool
        Whether DVC tracks the folder, where it is among the features of a project of DVC's.
    say : callable, optional
        Takes lines for the reader.

    Returns
    -------
    list of dict
        The row of `optotype features list` for each, and ``virtual``, ``kind``, ``alpha``.

    Raises
    ------
    UsageError
        Options out of range, or that do not go together.
    InvalidDataError
        Ids, grids or widths that do not go together, all of them, with what mends it.
    ConflictError
        The name is taken, by an array with values for example.
    NotFoundError, FormatError, IntegrityError, ExternalError
        From the store.
    """
    from optotype.pipelines.mixtures import describe_mixture

    project = project_for(project, (a, b, name))
    target = Path(name) if is_url_or_path(name) else _folder(project, name)
    weights = _weights(kind, alpha)
    members = _members(target, weights)
    if store and (kind == "interleaved" or len(members) > 1):
        what = "the tokens of A and B lie in two spaces" if kind == "interleaved" else f"{len(members)} weights"
        raise UsageError(
            f"--store writes one array, and there are {what}" if kind == "additive" else f"nothing to store: {what}",
            hint="Without --store the mixture is virtual, and ranks the same.",
        )
    _check_free(project, target, members)
    sources = tuple(_source(project, reference) for reference in (a, b))
    made = {
        member: describe_mixture(
            kind,
            (_written(project, folder, a), _written(project, folder, b)),
            (sources[0], sources[1]),
            alpha=weight,
            grid=grid,
            channels=channels,
            seed=seed,
            common=common,
        )
        for (member, folder), weight in zip(members.items(), weights, strict=True)
    }
    _put(target, members, made, (sources[0], sources[1]), store=store, say=say)
    if track and project is not None and target.resolve().is_relative_to(project.features.resolve()):
        from optotype.store import dvc

        dvc.track(target, root=project.root)
    return [_row(project, members[member], mixture, virtual=not store) for member, mixture in made.items()]


def _folder(project: Project | None, name: str) -> Path:
    if project is None:
        raise UsageError(f"{name!r} is a name, and there is no project to put it into", hint="Give a path, or use -C.")
    return project.features / check_array_name(name)


def _weights(kind: str, alpha: float | Sequence[float] | None) -> list[float | None]:
    given = [] if alpha is None else [float(alpha)] if isinstance(alpha, (int, float)) else [float(x) for x in alpha]
    if (kind == "additive") != bool(given):
        need = (
            "an additive mixture needs the weight of A"
            if kind == "additive"
            else "an interleaved mixture has no weight"
        )
        raise UsageError(f"{need}", hint="additive: --alpha 0.5, from 0 to 1; interleaved: without --alpha.")
    twice = sorted({weight for weight in given if given.count(weight) > 1})
    if twice:
        raise UsageError(f"alpha given twice: {', '.join(f'{weight:g}' for weight in twice)}")
    return list(given) or [None]


def _members(target: Path, weights: Sequence[float | None]) -> dict[str, Path]:
    """Folder of each mixture by its name in the bundle; ``""`` for the only one."""
    if len(weights) == 1:
        return {"": target}
    return {name: target / name for name in (f"{target.name}-{weight!r}" for weight in weights)}


def _check_free(project: Project | None, target: Path, members: dict[str, Path]) -> None:
    """ConflictError where another array of the project is so called."""
    if project is None or not target.resolve().is_relative_to(project.features.resolve()):
        return
    index = project.index("features")
    for name, folder in members.items():
        name = name or target.name
        others = [other for other in index.get(name, []) if other != folder and target not in other.parents]
        if others:
            place = others[0].relative_to(project.root)
            raise ConflictError(f"features {name!r} are there already: {place}", hint="Choose another name.")


def _source(project: Project | None, reference: str) -> str | Path:
    if project is not None:
        return project.resolve("features", reference)
    return reference


def _written(project: Project | None, folder: Path, reference: str) -> str:
    """How the document names a part: as it was named, where that means the same from the mixture's folder."""
    if "://" in reference or "::" in reference:
        return reference
    inside = project is not None and folder.absolute().is_relative_to(project.root)
    if not is_url_or_path(reference) and inside:
        return reference
    where = Path(_source(project, reference)).absolute()
    relative = os.path.relpath(where, folder.absolute())
    return relative if is_url_or_path(relative) else f"./{relative}"


def _put(
    target: Path,
    members: dict[str, Path],
    made: dict[str, Mixture],
    sources: tuple[str | Path, str | Path],
    *,
    store: bool,
    say: Callable[[str], None] | None,
) -> None:
    from optotype.store.drafts import writing
    from optotype.store.mixtures import write_mixtures

    with writing(target):
        there = target.exists()
        if store:
            ((_, mixture),) = made.items()
            _store(target, mixture, sources)
        else:
            write_mixtures(target, made[""] if "" in members else made)
        if there and say is not None:
            say(f"{target.name}: took the place of what was there")


def _store(target: Path, mixture: Mixture, sources: tuple[str | Path, str | Path]) -> None:
    """Write the tokens of an additive mixture as an array."""
    from optotype.pipelines.kernels.rows import spans_of_rows
    from optotype.pipelines.mixtures import mix
    from optotype.store.features import open_features, write_features

    a, b = (open_features(source) for source in sources)
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
    patches = made["patches"].data

    def blocks() -> Iterator[Any]:
        for start, stop in spans_of_rows(*patches.shape):
            yield patches[start:stop].compute(scheduler="synchronous")

    write_features(
        target,
        ids=[str(value) for value in made["image"].values],
        row_size=made["row_size"].values,
        blocks=blocks(),
        dtype=patches.dtype.name,
        inputs=mixture.recipe,
        attrs={"grid": list(made.attrs["grid"])} if "grid" in made.attrs else None,
    )


def _row(project: Project | None, folder: Path, mixture: Mixture, *, virtual: bool) -> dict[str, Any]:
    from optotype.store.listing import describe

    (row,) = describe("features", folder)
    if project is not None and folder.resolve().is_relative_to(project.root):
        row["path"] = folder.resolve().relative_to(project.root).as_posix()
    return {**row, "virtual": virtual, "kind": mixture.kind, "alpha": mixture.alpha}
