"""Post-processing in front of a metric: of patches, lazily; of one vector an item, in memory.

A chain is fitted on the very rows that the metric sees: on all patches of the ranked images where it compares patches,
on their pooled vectors where it compares those (which are not the means of post-processed patches).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.chamfer import offsets_of
from optotype.pipelines.kernels.rows import BlockCache, RowReader
from optotype.pipelines.operators.mixtures import is_interleaved
from optotype.pipelines.postprocessing.chain import MOST, Chain, Step, parse_chain
from optotype.pipelines.postprocessing.fitted import FittedChain, fit_chain, fit_rows
from optotype.pipelines.problems import together
from optotype.schemas.errors import UsageError

__all__ = ["check_gamma", "fronted_features", "fronted_rows", "parse_fronts", "patch_chain"]

_BLOCK_BYTES = 64 << 20


def check_gamma(gamma: float) -> float:
    """``gamma`` as float if it is from 0 to `MOST`, as in a chain; UsageError otherwise.

    1 leaves the patches, 0 leaves their mean.
    """
    if not 0 <= gamma <= MOST:
        raise UsageError(
            f"gamma is a finite number from 0 to {MOST:.0f}, got {gamma!r}", hint="1 leaves patches as they are."
        )
    return abs(float(gamma))  # no -0.0


def parse_fronts(features: str, states: str) -> tuple[Chain, Chain]:
    """The chains in front of features and of states; UsageError (of both) if one is none or asks states for patches."""
    chains: list[Chain] = []
    errors: list[UsageError] = []
    for side, text in (("features", features), ("states", states)):
        try:
            chain = parse_chain(text)
            if side == "states" and chain.per_image:
                raise UsageError(f"{text!r}: gamma draws patches to the mean of their image, and states have neither")
        except UsageError as error:
            errors.append(UsageError(f"--post-{side}: {error.message}", hint=error.hint))
        else:
            chains.append(chain)
    if errors:
        raise together(errors)
    return chains[0], chains[1]


def patch_chain(chain: Chain, gamma: float) -> Chain:
    """``chain`` with γ in front of it: p <- m_i + γ (p - m_i) comes before anything else."""
    return chain if gamma == 1 else Chain((Step("gamma", float(gamma)), *chain))


def fronted_features(features: xr.Dataset, chain: Chain) -> xr.Dataset:
    """Patches after ``chain``, which is fitted here, in the passes that it needs; the patches themselves stay lazy.

    Parameters
    ----------
    features : Dataset
        ``patches(token, channel)``, ``row_size(image)``, coordinate ``image``: exactly the images that are ranked.
    chain : Chain

    Returns
    -------
    Dataset
        The same with ``patches`` float64, made in blocks of whole images of about 64 MiB (as float32) that depend on
        the sizes alone: equal features give equal bytes, however they are stored. ``features`` itself without a step.

    Raises
    ------
    UsageError
        An interleaved mixture, or a chain that removes more directions than there are.
    InvalidDataError
        Patches that are not finite, or do not vary.
    """
    if not chain:
        return features
    if is_interleaved(features):
        raise UsageError(
            "the tokens of an interleaved mixture lie in two spaces, and post-processing is fitted on one",
            hint="Leave out --post-features and --gamma for it, or take an additive mixture.",
        )
    patches = features["patches"].data
    sizes = np.asarray(features["row_size"].values, dtype=np.int64)
    offsets = offsets_of(sizes)
    blocks = _blocks(offsets, features.sizes["channel"])
    reader, cache = RowReader(patches, "front"), BlockCache(2 * _BLOCK_BYTES)

    def rows() -> Iterator[tuple[NDArray[np.floating], NDArray[np.int64]]]:
        for first, last in blocks:
            yield reader.read(int(offsets[first]), int(offsets[last]), cache), sizes[first:last]

    fitted = fit_chain(chain, rows, where="patches")
    first = slice(0, int(sizes[0]))
    channels = fitted.apply(reader.read(first.start, first.stop, cache), sizes[:1]).shape[1]
    parts = []
    for start, stop in blocks:
        part = patches[int(offsets[start]) : int(offsets[stop])]
        if hasattr(part, "dask"):
            chunks = ((len(part),), (channels,))
            part = part.rechunk((-1, -1)).map_blocks(
                _applied, fitted, sizes[start:stop], dtype=np.float64, chunks=chunks, meta=np.empty((0, 0))
            )
        else:
            part = _applied(part, fitted, sizes[start:stop])
        parts.append(part)
    made = features.drop_vars("patches")
    made["patches"] = (("token", "channel"), _stacked(parts), {"stored_dtype": "float64"})
    return made


def fronted_rows(rows: NDArray[np.float64], chain: Chain, where: str) -> NDArray[np.float64]:
    """Rows (n, d), one an item, after ``chain`` fitted on them; γ says nothing to single rows and is passed over.

    Raises
    ------
    UsageError, InvalidDataError
        As `fronted_features` does; problems are found at ``where[number]``.
    """
    mine = Chain(tuple(step for step in chain if step.kind != "image"))
    return fit_rows(mine, rows, where=where).apply(rows) if mine else rows


def _applied(rows: NDArray[np.floating], fitted: FittedChain, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    return fitted.apply(rows, sizes)


def _blocks(offsets: NDArray[np.int64], channels: int) -> list[tuple[int, int]]:
    """Consecutive blocks of whole images, of about 64 MiB as float32; one image at least."""
    limit = max(1, _BLOCK_BYTES // (4 * channels))
    blocks, first = [], 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + limit, side="right")) - 1)
        blocks.append((first, last))
        first = last
    return blocks


def _stacked(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    if hasattr(parts[0], "dask"):
        import dask.array as da

        stacked: NDArray[np.float64] = da.concatenate(parts)
        return stacked
    return np.concatenate(parts)
