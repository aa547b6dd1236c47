"""Which patch of one image matches which patch of another: what the image similarity is an average of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["PatchMatch", "match_patches", "square_side"]


def square_side(tokens: int) -> int | None:
    """The side of a square grid of ``tokens`` patches, or None when they make no square of 2 x 2 or more."""
    side = math.isqrt(tokens)
    return side if side * side == tokens and side >= 2 else None


@dataclass(frozen=True)
class PatchMatch:
    """Best matches between the patches of image A and of image B.

    Attributes
    ----------
    encoder : str
        Whose features they are.
    items : tuple of str
        Ids of A and B.
    grids : tuple of int
        Sides g_A and g_B of the square patch grids; patches run row by row.
    best_of_a, best_of_b : numpy.ndarray
        (g_A²,) and (g_B²,), int64: the best match of each patch in the other image, ties to the lower index.
    best_a, best_b : numpy.ndarray
        (g_A²,) and (g_B²,), float64: the cosine with that match, of whitened patches.
    """

    encoder: str
    items: tuple[str, str]
    grids: tuple[int, int]
    best_of_a: np.ndarray
    best_of_b: np.ndarray
    best_a: np.ndarray
    best_b: np.ndarray

    @property
    def chamfer(self) -> float:
        """The symmetric Chamfer similarity of the pair: the mean of both directions' means."""
        return float((self.best_a.mean() + self.best_b.mean()) / 2)

    def strongest(self, rows: int, columns: int) -> list[int]:
        """The patch of A with the best match in each of ``rows`` x ``columns`` parts of A, best first.

        At most one for each patch of B; a part whose patches all match what is taken has none.
        """
        grid = self.grids[0]
        chosen: list[int] = []
        parts: set[tuple[int, int]] = set()
        taken: set[int] = set()
        for patch in np.argsort(-self.best_a, kind="stable").tolist():
            part = (patch // grid * rows // grid, patch % grid * columns // grid)
            target = int(self.best_of_a[patch])
            if part not in parts and target not in taken:
                parts.add(part)
                taken.add(target)
                chosen.append(patch)
        return chosen


def match_patches(encoder: str, items: tuple[str, str], a: np.ndarray, b: np.ndarray) -> PatchMatch:
    """Match whitened, row-normalised patches ``a`` (M_A, d) and ``b`` (M_B, d), each a square grid.

    The two maxima of one product are those of the symmetric Chamfer similarity (RAVEL, step 4).

    Raises
    ------
    ValueError
        Either is no square grid of 2 x 2 patches or more.
    """
    grids = square_side(len(a)), square_side(len(b))
    if grids[0] is None or grids[1] is None:
        raise ValueError(f"square grids wanted, got {len(a)} and {len(b)} patches")
    product = np.asarray(a, dtype=np.float64) @ np.asarray(b, dtype=np.float64).T
    product = np.round(product, 9)  # the last digits differ between BLAS builds; the report must not
    return PatchMatch(
        encoder=encoder,
        items=items,
        grids=(grids[0], grids[1]),
        best_of_a=product.argmax(axis=1),
        best_of_b=product.argmax(axis=0),
        best_a=product.max(axis=1),
        best_b=product.max(axis=0),
    )
