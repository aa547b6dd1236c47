"""Questions about the held-out half: which of four captions belongs to the image?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optotype.pipelines.emoji.probe.halves import seeded
from optotype.pipelines.emoji.probe.table import Pairs
from optotype.schemas.errors import InvalidDataError, Problem

__all__ = ["CHOICES", "KINDS", "LETTERS", "QUESTION", "Question", "cosines", "make_questions"]

KINDS = ("random", "group", "nearest")
"""Where the wrong captions come from: any pair, the same group, the captions most like the right one."""

LETTERS = ("A", "B", "C", "D")
CHOICES = len(LETTERS)
QUESTION = "Which caption belongs to this image?"


@dataclass(frozen=True)
class Question:
    """One item.

    Attributes
    ----------
    benchmark, item : str
        ``<group>-<kind>`` in lower case, and the id of the pair.
    category, kind : str
        The group as it stands, and one of `KINDS`.
    target : int
        The pair whose image is shown.
    options : tuple of int
        Pairs whose captions are offered, in the order of `LETTERS`.
    """

    benchmark: str
    item: str
    category: str
    kind: str
    target: int
    options: tuple[int, ...]

    @property
    def answer(self) -> int:
        """Place of the right caption among the options."""
        return self.options.index(self.target)


def cosines(states: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosine of every two rows (n, n), rounded to 12 decimals so that equal rows tie; 0 with a row of zeros."""
    rows = states.astype(np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(norms == 0, 1.0, norms)
    similarity: NDArray[np.float64] = np.round(rows @ rows.T, 12)
    return similarity


def make_questions(
    pairs: Pairs,
    held_out: NDArray[np.int64],
    sets: NDArray[np.int64],
    similarity: NDArray[np.float64],
    *,
    seed: int,
    min_items: int,
) -> tuple[list[Question], list[str]]:
    """One question of each kind for each held-out pair of each group that is large enough.

    Wrong captions come from the held-out half alone (a caption that a probe was fitted on would stand out), from pairs
    that share neither caption nor image with the right one or with each other. ``random`` and ``group`` draw them
    evenly without replacement. ``nearest`` offers a neighbourhood: a centre is drawn among the right caption and the
    three nearest to it, and the wrong captions are the centre and those nearest to the centre (highest ``similarity``,
    ties by id). Were the right one always the centre, it could be told from the captions alone as the one that the
    other three are near to. The place of the right caption is drawn. Each question has a generator of its own, made of
    seed, kind and id, so it hangs on nothing but the captions that it can choose from.

    Parameters
    ----------
    pairs : Pairs
    held_out : ndarray (h,) int64
        Pairs to ask about, rising.
    sets : ndarray (n,) int64
        See `halves.repeats`.
    similarity : ndarray (h, h) float64
        Of the held-out captions.
    seed : int
    min_items : int
        Held-out pairs that a group needs, 1 or more. Pairs of smaller groups, and pairs without a group, are asked
        nothing; their captions remain wrong answers of the kinds ``random`` and ``nearest``.

    Returns
    -------
    questions : list of Question
        By group name, kind, id.
    notes : list of str
        Groups that were left out, and why.

    Raises
    ------
    InvalidDataError
        No group is large enough; all are listed.
    """
    of_group: dict[str, list[int]] = {}
    for place, pair in enumerate(held_out.tolist()):
        of_group.setdefault(pairs.groups[pair], []).append(place)
    groups, notes = [], []
    for group, places in sorted(of_group.items()):
        different = len({int(sets[held_out[place]]) for place in places})
        if not group:
            notes.append(f"{len(places)} held-out pairs have no group: no questions about them")
        elif len(places) < min_items:
            notes.append(f"{group}: {len(places)} held-out pairs, fewer than {min_items}: no questions about them")
        elif different < CHOICES:
            notes.append(f"{group}: {different} different held-out pairs, a question needs {CHOICES}")
        else:
            groups.append(group)
    if not groups:
        problems = [Problem("group", "too-few-pairs", note) for note in notes]
        raise InvalidDataError(
            "No group of the pairs is large enough for questions", problems, hint="More pairs, or a lower --min-items."
        )
    questions = []
    for group in groups:
        for kind in KINDS:
            for place in of_group[group]:
                target = int(held_out[place])
                draw = seeded(seed, "question", kind, pairs.ids[target])
                if kind == "nearest":
                    order = _around(place, similarity, held_out, sets, draw)
                else:
                    pool = np.array(of_group[group]) if kind == "group" else np.arange(len(held_out))
                    order = pool[draw.permutation(len(pool))]
                wrong = list(_distinct(target, held_out[order].tolist(), sets))
                options = [target, *wrong]
                shuffled = tuple(options[i] for i in draw.permutation(CHOICES))
                name = f"{_slug(group)}-{kind}"
                questions.append(Question(name, pairs.ids[target], group, kind, target, shuffled))
    return questions, notes


def _around(
    place: int,
    similarity: NDArray[np.float64],
    held_out: NDArray[np.int64],
    sets: NDArray[np.int64],
    draw: np.random.Generator,
) -> NDArray[np.int64]:
    """Held-out places by falling likeness to a centre, the centre first; it is drawn near ``place``."""
    target = int(held_out[place])
    nearest = _distinct(target, held_out[np.argsort(-similarity[place], kind="stable")].tolist(), sets)
    centre = int(np.searchsorted(held_out, [target, *nearest][int(draw.integers(CHOICES))]))
    order = np.argsort(-similarity[centre], kind="stable")
    result: NDArray[np.int64] = np.concatenate([[centre], order[order != centre]])
    return result


def _distinct(target: int, order: Sequence[int], sets: NDArray[np.int64]) -> Iterator[int]:
    """The first pairs of ``order`` of different sets, none of them that of the target."""
    seen = {int(sets[target])}
    for pair in order:
        if len(seen) == CHOICES:
            return
        if int(sets[pair]) not in seen:
            seen.add(int(sets[pair]))
            yield pair


def _slug(group: str) -> str:
    """``"Food & Drink"`` as ``"food-drink"``."""
    return re.sub(r"[^0-9a-z]+", "-", group.lower()).strip("-") or "group"
