"""Writes one part of a panel: the new scores of an import as one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from optotype.store.manifest import Manifest
from optotype.store.panels.cells import Cells
from optotype.store.panels.intake import Intake
from optotype.store.panels.parts import escaped
from optotype.store.writer import ArrayWriter

__all__ = ["write_part"]

_BLOCK_ITEMS = 4096


def write_part(
    target: Path,
    intake: Intake,
    keys: Sequence[tuple[str, str]],
    models: Sequence[str],
    item_labels: Mapping[str, Any],
    model_labels: Mapping[str, Any],
    appearance: Sequence[tuple[str, str]],
) -> Manifest | None:
    """Write the cells and labels that are new; None, and nothing written, if there are none.

    Parameters
    ----------
    target : Path
    intake : Intake
        With nothing in its cells that stands already.
    keys : sequence of (str, str)
        All items of the panel to be, in order; ``item_labels`` are columns over them.
    models : sequence of str
        All its models, sorted; ``model_labels`` are columns over them.
    appearance : sequence of (str, str)
        The items of the parts before, in their order.
    """
    index = np.array([intake.items.get(key, -1) for key in keys], np.int64)
    image, blind = intake.image, intake.blind
    gains = _any(item_labels, len(keys))
    chosen: Any = np.flatnonzero(_touched(image, index) | _touched(blind, index) | gains)
    scored = {name for name, place in image.models.items() if image.mark[:, place].any()}
    rows = [row for row, gain in enumerate(_any(model_labels, len(models))) if gain or models[row] in scored]
    blind_names = sorted(name for name, place in blind.models.items() if blind.mark[:, place].any())
    if not len(chosen) and not rows and not blind_names:
        return None
    reasons = sorted(_reasons(image) | _reasons(blind))
    items = index[chosen]
    names = [models[row] for row in rows]
    with ArrayWriter(target, "scores", {"reasons": reasons} if reasons else None, compressed=True) as writer:
        if len(chosen):
            writer.add_strings("benchmark", ("item",), [keys[place][0] for place in chosen])
            writer.add_strings("item", ("item",), [keys[place][1] for place in chosen])
            for column, values in sorted(item_labels.items()):
                if (values[chosen] != "").any():
                    writer.add_strings(escaped(column), ("item",), values[chosen].tolist())
        if rows:
            writer.add_strings("model", ("model",), names)
            for column, values in sorted(model_labels.items()):
                if (values[rows] != "").any():
                    writer.add_strings(escaped(column), ("model",), values[rows].tolist())
        if blind_names:
            writer.add_strings("blind_model", ("blind_model",), blind_names)
        if scored:
            _write_cells(writer, image, items, names, "model", ("score", "invalid", "response"), reasons)
        if blind_names:
            _write_cells(writer, blind, items, blind_names, "blind_model", ("blind", "blind_invalid", ""), reasons)
        _write_order(writer, keys, appearance, [keys[place] for place in chosen])
        return writer.commit(lambda digest: {"operation": "import", "digest": digest})


def _any(labels: Mapping[str, Any], size: int) -> Any:
    """Where any column says something."""
    said = np.zeros(size, bool)
    for values in labels.values():
        said |= values != ""
    return said


def _touched(cells: Cells, index: Any) -> Any:
    """Which items have a new record."""
    has = np.append(cells.mark.any(axis=1), False) if cells.mark.size else np.zeros(len(cells.mark) + 1, bool)
    return has[index]  # the last entry stands for -1, an item that this import does not have


def _reasons(cells: Cells) -> set[str]:
    """Reasons of the records that are new."""
    if cells.invalid is None:
        return set()
    words = ["", *cells.reasons]
    return {words[code] for code in np.unique(cells.invalid[cells.mark != 0]).tolist()} - {""}


def _write_cells(
    writer: ArrayWriter,
    cells: Cells,
    items: Any,
    models: Sequence[str],
    axis: str,
    names: tuple[str, str, str],
    reasons: Sequence[str],
) -> None:
    """The matrices of one modality: (models, items), cut along the items."""
    places = np.array([cells.models.get(model, -1) for model in models], np.int64)
    codes = np.array([0, *(reasons.index(word) + 1 if word in reasons else 0 for word in cells.reasons)], np.uint16)
    reads: list[tuple[str, Any, float, Callable[[Any, Any], Any]]] = [(names[0], "<f4", np.nan, cells.scores)]
    if _reasons(cells):
        reads.append((names[1], "<u2", 0, lambda rows, columns: codes[cells.codes(rows, columns)]))
    if names[2] and cells.response is not None:
        reads.append((names[2], "<u4", 0, cells.responses))
    for name, dtype, fill, read in reads:
        blocks = _blocks(items, places, np.dtype(dtype), fill, read)
        writer.add_rows(name, (axis, "item"), (len(models), len(items)), np.dtype(dtype), blocks, along=1)


def _blocks(items: Any, models: Any, dtype: Any, fill: float, read: Callable[[Any, Any], Any]) -> Iterator[Any]:
    """Blocks (items, models); ``fill`` for items and models that are here for their labels alone."""
    columns = np.flatnonzero(models >= 0)
    for start in range(0, len(items), _BLOCK_ITEMS):
        some = items[start : start + _BLOCK_ITEMS]
        block = np.full((len(some), len(models)), fill, dtype)
        rows = np.flatnonzero(some >= 0)
        block[np.ix_(rows, columns)] = read(some[rows], models[columns])
        yield block


def _write_order(
    writer: ArrayWriter,
    keys: Sequence[tuple[str, str]],
    appearance: Sequence[tuple[str, str]],
    here: Sequence[tuple[str, str]],
) -> None:
    """Positions in the order of appearance, where the catalogue order is another."""
    whole = list(dict.fromkeys([*appearance, *here]))
    if whole == list(keys):
        return
    places = {key: place for place, key in enumerate(whole)}
    order = np.array([places[key] for key in keys], np.uint32)
    writer.add_rows("order", ("place",), order.shape, np.dtype("<u4"), [order])
