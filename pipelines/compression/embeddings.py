"""Item embeddings beside the items of a panel: which row belongs to which item, and the vision dependence δ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optotype.schemas.errors import InvalidDataError, Problem

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["EmbeddingRows", "aligned", "vision_dependence"]

_BLOCK_ROWS = 2048  # rows in float64 at a time: 2048 x 4096 channels are 64 MiB


class EmbeddingRows:
    """Rows of a stored array in the order of a list of items, read when they are asked for.

    Indexing by positions or a mask gives another one, over those items; ``np.asarray`` reads.

    Parameters
    ----------
    source : NumPy or dask array (rows, d)
    row : ndarray (n,) int64
        Row of each item, -1 for an item without one: it reads as NaN.
    """

    def __init__(self, source: Any, row: NDArray[np.int64]) -> None:
        self._source = source
        self._row = row

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self._row), int(self._source.shape[1])

    def __len__(self) -> int:
        return len(self._row)

    def __getitem__(self, index: Any) -> EmbeddingRows:
        return EmbeddingRows(self._source, self._row[index])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        result = np.full(self.shape, np.nan, dtype=np.float32)
        present = np.flatnonzero(self._row >= 0)
        wanted, place = np.unique(self._row[present], return_inverse=True)
        if len(wanted):
            rows = self._source[wanted]
            rows = rows.compute(scheduler="synchronous") if hasattr(rows, "compute") else rows
            result[present] = np.asarray(rows, dtype=np.float32)[place]
        return result if dtype is None else result.astype(dtype, copy=False)


def aligned(embeddings: xr.Dataset, panel: xr.Dataset) -> tuple[EmbeddingRows | None, EmbeddingRows | None]:
    """Embeddings in the order of a panel's items; items are joined by benchmark and id.

    Parameters
    ----------
    embeddings : Dataset
        As `optotype.store.embeddings.open_embeddings` gives it: ``text`` and ``vision_text`` (item, channel), each
        optional, with coordinates ``benchmark`` and ``item``. Rows of items that the panel lacks are not read.
    panel : Dataset
        As `optotype.store.panels.open_panel` gives it.

    Returns
    -------
    text, vision_text : EmbeddingRows or None
        E^L and E^VL of every item of the panel, NaN where there is none; None for a member that is not stored. Nothing
        is read yet.
    """
    places = zip(embeddings["benchmark"].values, embeddings["item"].values, strict=True)
    number = {(str(benchmark), str(item)): row for row, (benchmark, item) in enumerate(places)}
    items = zip(panel["benchmark"].values, panel["item"].values, strict=True)
    row = np.array([number.get((str(benchmark), str(item)), -1) for benchmark, item in items], dtype=np.int64)

    def member(name: str) -> EmbeddingRows | None:
        return EmbeddingRows(embeddings[name].data, row) if name in embeddings else None

    return member("text"), member("vision_text")


def vision_dependence(
    text: NDArray[np.floating[Any]] | EmbeddingRows | None,
    vision_text: NDArray[np.floating[Any]] | EmbeddingRows | None,
    *,
    n: int | None = None,
) -> NDArray[np.float64]:
    """δ_i = 1 - cos(E^L_i, E^VL_i) (Section 4.3), in [0, 2].

    Parameters
    ----------
    text, vision_text : ndarray or EmbeddingRows (n, d), optional
        Text-only and vision-text embedding of the same items by the same embedder, so of the same length.
    n : int, optional
        Number of items; needed only where both are None.

    Returns
    -------
    ndarray (n,) float64
        0 for an item that lacks one of the two, or one of whose embeddings is all zeros: the paper gives such an item
        no cosine. Computed in float64, 2048 rows at a time.

    Raises
    ------
    InvalidDataError
        The two are not of one shape.
    """
    one = text if text is not None else vision_text
    count = n if one is None else len(one)
    if count is None:
        raise ValueError("the number of items of no embedding at all")
    delta = np.zeros(count)
    if text is None or vision_text is None:
        return delta
    if tuple(text.shape) != tuple(vision_text.shape):
        raise InvalidDataError(
            "δ compares two embeddings of one item by one embedder, so their shapes are the same",
            [
                Problem(name, "wrong-shape", f"{tuple(rows.shape)} (items, channels)")
                for name, rows in (("text", text), ("vision_text", vision_text))
            ],
        )
    for start in range(0, count, _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        first = np.asarray(text[block], dtype=np.float64)
        second = np.asarray(vision_text[block], dtype=np.float64)
        # Each row is divided by its largest entry first: squares of float32 extremes neither overflow nor vanish.
        norms = np.ones(len(first))
        for rows in (first, second):
            largest = np.abs(rows).max(axis=1, initial=0.0)
            rows /= np.where((largest > 0) & np.isfinite(largest), largest, 1.0)[:, None]
            norms *= np.sqrt(np.einsum("ij,ij->i", rows, rows))
        product = np.einsum("ij,ij->i", first, second)
        usable = np.isfinite(norms) & (norms > 0)
        cosine = np.divide(product, norms, out=np.ones(len(product)), where=usable)
        delta[block] = 1.0 - np.clip(cosine, -1.0, 1.0)
    return delta
