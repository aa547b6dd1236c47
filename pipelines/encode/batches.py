"""Fixed batches, the cast to the stored type, and the parts in which finished rows are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from optotype.schemas.errors import ModelError, UsageError

__all__ = ["STORED_DTYPES", "Cast", "batches", "check_dtype", "to_stored"]

STORED_DTYPES = ("float16", "float32", "float64")
_SHOWN = 5


def batches(rows: int, size: int, start: int = 0) -> Iterator[range]:
    """Positions ``start .. rows - 1`` in runs of ``size``, cut where a whole pass would cut them.

    A model's numbers depend in their last bits on who shares a batch, so a resumed run must cut as the first one did.

    Raises
    ------
    UsageError
        ``start`` is not at a cut.
    """
    if start % size and start != rows:
        raise UsageError(f"cannot resume at row {start}: batches of {size} do not end there")
    for first in range(start, rows, size):
        yield range(first, min(first + size, rows))


def check_dtype(dtype: str) -> np.dtype[Any]:
    """The stored type called ``dtype``.

    Raises
    ------
    UsageError
        Not float16, float32 or float64.
    """
    if dtype not in STORED_DTYPES:
        raise UsageError(f"{dtype!r} is not a type to store: {', '.join(STORED_DTYPES)}")
    return np.dtype(dtype)


@dataclass(frozen=True)
class Cast:
    """One row's values in the stored type.

    Attributes
    ----------
    values : ndarray
        As given, in the stored type.
    flushed : int
        How many values were not zero and are now.
    """

    values: npt.NDArray[np.floating[Any]]
    flushed: int


def to_stored(values: npt.NDArray[np.floating[Any]], dtype: np.dtype[Any], *, model: str, row: str, layer: str) -> Cast:
    """Cast one image's or text's values, refusing what cannot be stored.

    Raises
    ------
    ModelError
        The model itself produced NaN or infinite values, or the cast made finite ones infinite. Names the model, the
        row and, for the cast, what to type instead.
    """
    finite = np.isfinite(values)
    if not finite.all():
        bad = int(values.size - finite.sum())
        kinds = "NaN" if np.isnan(values).any() else "infinite"
        raise ModelError(
            f"{model}: {bad} of {values.size} values at {layer} are {kinds} for {row!r}; nothing was written",
            hint="The weights or the input are broken: try another layer, another image size or --device cpu.",
        )
    with np.errstate(over="ignore", under="ignore"):
        cast = values.astype(dtype)
    if dtype.itemsize < values.dtype.itemsize:
        lost = ~np.isfinite(cast)
        if lost.any():
            largest = float(np.abs(values).max())
            raise ModelError(
                f"{model}: {int(lost.sum())} values at {layer} for {row!r} do not fit into {dtype} "
                f"(largest {largest:.4g}, limit {float(np.finfo(dtype).max):.4g}); nothing was written",
                hint="Use --dtype float32.",
            )
    return Cast(cast, int(np.count_nonzero((cast == 0) & (values != 0))))
