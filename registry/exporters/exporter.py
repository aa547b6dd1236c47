"""What every exporter does, and the verb that runs one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from optotype.registry.exporters.items import Item, suite_items
from optotype.registry.exporters.suite import OpenSuite, find_panel_of, open_suite
from optotype.registry.references import project_around
from optotype.schemas.errors import UsageError, did_you_mean
from optotype.store.project import Project

__all__ = ["EXPORTERS", "Exported", "Exporter", "Request", "export", "get_exporter"]

EXPORTERS = {
    "lmms-eval": ("lmms_eval", "LmmsEval"),
    "vlmevalkit": ("vlmevalkit", "VlmEvalKit"),
    "jsonl": ("jsonl", "JsonLines"),
    "ids": ("ids", "Ids"),
}


@dataclass(frozen=True)
class Request:
    """What is to be exported, and how.

    Attributes
    ----------
    suite : OpenSuite
    items : sequence of Item
        In the suite's order.
    target : Path
        File or folder.
    blind : bool
        A run without images.
    tasks : mapping
        Benchmark, or ``BENCHMARK/SUB_TASK``, -> what the harness calls it.
    revisions, columns : mapping
        Benchmark -> revision of its data set; column that holds its ids there.
    images : Path or None
        Folder of images that are named by relative paths.
    """

    suite: OpenSuite
    items: Sequence[Item]
    target: Path
    blind: bool = False
    tasks: Mapping[str, str] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    images: Path | None = None


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes
    ----------
    files : tuple of Path
        Files and folders.
    runs : tuple of mapping
        ``name`` (as the evaluation calls it), ``benchmark``, ``items`` (int) of each.
    notes : tuple of str
    """

    files: tuple[Path, ...]
    runs: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()


class Exporter(Protocol):
    """Writes a suite in one form. The same request gives the same bytes; what fails leaves nothing behind.

    Attributes
    ----------
    name : str
        The word of the command line.
    needs_content : bool
        Whether it takes more of the items than their ids.
    options : frozenset of str
        Fields of `Request` beyond the first three that mean something to it.
    """

    name: str
    needs_content: bool
    options: frozenset[str]

    def write(self, request: Request) -> Exported:
        """Write; raises `InvalidDataError` with all problems before anything is there."""
        ...


def get_exporter(name: str) -> Exporter:
    """The exporter of a name.

    Raises
    ------
    UsageError
        There is none.
    """
    if name not in EXPORTERS:
        raise UsageError(f"suites are not exported to {name!r}", hint=did_you_mean(name, list(EXPORTERS)))
    module, found = EXPORTERS[name]
    return cast("Exporter", getattr(import_module(f"optotype.registry.exporters.{module}"), found)())


def export(
    suite: str,
    to: str,
    target: str | Path,
    *,
    project: Project | str | Path | None = None,
    blind: bool = False,
    panel: str | None = None,
    items: Sequence[str] = (),
    images: str | Path | None = None,
    tasks: Mapping[str, str] | None = None,
    revisions: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Export a suite to where evaluations run.

    Parameters
    ----------
    suite : str
        A published suite, or the folder of one.
    to : {"lmms-eval", "vlmevalkit", "jsonl", "ids"}
    target : path
        A folder for lmms-eval, else a file.
    project : Project or path, optional
        Where names are looked up.
    blind : bool
        Write the run without images.
    panel : str, optional
        The panel whose item columns are taken; by default the one that the suite was chosen on, if it is here.
    items : sequence of str
        Tables with more columns of the items, each ``FILE`` or ``BENCHMARK=FILE``; what they say goes before the panel.
    images : path, optional
        Folder of the images that are named by relative paths; by default that of the table which names them.
    tasks, revisions, columns : mapping, optional
        See `Request`.

    Returns
    -------
    dict
        JSON-ready: ``suite, version, digest, to, blind, items``, ``files`` (list of str), ``runs`` (list of ``name,
        benchmark, items``), ``notes`` (list of str).

    Raises
    ------
    UsageError
        An option that says nothing to this form, or names no benchmark of the suite.
    InvalidDataError
        Items that cannot be exported so; all of them.
    OptotypeError
        As `open_suite` and the store do.
    """
    exporter = get_exporter(to)
    found = project_around(project)
    opened = open_suite(suite, None if found is None else found.root)
    given = {"blind": blind, "tasks": tasks, "revisions": revisions, "columns": columns, "images": images}
    _check(exporter, opened, {name: value for name, value in given.items() if value})
    if (items or panel) and not exporter.needs_content:
        raise UsageError(f"--to {to} takes nothing but ids of the items: leave --items and --panel out")
    notes = list(opened.notes)
    scores = None
    if exporter.needs_content:
        scores, more = find_panel_of(opened, found, panel)
        notes += more
    request = Request(
        opened,
        suite_items(opened, scores, items),
        Path(target),
        blind,
        dict(tasks or {}),
        dict(revisions or {}),
        dict(columns or {}),
        None if images is None else Path(images),
    )
    done = exporter.write(request)
    return {
        "suite": opened.name,
        "version": opened.version,
        "digest": opened.digest,
        "to": to,
        "blind": blind,
        "items": len(opened.items),
        "files": [str(path) for path in done.files],
        "runs": [dict(run) for run in done.runs],
        "notes": [*notes, *done.notes],
    }


_WORDS = {
    "blind": "--blind",
    "tasks": "--base-task",
    "revisions": "--revision",
    "columns": "--id-column",
    "images": "--images",
}


def _check(exporter: Exporter, suite: OpenSuite, given: Mapping[str, Any]) -> None:
    for option, value in given.items():
        word = _WORDS[option]
        if option not in exporter.options:
            raise UsageError(f"{word} says nothing to --to {exporter.name}", hint="Leave it out.")
        if not isinstance(value, Mapping):
            continue
        for name in value:
            benchmark = name.partition("/")[0] if option == "tasks" and name not in suite.benchmarks else name
            if benchmark not in suite.benchmarks:
                hint = did_you_mean(benchmark, suite.benchmarks)
                raise UsageError(f"{word} {name}: the suite has no benchmark {benchmark!r}", hint=hint)
