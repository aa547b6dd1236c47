"""Thresholds on the cosine of pairs: given, or as a quantile over all pairs of images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.topk import DECIMALS
from optotype.pipelines.pairs.pooling import PooledRows
from optotype.schemas.errors import UsageError

__all__ = ["SAMPLE", "Threshold", "check_threshold", "quantile_threshold"]

SAMPLE = 4096
"""Images whose pairs give a quantile where there are more: 8,386,560 pairs."""

_SCALE = 10**6
_STRIP = 512
_FEW = 100

Side = Literal["above", "below"]


@dataclass(frozen=True)
class Threshold:
    """A strict threshold on a cosine.

    Attributes
    ----------
    cosine : float
    quantile : float or None
        What it was asked for as.
    images : int or None
        Images whose pairs the quantile was taken over; None where the cosine was given.
    beyond : int or None
        How many of those pairs lie beyond it.
    """

    cosine: float
    quantile: float | None = None
    images: int | None = None
    beyond: int | None = None


def check_threshold(side: Side, cosine: float | None, quantile: float | None, default: float) -> float | None:
    """The cosine that was asked for, or None where a quantile was.

    Raises
    ------
    UsageError
        Both are given; the cosine is not from -1 to 1, or the quantile not between 0 and 1.
    """
    if cosine is not None and quantile is not None:
        raise UsageError(f"--{side} and --{side}-quantile both set one threshold: give one of the two")
    if quantile is not None:
        if not 0 < quantile < 1:
            raise UsageError(f"--{side}-quantile is between 0 and 1, got {quantile}")
        return None
    value = default if cosine is None else float(cosine)
    if not -1 <= value <= 1:
        raise UsageError(f"--{side} is a cosine from -1 to 1, got {value}")
    return value


def quantile_threshold(rows: PooledRows, side: Side, quantile: float, seed: int) -> tuple[Threshold, list[str]]:
    """The cosine at a quantile of all pairs i < j, and warnings.

    Exact for up to 4,096 images: the linear quantile of n (n - 1) / 2 float64 cosines. For more images, that of the
    pairs of 4,096 images drawn without replacement. The cosine is rounded away from the middle of what is wanted to
    six decimals (up for ``above``, down for ``below``), so that the number that is printed gives the same pairs again,
    and pairs exactly at the quantile are never beyond it.

    Parameters
    ----------
    rows : PooledRows
        Two images or more.
    side : {"above", "below"}
        Which side of the threshold is wanted.
    quantile : float
        Between 0 and 1; the same meaning on both sides: the share of pairs below the threshold.
    seed : int
        Of the sample, one for both spaces.
    """
    chosen = np.arange(rows.images)
    if rows.images > SAMPLE:
        chosen = np.sort(np.random.default_rng(seed).choice(rows.images, SAMPLE, replace=False))
    values = _pairwise(rows.rows(chosen))
    raw = float(np.quantile(values, quantile))
    scaled = round(raw * _SCALE, DECIMALS - 6)  # what is a millionth up to rounding noise is one
    cosine = (math.ceil(scaled) if side == "above" else math.floor(scaled)) / _SCALE
    cosine = min(1.0, max(-1.0, cosine))
    beyond = int(np.count_nonzero(values > cosine if side == "above" else values < cosine))
    warnings = []
    if len(chosen) < rows.images and beyond < _FEW:
        warnings.append(
            f"only {beyond} pairs of the {len(chosen):,} sampled images lie beyond the --{side}-quantile {quantile:g}: "
            f"the cosine {cosine:g} is uncertain; give one with --{side}"
        )
    return Threshold(cosine, quantile, len(chosen), beyond), warnings


def _pairwise(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosines of all pairs i < j of unit rows (m, d), rounded to 12 decimals, in the order of i, then j."""
    parts = []
    for top in range(0, len(rows), _STRIP):
        product = rows[top : top + _STRIP] @ rows[top:].T
        parts.append(product[np.triu_indices(len(product), 1, product.shape[1])])
    return np.concatenate(parts).round(DECIMALS)
