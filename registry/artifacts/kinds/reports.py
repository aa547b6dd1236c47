"""Reports: pages to read, with the numbers beside them as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optotype.registry.artifacts.kinds.adapter import Description, inputs_in
from optotype.schemas.errors import Problem

__all__ = ["ADAPTERS"]


class _Reports:
    what = "A report: one or more pages to read, with the numbers they show."
    load = 'webbrowser.open((folder / "{page}").as_uri())'

    def problems(self, payload: Path) -> list[Problem]:
        problems = []
        if not _pages(payload):
            problems.append(Problem(".", "no-page", "a report holds at least one .html file"))
        for path in sorted(payload.rglob("*.json")):
            try:
                json.loads(path.read_bytes())
            except (ValueError, RecursionError) as error:
                problems.append(Problem(path.relative_to(payload).as_posix(), "document", f"not JSON ({error})"))
        return problems

    def describe(self, payload: Path) -> Description:
        documents = list(_documents(payload))
        title = next((str(document["title"]) for document in documents if document.get("title")), None)
        seed = next((document["seed"] for document in documents if type(document.get("seed")) is int), None)
        pages = [path.relative_to(payload).as_posix() for path in _pages(payload)]
        facts: dict[str, Any] = {"pages": pages, "content_digests": []}
        inputs = {each.digest: each for document in documents for each in inputs_in(document)}
        made_of = tuple(sorted(inputs.values(), key=lambda each: (each.role, each.name, each.digest)))
        limits = ("A report is a view: pin what it reports on to compute with it.",)
        return Description(title or f"Report: {pages[0]}", {}, seed, made_of, facts, limits=limits)

    def rows(self, payload: Path) -> None:
        return None

    def ranks(self, payload: Path) -> None:
        return None


def _pages(payload: Path) -> list[Path]:
    return sorted(payload.rglob("*.html"))


def _documents(payload: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(payload.rglob("*.json")):
        document = json.loads(path.read_bytes())
        if isinstance(document, dict):
            yield document


ADAPTERS = {"report": _Reports()}
