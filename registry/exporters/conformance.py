"""What every exporter has to keep, as a check that can be run on any of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from optotype.registry.exporters.exporter import Exporter, Request
from optotype.registry.exporters.items import Item
from optotype.registry.exporters.suite import OpenSuite
from optotype.schemas.errors import Problem
from optotype.store.drafts import is_draft

__all__ = ["exporter_problems"]

_IMAGE = base64.b64encode(b"no picture, but long enough to be taken for one: " + bytes(range(64))).decode()
_NAMES = (("one", "a-1"), ("one", "a-3"), ("two", "0007"), ("two", "0019"))


def exporter_problems(exporter: Exporter, folder: Path) -> list[Problem]:
    """Everything that an exporter does not keep.

    Looked for: equal bytes for equal requests, wherever the target lies; every id in what is written; each run with as
    many items as it has; nothing of an image in a blind run, which has other names; a second export over the first;
    nothing left over.

    Parameters
    ----------
    exporter : Exporter
    folder : Path
        An empty one to write into.
    """
    problems: list[Problem] = []

    def expect(kept: bool, kind: str, message: str) -> None:
        if not kept:
            problems.append(Problem(exporter.name, kind, message))

    first, second = folder / "first", folder / "second"
    for place in (first, second):
        place.mkdir(parents=True)
    done = exporter.write(_request(exporter, first / "suite"))
    exporter.write(_request(exporter, second / "suite"))
    written = _contents(first)
    expect(written == _contents(second), "bytes", "equal requests give other bytes in another folder")
    expect(bool(written) and all(path.exists() for path in done.files), "files", "what it says it wrote is not there")
    everything = b"\n".join(written.values()).decode()
    for _, item in _NAMES:
        expect(item in everything, "items", f"the id {item!r} is nowhere in it")
    if done.runs:
        counts: dict[str, int] = {}
        for run in done.runs:
            counts[run["benchmark"]] = counts.get(run["benchmark"], 0) + run["items"]
        expect(counts == {"one": 2, "two": 2}, "runs", f"its runs hold {counts} of 2 items each")
    exporter.write(_request(exporter, first / "suite"))
    expect(_contents(first) == written, "again", "a second export over the first differs from it")
    if "blind" in exporter.options:
        blind = folder / "blind"
        blind.mkdir()
        alone = exporter.write(_request(exporter, blind / "suite", blind=True))
        text = b"\n".join(_contents(blind).values()).decode()
        expect(_IMAGE not in text, "blind", "a blind run holds an image")
        names = {run["name"] for run in done.runs} & {run["name"] for run in alone.runs}
        expect(not names, "blind", f"runs with and without images are both called {', '.join(sorted(names))}")
    left = [path.name for path in folder.rglob("*") if is_draft(path.name)]
    expect(not left, "leftovers", f"left behind: {', '.join(left)}")
    return problems


def _request(exporter: Exporter, target: Path, *, blind: bool = False) -> Request:
    import pandas as pd

    columns = {"question": "What is it?", "A": "this", "B": "that", "answer": "A", "image": _IMAGE}
    items = [Item(benchmark, item, "seeing", 1.0, columns) for benchmark, item in _NAMES]
    table = pd.DataFrame(
        {
            "benchmark": [item.benchmark for item in items],
            "item_id": [item.item_id for item in items],
            "category": [item.category for item in items],
            "weight": [item.weight for item in items],
        },
        dtype=object,
    )
    suite = OpenSuite("conformance", "1.0.0", "sha256:" + "0" * 64, table, {}, target.parent)
    tasks = {"one": "one/one.yaml", "two": "two/two.yaml"} if exporter.name == "lmms-eval" else {}
    return Request(suite, items, target, blind, tasks)


def _contents(folder: Path) -> Mapping[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
