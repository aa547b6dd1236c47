"""Mixtures of the features of two encoders as virtual encoders: labelled, lazy, nothing is stored.

After "Eyes Wide Shut" (Tong et al., 2024), section 4. Additive: α A + (1 - α) B, token by token. Interleaved: the
tokens of A and of B side by side in their spatial order; the two are different spaces, so each is whitened on its own
and tokens of unlike spaces never match (see :func:`optotype.pipelines.operators.neighbours.feature_neighbours`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from optotype.pipelines.kernels.grids import orthonormal_map, resample_grid
from optotype.pipelines.ravel import id_differences
from optotype.schemas.errors import InvalidDataError, Problem, UsageError
from optotype.store.features import select_images

__all__ = [
    "SPACES",
    "additive",
    "check_alpha",
    "interleaved",
    "interleaved_order",
    "is_interleaved",
    "project",
    "resize",
    "select",
    "space",
]

SPACES = ("a", "b")
"""Suffixes of the variables of an interleaved mixture: ``patches_a(token_a, channel_a)``, ``row_size_a(image)``, ..."""

_BLOCK_BYTES = 64 << 20


def check_alpha(alpha: float) -> float:
    """``alpha`` as float if it is from 0 to 1; UsageError otherwise."""
    if not 0 <= alpha <= 1:
        raise UsageError(f"alpha is the weight of A, from 0 to 1 (the SSL ratio is 1 - alpha); got {alpha!r}")
    return float(alpha)


def additive(a: xr.Dataset, b: xr.Dataset, alpha: float) -> xr.Dataset:
    """α A + (1 - α) B, before any whitening; lazy for dask-backed patches.

    Neither side is scaled first (the paper does not say; the law says so): if tokens of B are ten times as long as
    those of A, equal weights are no equal shares. α = 1 and α = 0 give back A and B themselves, bit for bit and in
    their dtype.

    Parameters
    ----------
    a, b : Dataset
        ``patches(token, channel)``, ``row_size(image)``, coordinate ``image``: as
        :func:`optotype.store.features.open_features` gives them. The same ids, token grid and channels.
    alpha : float
        Weight of A, the CLIP-like side; the SSL ratio of the paper's table is 1 - alpha.

    Returns
    -------
    Dataset
        As its parts: patches float32, or float64 if one of them is.

    Raises
    ------
    UsageError
        ``alpha`` out of range.
    InvalidDataError
        All differences of ids, grids and widths; :func:`resize` and :func:`project` mend the last two.
    """
    weight = check_alpha(alpha)
    problems = _id_problems(a, b)
    if not problems:
        problems = _grid_problems(a, b)
    if a.sizes["channel"] != b.sizes["channel"]:
        message = f"{b.sizes['channel']} channels, {_call(a, 'A')} has {a.sizes['channel']}"
        problems.append(Problem(_call(b, "B"), "channels", message))
    if problems:
        kinds = {problem.kind for problem in problems}
        raise InvalidDataError(
            "Tokens of A and B cannot be added", problems, hint=_mend(kinds, _grids(a, b), a.sizes["channel"])
        )
    if weight in (0.0, 1.0):
        return a if weight == 1.0 else b
    one, other = a["patches"].data, b["patches"].data
    kind = np.result_type(one.dtype, other.dtype, np.float32)
    mixed = one.astype(kind) * kind.type(weight) + other.astype(kind) * kind.type(1.0 - weight)
    made = _with_patches(a, mixed, a["row_size"], {})
    made.attrs = _common_grid(a, b)  # neither name nor digest of A: it is another array
    return made


def interleaved(a: xr.Dataset, b: xr.Dataset) -> xr.Dataset:
    """Tokens of A and of B side by side, as two spaces; nothing is computed.

    Grids and widths may differ, since no token of A is ever compared with one of B.

    Parameters
    ----------
    a, b : Dataset
        As for :func:`additive`; the same ids.

    Returns
    -------
    Dataset
        ``patches_a(token_a, channel_a)``, ``row_size_a(image)``, the same of ``b``; coordinate ``image``. In which
        order the tokens of an image would be read tells :func:`interleaved_order`; no similarity depends on it.

    Raises
    ------
    InvalidDataError
        Different ids, listed.
    """
    problems = _id_problems(a, b)
    if problems:
        raise InvalidDataError("A and B cannot be interleaved", problems, hint=_mend({"unmatched-id"}))
    variables: dict[Hashable, Any] = {}
    for suffix, side in zip(SPACES, (a, b), strict=True):
        patches, sizes = side["patches"], side["row_size"]
        variables[f"patches_{suffix}"] = ((f"token_{suffix}", f"channel_{suffix}"), patches.data, dict(patches.attrs))
        variables[f"row_size_{suffix}"] = ("image", sizes.data, {**sizes.attrs, "sample_dimension": f"token_{suffix}"})
    return xr.Dataset(variables, coords={"image": a["image"].variable})


def interleaved_order(tokens_a: int, tokens_b: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of A's and of B's tokens in the interleaved sequence of one image.

    Each keeps its own order, row by row; the two are merged by how far down the image a token is, (i + ½) / M, A first
    where they are level. Equal numbers of tokens give a₁ b₁ a₂ b₂ ...

    Returns
    -------
    (ndarray (tokens_a,) int64, ndarray (tokens_b,) int64)
    """
    # In whole numbers, (2i + 1) · M_other: no rounding decides.
    far = np.concatenate([(2 * np.arange(tokens_a) + 1) * tokens_b, (2 * np.arange(tokens_b) + 1) * tokens_a])
    places = np.empty(tokens_a + tokens_b, dtype=np.int64)
    places[np.argsort(far, kind="stable")] = np.arange(tokens_a + tokens_b)
    return places[:tokens_a], places[tokens_a:]


