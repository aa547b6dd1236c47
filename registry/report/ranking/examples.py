"""Neighbour examples: a few items, their nearest images and their nearest captions side by side."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["choose_items", "neighbour_examples"]


def choose_items(n: int, count: int, seed: int) -> list[int]:
    """``count`` of the items 0..n-1 (all, if there are fewer), drawn with ``seed``, ascending."""
    return sorted(random.Random(seed).sample(range(n), min(count, n)))


def neighbour_examples(
    ids: Sequence[str],
    texts: Mapping[str, str],
    visual: Any,
    textual: Mapping[str, Any],
    items: Sequence[int],
    *,
    shown: int,
) -> list[dict[str, Any]]:
    """Per item the ``shown`` nearest visual neighbours and, per language model, nearest text neighbours.

    A neighbour is *shared* when it is among all k nearest of the other side, which is what the score counts.

    Parameters
    ----------
    visual : Graph
        Neighbours of one encoder; ``neighbours`` (n, k) int.
    textual : mapping of str to Graph
        The same per language model.

    Returns
    -------
    list of dict
        ``id``, ``text``, ``visual`` (a list of neighbours: ``id``, ``text``, ``similarity``, ``shared`` = names
        of the language models that have it among their k), ``textual`` (a list of ``model``, ``overlap`` =
        number of shared neighbours among k, ``neighbours`` with ``shared`` true or false).
    """
    examples = []
    for item in items:
        mine = visual.neighbours[item]
        sides = []
        for model, graph in textual.items():
            theirs = graph.neighbours[item]
            shared = set(np.intersect1d(mine, theirs).tolist())
            neighbours = [
                {**_neighbour(ids, texts, graph, item, rank), "shared": int(theirs[rank]) in shared}
                for rank in range(min(shown, theirs.size))
            ]
            sides.append({"model": model, "overlap": len(shared), "neighbours": neighbours})
        nearest = []
        for rank in range(min(shown, mine.size)):
            having = [model for model, graph in textual.items() if int(mine[rank]) in graph.neighbours[item]]
            nearest.append({**_neighbour(ids, texts, visual, item, rank), "shared": having})
        examples.append({"id": ids[item], "text": texts[ids[item]], "visual": nearest, "textual": sides})
    return examples


def _neighbour(ids: Sequence[str], texts: Mapping[str, str], graph: Any, item: int, rank: int) -> dict[str, Any]:
    other = ids[int(graph.neighbours[item, rank])]
    return {"id": other, "text": texts[other], "similarity": round(float(graph.similarity[item, rank]), 6)}
