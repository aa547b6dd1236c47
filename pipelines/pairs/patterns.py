"""From pairs that were passed or failed to accuracies: of all, and of each visual pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["by_pattern", "share"]


def share(right: int, count: int) -> float | None:
    """``right / count``; None of nothing."""
    return right / count if count else None


def by_pattern(right: Sequence[bool], patterns: Sequence[str], also: Sequence[str] = ()) -> dict[str, Any]:
    """Accuracy over pairs.

    Parameters
    ----------
    right : sequence of bool, length m
        Whether each pair was passed: both of its questions, or both of its matches.
    patterns : sequence of str, length m
        Its pattern; ``""`` for none. Such a pair counts in the whole alone.
    also : sequence of str
        Patterns that have a row although they may have no pair; they come first, in this order.

    Returns
    -------
    dict
        ``pairs``, ``pairs_right``, ``pair_accuracy``; ``pattern_mean``, the unweighted mean of the patterns'
        accuracies, which is what the last column of MMVP-VLM's table holds (with as many pairs in each pattern it is
        the accuracy over all); ``patterns``: for each, by first appearance, ``pattern, pairs, pairs_right,
        pair_accuracy``. Accuracies are None where there are no pairs.
    """
    counts: dict[str, list[int]] = {name: [] for name in also}
    for passed, pattern in zip(right, patterns, strict=True):
        counts.setdefault(pattern, []).append(int(passed))
    rows = [
        {"pattern": name, "pairs": len(some), "pairs_right": sum(some), "pair_accuracy": share(sum(some), len(some))}
        for name, some in counts.items()
        if name
    ]
    accuracies = [sum(some) / len(some) for name, some in counts.items() if name and some]
    return {
        "pairs": len(right),
        "pairs_right": sum(map(int, right)),
        "pair_accuracy": share(sum(map(int, right)), len(right)),
        "pattern_mean": sum(accuracies) / len(accuracies) if accuracies else None,
        "patterns": rows,
    }
