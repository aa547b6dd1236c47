"""Slices of a panel: what stages 1 to 3 call a benchmark, the part of one benchmark in one category."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import NotFoundError, did_you_mean

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Slices", "slices"]

# Of each item alone, or no property of it: nothing to propose as a category.
_NO_GROUPS = frozenset({"item", "scale_min", "scale_max", "question", "answer", "image"})


@dataclass(frozen=True)
class Slices:
    """The (benchmark, category) pairs of a panel, in catalogue order.

    Attributes
    ----------
    of_item : ndarray (n,) int32
        Slice of every item.
    benchmark, category : tuple of str, length S
        Of every slice, by first appearance among the items.
    categories : tuple of str, length C
        By first appearance among the items.
    category_of_slice : ndarray (S,) int32
        Number of each slice's category.
    """

    of_item: NDArray[np.int32]
    benchmark: tuple[str, ...]
    category: tuple[str, ...]
    categories: tuple[str, ...]
    category_of_slice: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.benchmark)

    @property
    def category_of_item(self) -> NDArray[np.int32]:
        """Number of every item's category, (n,)."""
        numbers: NDArray[np.int32] = self.category_of_slice[self.of_item]
        return numbers

    def of_category(self, category: int) -> list[int]:
        """Slices of one category, in catalogue order."""
        return [int(number) for number in np.flatnonzero(self.category_of_slice == category)]

    def label(self, number: int) -> str:
        """Name of a slice: its benchmark, and its category where that is another word."""
        benchmark, category = self.benchmark[number], self.category[number]
        return benchmark if benchmark == category else f"{benchmark} / {category}"


def slices(panel: xr.Dataset, by: str = "category") -> Slices:
    """Slices of a panel.

    Parameters
    ----------
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it: items in catalogue order.
    by : str
        ``category``; ``benchmark`` (every benchmark is its own category); or a column of the items table, as it was
        called there. An item without a value takes its benchmark's name.

    Raises
    ------
    NotFoundError
        The items have no such column.
    """
    benchmark = _texts(panel["benchmark"].values)
    category = benchmark if by == "benchmark" else _column(panel, by)
    category = [value or name for value, name in zip(category, benchmark, strict=True)]
    pairs: dict[tuple[str, str], int] = {}
    of_item = np.fromiter(
        (pairs.setdefault(pair, len(pairs)) for pair in zip(benchmark, category, strict=True)), np.int32, len(benchmark)
    )
    numbers: dict[str, int] = {}
    of_slice = np.fromiter((numbers.setdefault(pair[1], len(numbers)) for pair in pairs), np.int32, len(pairs))
    return Slices(of_item, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), tuple(numbers), of_slice)


def _column(panel: xr.Dataset, by: str) -> list[str]:
    for name in (by, f"item_{by}"):
        if name in panel.coords and panel[name].dims == ("item",):
            return _texts(panel[name].values)
    known = [str(name).removeprefix("item_") for name, values in panel.coords.items() if values.dims == ("item",)]
    known = [name for name in known if name not in _NO_GROUPS]
    raise NotFoundError(f"the items have no column {by!r}", hint=did_you_mean(by, known))


def _texts(values: NDArray[Any]) -> list[str]:
    """Values as text; what is missing becomes "", and a whole number loses its ``.0``."""
    if values.dtype.kind == "f":
        return ["" if np.isnan(value) else f"{value:g}" for value in values.tolist()]
    return ["" if value is None or value != value else str(value) for value in values.tolist()]
