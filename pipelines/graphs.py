"""Top-k graphs of stored arrays, computed once: a graph is found again by everything it was made of."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from optotype.pipelines.forms import PLAIN, Form
from optotype.pipelines.kernels.whitening import check_eps, check_prenorm
from optotype.pipelines.metrics.fronts import fronted_features, fronted_rows, patch_chain
from optotype.pipelines.mixtures import open_mixture
from optotype.pipelines.operators.mixtures import is_interleaved, select
from optotype.pipelines.operators.neighbours import (
    check_k,
    feature_neighbours,
    feature_neighbours_by_k,
    row_neighbours_by_k,
    state_neighbours,
    state_neighbours_by_k,
)
from optotype.pipelines.pairs.pooling import pooled_rows
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.scheduler import Scheduler
from optotype.pipelines.scheduler import scheduler as open_scheduler
from optotype.schemas.documents import cache_key, canonical_json
from optotype.schemas.errors import (
    ConflictError,
    FormatError,
    IntegrityError,
    InvalidDataError,
    NotFoundError,
    Problem,
    UsageError,
)
from optotype.schemas.names import check_array_name, is_url_or_path
from optotype.store.features import open_features
from optotype.store.location import Location
from optotype.store.manifest import read_manifest, verify
from optotype.store.mixtures import check_parts, is_mixture, read_mixture
from optotype.store.neighbours import open_neighbours, write_neighbours
from optotype.store.project import Project
from optotype.store.states import open_states

__all__ = [
    "GRAPH_VERSION",
    "PLAIN",
    "Form",
    "features_graph",
    "features_graphs",
    "graph_inputs",
    "open_array",
    "states_graph",
    "states_graphs",
    "write_graphs",
]

GRAPH_VERSION = 1
"""Raised whenever the same inputs would give another graph."""

Kind = Literal["features", "states"]


_DAMAGED = (FormatError, IntegrityError, NotFoundError)
_SHOWN = 5


def open_array(project: Project | None, kind: Kind, reference: str, *, spaces: bool = False) -> xr.Dataset:
    """Open the array that ``reference`` (name in the project, path or URL) means; lazy. It may be a virtual encoder.

    Parameters
    ----------
    spaces : bool
        Whether the caller takes an interleaved mixture, whose tokens lie in two spaces
        (:func:`optotype.pipelines.operators.mixtures.interleaved`).

    Raises
    ------
    UsageError
        A name without a project, or an interleaved mixture for a caller that knows one space.
    NotFoundError, ConflictError, FormatError, IntegrityError, ExternalError
        From the store.
    """
    source = _source(project, kind, reference)
    if kind == "states":
        return open_states(source)
    if not is_mixture(source):
        return open_features(source)
    made = open_mixture(source)
    if is_interleaved(made) and not spaces:
        raise UsageError(
            f"{reference} is an interleaved mixture: its tokens lie in two spaces, and this takes features of one",
            hint="optotype rank and optotype neighbours build take interleaved mixtures; for this, name one of its "
            "parts or an additive mixture.",
        )
    return made


def _source(project: Project | None, kind: Kind, reference: str) -> str | Path:
    """Path or URL of the array that ``reference`` means."""
    if project is not None:
        return project.resolve(kind, reference)
    if is_url_or_path(reference):
        return reference
    raise UsageError(
        f"{reference!r} is a name, and there is no project to look it up in", hint="Give a path, or use -C."
    )


def _check_files(project: Project | None, kind: Kind, reference: str) -> None:
    """IntegrityError unless a local array has the bytes of its manifest; arrays behind a URL are not read for this.

    A graph is kept under the digest of its array, so it must not be made of other bytes.
    """
    source = _source(project, kind, reference)
    parts = check_parts(source, read_mixture(source)) if kind == "features" and is_mixture(source) else [source]
    for folder in [Location.of(part).local for part in parts]:
        if folder is not None:
            _check_folder(folder)


def _check_folder(folder: Path) -> None:
    problems = _differences(folder)
    if problems:
        lines = [f"  - {problem}" for problem in problems[:_SHOWN]]
        if len(problems) > _SHOWN:
            lines.append(f"  - and {len(problems) - _SHOWN} more")
        raise IntegrityError(
            "\n".join([f"{folder}: the files are not those of the manifest", *lines]),
            hint="Import or encode the array again, or fetch it: dvc checkout or dvc pull",
        )


def _differences(folder: Path) -> list[Problem]:
    """What is wrong with the files of a manifest; a file that it does not list is never read."""
    return [problem for problem in verify(folder) if problem.kind != "extra-file"]


def graph_inputs(
    digest: str, *, kind: Kind, k: int, eps: float, prenorm: str, items: Sequence[str] | None, form: Form = PLAIN
) -> dict[str, Any]:
    """Everything a graph depends on; its key is the hash of this.

    Parameters
    ----------
    digest : str
        Of the array.
    items : sequence of str, optional
        Ids of the subset, sorted; None means all.
    form : Form
        A raw graph hangs on neither ``eps`` nor ``prenorm``, so its key does not either.
    """
    subset = None if items is None else "sha256:" + hashlib.sha256(canonical_json(list(items))).hexdigest()
    return {
        "graph_version": GRAPH_VERSION,
        "array": digest,
        "kind": kind,
        "k": int(k),
        "eps": float(eps) if form.whitened else 0.0,
        "prenorm": prenorm if form.whitened else "none",
        "items": subset,
        **form.inputs(),
    }


def features_graph(
    project: Project | None,
    reference: str,
    *,
    k: int = 100,
    eps: float = 1e-4,
    prenorm: str = "none",
    images: Sequence[str] | None = None,
    form: Form = PLAIN,
    scheduler: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> xr.Dataset:
    """The top-k graph of patch features: found, or computed and kept in the project's cache.

    Looked for among the graphs of the project (``data/neighbours``), then in ``.optotype/cache/neighbours``.

    Parameters
    ----------
    project : Project or None
        Without one nothing is looked up or kept, and ``reference`` is a path or URL.
    reference : str
        Name, path or fsspec URL of the array.
    k, eps, prenorm
        As for :func:`optotype.pipelines.operators.neighbours.feature_neighbours`.
    images : sequence of str, optional
        Only these ids; whitening is fitted on them alone.
    form : Form
        What is compared, if not whitened patches.
    scheduler : str or Scheduler
    progress : Progress, optional

    Returns
    -------
    Dataset
        See :func:`optotype.pipelines.operators.neighbours.feature_neighbours`.

    Raises
    ------
    IntegrityError
        The graph has to be computed, and the files of the local array are not those of its manifest.
    UsageError
        An interleaved mixture in a form that takes one space.
    OptotypeError
        As :func:`open_array` and :func:`optotype.pipelines.operators.neighbours.feature_neighbours` do.
    """
    options: dict[str, Any] = {"eps": eps, "prenorm": prenorm, "images": images, "form": form}
    return features_graphs(project, reference, [k], scheduler=scheduler, progress=progress, **options)[k]


def features_graphs(
    project: Project | None,
    reference: str,
    ks: Sequence[int],
    *,
    eps: float = 1e-4,
    prenorm: str = "none",
    images: Sequence[str] | None = None,
    form: Form = PLAIN,
    scheduler: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> dict[int, xr.Dataset]:
    """The graphs of one array for several k: each found under its own key, and the others computed in one pass.

    They are those of :func:`features_graph`, byte for byte, and are kept like them. A graph is not cut out of one of a
    larger k: :func:`optotype.pipelines.operators.neighbours.feature_neighbours_by_k` says why.

    Parameters
    ----------
    ks : sequence of int
        One or more, each 1 <= k < n.

    Other parameters and the errors are those of :func:`features_graph`.

    Returns
    -------
    dict of int to Dataset
        By k, each once, in the order of ``ks``.
    """
    return _graphs(project, "features", reference, ks, eps, prenorm, images, scheduler, progress or SILENT, form=form)


def states_graph(
    project: Project | None,
    reference: str,
    *,
    k: int = 100,
    eps: float = 1e-4,
    prenorm: str = "l2",
    texts: Sequence[str] | None = None,
    form: Form = PLAIN,
    scheduler: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> xr.Dataset:
    """The top-k graph of text states: found, or computed and kept. See :func:`features_graph`."""
    options: dict[str, Any] = {"eps": eps, "prenorm": prenorm, "texts": texts, "form": form}
    return states_graphs(project, reference, [k], scheduler=scheduler, progress=progress, **options)[k]


def states_graphs(
    project: Project | None,
    reference: str,
    ks: Sequence[int],
    *,
    eps: float = 1e-4,
    prenorm: str = "l2",
    texts: Sequence[str] | None = None,
    form: Form = PLAIN,
    scheduler: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> dict[int, xr.Dataset]:
    """The graphs of text states for several k. See :func:`features_graphs`."""
    return _graphs(project, "states", reference, ks, eps, prenorm, texts, scheduler, progress or SILENT, form=form)


def write_graphs(
    project: Project,
    target_name: str,
    kind: Kind,
    references: Sequence[str],
    prenorms: Sequence[str],
    *,
    k: int = 100,
    eps: float = 1e-4,
    scheduler: str | Scheduler = "threads",
    progress: Progress | None = None,
) -> list[Path]:
    """Write graphs as ``data/neighbours/<target_name>/<array>.<prenorm>/``; returns the folders, in order.

    Each array is written whole or not at all; graphs from an earlier run that are not asked for any more are removed.
    A reference may be a bundle (one encoder run that wrote several arrays), which stands for all its arrays.

    Raises
    ------
    UsageError
        Nothing to do, or ``k``, ``eps``, a prenorm or the name are not allowed; checked before anything is computed.
    ConflictError
        ``target_name`` is a graph itself, or two references have the same array name.
    """
    check_array_name(target_name)
    arrays = dict.fromkeys(array for reference in references for array in project.arrays(kind, reference))
    wanted = [(array, prenorm) for array in arrays for prenorm in dict.fromkeys(prenorms)]
    if not wanted:
        raise UsageError("no graph was asked for: give an array and a prenorm (none or l2)")
    folder = project.neighbours / target_name
    if (folder / "zarr.json").exists():
        raise ConflictError(f"{folder} is a graph; a folder of graphs was to be written there")
    targets: dict[Path, tuple[str, str, str]] = {}
    for array, prenorm in wanted:
        check_prenorm(prenorm)
        opened = open_array(project, kind, array, spaces=True)
        check_k(k, opened.sizes["image" if kind == "features" else "text"])
        target = folder / f"{check_array_name(str(opened.attrs['name']))}.{prenorm}"
        if target in targets:
            raise ConflictError(
                f"two of the arrays are called {opened.attrs['name']!r}; their graphs would overwrite each other"
            )
        targets[target] = (array, prenorm, str(opened.attrs["digest"]))
    check_eps(eps)
    for target, (array, prenorm, digest) in targets.items():
        made = _graphs(project, kind, array, [k], eps, prenorm, None, scheduler, progress or SILENT, keep=False)
        write_neighbours(
            target, made[k], inputs=graph_inputs(digest, kind=kind, k=k, eps=eps, prenorm=prenorm, items=None)
        )
    for stale in folder.iterdir():
        if stale.is_dir() and stale not in targets and (stale / "zarr.json").is_file():
            shutil.rmtree(stale)
    return list(targets)


def _graphs(
    project: Project | None,
    kind: Kind,
    reference: str,
    ks: Sequence[int],
    eps: float,
    prenorm: str,
    items: Sequence[str] | None,
    scheduler: str | Scheduler,
    progress: Progress,
    *,
    form: Form = PLAIN,
    keep: bool = True,
) -> dict[int, xr.Dataset]:
    dimension = "image" if kind == "features" else "text"
    array = open_array(project, kind, reference, spaces=not form.pooled)
    positions = None if items is None else _positions(array[dimension].values, items, reference)
    count = array.sizes[dimension] if positions is None else len(positions)
    ks = list(dict.fromkeys(ks))
    for k in ks:
        check_k(k, count)
    eps, prenorm = check_eps(eps), check_prenorm(prenorm)
    chosen = None if positions is None else [str(value) for value in array[dimension].values[positions]]
    told: dict[str, Any] = {"kind": kind, "eps": eps, "prenorm": prenorm, "items": chosen, "form": form}
    inputs = {k: graph_inputs(array.attrs["digest"], k=k, **told) for k in ks}
    found = {k: None if project is None else _find(project, cache_key(inputs[k]), progress) for k in ks}
    missing = [k for k in ks if found[k] is None]
    made: dict[int, xr.Dataset] = {}
    if missing:
        _check_files(project, kind, reference)
        progress.note(f"{array.attrs['name']}: neighbours of {count} {dimension}s")
        part = array if positions is None else _part(array, kind, positions)
        made = _made(part, kind, missing, eps, prenorm, form, scheduler, progress)
    if project is not None and keep:
        for k, graph in made.items():
            write_neighbours(_cached(project, cache_key(inputs[k])), graph, inputs=inputs[k])
    kept = {k: graph for k, graph in found.items() if graph is not None}
    return {k: made[k] if k in made else kept[k] for k in ks}


def _part(array: xr.Dataset, kind: Kind, positions: Any) -> xr.Dataset:
    return select(array, positions) if kind == "features" else array.isel(text=positions)


def _made(
    array: xr.Dataset,
    kind: Kind,
    ks: Sequence[int],
    eps: float,
    prenorm: str,
    form: Form,
    scheduler: str | Scheduler,
    progress: Progress,
) -> dict[int, xr.Dataset]:
    """The graphs of an array, computed."""
    options: dict[str, Any] = {"eps": eps, "prenorm": prenorm, "run": scheduler, "progress": progress}
    if not form.whitened:
        options["whitened"] = False
    if kind == "states":
        if form.chain:
            rows = fronted_rows(array["states"].values.astype(np.float64), form.chain, "states")
            array = xr.Dataset({"states": (("text", "channel"), rows)}, coords={"text": array["text"].variable})
        if len(ks) == 1:
            return {ks[0]: state_neighbours(array, k=ks[0], **options)}
        return state_neighbours_by_k(array, ks, **options)
    if not form.pooled:
        array = fronted_features(array, patch_chain(form.chain, form.gamma))
        if len(ks) == 1:
            return {ks[0]: feature_neighbours(array, k=ks[0], **options)}
        return feature_neighbours_by_k(array, ks, **options)
    with open_scheduler("threads") as place:
        pooled = pooled_rows(array, str(array.attrs["name"]), None, place, progress, unit=False)
    try:
        rows = fronted_rows(pooled.block(0, pooled.images), form.chain, "features")
        ids = [str(value) for value in array["image"].values]
        return row_neighbours_by_k(rows, ids, ks, **options)
    finally:
        pooled.close()


def _positions(ids: Any, items: Sequence[str], reference: str) -> Any | None:
    """Places of ``items`` in ``ids``, rising; None if they are all of them."""
    wanted = set(items)
    missing = sorted(wanted.difference(str(value) for value in ids))
    if missing:
        shown = ", ".join(map(repr, missing[:5]))
        raise InvalidDataError(
            f"{reference} lacks {len(missing)} of the ids asked for",
            [Problem(reference, "missing-id", f"has no {shown}")],
        )
    return None if len(wanted) == len(ids) else np.flatnonzero([str(value) in wanted for value in ids])


def _cached(project: Project, key: str) -> Path:
    return project.cache / "neighbours" / key


def _find(project: Project, key: str, progress: Progress) -> xr.Dataset | None:
    """The graph under ``key`` in the project or its cache; one that cannot be read is as good as none, and noted."""
    for folders in project.index("neighbours").values():
        for folder in folders:
            try:
                if read_manifest(folder).key == key:
                    return _read(folder)
            except _DAMAGED as error:
                # Which graph it was may not be known any more; whatever it was can be computed.
                progress.note(
                    f"{folder} is a damaged graph and left aside; make it again with `optotype neighbours build` "
                    f"({error.message})"
                )
    cached = _cached(project, key)
    if cached.is_dir():
        try:
            return _read(cached)
        except _DAMAGED as error:
            # It can be made again, and a cache must never need mending by hand.
            progress.note(f"a cached graph is damaged and is made again ({error.message})")
            shutil.rmtree(cached)  # the store replaces nothing that it cannot tell to be an array
    return None


def _read(folder: Path) -> xr.Dataset:
    """A stored graph; IntegrityError if any of its bytes (few: 12 for each neighbour) is not what was written."""
    problems = _differences(folder)
    if problems:
        raise IntegrityError(f"{folder}/{problems[0]}")
    return _plain(open_neighbours(folder))


def _plain(graph: xr.Dataset) -> xr.Dataset:
    """Without what tells where it was stored: a graph is the same wherever it was found."""
    graph.attrs = {name: value for name, value in graph.attrs.items() if name not in ("digest", "key", "name")}
    return graph
