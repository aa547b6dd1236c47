"""Item embeddings: what an item says, and what it says together with its image, as vectors of one embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optotype.schemas.errors import FormatError, IntegrityError, InvalidDataError, Problem
from optotype.schemas.names import id_problems
from optotype.store.checks import limited
from optotype.store.rows import Inputs
from optotype.store.writer import ArrayWriter

if TYPE_CHECKING:
    import xarray as xr

    from optotype.store.manifest import Manifest

__all__ = [
    "EMBEDDINGS",
    "VALUES",
    "Rows",
    "describe_embeddings",
    "item_problems",
    "open_embeddings",
    "write_embeddings",
]

EMBEDDINGS = "embeddings"
VALUES = ("text", "vision_text")
_BLOCK_BYTES = 8 << 20
_SHOWN = 5

Rows = Any
"""Values to store: an ndarray (n, d) in the order of the items given, or a function that gives an iterator of blocks
(rows, d) in the stored order, each time it is called."""


def write_embeddings(
    target: Path,
    *,
    benchmark: Sequence[str],
    item: Sequence[str],
    text: Rows | None = None,
    vision_text: Rows | None = None,
    inputs: Inputs,
    attrs: Mapping[str, Any] | None = None,
) -> Manifest:
    """Write item embeddings as an array folder: all of it, or nothing.

    Parameters
    ----------
    target : Path
        Folder of the array; replaced in one step if there is one. The same data made of the same inputs is left alone.
    benchmark, item : sequence of str, length n
        Which item a row belongs to; a pair occurs once. Arrays are sorted by (benchmark, item) on the way.
    text, vision_text : ndarray of float, shape (n, d), or callable
        Embedding of the text alone, and of text and image, by the same model: d is the same. A row of NaN is an item
        that was not embedded. Stored as float32. A callable gives blocks of rows that are in order already; it is
        called twice, once to look for problems.
    inputs, attrs
        As for `optotype.store.features.write_features`. The attributes ``items_embedded`` (rows that are not NaN) and
        ``benchmarks`` (their number) are added.

    Raises
    ------
    InvalidDataError
        Every problem: ids, shapes, infinite values, rows that are NaN in part.
    ConflictError
        Something that is not an array stands at the target.
    """
    problems = item_problems(benchmark, item)
    if len(benchmark) != len(item):
        raise InvalidDataError(f"embeddings for {target} refused, nothing was written:", problems)
    order = np.array(sorted(range(len(item)), key=lambda i: (str(benchmark[i]), str(item[i]))), dtype=np.int64)
    given = {name: values for name, values in (("text", text), ("vision_text", vision_text)) if values is not None}
    if not given:
        problems.append(Problem("text", "missing-member", "neither text nor vision_text is there; at least one is"))
    sorted_already = bool(np.array_equal(order, np.arange(len(order))))
    if not sorted_already and any(callable(values) for values in given.values()):
        problems.append(Problem("item", "unsorted-ids", "blocks come in the order of (benchmark, item); these do not"))
    blocks = {name: values if callable(values) else _blocks_of(values, order) for name, values in given.items()}
    labels = [f"{benchmark[i]}/{item[i]}" for i in order]
    widths: dict[str, int] = {}
    embedded: dict[str, int] = {}
    for name, values in given.items():
        if not callable(values) and len(np.shape(values)) == 2 and len(values) != len(item):
            problems.append(Problem(name, "length", f"{len(values)} rows for {len(item)} items"))
            continue
        scan = _Scan(name, labels)
        for block in blocks[name]():
            scan.add(np.asarray(block))
        problems += scan.problems()
        widths[name], embedded[name] = scan.width, scan.embedded
    if len(set(widths.values())) > 1:
        said = " and ".join(f"{name} {width}" for name, width in widths.items())
        problems.append(Problem("vision_text", "channels", f"text and vision_text have one width, got {said}"))
    if problems:
        raise InvalidDataError(f"embeddings for {target} refused, nothing was written:", limited(problems))

    counted = {**(attrs or {}), "items_embedded": embedded, "benchmarks": len(set(benchmark))}
    with ArrayWriter(Path(target), EMBEDDINGS, counted) as writer:
        for name, width in widths.items():
            stream = (np.ascontiguousarray(block, dtype="<f4") for block in blocks[name]())
            writer.add_rows(name, ("item", "channel"), (len(item), width), np.dtype("<f4"), stream)
        writer.add_strings("item", ("item",), [item[i] for i in order])
        writer.add_strings("benchmark", ("item",), [benchmark[i] for i in order])
        return writer.commit(inputs)


def open_embeddings(source: str | Path, *, storage_options: Mapping[str, Any] | None = None) -> xr.Dataset:
    """Open item embeddings lazily.

    Returns
    -------
    Dataset
        ``text`` and ``vision_text`` (item, channel) float32, dask-backed, one chunk for each shard; one of them may be
        absent; a row of NaN is an item that was not embedded. Coordinates ``item`` and ``benchmark``, object arrays of
        str; rows are sorted by (benchmark, item), and an item's id is unique within its benchmark only. Attributes of
        the array, and ``digest``, ``key``, ``name``.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `optotype.store.features.open_features` does.
    """
    import xarray as xr

    from optotype.store.reading import StoredGroup

    group = StoredGroup(source, EMBEDDINGS, storage_options)
    held = {entry.path.split("/", 1)[0] for entry in group.manifest.files}
    return xr.Dataset(
        {name: (("item", "channel"), group.lazy(name)) for name in VALUES if name in held},
        coords={"item": ("item", group.strings("item")), "benchmark": ("item", group.strings("benchmark"))},
        attrs={**group.attrs, "digest": group.manifest.digest, "key": group.manifest.key, "name": group.name},
    )


def describe_embeddings(source: str | Path, *, whole: bool = False) -> dict[str, Any]:
    """One row about the embeddings at a path or URL, from their metadata alone.

    Parameters
    ----------
    whole : bool
        Whether ``kind``, ``created_by``, ``files``, ``inputs`` and ``attrs`` are added.

    Returns
    -------
    dict
        ``name``, ``items``, ``benchmarks``, ``channels``, ``text`` and ``vision_text`` (items embedded; None where
        there is no such member), ``dtype``, ``digest``, ``key``, ``bytes``, ``path``, ``error`` (None).

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `open_embeddings` does.
    """
    import json

    from optotype.store.location import Location
    from optotype.store.manifest import read_manifest

    location, manifest = Location.of(source), read_manifest(source)
    if manifest.kind != EMBEDDINGS:
        raise FormatError(f"{location}: holds {manifest.kind}, {EMBEDDINGS} were asked for")
    try:
        group = json.loads(location.read("zarr.json"))
        members, attrs = group["consolidated_metadata"]["metadata"], group["attributes"]
        shape = next(members[name]["shape"] for name in VALUES if name in members)
        row = {
            "name": location.name,
            "items": shape[0],
            "benchmarks": attrs["benchmarks"],
            "channels": shape[1],
            **{name: attrs["items_embedded"].get(name) for name in VALUES},
            "dtype": "float32",
            "digest": manifest.digest,
            "key": manifest.key,
            "bytes": manifest.size,
            "path": str(location),
            "error": None,
        }
    except (FileNotFoundError, StopIteration, ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityError(
            f"{location}/zarr.json: missing or damaged ({error})",
            hint="Fetch the array again (dvc checkout or dvc pull), or make it anew.",
        ) from error
    if whole:
        row |= {"kind": EMBEDDINGS, "created_by": manifest.created_by, "files": len(manifest.files)}
        row |= {"inputs": dict(manifest.inputs), "attrs": attrs}
    return row


def item_problems(benchmark: Sequence[object], item: Sequence[object]) -> list[Problem]:
    """Everything wrong with the ids of rows: both are sound ids, and a pair of them occurs once."""
    if len(benchmark) != len(item):
        return [Problem("benchmark", "length", f"{len(benchmark)} benchmarks for {len(item)} items")]
    if not item:
        return [Problem("item", "empty", "there are no rows; an array has at least one")]
    names = list(dict.fromkeys(benchmark))
    problems = id_problems(names, "benchmark")
    of: dict[object, list[object]] = {name: [] for name in names}
    for name, identity in zip(benchmark, item, strict=True):
        of[name].append(identity)
    for name in names:
        problems += id_problems(of[name], f"item of {name}")
    return limited(problems)


class _Scan:
    """Looks at the blocks of one member: width, rows, infinite values, rows that are NaN in part."""

    def __init__(self, name: str, labels: list[str]) -> None:
        self._name, self._labels = name, labels
        self._rows = 0
        self._bad: dict[str, list[int]] = {"nan": [], "infinite": []}
        self._shape: list[Problem] = []
        self.width = 0
        self.embedded = 0

    def add(self, block: Any) -> None:
        """The next rows, shape (rows, channels)."""
        if block.ndim != 2 or block.shape[1] == 0 or block.dtype.kind != "f":
            message = f"values are floats of shape (items, channels), got {block.dtype} of shape {block.shape}"
            self._note(Problem(self._name, "wrong-dtype" if block.ndim == 2 else "wrong-rank", message))
            self._rows += len(block) if block.ndim else 0
            return
        if self.width and block.shape[1] != self.width:
            self._note(Problem(self._name, "channels", f"{block.shape[1]} channels in one block, {self.width} before"))
        self.width = self.width or block.shape[1]
        with np.errstate(over="ignore"):  # what float32 cannot hold is reported as infinite
            kept = block.astype(np.float32, copy=False)
        nan, infinite = np.isnan(kept), np.isinf(kept)
        absent = nan.all(axis=1)
        self.embedded += int(np.count_nonzero(~absent))
        self._bad["nan"] += (self._rows + np.flatnonzero(nan.any(axis=1) & ~absent)).tolist()
        self._bad["infinite"] += (self._rows + np.flatnonzero(infinite.any(axis=1))).tolist()
        self._rows += len(block)

    def problems(self) -> list[Problem]:
        """What was found."""
        found = list(self._shape)
        if self._rows != len(self._labels):
            found.append(Problem(self._name, "length", f"{self._rows} rows for {len(self._labels)} items"))
        elif not found and self.embedded == 0:
            found.append(Problem(self._name, "empty", "every row is NaN: no item is embedded"))
        words = {"nan": "NaN in part of the row (all of it: not embedded)", "infinite": "infinite values"}
        for kind, rows in self._bad.items():
            if rows:
                first = ", ".join(
                    self._labels[row] if row < len(self._labels) else f"row {row}" for row in rows[:_SHOWN]
                )
                more = ", …" if len(rows) > _SHOWN else ""
                found.append(Problem(self._name, kind, f"{words[kind]} in {len(rows)} items: {first}{more}"))
        return found

    def _note(self, problem: Problem) -> None:
        if problem not in self._shape:
            self._shape.append(problem)


def _blocks_of(values: Any, order: Any) -> Callable[[], Iterator[Any]]:
    """Blocks of an array in memory, or mapped into it, in the given order of its rows."""
    array = np.asanyarray(values)

    def blocks() -> Iterator[Any]:
        if array.ndim != 2 or len(array) != len(order):
            yield array  # reported by its shape
            return
        step = max(1, _BLOCK_BYTES // max(1, array.shape[1] * array.dtype.itemsize))
        for start in range(0, len(order), step):
            yield array[order[start : start + step]]

    return blocks
