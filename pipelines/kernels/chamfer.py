"""Symmetric Chamfer similarity of sets of unit vectors, on plain arrays.

s_ij = ½ [mean_a max_b ⟨p_ia, p_jb⟩ + mean_b max_a ⟨p_jb, p_ia⟩]. One matrix product serves both terms.
Two routines: :func:`chamfer_block` for all pairs between two stacks of images (float32, tiles that stay in the
cache), and :func:`chamfer_pair`, the fixed float64 routine that settles near-ties.

A tile is a product of a few images by a few images, at most 2048 x 2048 float32 values (16 MiB, one buffer a thread).
Tiles of 1024 x 1024 are as fast on an idle machine; on a busy one they lose 2 % (ragged sets 5 %), since BLAS packs
its operands twice as often for the same work. The caller runs several Python threads and holds BLAS to one thread
each (:mod:`optotype.pipelines.scheduler`): a product this small gains nothing from threads inside BLAS.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "TILE_ROWS",
    "Group",
    "chamfer_block",
    "chamfer_pair",
    "chamfer_pair_of_spaces",
    "groups",
    "offsets_of",
    "one_of_spaces",
]

TILE_ROWS = 2048
_TRIES = 32
_FEW_ROWS = 16
_HUGE_PAGE = 2 << 20

_local = threading.local()


def offsets_of(row_size: NDArray[np.integer]) -> NDArray[np.int64]:
    """Offsets (n + 1,) of ``row_size`` (n,): image i holds rows ``offsets[i]:offsets[i + 1]``."""
    offsets = np.zeros(len(row_size) + 1, dtype=np.int64)
    np.cumsum(row_size, out=offsets[1:])
    return offsets


@dataclass(frozen=True)
class Group:
    """Consecutive images that share a tile.

    Attributes
    ----------
    first, last : int
        Images ``first:last`` of their block.
    start, stop : int
        Their rows.
    starts : ndarray (last - first,) int64
        First row of each image, counted from ``start``.
    sizes : ndarray (last - first,) int64
    equal : int
        Rows of every image if they all have the same number, else 0.
    divisors : ndarray (last - first,) int64
        What the sum of an image's best matches is divided by: its rows, or its rows in all spaces of a mixture.
    """

    first: int
    last: int
    start: int
    stop: int
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    equal: int
    divisors: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of rows in the group."""
        return self.stop - self.start


def groups(offsets: NDArray[np.int64], limit: int = TILE_ROWS) -> list[Group]:
    """Cut images into as few consecutive groups of at most ``limit`` rows as can be, of about equal size.

    One image alone may have more rows than ``limit``.

    Parameters
    ----------
    offsets : ndarray (n + 1,) int64
        From :func:`offsets_of`.
    """
    cuts = _cuts(offsets, limit)
    # The first cut leaves a sliver at the end, and slivers make slow products: take the tightest limit that does
    # with the same number of groups.
    for tighter in np.linspace(int(offsets[-1]) / (len(cuts) - 1), limit, _TRIES, endpoint=False):
        other = _cuts(offsets, int(np.ceil(tighter)))
        if len(other) == len(cuts):
            cuts = other
            break
    result = []
    for first, last in itertools.pairwise(cuts):
        start, stop = int(offsets[first]), int(offsets[last])
        sizes = np.diff(offsets[first : last + 1])
        equal = int(sizes[0]) if np.all(sizes == sizes[0]) else 0
        result.append(Group(first, last, start, stop, offsets[first:last] - start, sizes, equal, sizes))
    return result


def one_of_spaces(cut: list[Group], counts: NDArray[np.int64]) -> list[Group]:
    """The groups of one space of a mixture, whose tokens never match those of another space.

    With c^S the mean of an image's maxima in space S, Σ_S M^S c^S / Σ_S M^S is a sum over spaces of (sum of maxima) /
    (tokens in all spaces). So the similarities of a mixture are the sum of `chamfer_block` over its spaces.

    Parameters
    ----------
    cut : list of Group
        From :func:`groups`, of a block of n images.
    counts : ndarray (n,) int64
        Tokens of each image in all spaces together.
    """
    return [replace(group, divisors=counts[group.first : group.last]) for group in cut]


def _cuts(offsets: NDArray[np.int64], limit: int) -> list[int]:
    cuts = [0]
    while cuts[-1] < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[cuts[-1]] + limit, side="right")) - 1
        cuts.append(max(last, cuts[-1] + 1))
    return cuts


