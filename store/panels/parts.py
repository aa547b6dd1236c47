"""The parts of a panel, opened: who and what is in each, and one lazy matrix over all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

from optotype.schemas.documents import canonical_json, parse_document
from optotype.schemas.errors import FormatError, IntegrityError, NotFoundError
from optotype.schemas.scores import ITEM_COLUMNS, MODEL_COLUMNS, PANEL_FORMAT
from optotype.store.location import Location
from optotype.store.project import PANEL
from optotype.store.reading import StoredGroup

__all__ = ["OpenPanel", "Union", "document_digest", "escaped", "open_parts", "read_document"]

_KIND = "scores"
_CHUNK_BYTES = 16 << 20  # of one dask chunk, all models of some items
_STALE = "Fetch the panel again (dvc checkout or dvc pull), or import the scores anew."
# member -> (dimension of models, fill value, dtype)
MATRICES: dict[str, tuple[str, float, str]] = {
    "score": ("model", float("nan"), "float32"),
    "invalid": ("model", 0, "uint16"),
    "response": ("model", 0, "uint32"),
    "blind": ("blind_model", float("nan"), "float32"),
    "blind_invalid": ("blind_model", 0, "uint16"),
}


def escaped(column: str) -> str:
    """Name of the member that holds a column: what cannot stand in a file's name is percent-encoded."""
    return quote(column, safe="")


def document_digest(document: Mapping[str, Any]) -> str:
    """Digest of a panel: SHA-256 over its document without ``digest``."""
    rest = {name: value for name, value in document.items() if name != "digest"}
    return "sha256:" + hashlib.sha256(canonical_json(rest)).hexdigest()


