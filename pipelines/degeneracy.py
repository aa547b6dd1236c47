"""What makes the neighbours of a graph unreliable, in words, each with what mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.operators.mixtures import SPACES

__all__ = ["degeneracy"]

# Where whitening has made the rows nearly equidistant: r effective directions for N rows leave each row its own.
_FULL = 0.9
# Where the similarities hardly differ, their order is rounding and sampling noise.
_FLAT = 1e-3
# Where so much of the variance lies in directions with λ < ε, whitening leaves them as they are.
_UNTOUCHED = 0.5
# Similarities are rounded to 12 decimals; identical rows reach 1 up to rounding of the products.
_SAME = 1 - 1e-6
_CONSTANT = 1e-12


def degeneracy(attrs: Mapping[Any, Any], similarity: NDArray[np.float64]) -> list[str]:
    """What makes the neighbours of a graph unreliable, in words, each with what mends it.

    Parameters
    ----------
    attrs : mapping
        Attributes of a graph, whitened or not (see :func:`optotype.pipelines.operators.neighbours.feature_neighbours`).
    similarity : ndarray (n, k) float64
        Of each item to its neighbours, as the graph holds it.
    """
    side, n = attrs["kind"], len(similarity)
    whitened = attrs.get("whitened", True)
    eps, prenorm = (attrs["eps"], attrs["prenorm"]) if whitened else (0.0, "none")
    found = []
    fits = _spaces(attrs) if whitened else []
    found += [
        _equidistant(f"{side}{where}", side, fit, n, eps, prenorm)
        for where, fit in fits
        if fit["rows"] > 1 and fit["effective_directions"] / (fit["rows"] - 1) > _FULL
    ]
    if attrs["similarity_sd"] < _FLAT:
        if attrs["similarity_sd"] < _CONSTANT and attrs["similarity_mean"] > _SAME:
            mend = "different items: these are identical"
        elif n == 2:
            mend = "more items"
        elif not whitened:
            mend = f"--post-{side} centre, or a metric that whitens"
        else:
            mend = "a larger --eps" if prenorm == "l2" else f"--prenorm-{side} l2 or a larger --eps"
        found.append(
            f"{side}: similarities hardly differ (sd {attrs['similarity_sd']:.2g}), neighbours are a matter of noise; "
            f"mend with {mend}"
        )
    found += _ties(side, similarity)
    if attrs.get("zero_rows"):
        found.append(
            f"{side}: {attrs['zero_rows']} of {attrs['rows']} patches are zero, in {attrs['zero_items']} of {n} "
            f"images; each has cosine 0 to every patch and counts in the means; mend with --post-{side} centre, or a "
            "metric that whitens"
        )
    for where, fit in fits:
        if fit["variance_below_eps"] > _UNTOUCHED:
            mend = f"--prenorm-{side} none or a smaller --eps" if prenorm == "l2" else "a smaller --eps"
            found.append(
                f"{side}{where}: {fit['variance_below_eps']:.0%} of the variance lies in directions with λ < ε = "
                f"{eps:g}, which whitening leaves nearly as they are; mend with {mend}"
            )
    return found


def _spaces(attrs: Mapping[Any, Any]) -> list[tuple[str, Mapping[Any, Any]]]:
    """What the whitening of each space did: of the one there is, or of the two of an interleaved mixture."""
    if f"{SPACES[0]}_rows" not in attrs:
        return [("", attrs)]
    return [
        (
            f" (space {suffix})",
            {name[2:]: value for name, value in attrs.items() if str(name).startswith(f"{suffix}_")},
        )
        for suffix in SPACES
    ]


def _equidistant(where: str, side: str, fit: Mapping[Any, Any], n: int, eps: float, prenorm: str) -> str:
    rows = "patches" if side == "features" else "texts"
    mend = f"--prenorm-{side} l2, " if prenorm == "none" else ""
    mend = "more items" if n == 2 else f"{mend}a larger --eps or more items"
    return (
        f"{where}: whitening {fit['rows']} {rows} in {fit['channels']} channels (median λ "
        f"{fit['median_eigenvalue']:.2g}, ε {eps:g}) leaves them nearly equidistant, their neighbours are mostly "
        f"noise; mend with {mend}"
    )


def _ties(side: str, similarity: NDArray[np.float64]) -> list[str]:
    """A warning where most items are equally similar to all their neighbours, so that the order of ids chose them."""
    n, k = similarity.shape
    if k < 2 or k == n - 1:  # one value is no tie, and all items are neighbours whatever their order
        return []
    tied = similarity[:, 0] == similarity[:, -1]  # falling
    if np.mean(tied) <= 0.5:
        return []
    text = f"{side}: ties decide: {np.mean(tied):.0%} of the items have equally similar neighbours"
    if np.mean(similarity[tied, 0] > _SAME) > 0.5:
        return [
            f"{text} (many identical rows); neighbours are settled by id order; no option mends it: remove duplicate "
            "items"
        ]
    return [f"{text}; neighbours are settled by id order"]
