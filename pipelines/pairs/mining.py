"""CLIP-blind pairs: unordered pairs of images, similar under one encoder and different under another.

After "Eyes Wide Shut?" (2024), section 2: cosine > 0.95 under CLIP and < 0.6 under DINOv2. All pairs are gone through
in tiles; what is in memory at a time is a few blocks of vectors, one tile a thread and the pairs found so far, of which
there may be ten million.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.pair_mining import TILE, Criterion, Found, greedy_cap, mine_tile
from optotype.pipelines.kernels.rows import BlockCache, pairs_of_blocks
from optotype.pipelines.kernels.topk import DECIMALS
from optotype.pipelines.pairs.pooling import PooledRows, pooled_rows
from optotype.pipelines.pairs.thresholds import Threshold, check_threshold, quantile_threshold
from optotype.pipelines.progress import SILENT, Progress
from optotype.pipelines.ravel import id_differences
from optotype.pipelines.scheduler import Scheduler
from optotype.pipelines.scheduler import scheduler as open_scheduler
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ABOVE", "BELOW", "MOST_PAIRS", "Mining", "mine"]

ABOVE, BELOW = 0.95, 0.6
"""The thresholds of the paper, at which pairs are always counted."""

MOST_PAIRS = 10_000_000


@dataclass(frozen=True)
class Mining:
    """Pairs that were found, best first.

    Attributes
    ----------
    ids : tuple of str
        The n images, sorted.
    first, second : ndarray (m,) int32
        Positions of the images of each pair, ``first < second``.
    similar, different : ndarray (m,) float64
        Cosines under the two encoders, rounded to 12 decimals. Falling by their difference, ties by ids.
    above, below : Threshold
    pairs : int
        n (n - 1) / 2.
    passed : int
        Pairs above the first threshold: those that the second encoder was asked about.
    found : int
        Pairs that meet both thresholds, before the cap on pairs per image.
    printed_passed, printed_found : int
        The same at 0.95 and 0.6.
    warnings : list of str
    """

    ids: tuple[str, ...]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    similar: NDArray[np.float64]
    different: NDArray[np.float64]
    above: Threshold
    below: Threshold
    pairs: int
    passed: int
    found: int
    printed_passed: int
    printed_found: int
    warnings: list[str] = field(default_factory=list)

    def table(self) -> pd.DataFrame:
        """Columns ``image_a, image_b`` (image_a < image_b), ``sim_similar, sim_different``."""
        import pandas as pd

        ids = np.array(self.ids, dtype=object)
        return pd.DataFrame(
            {
                "image_a": ids[self.first],
                "image_b": ids[self.second],
                "sim_similar": self.similar,
                "sim_different": self.different,
            }
        )


def mine(
    similar: xr.Dataset,
    different: xr.Dataset,
    *,
    above: float | None = None,
    below: float | None = None,
    above_quantile: float | None = None,
    below_quantile: float | None = None,
    per_image: int | None = None,
    common: bool = False,
    seed: int = 0,
    workers: int | None = None,
    scratch: Path | None = None,
    progress: Progress | None = None,
) -> Mining:
    """Find the pairs of images with cosine > ``above`` under ``similar`` and < ``below`` under ``different``.

    The cosine is that of the unweighted means over stored tokens, neither centred nor whitened, in float64 and rounded
    to 12 decimals before it is compared: equal means equal to 1e-12. Float32 products only say which pairs cannot come
    within 1e-5 of a threshold. The result does not depend on the number of threads.

    Parameters
    ----------
    similar, different : Dataset
        Patch features of two encoders over the same images (see `optotype.store.features.open_features`).
    above, below : float, optional
        Strict thresholds; 0.95 and 0.6 by default.
    above_quantile, below_quantile : float, optional
        The thresholds as quantiles over all pairs of images, each under its own encoder (see
        `optotype.pipelines.pairs.thresholds.quantile_threshold`; the paper has none, so this is ours).
    per_image : int, optional
        No image is in more pairs than this. Greedy in sorted order: a pair is kept if both its images have room.
    common : bool
        Use the images that both have, instead of asking for equal sets.
    seed : int
        Of the sample that gives quantiles where there are more than 4,096 images.
    workers : int, optional
        Threads; one per CPU by default.
    scratch : Path, optional
        Folder on a disk that has room for 8 x n x d bytes per encoder, needed beyond 128 MiB.
    progress : Progress, optional

    Raises
    ------
    UsageError
        A threshold out of range or given twice, fewer than two images, or more than ten million pairs found.
    InvalidDataError
        Different sets of images (all differences), ids that are not sorted, or features without a cosine.
    """
    values = (
        check_threshold("above", above, above_quantile, ABOVE),
        check_threshold("below", below, below_quantile, BELOW),
    )
    if per_image is not None and per_image < 1:
        raise UsageError(f"--per-image is a number from 1 on, got {per_image}")
    if seed < 0:
        raise UsageError(f"seed is 0 or more, got {seed}")
    names = (_name(similar, "similar"), _name(different, "different"))
    for space, name in zip((similar, different), names, strict=True):
        if "patches" not in space:
            raise UsageError(
                f"{name} is not one space of features but the interleaved tokens of two: a pair has no cosine there",
                hint="Mine with one of its encoders, or with an additive mixture.",
            )
    ids, chosen = _images((similar, different), names, common)
    report = progress or SILENT
    spaces: list[PooledRows] = []
    with open_scheduler("threads", workers=workers) as place:
        try:
            for space, name, positions in zip((similar, different), names, chosen, strict=True):
                spaces.append(pooled_rows(space, name, positions, place, report, scratch))
            high, warned_high = _threshold(spaces[0], "above", values[0], above_quantile, seed)
            low, warned_low = _threshold(spaces[1], "below", values[1], below_quantile, seed)
            criteria = (Criterion(high.cosine, low.cosine), Criterion(ABOVE, BELOW))
            found = _all_tiles(spaces, criteria, place, report)
        finally:
            for rows in spaces:
                rows.close()
    order = np.lexsort((found.second, found.first, -(found.similar - found.different).round(DECIMALS)))
    if per_image is not None:
        order = order[greedy_cap(found.first[order], found.second[order], len(ids), per_image)]
    return Mining(
        ids,
        found.first[order],
        found.second[order],
        found.similar[order],
        found.different[order],
        high,
        low,
        pairs=len(ids) * (len(ids) - 1) // 2,
        passed=int(found.passed[0]),
        found=int(found.met[0]),
        printed_passed=int(found.passed[1]),
        printed_found=int(found.met[1]),
        warnings=[*warned_high, *warned_low],
    )


def _name(features: xr.Dataset, side: str) -> str:
    return str(features.attrs.get("name") or side)


def _images(
    spaces: Sequence[xr.Dataset], names: Sequence[str], common: bool
) -> tuple[tuple[str, ...], list[list[int] | None]]:
    """Ids of the images, sorted, and their positions in each array; None for all of them."""
    ids = [list(map(str, np.asarray(space["image"]).tolist())) for space in spaces]
    problems = [
        Problem(name, "not-sorted", "image ids have to be sorted, each once")
        for name, own in zip(names, ids, strict=True)
        if any(a >= b for a, b in itertools.pairwise(own))
    ]
    if problems:
        raise InvalidDataError("These features cannot be compared", problems)
    shared = set(ids[0]).intersection(ids[1])
    if not common and (problems := id_differences(set(ids[0]), set(ids[1]), (names[0], names[1]))):
        raise InvalidDataError(
            "The arrays are not over the same images", problems, hint="Mine the images that both have: --common"
        )
    if len(shared) < 2:
        raise UsageError(f"pairs need two images or more, the arrays have {len(shared)} in common")
    chosen = [
        None if len(own) == len(shared) else [place for place, value in enumerate(own) if value in shared]
        for own in ids
    ]
    return tuple(sorted(shared)), chosen


def _threshold(
    rows: PooledRows, side: str, cosine: float | None, quantile: float | None, seed: int
) -> tuple[Threshold, list[str]]:
    if cosine is not None or quantile is None:
        return Threshold(ABOVE if cosine is None else cosine), []
    return quantile_threshold(rows, "above" if side == "above" else "below", quantile, seed)


@dataclass(frozen=True)
class _Work:
    """What a tile needs."""

    similar: PooledRows
    different: PooledRows
    criteria: tuple[Criterion, ...]
    cache: BlockCache

    def block(self, number: int) -> NDArray[np.float32]:
        start = number * TILE
        stop = min(start + TILE, self.similar.images)
        made: NDArray[np.float32] = self.cache.get(
            number, lambda: self.similar.block(start, stop).astype(np.float32), lambda made: int(made.nbytes)
        )
        return made


def _tile(work: _Work, pair: tuple[int, int]) -> Found:
    i, j = pair
    other = None if i == j else work.block(j)
    return mine_tile(work.block(i), i * TILE, other, j * TILE, work.similar, work.different, work.criteria)


def _all_tiles(
    spaces: Sequence[PooledRows], criteria: tuple[Criterion, ...], place: Scheduler, progress: Progress
) -> Found:
    work = _Work(spaces[0], spaces[1], criteria, BlockCache())
    blocks = -(-spaces[0].images // TILE)
    parts: list[Found] = []
    count = 0
    with progress("mining pairs", total=blocks * (blocks + 1) // 2, unit="tiles") as task:
        for found in place.map(_tile, work, pairs_of_blocks(blocks)):
            count += len(found.first)
            if count > MOST_PAIRS:
                raise UsageError(
                    f"more than {MOST_PAIRS:,} pairs are above {criteria[0].above:g} and below {criteria[0].below:g}",
                    hint="Ask for fewer: a larger --above (or --above-quantile), a smaller --below (or "
                    "--below-quantile).",
                )
            parts.append(found)
            task.advance()
    return Found.joined(parts, len(criteria))
