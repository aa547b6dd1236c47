"""Names under which a suite's benchmarks run elsewhere, and back."""

from __future__ import annotations

from collections.abc import Iterable

from optotype.registry.exporters.suite import slug

__all__ = ["BLIND", "is_blind", "run_name", "suite_benchmark"]

BLIND = "_blind"


def run_name(suite: str, name: str, *, blind: bool = False) -> str:
    """``<suite>_<name>``, with ``_blind`` behind it for a run without images."""
    return f"{slug(suite)}_{slug(name)}{BLIND if blind else ''}"


def is_blind(name: str) -> bool:
    """Whether results of this name are of a run without images, as `run_name` calls them."""
    return name.endswith(BLIND)


def suite_benchmark(name: str, suite: str, benchmarks: Iterable[str]) -> str | None:
    """The benchmark of a suite that results of this name belong to; None if none does.

    That is the benchmark called so; else the longest whose exported name it is, or begins with (one benchmark may run
    as several tasks); else the longest that the name ends with, of a suite that had another name.
    """
    there = list(benchmarks)
    if name in there:
        return name
    rest = name.removeprefix(f"{slug(suite)}_")
    own = [each for each in there if rest != name and (rest == slug(each) or rest.startswith(f"{slug(each)}_"))]
    hits = own or [each for each in there if name.endswith(f"_{slug(each)}")]
    longest = max(map(len, hits), default=0)
    best = [each for each in hits if len(each) == longest]
    return best[0] if len(best) == 1 else None
