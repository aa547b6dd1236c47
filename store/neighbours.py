"""Neighbour graphs: the k nearest items of each item, with the spectrum of the whitening that led to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import check_ids
from optotype.store.location import Location
from optotype.store.manifest import Manifest
from optotype.store.reading import StoredGroup
from optotype.store.rows import Inputs
from optotype.store.writer import ArrayWriter

__all__ = ["open_neighbours", "write_neighbours"]

# name -> (dimensions, dtype); the second pair may be missing
_MEMBERS: dict[str, tuple[tuple[str, ...], str]] = {
    "neighbours": (("item", "rank"), "int32"),
    "similarity": (("item", "rank"), "float64"),
    "eigenvalues": (("direction",), "float64"),
    "whitened_variance": (("direction",), "float64"),
}
_OPTIONAL = ("eigenvalues", "whitened_variance")


def write_neighbours(target: Path, ds: xr.Dataset, *, inputs: Inputs) -> Manifest:
    """Write a neighbour graph as an array folder: all of it, or nothing.

    Parameters
    ----------
    target : Path
        Folder of the array; replaced in one step if there is one.
    ds : Dataset
        ``neighbours`` (item, rank) int32, indices into ``item``, nearest first; ``similarity`` (item, rank)
        float64; coordinate ``item``, ids, sorted; optionally ``eigenvalues`` and ``whitened_variance``
        (direction) float64. Attributes: JSON scalars without NaN.
    inputs : mapping
        Everything the graph was made of.

    Raises
    ------
    InvalidDataError
        Every problem found.
    """
    problems = _problems(ds)
    if problems:
        raise InvalidDataError(f"neighbour graph for {target} refused, nothing was written:", problems)
    with ArrayWriter(Path(target), "neighbours", ds.attrs, compressed=True) as writer:
        for name, (dims, dtype) in _MEMBERS.items():
            if name in ds and ds[name].size:
                values = np.ascontiguousarray(ds[name].values, dtype=np.dtype(dtype).newbyteorder("<"))
                writer.add_rows(name, dims, values.shape, values.dtype, [values])
        writer.add_strings("item", ("item",), [str(value) for value in ds["item"].values])
        return writer.commit(inputs)


def open_neighbours(source: str | Path | Location, *, storage_options: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Open a neighbour graph; it is small, and read at once.

    Returns
    -------
    Dataset
        As `write_neighbours` takes it; attributes also hold ``digest``, ``key`` and ``name``.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `optotype.store.features.open_features` does.
    """
    group = StoredGroup(source, "neighbours", storage_options)
    stored = {entry.path.split("/", 1)[0] for entry in group.manifest.files}
    members = {name: (dims, group.array(name)[...]) for name, (dims, _) in _MEMBERS.items() if name in stored}
    return xr.Dataset(
        members,
        coords={"item": ("item", group.strings("item"))},
        attrs={**group.attrs, "digest": group.manifest.digest, "key": group.manifest.key, "name": group.name},
    )


def _problems(ds: xr.Dataset) -> list[Problem]:
    if "item" not in ds.coords:
        return [Problem("item", "missing-member", "a graph has the coordinate item, the ids")]
    problems = check_ids(list(ds["item"].values.tolist()), "item")
    for name, (dims, dtype) in _MEMBERS.items():
        if name not in ds:
            if name not in _OPTIONAL:
                problems.append(Problem(name, "missing-member", f"a graph has {name} ({', '.join(dims)})"))
        elif ds[name].dims != dims:
            problems.append(Problem(name, "wrong-rank", f"dimensions are {dims}, got {ds[name].dims}"))
        elif ds[name].dtype != np.dtype(dtype):
            problems.append(Problem(name, "wrong-dtype", f"dtype is {dtype}, got {ds[name].dtype}"))
        elif ds[name].dtype.kind == "f" and not np.isfinite(ds[name].values).all():
            problems.append(Problem(name, "nan", "NaN or infinite values"))
    if not any(problem.where == "neighbours" for problem in problems):
        indices, items = ds["neighbours"].values, ds.sizes["item"]
        if not indices.size:
            problems.append(Problem("neighbours", "empty", "no neighbours: k is at least 1"))
        elif not 0 <= indices.min() <= indices.max() < items:
            message = f"indices are 0 to {items - 1}, got {indices.min()} to {indices.max()}"
            problems.append(Problem("neighbours", "out-of-range", message))
    return problems