def is_interleaved(features: xr.Dataset) -> bool:
    """Whether these are the two spaces of an interleaved mixture."""
    return f"patches_{SPACES[0]}" in features


def space(features: xr.Dataset, suffix: str) -> xr.Dataset:
    """One space of an interleaved mixture (``a`` or ``b``), as features of their own."""
    names = {f"{name}_{suffix}": name for name in ("patches", "row_size", "token", "channel")}
    return features[[f"patches_{suffix}", f"row_size_{suffix}"]].rename(names)


def select(features: xr.Dataset, positions: Any) -> xr.Dataset:
    """The images at ``positions`` of features or of an interleaved mixture, lazily.

    See :func:`optotype.store.features.select_images`.
    """
    if not is_interleaved(features):
        return select_images(features, positions)
    sides = [select_images(space(features, suffix), positions) for suffix in SPACES]
    return interleaved(*sides).assign_attrs(features.attrs)


def resize(features: xr.Dataset, grid: tuple[int, int]) -> xr.Dataset:
    """Every image's tokens on another grid, by linear interpolation (:mod:`optotype.pipelines.kernels.grids`); lazy.

    Features that are on that grid already come back as they are.

    Parameters
    ----------
    features : Dataset
        All images with the same number of tokens, on the grid that the attribute ``grid`` names, else a square one.
    grid : (int, int)
        Rows and columns, both 1 or more.

    Raises
    ------
    UsageError
        ``grid`` out of range.
    InvalidDataError
        Images with unlike numbers of tokens, or a number that is no square while no grid is on record.
    """
    if min(grid) < 1:
        raise UsageError(f"a grid has 1 row and 1 column or more, got {grid[0]}x{grid[1]}")
    there = _grid_of(features)
    if there is None:
        sizes = np.unique(features["row_size"].values)
        found = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        raise InvalidDataError(
            "These tokens cannot be brought onto another grid",
            [Problem(_call(features, "features"), "no-grid", f"{found} tokens an image, which is no known grid")],
            hint="Interleaving takes any numbers of tokens: optotype features mix interleaved A B --as NAME",
        )
    if there == grid:
        return features
    patches = features["patches"].data
    kind = np.result_type(patches.dtype, np.float32)
    images, channels = features.sizes["image"], features.sizes["channel"]
    size, target = there[0] * there[1], grid[0] * grid[1]
    lazy = hasattr(patches, "dask")
    step = max(1, _BLOCK_BYTES // (max(size, target) * channels * kind.itemsize)) if lazy else images
    blocks = []
    for start in range(0, images, step):
        stop = min(start + step, images)
        rows = patches[start * size : stop * size]
        if lazy:
            rows = rows.rechunk((-1, -1)).map_blocks(
                resample_grid, there, grid, dtype=kind, chunks=(((stop - start) * target,), (channels,))
            )
        else:
            rows = resample_grid(rows, there, grid)
        blocks.append(rows)
    counts = features["row_size"].copy(data=np.full(images, target, dtype=np.int64))
    return _with_patches(features, _stacked(blocks, lazy), counts, {"grid": list(grid)})


def project(features: xr.Dataset, channels: int, seed: int = 0) -> xr.Dataset:
    """Tokens in another number of channels, by a seeded random map that keeps lengths; lazy.

    Features that have as many channels already come back as they are. The map is
    :func:`optotype.pipelines.kernels.grids.orthonormal_map`: nothing is learned, so two projected spaces share no axes.

    Raises
    ------
    UsageError
        ``channels`` or ``seed`` out of range.
    """
    if channels < 1:
        raise UsageError(f"a projection has 1 channel or more, got {channels}")
    if seed < 0:
        raise UsageError(f"seed is 0 or more, got {seed}")
    there = features.sizes["channel"]
    if there == channels:
        return features
    patches = features["patches"].data
    kind = np.result_type(patches.dtype, np.float32)
    matrix = orthonormal_map(there, channels, seed).astype(kind)
    if hasattr(patches, "dask"):
        rows = patches.rechunk({1: -1})
        rows = rows.map_blocks(_times, matrix=matrix, dtype=kind, chunks=(rows.chunks[0], (channels,)))
    else:
        rows = _times(patches, matrix)
    return _with_patches(features, rows, features["row_size"], {})


def _times(rows: NDArray[np.floating], matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    result: NDArray[np.floating] = rows.astype(matrix.dtype) @ matrix
    return result


def _with_patches(features: xr.Dataset, rows: Any, sizes: xr.DataArray, attrs: Mapping[str, Any]) -> xr.Dataset:
    return xr.Dataset(
        {
            "patches": (("token", "channel"), rows, {"stored_dtype": rows.dtype.name}),
            "row_size": ("image", sizes.data, dict(sizes.attrs)),
        },
        coords={"image": features["image"].variable},
        attrs={**features.attrs, **attrs},
    )


def _stacked(blocks: list[Any], lazy: bool) -> Any:
    if lazy:
        import dask.array as da

        return da.concatenate(blocks)
    return np.concatenate(blocks)


def _call(features: xr.Dataset, other: str) -> str:
    return str(features.attrs.get("name", other))


def _id_problems(a: xr.Dataset, b: xr.Dataset) -> list[Problem]:
    ids = [[str(value) for value in side["image"].values] for side in (a, b)]
    names = (_call(a, "A"), _call(b, "B"))
    if names[0] == names[1]:
        names = (f"A ({names[0]})", f"B ({names[1]})")
    problems = id_differences(set(ids[0]), set(ids[1]), names)
    if not problems and ids[0] != ids[1]:
        problems.append(Problem(names[1], "order", "the same ids in another order; stored features are sorted by id"))
    return problems


def _grid_problems(a: xr.Dataset, b: xr.Dataset) -> list[Problem]:
    grids = [_grid_of(side) for side in (a, b)]
    sizes = [side["row_size"].values for side in (a, b)]
    differ = np.flatnonzero(sizes[0] != sizes[1])
    name = _call(b, "B")
    if len(differ):
        first = int(differ[0])
        image = str(a["image"].values[first])
        message = (
            f"{len(differ)} of {len(sizes[0])} images have other numbers of tokens than in {_call(a, 'A')}: {image!r} "
            f"has {sizes[1][first]}, there {sizes[0][first]}"
        )
        return [Problem(name, "tokens", message)]
    # Equal counts on unlike grids: token 5 of one is not where token 5 of the other is.
    if None not in grids and grids[0] != grids[1] and all("grid" in side.attrs for side in (a, b)):
        shapes = ["x".join(map(str, grid)) for grid in grids if grid is not None]
        return [Problem(name, "tokens", f"a grid of {shapes[1]} tokens, {_call(a, 'A')} has {shapes[0]}")]
    return []


def _grid_of(features: xr.Dataset) -> tuple[int, int] | None:
    """Rows and columns of the tokens of every image, if all images have one grid that is known."""
    sizes = np.unique(features["row_size"].values)
    if len(sizes) != 1:
        return None
    size = int(sizes[0])
    noted = features.attrs.get("grid")
    if noted is not None and int(noted[0]) * int(noted[1]) == size:
        return int(noted[0]), int(noted[1])
    side = math.isqrt(size)
    return (side, side) if side * side == size and noted is None else None


def _common_grid(a: xr.Dataset, b: xr.Dataset) -> dict[Hashable, Any]:
    grid = a.attrs.get("grid", b.attrs.get("grid"))
    return {} if grid is None else {"grid": list(grid)}


def _grids(a: xr.Dataset, b: xr.Dataset) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The grids of both, if both have one."""
    one, other = _grid_of(a), _grid_of(b)
    return None if one is None or other is None else (one, other)


def _mend(
    kinds: set[str], grids: tuple[tuple[int, int], tuple[int, int]] | None = None, channels: int = 0
) -> str | None:
    """What to type next; nothing where ids are merely in another order."""
    ways = []
    if "unmatched-id" in kinds:
        ways.append("Mix over the images that both have: --common.")
    if "tokens" in kinds and grids is not None:
        rows, columns = min(grids)  # the coarser one: no token is made up
        ways.append(f"Bring both onto one grid: --resize {rows}x{columns}.")
    if "channels" in kinds:
        ways.append(f"Bring both into one width by a random map: --project {channels}.")
    if {"tokens", "channels"} & kinds:
        ways.append("Or interleave them, which takes any tokens and widths.")
    return " ".join(ways) or None