def _tile(rows: int, columns: int, dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """This thread's reused tile buffer, cut to (rows, columns)."""
    buffers: dict[str, NDArray[np.floating]] = _local.__dict__.setdefault("buffers", {})
    buffer = buffers.get(dtype.char)
    if buffer is None or buffer.size < rows * columns:
        count = TILE_ROWS * TILE_ROWS
        spare = np.empty(count + _HUGE_PAGE // dtype.itemsize, dtype)
        # At the start of a huge page: fewer pages to look up, one percent of the whole.
        skip = -spare.ctypes.data % _HUGE_PAGE // dtype.itemsize
        buffer = buffers[dtype.char] = spare[skip : skip + count]
    return buffer[: rows * columns].reshape(rows, columns)


def _maxima(product: NDArray[np.floating], a: Group, b: Group) -> tuple[NDArray[Any], NDArray[Any]]:
    """Best match of each row of ``a`` in each image of ``b``, (images of b, rows of a); and the other way round."""
    if product.dtype == np.float32 and min(a.sizes.min(), b.sizes.min()) > _FEW_ROWS:
        # The bits of floats, read as integers, are ordered like the floats as long as one of them is positive, and
        # integers need no test for NaN. The best of many matches is positive nearly always; if not, do it over.
        bits = _maxima_of(product.view(np.int32), a, b)
        if min(part.min() for part in bits) >= 0:
            return bits[0].view(np.float32), bits[1].view(np.float32)
    return _maxima_of(product, a, b)


def _maxima_of(product: NDArray[Any], a: Group, b: Group) -> tuple[NDArray[Any], NDArray[Any]]:
    images_a, images_b = a.last - a.first, b.last - b.first
    best_of_row = np.empty((images_b, a.rows), dtype=product.dtype)
    best_of_column = np.empty((images_a, b.rows), dtype=product.dtype)
    if 0 < a.equal <= _FEW_ROWS:
        np.max(product.reshape(images_a, a.equal, b.rows), axis=1, out=best_of_column)
        slabs = [(0, a.rows)]
    else:
        slabs = [(int(start), int(start + size)) for start, size in zip(a.starts, a.sizes, strict=True)]
    for image, (start, stop) in enumerate(slabs):
        # An image at a time: what one maximum has read, the other finds in the cache. (Down the columns,
        # reduceat would be 30 times slower than this.)
        slab, best = product[start:stop], best_of_row[:, start:stop].T
        if 0 < b.equal <= _FEW_ROWS:
            # Many tiny images: maxima over slices that are far apart beat thousands of maxima of a few values.
            sliced = slab.reshape(stop - start, images_b, b.equal)
            np.copyto(best, sliced[:, :, 0])
            for row in range(1, b.equal):
                np.maximum(best, sliced[:, :, row], out=best)
        else:
            np.maximum.reduceat(slab, b.starts, axis=1, out=best)
        if len(slabs) == images_a:
            np.maximum.reduce(slab, axis=0, out=best_of_column[image])
    return best_of_row, best_of_column


def _similarities(
    best_of_row: NDArray[np.floating], best_of_column: NDArray[np.floating], a: Group, b: Group
) -> NDArray[np.float64]:
    """Means of the maxima, summed in float64: (images of a, images of b)."""
    forward = np.add.reduceat(best_of_row, a.starts, axis=1, dtype=np.float64).T / a.divisors[:, None]
    backward = np.add.reduceat(best_of_column, b.starts, axis=1, dtype=np.float64) / b.divisors
    result: NDArray[np.float64] = 0.5 * (forward + backward)
    return result


def _group_pair(rows_a: NDArray[np.floating], a: Group, rows_b: NDArray[np.floating], b: Group) -> NDArray[np.float64]:
    """Similarities of all images of group ``a`` with all of group ``b``."""
    stack_a, stack_b = rows_a[a.start : a.stop], rows_b[b.start : b.stop]
    if a.rows <= TILE_ROWS and b.rows <= TILE_ROWS:
        product = np.matmul(stack_a, stack_b.T, out=_tile(a.rows, b.rows, stack_a.dtype))
        return _similarities(*_maxima(product, a, b), a, b)
    return _large_pair(stack_a, a, stack_b, b)


def _large_pair(
    stack_a: NDArray[np.floating], a: Group, stack_b: NDArray[np.floating], b: Group
) -> NDArray[np.float64]:
    """The same where an image has more rows than a tile: the product in pieces, maxima carried along."""
    low = -np.inf
    best_of_row = np.full((b.last - b.first, a.rows), low, dtype=stack_a.dtype)
    best_of_column = np.full((a.last - a.first, b.rows), low, dtype=stack_a.dtype)
    for top in range(0, a.rows, TILE_ROWS):
        bottom = min(top + TILE_ROWS, a.rows)
        for left in range(0, b.rows, TILE_ROWS):
            right = min(left + TILE_ROWS, b.rows)
            product = np.matmul(
                stack_a[top:bottom], stack_b[left:right].T, out=_tile(bottom - top, right - left, stack_a.dtype)
            )
            for image, (start, size) in enumerate(zip(b.starts, b.sizes, strict=True)):
                lo, hi = max(start, left), min(start + size, right)
                if lo < hi:
                    part = best_of_row[image, top:bottom]
                    np.maximum(part, product[:, lo - left : hi - left].max(axis=1), out=part)
            for image, (start, size) in enumerate(zip(a.starts, a.sizes, strict=True)):
                lo, hi = max(start, top), min(start + size, bottom)
                if lo < hi:
                    part = best_of_column[image, left:right]
                    np.maximum(part, product[lo - top : hi - top].max(axis=0), out=part)
    return _similarities(best_of_row, best_of_column, a, b)


def _single(group: Group, image: int, last: int) -> Group:
    """Images ``image:last`` of ``group`` (counted inside it) as a group of their own."""
    start = int(group.starts[image])
    stop = int(group.starts[last]) if last < len(group.starts) else group.rows
    return Group(
        group.first + image,
        group.first + last,
        group.start + start,
        group.start + stop,
        group.starts[image:last] - start,
        group.sizes[image:last],
        group.equal,
        group.divisors[image:last],
    )


def chamfer_block(
    a: NDArray[np.floating],
    a_groups: list[Group],
    b: NDArray[np.floating] | None = None,
    b_groups: list[Group] | None = None,
) -> NDArray[np.float64]:
    """Chamfer similarity of all images of ``a`` with all of ``b``.

    Parameters
    ----------
    a : ndarray (rows, d)
        Unit vectors, all images one after the other; C-contiguous.
    a_groups : list of Group
        From :func:`groups`.
    b, b_groups : optional
        The other stack, of the same dtype. Without them the pairs within ``a``: only i < j is computed.

    Returns
    -------
    ndarray (images of a, images of b) float64
        As exact as the product: about 1e-6 for float32. Within one stack the matrix is symmetric and its
        diagonal is NaN, since no image is compared with itself.
    """
    if b is None or b_groups is None:
        result = np.full((a_groups[-1].last, a_groups[-1].last), np.nan)
        for position, row in enumerate(a_groups):
            for image in range(row.last - row.first - 1):
                one, rest = _single(row, image, image + 1), _single(row, image + 1, row.last - row.first)
                result[one.first : one.last, rest.first : rest.last] = _group_pair(a, one, a, rest)
            for column in a_groups[position + 1 :]:
                result[row.first : row.last, column.first : column.last] = _group_pair(a, row, a, column)
        lower = np.tril_indices(len(result), -1)
        result[lower] = result.T[lower]
        return result
    result = np.empty((a_groups[-1].last, b_groups[-1].last))
    for row in a_groups:
        for column in b_groups:
            result[row.first : row.last, column.first : column.last] = _group_pair(a, row, b, column)
    return result


def chamfer_pair(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Chamfer similarity of two images in float64, by one fixed routine.

    The order of the two is taken from their values, not from their places: the pair (a, b) and the pair (b, a), and
    a pair of other images with the same values, give the same bits. Exact ties therefore stay exact.

    Parameters
    ----------
    a, b : ndarray (M_i, d), (M_j, d) float64
        Unit vectors, C-contiguous.
    """
    if _goes_after(a, b):
        a, b = b, a
    product = a @ b.T
    return float(0.5 * (product.max(axis=1).mean() + product.max(axis=0).mean()))


def chamfer_pair_of_spaces(a: Sequence[NDArray[np.float64]], b: Sequence[NDArray[np.float64]]) -> float:
    """Chamfer similarity of two images whose tokens lie in several spaces, in float64, by one fixed routine.

    A token matches tokens of its own space alone: the similarity of tokens of unlike spaces is -∞. The directional term
    of image a is (Σ_S M_a^S c_a^S) / (Σ_S M_a^S), c_a^S = mean over its tokens in space S of the best match there. With
    one space this is :func:`chamfer_pair` bit for bit; the order of a and b does not matter here either.

    Parameters
    ----------
    a, b : sequence of ndarray (M^S, d^S) float64
        Unit vectors, C-contiguous, space by space; each image has one token or more in each.
    """
    for mine, other in zip(a, b, strict=True):
        if _goes_after(mine, other):
            a, b = b, a
            break
        if _goes_after(other, mine):
            break
    forward = backward = 0.0
    for mine, other in zip(a, b, strict=True):
        product = mine @ other.T
        forward += float(product.max(axis=1).sum())
        backward += float(product.max(axis=0).sum())
    return 0.5 * (forward / sum(map(len, a)) + backward / sum(map(len, b)))


def _goes_after(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """A total order on images by value: fewer rows first, then the first value that differs."""
    if len(a) != len(b):
        return len(a) > len(b)
    differs = a.ravel() != b.ravel()
    place = int(differs.argmax())
    return bool(differs[place]) and bool(a.ravel()[place] > b.ravel()[place])
