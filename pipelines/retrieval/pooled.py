"""Patch features as one vector an image: the mean of its tokens, taken when it is read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.kernels.rows import BlockCache, RowReader, blocks_of_images

__all__ = ["as_states"]

_CACHE = 128 * 2**20


@dataclass(frozen=True)
class _Tokens:
    reader: RowReader
    cache: BlockCache
    offsets: NDArray[np.int64]


def as_states(features: xr.Dataset) -> xr.Dataset:
    """Features in the form of text states, lazy.

    The mean is unweighted over the tokens as they are stored, in float64, as mining of pairs has it; of one token it is
    the token. What is not finite stays so: it is for the reader to say what becomes of it.

    Parameters
    ----------
    features : Dataset
        ``patches(token, channel)``, ``row_size(image)``, coordinate ``image``; dask or NumPy.

    Returns
    -------
    Dataset
        ``states`` (text, channel) float64, dask-backed; coordinate ``text``, the images; attributes of the features.
    """
    import dask
    import dask.array as da

    name = str(features.attrs.get("name") or "features")
    offsets = offsets_of(np.asarray(features["row_size"].values, np.int64))
    channels = int(features.sizes["channel"])
    tokens = _Tokens(RowReader(features["patches"].data, name), BlockCache(_CACHE), offsets)
    parts = [
        da.from_delayed(dask.delayed(_means, pure=False)(tokens, first, last), (last - first, channels), np.float64)
        for first, last in blocks_of_images(offsets, channels)
    ]
    states = da.concatenate(parts) if parts else np.empty((0, channels))
    return xr.Dataset(
        {"states": (("text", "channel"), states)}, coords={"text": features["image"].values}, attrs=features.attrs
    )


def _means(tokens: _Tokens, first: int, last: int) -> NDArray[np.float64]:
    offsets = tokens.offsets[first : last + 1]
    rows = tokens.reader.read(int(offsets[0]), int(offsets[-1]), tokens.cache)
    result = np.full((last - first, rows.shape[1]), np.nan)
    with np.errstate(all="ignore"):  # what is not finite is the reader's to judge
        for number, (a, b) in enumerate(itertools.pairwise((offsets - offsets[0]).tolist())):
            if b > a:
                result[number] = rows[a:b].mean(axis=0, dtype=np.float64)
    return result
