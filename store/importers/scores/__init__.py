"""Reads scores: logs of lmms-eval, results of VLMEvalKit, tidy and wide tables. No pickle is ever opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem, UsageError, did_you_mean
from optotype.store.importers.scores import tables, tidy, wide
from optotype.store.importers.scores.records import COLUMNS, Records

__all__ = ["FORMATS", "iter_records", "read_records"]

FORMATS = ("auto", "lmms-eval", "vlmevalkit", "tidy", "wide")
_HARNESSES = ("lmms-eval", "vlmevalkit")
_UNREAD = (".pkl", ".pickle")
_KEPT = ["image", "blind"]


def read_records(
    paths: Sequence[str | Path],
    *,
    format: str = "auto",  # noqa: A002 - the word of the command line
    blind: bool = False,
    invalid_response: str | None = None,
) -> Records:
    """Read all scores in files and folders into one table.

    Parameters
    ----------
    paths : sequence of path
        Files or folders, which are searched.
    format : {"auto", "lmms-eval", "vlmevalkit", "tidy", "wide"}
        ``auto``: by name and columns, path by path.
    blind : bool
        The files hold runs without images, where they say nothing else.
    invalid_response : str, optional
        Regular expression; a row whose response it matches somewhere is missing, with that as its reason.

    Raises
    ------
    UsageError
        No such format, or not a regular expression.
    NotFoundError, FormatError
        No such file; a file that is of no known format.
    InvalidDataError
        What is wrong with all files, together.
    """
    parts = list(iter_records(paths, format=format, blind=blind, invalid_response=invalid_response))
    frames = [part.table for part in parts if len(part.table)]
    items = [part.items for part in parts if part.items is not None and len(part.items)]
    return Records(
        table=pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({name: [] for name in COLUMNS}),
        items=pd.concat(items, ignore_index=True) if items else None,
        notes=[note for part in parts for note in part.notes],
        circular=frozenset().union(*(part.circular for part in parts)),
    )


def iter_records(
    paths: Sequence[str | Path],
    *,
    format: str = "auto",  # noqa: A002
    blind: bool = False,
    invalid_response: str | None = None,
    on_path: Callable[[], None] | None = None,
) -> Iterator[Records]:
    """The same in blocks, so that no more than a million rows of a table are held at once.

    ``on_path`` is called after each file of a table and after all logs of a harness. What is wrong is raised after the
    last file, for all of them.
    """
    pattern = _pattern(invalid_response)
    problems: list[Problem] = []
    notes: list[str] = []
    for read in _readers([Path(path) for path in paths], format, notes):
        try:
            for records in read():
                if len(records.table):
                    _mark_blind(records, blind)
                    if pattern is not None:
                        _mark_invalid(records, pattern)
                yield records
        except InvalidDataError as error:
            problems += error.problems
        if on_path is not None:
            on_path()
    if problems:
        raise InvalidDataError("scores refused:", problems)
    if notes:
        yield Records(pd.DataFrame(), notes=notes)


_Read = Callable[[], Iterator[Records]]


def _readers(paths: list[Path], chosen: str, notes: list[str]) -> Iterator[_Read]:
    """A reader for each table, and one for all the logs of a harness, which say only together what an id is."""
    if chosen not in FORMATS:
        raise UsageError(f"no format {chosen!r}", hint=did_you_mean(chosen, FORMATS))
    for path in paths:
        if not path.exists():
            raise NotFoundError(f"no file or folder at {path}")
    logs: dict[str, list[Path]] = {}
    singles: list[tuple[str, Path]] = []
    for path in paths:
        if chosen in _HARNESSES:
            logs.setdefault(chosen, []).append(path)
        elif (harness := _harness(path) if chosen == "auto" else None) is not None:
            logs.setdefault(harness, []).append(path)
        elif path.is_dir():
            singles += [(kind, file) for file in _tables(path, notes) if (kind := _kind(file, chosen, notes))]
        else:
            singles.append((_kind(path, chosen, None), path))
    if not logs and not singles:
        raise FormatError(
            f"no scores in {', '.join(map(str, paths)) or 'no files at all'}",
            hint="Sample logs of lmms-eval, results of VLMEvalKit and .csv, .tsv, .parquet and .jsonl tables are read.",
        )
    for harness, some in logs.items():
        yield _logs_reader(harness, some)
    for kind, path in singles:
        yield _table_reader(kind, path)


def _harness(path: Path) -> str | None:
    """The harness that wrote a file or folder; None if it was none."""
    from optotype.store.importers.scores import lmms_eval, vlmevalkit

    if lmms_eval.recognises(path):
        return "lmms-eval"
    return "vlmevalkit" if vlmevalkit.recognises(path) else None


def _logs_reader(harness: str, paths: list[Path]) -> _Read:
    def read() -> Iterator[Records]:
        from optotype.store.importers.scores.lmms_eval import read_lmms_eval
        from optotype.store.importers.scores.vlmevalkit import read_vlmevalkit

        yield read_lmms_eval(paths) if harness == "lmms-eval" else read_vlmevalkit(paths)

    return read


def _table_reader(kind: str, path: Path) -> _Read:
    return lambda: tidy.read_tidy(path) if kind == "tidy" else wide.read_wide(path)


def _tables(folder: Path, notes: list[str]) -> list[Path]:
    """The tables in a folder, sorted; what else there is is counted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    found = [path for path in files if tables.is_table(path)]
    if len(files) > len(found):
        notes.append(f"{folder.name}: {len(files) - len(found)} files that are no tables were left out")
    return found


