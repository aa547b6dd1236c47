"""Catalogue order: benchmarks by first appearance, the items of each together, and nothing that stands ever moves."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

__all__ = ["catalogue_order", "merged_order"]

_T = TypeVar("_T", bound=Hashable)


def merged_order(standing: Sequence[_T], listed: Iterable[_T]) -> list[_T]:
    """``standing`` with what is new in ``listed`` put in.

    A new entry takes its place before the next entry of ``listed`` that stands already; after all if there is none. So
    parts of one list give that list, in whatever portions they come, and the order of what stands never changes.
    """
    known = set(standing)
    before: dict[_T, list[_T]] = {}
    waiting: list[_T] = []
    for entry in dict.fromkeys(listed):
        if entry in known:
            before.setdefault(entry, []).extend(waiting)
            waiting = []
        else:
            waiting.append(entry)
    order: list[_T] = []
    for entry in standing:
        order += before.get(entry, ())
        order.append(entry)
    return order + waiting


def catalogue_order(
    standing: Sequence[tuple[str, str]],
    listed: Sequence[tuple[str, str]],
    seen: Sequence[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Order of the items (benchmark, item) of a panel.

    Parameters
    ----------
    standing : sequence
        Those of the panel as it stands, in order.
    listed : sequence
        Rows of an items table, in order; those that neither stand nor are seen count for the order of benchmarks alone.
    seen : sequence
        Items of the scores by first appearance.

    Returns
    -------
    list
        All of them: benchmarks by first appearance in what stands, the table, the scores; inside a benchmark the same.
        A new one goes where the table has it among those that stand, or to the end.
    """
    there = {*standing, *seen}
    used = {benchmark for benchmark, _ in there}
    benchmarks = merged_order(list(dict.fromkeys(b for b, _ in standing)), (b for b, _ in listed if b in used))
    parts: dict[str, tuple[list[str], list[str]]] = {b: ([], []) for b in benchmarks}
    for benchmark, item in standing:
        parts[benchmark][0].append(item)
    for benchmark, item in listed:
        if (benchmark, item) in there:
            parts[benchmark][1].append(item)
    orders = {b: dict.fromkeys(merged_order(old, new)) for b, (old, new) in parts.items()}
    for benchmark, item in seen:
        orders.setdefault(benchmark, {}).setdefault(item)
    return [(benchmark, item) for benchmark, items in orders.items() for item in items]