def read_document(source: str | Path, storage_options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The document ``panel.json`` of the panel at a path or URL.

    Raises
    ------
    NotFoundError
        There is no panel.
    FormatError
        The document is none, or a newer one.
    IntegrityError
        It was changed by hand.
    """
    location = Location.of(source, storage_options)
    try:
        text = location.read(PANEL)
    except FileNotFoundError as error:
        raise NotFoundError(
            f"no panel of scores at {location}",
            hint="optotype scores list shows what the project holds; "
            "one that DVC tracks may have to be fetched: dvc pull",
        ) from error
    where = f"{location}/{PANEL}"
    document = parse_document(text, kind="panel of scores", where=where, newest=PANEL_FORMAT)
    if document.get("kind") != "panel" or not isinstance(document.get("parts"), list):
        raise FormatError(f"{where}: not the document of a panel of scores")
    if document.get("digest") != document_digest(document):
        raise IntegrityError(f"{where}: its digest does not belong to what it says; it was changed", hint=_STALE)
    return document


@dataclass(frozen=True)
class _Part:
    """One part: where its items and models stand in the whole panel."""

    group: StoredGroup
    members: frozenset[str]
    places: dict[str, Any]  # dimension -> int64 positions in the panel; those of items rise


class Union:
    """One matrix over all parts, (models, items), read when it is sliced; what dask slices.

    A cell is that of the first part that holds one: later parts never overrule an earlier one.
    """

    def __init__(self, parts: Sequence[tuple[Any, Any, Any]], shape: tuple[int, int], fill: float, dtype: str) -> None:
        self._parts = list(parts)  # (stored array, places of its models, places of its items)
        self._fill = fill
        self.shape = shape
        self.ndim = 2
        self.dtype = np.dtype(dtype)

    def __getitem__(self, key: tuple[slice, slice]) -> Any:
        rows, columns = key
        start, stop, step = columns.indices(self.shape[1])
        block = self.read(start, max(start, stop))
        return block[rows, :: step if step > 0 else 1]

    def read(self, start: int, stop: int) -> Any:
        """All models of the items from ``start`` to ``stop``."""
        block = np.full((self.shape[0], stop - start), self._fill, self.dtype)
        for array, models, items in self._parts:
            first, last = np.searchsorted(items, (start, stop)).tolist()
            if first == last:
                continue
            cells = np.ix_(models, items[first:last] - start)
            held = block[cells]
            is_empty = np.isnan(held) if self.dtype.kind == "f" else held == 0
            block[cells] = np.where(is_empty, array[:, first:last], held)
        return block


@dataclass(frozen=True)
class OpenPanel:
    """A panel with its labels read and its matrices not.

    Attributes
    ----------
    name : str
    document : dict
        ``panel.json``.
    items : list of (str, str)
        (benchmark, item), in catalogue order.
    models, blind_models : list of str
        Sorted.
    item_labels, model_labels : dict of str to ndarray of object
        Columns of text, ``""`` where nothing is said.
    appearance : list of (str, str)
        The items in the order in which the parts name them.
    parts : tuple
    """

    name: str
    document: Mapping[str, Any]
    items: list[tuple[str, str]]
    models: list[str]
    blind_models: list[str]
    item_labels: dict[str, Any]
    model_labels: dict[str, Any]
    appearance: list[tuple[str, str]]
    parts: tuple[_Part, ...]

    def matrix(self, name: str) -> Union | None:
        """One of the matrices `MATRICES`; None if no part has it. Codes of reasons are those of `reasons`."""
        axis, fill, dtype = MATRICES[name]
        count = len(self.models if axis == "model" else self.blind_models)
        parts = []
        for part in self.parts:
            if name in part.members:
                array: Any = part.group.array(name)
                if name.endswith("invalid"):
                    array = _Recoded(array, part.group.attrs["reasons"], self.reasons())
                parts.append((array, part.places[axis], part.places["item"]))
        return Union(parts, (count, len(self.items)), fill, dtype) if parts else None

    def reasons(self) -> list[str]:
        """Why records are invalid, sorted; code c of a matrix stands for entry c - 1."""
        return sorted({reason for part in self.parts for reason in part.group.attrs.get("reasons", ())})

    def lazy(self, name: str) -> Any | None:
        """A matrix as a dask array, all models of some items in a chunk of about 16 MB; None if there is none."""
        import dask.array as da

        matrix = self.matrix(name)
        if matrix is None:
            return None
        models, items = matrix.shape
        step = min(items, max(1, _CHUNK_BYTES // (models * matrix.dtype.itemsize)))
        where = "|".join(f"{part.group.location}" for part in self.parts[:1])
        token = hashlib.sha256(f"{where}|{self.document['digest']}|{name}".encode()).hexdigest()[:32]
        meta = np.empty((0, 0), dtype=matrix.dtype)
        return da.from_array(matrix, chunks=(models, step), name=f"{name}-{token}", asarray=False, meta=meta)


class _Recoded:
    """Codes of one part as those of the whole panel."""

    def __init__(self, array: Any, own: Sequence[str], whole: Sequence[str]) -> None:
        self._array = array
        self._codes = np.array([0, *(whole.index(reason) + 1 for reason in own)], np.uint16)

    def __getitem__(self, key: Any) -> Any:
        return self._codes[self._array[key]]


def open_parts(source: str | Path, storage_options: Mapping[str, Any] | None = None) -> OpenPanel:
    """Open all parts that ``panel.json`` lists; nothing else in the folder counts.

    Raises
    ------
    NotFoundError, FormatError, IntegrityError, ExternalError
        As `read_document`; a part is missing, or another one than listed.
    """
    document = read_document(source, storage_options)
    location = Location.of(source, storage_options)
    groups = []
    for entry in document["parts"]:
        where = location.local / entry["name"] if location.local is not None else f"{location}/{entry['name']}"
        try:
            group = StoredGroup(where, _KIND, storage_options)
        except NotFoundError as error:
            raise IntegrityError(f"{where}: missing, although {PANEL} lists it", hint=_STALE) from error
        if group.manifest.digest != entry["digest"]:
            raise IntegrityError(f"{where}: another part than {PANEL} lists", hint=_STALE)
        groups.append(group)
    keys = [_keys(group) for group in groups]
    appearance = list(dict.fromkeys(key for some in keys for key in some["item"]))
    items = appearance
    if groups and "order" in _members(groups[-1]):  # each part that an order needs has the whole: the last counts
        items = [appearance[place] for place in groups[-1].array("order")[:].tolist()]
    whole: dict[str, list[Any]] = {
        "item": items,
        "model": sorted({name for some in keys for name in some["model"]}),
        "blind_model": sorted({name for some in keys for name in some["blind_model"]}),
    }
    places = {axis: {key: place for place, key in enumerate(entries)} for axis, entries in whole.items()}
    parts = tuple(
        _Part(
            group,
            _members(group),
            {axis: np.array([places[axis][key] for key in some[axis]], np.int64) for axis in whole},
        )
        for group, some in zip(groups, keys, strict=True)
    )
    return OpenPanel(
        name=location.name,
        document=document,
        items=items,
        models=whole["model"],
        blind_models=whole["blind_model"],
        item_labels=_labels(parts, "item", len(items), ITEM_COLUMNS, ("category",)),
        model_labels=_labels(parts, "model", len(whole["model"]), MODEL_COLUMNS, ("family",)),
        appearance=appearance,
        parts=parts,
    )


def _members(group: StoredGroup) -> frozenset[str]:
    """Names of the arrays of a part, from its manifest."""
    return frozenset(entry.path.split("/", 1)[0] for entry in group.manifest.files if "/" in entry.path)


def _keys(group: StoredGroup) -> dict[str, list[Any]]:
    """Items (benchmark, item), models and blind models of a part."""
    members = _members(group)
    keys: dict[str, list[Any]] = {
        axis: group.strings(axis).tolist() if axis in members else [] for axis in ("item", "model", "blind_model")
    }
    if keys["item"]:
        keys["item"] = list(zip(group.strings("benchmark").tolist(), keys["item"], strict=True))
    return keys


def _labels(
    parts: Sequence[_Part], axis: str, size: int, known: Sequence[str], always: Sequence[str]
) -> dict[str, Any]:
    """Columns of the items or models, known ones first; of several parts the first that says something counts."""
    found: dict[str, Any] = {name: np.full(size, "", object) for name in always}
    for part in parts:
        for name in sorted(part.members):
            if name in known or name.startswith(f"{axis}_"):
                column = found.setdefault(unquote(name), np.full(size, "", object))
                places = part.places[axis]
                words: dict[str, str] = {}
                given = np.array([words.setdefault(text, text) for text in part.group.strings(name)], object)
                column[places] = np.where(column[places] == "", given, column[places])
    order = {name: place for place, name in enumerate(known)}
    return dict(sorted(found.items(), key=lambda entry: (order.get(entry[0], len(order)), entry[0])))
