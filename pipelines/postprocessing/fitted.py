"""A fitted chain, applied to rows; and how it is fitted, in as few passes over the rows as it allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.kernels.one_thread import one_thread
from optotype.pipelines.kernels.whitening import Moments, merge, moments, normalise_rows
from optotype.pipelines.postprocessing.chain import Chain, Step
from optotype.pipelines.postprocessing.steps import ROUNDING, Affine, fit_step
from optotype.schemas.errors import InvalidDataError, Problem, UsageError

__all__ = ["Block", "FittedChain", "fit_chain", "fit_rows"]

Floats = NDArray[np.float64]

Block = NDArray[np.floating[Any]] | tuple[NDArray[np.floating[Any]], NDArray[np.integer[Any]]]
"""Rows (m, d); or the rows of whole images, and how many of them each image has."""

_SPAN_ROWS = 2048  # rows worked on at a time when fitting, however they come


@dataclass(frozen=True, eq=False)
class FittedChain:
    """A chain whose affine steps are fitted.

    Attributes
    ----------
    chain : Chain
    steps : tuple of Affine or Step
        In the order of the chain; steps that are not affine need no fit and stand as they are.
    rows : int
        How many rows the fit saw; 0 where nothing had to be fitted.
    """

    chain: Chain
    steps: tuple[Affine | Step, ...]
    rows: int

    @property
    def details(self) -> list[dict[str, Any]]:
        """JSON-ready account, one mapping a step: ``step`` and what its fit found."""
        return [
            {"step": str(step.step), **step.details} if isinstance(step, Affine) else {"step": str(step)}
            for step in self.steps
        ]

    def apply(
        self, rows: NDArray[np.floating[Any]], row_size: NDArray[np.integer[Any]] | None = None
    ) -> NDArray[np.float64]:
        """Rows after all steps.

        The whole of ``rows`` goes through one product a step, so the last place of a row may depend on its neighbours
        in the call; who needs it not to, calls with the same rows each time.

        Parameters
        ----------
        rows : ndarray (m, d)
            Any float type.
        row_size : ndarray (images,) int, optional
            Rows of each image, one after the other; needed by ``gamma``.

        Returns
        -------
        ndarray (m, d') float64
            A new array. A row that is nothing but float64 rounding (shorter than 8·√d·2.2e-16 times the lengths that
            went into it: a row equal to the mean) comes out as zeros, so that no later step blows it up; a row of
            zeros stays one under ``l2``.

        Raises
        ------
        UsageError
            ``gamma`` without ``row_size``, or sizes that do not add up.
        """
        result = rows.astype(np.float64)
        noise = np.zeros(len(result))
        for step in self.steps:
            result, noise = _applied(step, result, noise, row_size)
        return _without_noise(result, noise)


def fit_chain(chain: Chain, blocks: Callable[[], Iterator[Block]], *, where: str = "rows") -> FittedChain:
    """Fit a chain on rows that are read anew for each pass.

    A run of affine steps is fitted in one pass, on the mean and the covariance of the rows that reach it, which are
    carried from step to step. ``l2`` and ``gamma`` are not affine in that sense (they depend on the row, or on its
    image), so affine steps behind one of them take another pass: ``centre+abtt:3+l2`` reads the rows once,
    ``l2+centre+l2+pca-whiten`` twice, ``l2`` not at all. Memory is a span of 2048 rows (with ``gamma`` as many more as
    the last image of a span holds), one block, and d x d numbers. The result hangs on the rows and their order alone,
    not on how they are cut into blocks.

    Parameters
    ----------
    chain : Chain
    blocks : callable
        ``blocks()`` gives the rows from the start, in blocks (m, d) of any size; for a chain with ``gamma``
        (``chain.per_image``) tuples of rows and row sizes, each block being of whole images.
    where : str
        What the rows are, for messages.

    Raises
    ------
    InvalidDataError
        No rows, or rows that are not finite (the first are named by their number), too large, or do not vary.
    UsageError
        More components are to be removed than there are; ``gamma`` without row sizes.
    """
    done: list[Affine | Step] = []
    total: Moments | None = None
    rows = 0
    with one_thread():
        for step in chain:
            if step.kind != "affine":
                done.append(step)
                total = None
                continue
            if total is None:
                total = _moments(FittedChain(chain, tuple(done), 0), blocks, where)
                rows = total.count
            fitted = fit_step(step, total, where=where)
            total = fitted.carry(total)
            done.append(fitted)
    return FittedChain(chain, tuple(done), rows)


def fit_rows(chain: Chain, rows: NDArray[np.floating[Any]], *, where: str = "rows") -> FittedChain:
    """:func:`fit_chain` on rows (n, d) that are there as one array."""
    return fit_chain(chain, lambda: iter([rows]), where=where)


def _moments(before: FittedChain, blocks: Callable[[], Iterator[Block]], where: str) -> Moments:
    total: Moments | None = None
    for rows, sizes in _spans(blocks(), before.chain.per_image, where):
        part = moments(before.apply(rows, sizes) if before.steps else rows)
        # In the order of the rows: the bytes of a sum depend on its order.
        total = part if total is None else merge(total, part)
    if total is None:
        raise InvalidDataError("Nothing to fit post-processing on", [Problem(where, "too-few-rows", "there are none")])
    return total


def _spans(
    blocks: Iterator[Block], whole_images: bool, where: str
) -> Iterator[tuple[NDArray[np.floating[Any]], NDArray[np.integer[Any]] | None]]:
    """The rows cut anew: 2048 at a time, or as many whole images as make up 2048 rows or just more."""
    parts: list[NDArray[np.floating[Any]]] = []
    sizes: list[int] = []
    held, seen = 0, 0
    for block in blocks:
        rows, row_size = block if isinstance(block, tuple) else (block, None)
        if whole_images and row_size is None:
            raise UsageError(f"gamma works on the patches of an image, and {where} have no images to belong to")
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            numbers = seen + np.flatnonzero(~finite)
            raise InvalidDataError(
                "Post-processing cannot be fitted",
                [Problem(f"{where}[{number}]", "not-finite", "holds NaN or Inf") for number in numbers[:5]],
            )
        seen += len(rows)
        start = 0
        for size in np.asarray(row_size).tolist() if whole_images else _pieces(held, len(rows)):
            parts.append(rows[start : start + size])
            sizes.append(size)
            start += size
            held += size
            if held >= _SPAN_ROWS:
                yield np.concatenate(parts), np.array(sizes) if whole_images else None
                parts, sizes, held = [], [], 0
    if held:
        yield np.concatenate(parts), np.array(sizes) if whole_images else None


def _pieces(held: int, rows: int) -> list[int]:
    """How ``rows`` are cut so that each piece fills up a span, ``held`` rows of the first being there."""
    first = min(_SPAN_ROWS - held, rows)
    whole, rest = divmod(rows - first, _SPAN_ROWS)
    return [piece for piece in [first, *[_SPAN_ROWS] * whole, rest] if piece]


def _applied(
    step: Affine | Step, rows: Floats, noise: Floats, row_size: NDArray[np.integer[Any]] | None
) -> tuple[Floats, Floats]:
    """Rows after one step, and how long each may be by rounding alone."""
    if isinstance(step, Affine):
        unit = 8 * np.sqrt(rows.shape[1]) * ROUNDING
        fresh = unit * (np.sqrt(np.einsum("ij,ij->i", rows, rows)) + step.typical)
        return step.apply(rows), step.gain * (noise + fresh)
    if step.name == "l2":
        rows, zero = normalise_rows(_without_noise(rows, noise))
        return rows, np.where(zero, 0.0, ROUNDING)
    return _drawn_in(rows, row_size, float(step.value or 0.0)), noise


def _without_noise(rows: Floats, noise: Floats) -> Floats:
    lost = np.sqrt(np.einsum("ij,ij->i", rows, rows)) <= noise if noise.any() else np.zeros(len(rows), dtype=bool)
    return np.where(lost[:, None], 0.0, rows) if lost.any() else rows


def _drawn_in(rows: Floats, row_size: NDArray[np.integer[Any]] | None, gamma: float) -> Floats:
    """p <- m + γ (p - m), m the mean of the rows of an image."""
    if row_size is None or int(np.sum(row_size)) != len(rows) or (np.asarray(row_size) < 1).any():
        given = "none" if row_size is None else f"{int(np.sum(row_size))} in all"
        raise UsageError(
            f"gamma works on the patches of an image: it needs sizes of 1 or more that add up to {len(rows)} rows, "
            f"got {given}"
        )
    if gamma == 1:
        return rows
    result = np.empty_like(rows)
    start = 0
    for size in np.asarray(row_size).tolist():
        part = rows[start : start + size]
        mean = part.mean(axis=0)
        result[start : start + size] = mean + gamma * (part - mean)
        start += size
    return result
