"""Units of work: each is computed once, kept on disk under all that it depends on, and found again after a kill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask
from threadpoolctl import threadpool_limits

import optotype
from optotype.pipelines.progress import Progress, Task
from optotype.pipelines.scheduler import scheduler
from optotype.schemas.documents import cache_key, parse_document
from optotype.store.drafts import draft_file

__all__ = ["Unit", "code_digest", "run_units", "versions"]

_FORMAT = 1
_PACKAGES = ("bottleneck", "kmedoids", "numpy", "scikit-learn", "scipy")

Result = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """One piece of an evaluation.

    Attributes
    ----------
    kind : str
        What is computed; names the function that does it.
    split : str
        Name of the split.
    members : str
        Digest of the models on both sides of the split.
    retention : float
        Share of the items that is kept; 1.0 where nothing is selected.
    selector : str
        "" where nothing is selected.
    """

    kind: str
    split: str = ""
    members: str = ""
    retention: float = 1.0
    selector: str = ""


def versions() -> dict[str, str]:
    """Versions of what the numbers come from."""
    return {"optotype": optotype.__version__, **{name: version(name) for name in _PACKAGES}}


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of the source of all pipelines: results of other code are never taken for results of this one."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def run_units(
    units: Sequence[Unit],
    function: Callable[[str, Unit], Result],
    shared: str,
    *,
    key: str,
    cache: Path | None,
    workers: int,
    progress: Progress,
    title: str,
) -> Iterator[tuple[Unit, Result]]:
    """Results of the units, in their order, whatever the number of workers.

    Parameters
    ----------
    units : sequence of Unit
    function : callable
        ``function(shared, unit)``; a module-level function whose result is JSON-ready.
    shared : str
        Passed to every call: the folder of the workspace.
    key : str
        Digest of all inputs that the units share.
    cache : Path, optional
        Folder of the results; a unit that is there is not computed. Without one nothing is kept.
    workers : int
        Processes; 1 computes in this one.
    progress : Progress
    title : str

    Raises
    ------
    FormatError
        A kept result that is not one; the message names the file.
    """
    files = {unit: None if cache is None else cache / f"{_name(unit, key)}.json" for unit in units}
    found = {unit: _read(path) for unit, path in files.items() if path is not None and path.is_file()}
    missing = [unit for unit in files if unit not in found]
    if found and missing:
        progress.note(f"{title}: {len(found)} of {len(files)} units were computed before")
    done: dict[Unit, Result] = {}

    def keep(results: Iterator[Result], task: Task) -> None:
        # This process alone writes: drafts of several writers in one folder could take each other for leftovers.
        for unit, result in zip(missing, results, strict=True):
            path = files[unit]
            if path is not None:
                _write(path, key, unit, result)
            done[unit] = result
            task.advance()

    if missing:
        with progress(title, total=len(files), unit="units", done=len(found)) as task:
            tasks = [(function, unit) for unit in missing]
            if workers == 1 or len(missing) == 1:
                with threadpool_limits(limits=1):
                    keep((_run(shared, entry) for entry in tasks), task)
            else:
                with scheduler("processes", workers=min(workers, len(missing))) as place:
                    keep(place.map(_run, shared, tasks), task)
    for unit in units:
        yield unit, found[unit] if unit in found else done[unit]


def _run(shared: str, task: tuple[Callable[[str, Unit], Result], Unit]) -> Result:
    """Compute a unit."""
    function, unit = task
    with dask.config.set(scheduler="synchronous"):  # a worker is one of many
        found = function(shared, unit)
    # Through JSON in any case: what was computed now and what was found are then equal to the last bit.
    result: Result = json.loads(json.dumps(found, allow_nan=False))
    return result


def _write(path: Path, key: str, unit: Unit, result: Result) -> None:
    document = {
        "format_version": _FORMAT,
        "kind": "evaluation unit",
        "key": key,
        "unit": asdict(unit),
        "result": result,
    }
    with draft_file(path) as file:
        file.write(json.dumps(document, ensure_ascii=False, allow_nan=False).encode())


def _read(path: Path) -> Result:
    document = parse_document(path.read_bytes(), kind="unit of an evaluation", where=str(path), newest=_FORMAT)
    result: Result = document["result"]
    return result


def _name(unit: Unit, key: str) -> str:
    return cache_key({"key": key, **asdict(unit)})
