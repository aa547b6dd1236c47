"""Keypoints that two images share, and how often the nearest patch finds them (PCK)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.rows import BlockCache, RowReader
from optotype.pipelines.kernels.topk import DECIMALS
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.checks import limited
from optotype.store.dataset import read_table

__all__ = ["Correspondence", "Keypoints", "correspondence", "read_keypoints"]

_COLUMNS = ("id_a", "id_b", "kp", "x_a", "y_a", "x_b", "y_b")
_SIZES = ("width_a", "height_a", "width_b", "height_b")


@dataclass(frozen=True)
class Keypoints:
    """Points of one image and the same points of another, in parts of the sides of each image.

    Attributes
    ----------
    id_a, id_b : tuple of str, length k
        The two images of each point; sorted by ``(id_a, id_b, name)``.
    name : tuple of str, length k
        Which point (``left-eye``); once for each ordered pair of images.
    a, b : ndarray (k, 2) float64
        ``(x, y)`` in either image: from the left and from the top, 0 <= x, y <= 1.
    """

    id_a: tuple[str, ...]
    id_b: tuple[str, ...]
    name: tuple[str, ...]
    a: NDArray[np.float64]
    b: NDArray[np.float64]


@dataclass(frozen=True)
class Correspondence:
    """What `correspondence` found.

    Attributes
    ----------
    value : float
        C: mean over pairs of images of the share of their points that are found.
    pairs, points : int
        That it is over.
    left_out : int
        Points of pairs of which an image is not among the features.
    """

    value: float
    pairs: int
    points: int
    left_out: int


def read_keypoints(path: str | Path) -> Keypoints:
    """Read a table of keypoints.

    Parameters
    ----------
    path : str or Path
        ``.csv``, ``.tsv``, ``.jsonl`` or ``.parquet`` with the columns ``id_a, id_b, kp, x_a, y_a, x_b, y_b``.
        Coordinates are parts of the image's sides, 0 to 1; or pixels, if the table has the columns ``width_a, height_a,
        width_b, height_b`` too. They are those of the image as the encoder saw it: an encoder that crops needs
        coordinates of the crop.

    Raises
    ------
    NotFoundError, FormatError
        No table, or not a readable one.
    InvalidDataError
        Every problem: missing columns, blank ids, numbers that are none or lie outside the image, repeats.
    """
    rows = read_table(Path(path), _COLUMNS, _SIZES)
    problems: list[Problem] = []
    if not rows:
        problems.append(Problem("kp", "empty", "the table has no rows"))
    lacking = [column for column in _SIZES if rows and column not in rows[0]]
    if 0 < len(lacking) < len(_SIZES):
        problems.append(Problem(", ".join(lacking), "missing-column", f"pixels need all of {', '.join(_SIZES)}"))
    found = [_point(number, row, not lacking, problems) for number, row in enumerate(rows)]
    problems += _repeats(found)
    if problems:
        raise InvalidDataError(f"{path} refused:", limited(problems))
    ordered = sorted(found, key=lambda point: point[0])
    names = list(zip(*(key for key, _ in ordered), strict=True))
    places = np.array([place for _, place in ordered], dtype=np.float64)
    return Keypoints(names[0], names[1], names[2], places[:, :2].copy(), places[:, 2:].copy())


_Point = tuple[tuple[str, str, str], tuple[float, ...]]


def _point(number: int, row: Mapping[str, Any], pixels: bool, problems: list[Problem]) -> _Point:
    """One row: ``(id_a, id_b, name), (x_a, y_a, x_b, y_b)``; what is wrong is added to ``problems``."""
    names = []
    for column in _COLUMNS[:3]:
        text = str(row.get(column) if row.get(column) is not None else "").strip()
        if not text:
            problems.append(Problem(f"{column}[{number}]", "blank", "it is blank"))
        names.append(text)
    places = []
    for column, size in zip(_COLUMNS[3:], _SIZES, strict=True):
        value = _number(row.get(column))
        side = _number(row.get(size)) if pixels else 1.0
        if not 0 < side < math.inf:
            problems.append(Problem(f"{size}[{number}]", "no-size", f"a side is above 0, got {row.get(size)!r}"))
        elif not 0 <= value <= side:
            allowed = f"0 to {side:g}" if pixels else "0 to 1; pixels need the columns " + ", ".join(_SIZES)
            problems.append(Problem(f"{column}[{number}]", "outside", f"{row.get(column)!r} is not in {allowed}"))
        places.append(value / side if side > 0 else math.nan)
    return (names[0], names[1], names[2]), tuple(places)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _repeats(points: Sequence[_Point]) -> list[Problem]:
    seen: dict[tuple[str, str, str], int] = {}
    problems = []
    for number, (key, _) in enumerate(points):
        first = seen.setdefault(key, number)
        if first != number:
            problems.append(Problem(f"kp[{number}]", "repeat", f"{key} is in row {first} too"))
    return problems


def grid_of(features: xr.Dataset, stated: str) -> tuple[int, int]:
    """Rows and columns of patches of every image.

    Parameters
    ----------
    features : Dataset
        Its attribute ``grid`` is what the encoder's layout says.
    stated : str
        ``ROWSxCOLUMNS`` for features without that attribute; ``""`` otherwise.

    Raises
    ------
    UsageError
        Neither says it, both do and differ, or an image has another number of patches.
    """
    own = features.attrs.get("grid")
    grid = (int(own[0]), int(own[1])) if own is not None and len(own) == 2 else None
    if stated:
        rows, _, columns = stated.partition("x")
        if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
            raise UsageError(f"grid {stated!r} is not ROWSxCOLUMNS", hint="For example 7x7.")
        told = (int(rows), int(columns))
        if grid is not None and grid != told:
            raise UsageError(f"grid {stated}: the features say {grid[0]}x{grid[1]}", hint="Leave the option out.")
        grid = told
    if grid is None:
        raise UsageError(
            "correspondence needs the grid of the patches, and these features do not say it",
            hint="Give --set ac-policy.grid=ROWSxCOLUMNS, or encode all images at one size.",
        )
    sizes = np.asarray(features["row_size"].values)
    if (sizes != grid[0] * grid[1]).any():
        raise UsageError(
            f"a grid of {grid[0]}x{grid[1]} has {grid[0] * grid[1]} patches, the images have "
            f"{int(sizes.min())} to {int(sizes.max())}"
        )
    return grid


def correspondence(features: xr.Dataset, keypoints: Keypoints, *, alpha: float, grid: str = "") -> Correspondence:
    """C: how often the patch nearest to a keypoint's patch holds the same keypoint of the other image.

    The patch that holds the point of image a is compared by cosine with all patches of image b; the centre of the most
    similar one (ties, at 12 decimals, to the first in reading order) counts as right within ``alpha`` of the point of
    b: PCK (Yang & Ramanan 2013) with nearest patches and no interpolation, as the correspondence score of "Law of
    Vision Representation in MLLMs" (Yang et al. 2025). Distances are Euclidean in parts of the image's sides; that
    score scales by the object's box instead, which a table of keypoints does not hold. Every pair of images weighs the
    same, whatever its number of points.

    Memory is that of a few blocks of patches.

    Parameters
    ----------
    features : Dataset
        ``patches(token, channel)`` in reading order, ``row_size(image)``, coordinate ``image``; dask or NumPy.
    keypoints : Keypoints
    alpha : float
        0 < alpha.
    grid : str
        See `grid_of`.

    Raises
    ------
    UsageError
        The grid is not known, or no pair of the table is among the features.
    InvalidDataError
        Patches that are not finite; they are named.
    """
    rows, columns = grid_of(features, grid)
    place = {identity: number for number, identity in enumerate(features["image"].values)}
    reader, cache = RowReader(features["patches"].data, "correspondence"), BlockCache()
    per_image = rows * columns

    def patches(identity: str) -> NDArray[np.float64]:
        start = place[identity] * per_image
        values = reader.read(start, start + per_image, cache).astype(np.float64)
        if not np.isfinite(values).all():
            problem = Problem(identity, "not-finite", "its patches hold NaN or Inf")
            raise InvalidDataError("The patches cannot be compared", [problem])
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        unit: NDArray[np.float64] = values / np.where(norms > 0, norms, 1.0)
        return unit

    pairs: dict[tuple[str, str], list[int]] = {}
    for number, pair in enumerate(zip(keypoints.id_a, keypoints.id_b, strict=True)):
        pairs.setdefault(pair, []).append(number)
    shares, used = [], 0
    for (first, second), points in pairs.items():
        if first not in place or second not in place:
            continue
        a, b = keypoints.a[points], keypoints.b[points]
        cell = np.minimum((a * [columns, rows]).astype(np.int64), [columns - 1, rows - 1])
        similarity = np.round(patches(first)[cell[:, 1] * columns + cell[:, 0]] @ patches(second).T, DECIMALS)
        best = similarity.argmax(axis=1)
        centres = np.stack([(best % columns + 0.5) / columns, (best // columns + 0.5) / rows], axis=1)
        distance = np.round(np.sqrt(((centres - b) ** 2).sum(axis=1)), DECIMALS)
        shares.append(float((distance <= alpha).mean()))
        used += len(points)
    if not shares:
        raise UsageError(
            "no two images of the table of keypoints are both among the ranked items",
            hint="Are its ids those of the features?",
        )
    return Correspondence(float(np.mean(shares)), len(shares), used, len(keypoints.id_a) - used)
