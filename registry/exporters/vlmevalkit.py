"""VLMEvalKit: one ``<Name>.tsv`` for each benchmark, for the folder ``$LMUData``.

As the harness reads them (`ImageBaseDataset`): ``pandas.read_csv(sep="\\t")``; ``index`` becomes whole numbers where
all are; ``image`` is base64, or a list of base64 as text; without ``image`` and ``image_path`` the set is text-only.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from pathlib import Path

from optotype.registry.exporters.exporter import Exported, Request
from optotype.registry.exporters.items import Item
from optotype.registry.exporters.names import BLIND, run_name
from optotype.registry.exporters.suite import slug
from optotype.schemas.errors import InvalidDataError, Problem
from optotype.store.checks import limited
from optotype.store.drafts import draft_file

__all__ = ["VlmEvalKit"]

_SHORT = 64  # an image of so few characters would be taken for the index of another row
_ROTATION = 10**6
_HIDDEN = ("image_path", "benchmark", "weight", "n_choices", "sub_task")
# What pandas takes for a missing value: an option with such a text would vanish.
_MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"}
_MISSING |= {"NA", "NULL", "NaN", "None", "n/a", "nan", "null"}


class VlmEvalKit:
    """Tables with ``index, category, l2-category, question``, options, ``answer``, what else is known, ``image``.

    With one benchmark the file is the target; with several each has its own beside it, ``<stem>_<benchmark>.tsv``. The
    name is the data set's name there: its judging rules look for the official one inside, so the target's name or the
    benchmark's (``tasks``) should hold it. An image that another row stands for is written at every row that has it.
    """

    name = "vlmevalkit"
    needs_content = True
    options = frozenset({"blind", "tasks", "images"})

    def write(self, request: Request) -> Exported:
        """Write the tables.

        Raises
        ------
        InvalidDataError
            Every item without a question or (unless blind) an image, ids that the harness would confuse.
        """
        problems: list[Problem] = []
        notes: list[str] = []
        tables: dict[Path, tuple[str, list[list[str]]]] = {}
        for benchmark in request.suite.benchmarks:
            items = [item for item in request.items if item.benchmark == benchmark]
            problems += _id_problems(benchmark, items)
            path = _path(request, benchmark)
            if path in tables:
                message = f"{path.name} is the file of {tables[path][0]}, too"
                problems.append(Problem(benchmark, "same-name", message))
            tables[path] = (benchmark, _table(items, request, problems, notes))
        if problems:
            raise InvalidDataError(
                "the suite cannot be written for VLMEvalKit:",
                limited(problems),
                hint="Questions, options and images come from the panel's items or from --items FILE; images that are "
                "files lie in --images DIR. --blind needs no images.",
            )
        for path, (_, rows) in tables.items():
            text = io.StringIO(newline="")
            csv.writer(text, delimiter="\t", lineterminator="\n").writerows(rows)
            with draft_file(path) as file:
                file.write(text.getvalue().encode())
        runs = [
            {"name": path.stem, "benchmark": benchmark, "items": len(rows) - 1}
            for path, (benchmark, rows) in tables.items()
        ]
        return Exported(tuple(tables), tuple(runs), tuple(dict.fromkeys(notes)))


def _path(request: Request, benchmark: str) -> Path:
    """The file of a benchmark."""
    target = request.target if request.target.suffix == ".tsv" else Path(f"{request.target}.tsv")
    stem = target.stem
    blind = request.blind and not stem.endswith(BLIND)
    if len(request.suite.benchmarks) > 1 or benchmark in request.tasks:
        stem = run_name(stem.removesuffix(BLIND), request.tasks.get(benchmark, benchmark), blind=request.blind)
    elif blind:
        stem = f"{slug(stem)}{BLIND}"
    return target.with_name(f"{stem}.tsv")


def _table(items: Sequence[Item], request: Request, problems: list[Problem], notes: list[str]) -> list[list[str]]:
    letters = sorted({letter for item in items for letter in item.options})
    known = {"index", "prediction", "category", "question", "answer", "image", "l2-category", *_HIDDEN, *letters}
    extra = sorted({name for item in items for name in item.columns} - known)
    sub = any("sub_task" in item.columns for item in items)
    heads = ["index", "category", *(["l2-category"] if sub else []), "question", *letters, "answer", *extra]
    rows = [heads if request.blind else [*heads, "image"]]
    guarded = 0
    for item in items:
        where = f"{item.benchmark}: {item.item_id}"
        columns = {**item.columns, "l2-category": item.columns.get("sub_task", item.columns.get("l2-category", ""))}
        columns |= {"index": item.item_id, "category": item.category}
        if not columns.get("question"):
            problems.append(Problem(where, "no-question", "no text of the question is known"))
        for letter, text in item.options.items():
            if text in _MISSING:
                columns[letter] = f" {text}"
                guarded += 1
        row = [columns.get(name, "") for name in heads]
        rows.append(row if request.blind else [*row, _image(item, request.images, where, problems)])
    if guarded:
        notes.append(
            f"{guarded} options of {items[0].benchmark} whose text the harness would take for a missing value (None, "
            "N/A ...) have a space before it"
        )
    return rows


def _image(item: Item, images: Path | None, where: str, problems: list[Problem]) -> str:
    """The image as base64."""
    text = item.columns.get("image") or item.columns.get("image_path") or ""
    if not text:
        problems.append(Problem(where, "no-image", "no image is known"))
        return ""
    folders = [folder for folder in (images, item.folder) if folder is not None]
    for path in [folder / text for folder in folders] or [Path(text)] * Path(text).is_absolute():
        if _is_file(path):
            return base64.b64encode(path.read_bytes()).decode()
    if len(text) <= _SHORT or not _is_base64(text):
        shown = text if len(text) <= _SHORT else f"{text[:_SHORT]}..."
        problems.append(Problem(where, "no-image", f"neither base64 nor a file that is there: {shown!r}"))
    return text


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # base64 is longer than a name may be
        return False


def _is_base64(text: str) -> bool:
    """Whether a text is base64, or a list of such as Python writes it."""
    parts = [part.strip().strip("'\"") for part in text.strip("[]").split(",")] if text.startswith("[") else [text]
    try:
        return all(base64.b64decode(part, validate=True) for part in parts)
    except ValueError:
        return False


def _id_problems(benchmark: str, items: Sequence[Item]) -> list[Problem]:
    """Ids that pandas would read as one, as missing, or that look like rotations of one another."""
    problems = [
        Problem(f"{benchmark}: {item.item_id}", "id-missing", "the harness would take this id for a missing value")
        for item in items
        if item.item_id in _MISSING
    ]
    ids = [item.item_id for item in items]
    if not all(each.isascii() and each.isdecimal() for each in ids):
        return problems
    seen: dict[int, str] = {}
    for each in ids:
        other = seen.setdefault(int(each), each)
        if other != each:
            problems.append(
                Problem(f"{benchmark}: {each}", "same-number", f"the harness reads {other} and {each} as one")
            )
    there = {int(each) for each in ids}
    turned = [each for each in there if each >= _ROTATION and each % _ROTATION in there]
    if turned:
        message = f"{len(turned)} ids are those of rotations of others (index % 1000000), first {turned[0]}"
        problems.append(Problem(benchmark, "rotation", message))
    return problems
