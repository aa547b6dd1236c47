"""One vector for each image: the mean of its patch tokens."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.rows import BlockCache, RowReader, blocks_of_images

__all__ = ["pooled"]


def pooled(features: xr.Dataset) -> NDArray[np.float64]:
    """Mean patch token of every image, (n, d) float64; memory is that of a few blocks, however long the array.

    Parameters
    ----------
    features : Dataset
        As `optotype.store.features.open_features` gives it.
    """
    sizes = features["row_size"].values.astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    reader, cache = RowReader(features["patches"].data, "patches"), BlockCache()
    means = np.empty((len(sizes), features.sizes["channel"]))
    for first, last in blocks_of_images(offsets, features.sizes["channel"]):
        rows = reader.read(int(offsets[first]), int(offsets[last]), cache).astype(np.float64)
        means[first:last] = np.add.reduceat(rows, offsets[first:last] - offsets[first], axis=0)
    means /= sizes[:, None]
    return means
