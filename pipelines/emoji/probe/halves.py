"""Two halves of the pairs, and folds of one of them, such that what repeats never lies on both sides."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["folds", "halves", "repeats", "seeded"]


def seeded(seed: int, *what: object) -> np.random.Generator:
    """A generator for one purpose: what is drawn for another never moves its numbers."""
    text = "/".join(str(part) for part in (seed, *what))
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")))


def repeats(texts: Sequence[str], pixels: Sequence[str]) -> NDArray[np.int64]:
    """Number the sets of pairs that share a caption or an image, directly or through others.

    Captions are the same if they differ by letter case, white space and punctuation alone.

    Parameters
    ----------
    texts : sequence of str, length n
    pixels : sequence of str, length n
        A digest of each image.

    Returns
    -------
    ndarray (n,) int64
        From 0, by first appearance.
    """
    parent = list(range(len(texts)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    first: dict[Hashable, int] = {}
    for i, (text, image) in enumerate(zip(texts, pixels, strict=True)):
        folded = text.casefold()
        for key in (("text", "".join(filter(str.isalnum, folded)) or folded), ("image", image)):
            j = root(first.setdefault(key, i))
            parent[max(root(i), j)] = min(root(i), j)
    roots = [root(i) for i in range(len(texts))]
    number = {name: place for place, name in enumerate(dict.fromkeys(roots))}
    return np.array([number[name] for name in roots], dtype=np.int64)


def halves(groups: Sequence[str], sets: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Which pairs the probes are fitted on: half of each group, whole sets of repeats.

    Sets are taken in a seeded order within the group of their first pair, each into the half that has fewer pairs of
    that group, then of all groups, then the training half. The order in one group does not hang on the others.

    Returns
    -------
    ndarray (n,) bool
        True in the training half.
    """
    members: dict[int, list[int]] = {}
    for i, number in enumerate(sets.tolist()):
        members.setdefault(number, []).append(i)
    by_group: dict[str, list[list[int]]] = {}
    for rows in members.values():
        by_group.setdefault(groups[rows[0]], []).append(rows)
    train = np.zeros(len(groups), dtype=bool)
    total = [0, 0]
    for group in sorted(by_group):
        here = [0, 0]
        for place in seeded(seed, "halves", group).permutation(len(by_group[group])):
            rows = by_group[group][place]
            # 0 is the training half
            half = min((0, 1), key=lambda side: (here[side], total[side], side))
            here[half] += len(rows)
            total[half] += len(rows)
            train[rows] = half == 0
    return train


def folds(sets: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """Fold 0 … ``count`` - 1 of each pair: whole sets in a seeded order, each into the smallest fold so far."""
    numbers: NDArray[Any]
    numbers, inverse, sizes = np.unique(sets, return_inverse=True, return_counts=True)
    fold = np.zeros(len(numbers), dtype=np.int64)
    filled = np.zeros(count, dtype=np.int64)
    for place in seeded(seed, "folds").permutation(len(numbers)):
        fold[place] = int(np.argmin(filled))
        filled[fold[place]] += sizes[place]
    result: NDArray[np.int64] = fold[inverse]
    return result
