"""Base tasks of lmms-eval: which one a benchmark, or a part of one, runs as, and where its YAML lies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from optotype.registry.exporters.exporter import Request
from optotype.registry.exporters.items import Item
from optotype.registry.exporters.names import run_name
from optotype.schemas.errors import InvalidDataError, Problem, did_you_mean
from optotype.store.checks import limited

__all__ = ["TASKS", "Task", "base_tasks", "find_harness"]

TASKS = "tasks"
_NAMED = re.compile(r"^task:[ \t]*[\"']?([^\"'\s#]+)", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """One task to write.

    Attributes
    ----------
    name, benchmark : str
    items : sequence of Item
    include : str
        Path of the base task's YAML, from the task's own folder.
    base : Path or None
        Where it was found, if it was.
    """

    name: str
    benchmark: str
    items: Sequence[Item]
    include: str
    base: Path | None


def find_harness(given: Iterable[str]) -> Path | None:
    """The ``tasks`` folder of an lmms-eval: that which a base task lies in, else of the one installed here."""
    for text in given:
        path = Path(text)
        if path.is_file():
            for parent in path.absolute().parents:
                if (parent.parent.name, parent.name) == ("lmms_eval", TASKS):
                    return parent
    spec = find_spec("lmms_eval")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return next((Path(folder) / TASKS for folder in folders if (Path(folder) / TASKS).is_dir()), None)


def base_tasks(request: Request, harness: Path | None) -> list[Task]:
    """The tasks that a suite becomes.

    Raises
    ------
    InvalidDataError
        Base tasks that cannot be found, items that belong to none, names that collide; all of them.
    """
    problems: list[Problem] = []
    found: list[Task] = []
    names: dict[str, str] = {}
    named: dict[str, Path] | None = None
    for key, items in _parts(request, problems):
        benchmark = items[0].benchmark
        wanted = request.tasks.get(key, key)
        path = Path(wanted)
        include: str | None = None
        base: Path | None = None
        if path.is_file():
            base = path.absolute()
            inside = harness is not None and base.is_relative_to(harness.absolute())
            include = (
                f"../{TASKS}/{base.relative_to(harness.absolute()).as_posix()}" if inside and harness else str(base)
            )
        elif wanted.endswith((".yaml", ".yml")):
            include = f"../{TASKS}/{wanted}"
            base = None if harness is None else harness / wanted
            if path.is_absolute() or ".." in path.parts or (base is not None and not base.is_file()):
                problems.append(
                    Problem(key, "no-base-task", f"no file {wanted}, nor under {harness or 'lmms_eval/tasks'}")
                )
        elif harness is not None:
            named = _named(harness) if named is None else named
            base = named.get(wanted)
            if base is None:
                hint = did_you_mean(wanted, sorted(named))
                problems.append(Problem(key, "no-base-task", f"lmms-eval has no task {wanted!r}. {hint}"))
            else:
                include = f"../{TASKS}/{base.relative_to(harness).as_posix()}"
        else:
            message = f"where the base task {wanted!r} lies is unknown: lmms-eval is not installed here"
            problems.append(Problem(key, "no-base-task", message))
        name = run_name(request.suite.name, key, blind=request.blind)
        other = names.setdefault(name, key)
        if other != key:
            problems.append(Problem(key, "same-name", f"its task would be called {name}, as that of {other}"))
        found.append(Task(name, benchmark, items, include or "", base))
    if problems:
        raise InvalidDataError(
            "the suite cannot be written for lmms-eval:",
            limited(problems),
            hint="Name base tasks with --base-task BENCHMARK=.../lmms_eval/tasks/mmmu/mmmu_val.yaml, or "
            "mmmu/mmmu_val.yaml; of a benchmark that is several tasks with --base-task BENCHMARK/SUB_TASK=...",
        )
    return found


def _parts(request: Request, problems: list[Problem]) -> Iterator[tuple[str, list[Item]]]:
    """What becomes a task: a benchmark, or a part of one that a base task was named for."""
    for benchmark in request.suite.benchmarks:
        items = [item for item in request.items if item.benchmark == benchmark]
        keys = [
            key for key in request.tasks if key not in request.suite.benchmarks and _owner(key, request) == benchmark
        ]
        rest = items
        for key in keys:
            part = key.removeprefix(f"{benchmark}/")
            own = [item for item in items if item.columns.get("sub_task", "") == part]
            rest = [item for item in rest if item not in own]
            if own:
                yield key, own
            else:
                there = sorted({item.columns.get("sub_task", "") for item in items} - {""})
                hint = did_you_mean(part, there) or "Its items name no sub-tasks."
                problems.append(Problem(key, "no-items", f"the suite has no items of this sub-task. {hint}"))
        if keys and rest and benchmark not in request.tasks:
            left = sorted({item.columns.get("sub_task", "") for item in rest})
            message = f"{len(rest)} items are of sub-tasks without a base task: {', '.join(map(repr, left))}"
            problems.append(Problem(benchmark, "no-base-task", message))
        elif rest:
            yield benchmark, rest


def _owner(key: str, request: Request) -> str | None:
    """The benchmark that ``BENCHMARK/SUB_TASK`` speaks of."""
    return max((b for b in request.suite.benchmarks if key.startswith(f"{b}/")), key=len, default=None)


def _named(harness: Path) -> dict[str, Path]:
    """Task -> YAML, of those that name one."""
    found: dict[str, Path] = {}
    for base, _, names in os.walk(harness):
        for name in sorted(names):
            if name.endswith(".yaml"):
                path = Path(base) / name
                match = _NAMED.search(path.read_text(encoding="utf-8", errors="replace"))
                if match is not None:
                    found.setdefault(match[1], path)
    return found