def _kind(path: Path, chosen: str, notes: list[str] | None) -> str:
    """Format of a table. One that cannot be told is an error; in a folder (``notes``) it is passed over: ``""``."""
    if chosen in ("tidy", "wide"):
        return chosen
    if tidy.recognises(path):
        return "tidy"
    if wide.recognises(path):
        return "wide"
    if notes is not None:
        notes.append(f"{path.name}: left out, neither the columns of a tidy table nor models in the first column")
        return ""
    if path.suffix.lower() in _UNREAD:
        raise FormatError(f"{path}: pickles are never opened", hint="Give the .xlsx, .tsv or .json of the same name.")
    there = ", ".join(map(repr, tables.columns_of(path)[:12])) if tables.is_table(path) else "it is no table"
    raise FormatError(
        f"{path}: of no known format. A tidy table has the columns {', '.join(tidy.NEEDED)}, a wide one names models "
        f"in a first column called model; got: {there}",
        hint="Say which it is with --format " + "|".join(FORMATS[1:]),
    )


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}") from error


def _mark_blind(records: Records, blind: bool) -> None:
    """Give rows their modality where the file says none; a harness' log says none, ever."""
    table = records.table
    default = "blind" if blind else "image"
    if "row" not in table:  # of a harness
        if blind or "modality" not in table:
            table["modality"] = default
        return
    column = table["modality"].cat
    places = np.array([_KEPT.index(str(word) or default) for word in column.categories], np.int8)
    table["modality"] = tables.coded(places[column.codes.to_numpy()], _KEPT)


def _mark_invalid(records: Records, pattern: re.Pattern[str]) -> None:
    """Make rows missing whose response the pattern matches."""
    if "response" not in records.table:
        return
    table = records.table
    responses = pd.Categorical(table["response"])
    hits = np.array([pattern.search(str(word)) is not None for word in responses.categories] + [False])
    rows = hits[responses.codes]
    if not rows.any():
        return
    reason = f"response matches {pattern.pattern}"
    blank = pd.Series(None, index=table.index, dtype=object)
    invalid = table["invalid"].astype(object) if "invalid" in table else blank
    invalid = invalid.where(~rows, reason)
    records.table = table.assign(invalid=pd.Categorical(invalid), score=table["score"].where(~rows))
