"""Retrieval tasks that others keep: MMMEB's JSON lines, MMEB's v1 and v2, plain tables. Nothing is unpickled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, UsageError, did_you_mean
from optotype.store.checks import limited
from optotype.store.importers.tasks.lines import Found, first_row, read_rows
from optotype.store.importers.tasks.mmeb import read_mmeb
from optotype.store.importers.tasks.mmmeb import CANDIDATES, read_mmmeb
from optotype.store.importers.tasks.tables import TableFiles, read_tables
from optotype.store.manifest import Manifest
from optotype.store.tasks import write_tasks
from optotype.store.tasks.rows import TaskRows

__all__ = ["TASK_FORMS", "import_tasks"]

TASK_FORMS = ("auto", "mmmeb", "mmeb", "tables")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".parquet")


def import_tasks(
    target: Path,
    paths: Sequence[str | Path] = (),
    *,
    form: str = "auto",
    queries: str | Path | None = None,
    candidates: str | Path | None = None,
    relevance: str | Path | None = None,
    lists: str | Path | None = None,
    task: str | None = None,
    language: str | None = None,
    all_candidates: bool = False,
    inputs_extra: Mapping[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
) -> Manifest:
    """Store a task set from files.

    Parameters
    ----------
    target : Path
        Folder of the array. One that stands there is replaced in one step; equal data is left alone.
    paths : sequence of path
        Files of ``mmmeb`` or ``mmeb``, or folders of them (their ``.jsonl`` and ``.parquet``).
    form : {"auto", "mmmeb", "mmeb", "tables"}
        By default tables if ``queries`` is given, else what the first line of each file shows.
    queries, relevance : path
        With ``candidates``: tables, see `optotype.store.importers.tasks.tables.TableFiles`.
    candidates : path
        A table; of ``mmeb`` a file of candidates with ``cand_name``.
    lists : path, optional
        Of tables: lists by name.
    task, language : str, optional
        For all queries, or of tables for those without. By default what the files or their names say.
    all_candidates : bool
        Of ``mmeb``: each query is ranked against all candidates of its data set, whatever it lists.
    inputs_extra : mapping, optional
        JSON values to be kept in the manifest.
    say : callable, optional
        Takes lines for the reader: what was left out, what was taken to be so.

    Returns
    -------
    Manifest
        Its digest depends on the data alone: not on the order of lines or candidates, nor on the form.

    Raises
    ------
    InvalidDataError
        Every problem found, with file and line; nothing is written.
    UsageError
        Options that do not fit the form, no such form, files of several forms, a file that is given twice.
    NotFoundError, FormatError, ConflictError
        No such file (all that are missing); files of no known form or that cannot be read (all of them, and the
        problems of the others); something that is no array is in the way.
    """
    if form not in TASK_FORMS:
        raise UsageError(f"no form {form!r}; there are {', '.join(TASK_FORMS)}", hint=did_you_mean(form, TASK_FORMS))
    found = Found()
    chosen = ("tables" if queries is not None or relevance is not None else None) if form == "auto" else form
    if chosen == "tables":
        if paths:
            raise UsageError("tables are named by options, not as PATH", hint=_TABLES_HINT)
        if queries is None or candidates is None or relevance is None:
            raise UsageError("tables are three: queries, candidates, relevance", hint=_TABLES_HINT)
        tables = TableFiles(Path(queries), Path(candidates), Path(relevance), None if lists is None else Path(lists))
        _check_there(tables.paths())
        rows, files = read_tables(tables, task=task, language=language, found=found), tables.paths()
    else:
        files = _files(paths, () if candidates is None else [Path(candidates)])
        chosen = chosen or _form_of(files)
        given: dict[str, Any] = {"--queries": queries, "--relevance": relevance, "--lists": lists}
        if chosen == "mmmeb":
            given |= {"--candidates": candidates, "--all-candidates": all_candidates or None}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise UsageError(f"{' and '.join(wrong)}: not with the form {chosen}")
        if chosen == "mmmeb":
            rows = read_mmmeb(files, task=task, language=language, found=found)
        else:
            extra = None if candidates is None else Path(candidates)
            options = {"task": task, "language": language, "all_candidates": all_candidates}
            rows = read_mmeb(files, candidates=extra, found=found, **options)  # type: ignore[arg-type]
            files += [] if extra is None else [extra]
    return _write(target, rows, chosen, files, found, inputs_extra or {}, say)


_TABLES_HINT = "--queries FILE --candidates FILE --relevance FILE"


def _write(
    target: Path,
    rows: TaskRows,
    form: str,
    files: Sequence[Path],
    found: Found,
    extra: Mapping[str, Any],
    say: Callable[[str], None] | None,
) -> Manifest:
    problems = list(found.problems)
    if rows.query_list or not found.number():
        problems += rows.problems(implied=found.implied)
    if found.faults:
        lines = [*found.faults, *map(str, limited(problems))]
        listed = "".join(f"\n  - {line}" for line in lines)
        raise FormatError(lines[0] if len(lines) == 1 else f"tasks refused, nothing was written:{listed}")
    if problems:
        raise InvalidDataError("tasks refused, nothing was written:", limited(problems))
    found.leave_out("candidate in no list", rows.unused())
    left_out = dict(sorted(found.left_out.items()))
    sources = [{"file": path.name, "sha256": _sha256(path)} for path in files]

    def inputs(digest: str) -> dict[str, Any]:
        told = {"form": form, "left_out": left_out, "sources": sources}
        return {"operation": "import", "digest": digest, **told, **extra}

    manifest = write_tasks(target, rows, inputs=inputs)
    for line in (*found.notes, *(f"left out: {number} x {reason}" for reason, number in left_out.items())):
        if say is not None:
            say(line)
    return manifest


def _check_there(paths: Sequence[Path]) -> None:
    """Refuse files that are missing, naming all."""
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise NotFoundError(f"no file at {', '.join(missing)}")


def _files(paths: Sequence[str | Path], others: Sequence[Path] = ()) -> list[Path]:
    """The files that are meant, those of folders sorted by name; ``others`` have to be there, too."""
    if not paths:
        raise UsageError("no files to import", hint="optotype tasks import NAME PATH...")
    files: list[Path] = []
    missing = [str(path) for path in map(Path, paths) if not path.exists()]
    missing += [str(path) for path in others if not path.is_file()]
    if missing:
        raise NotFoundError(f"no file or folder at {', '.join(missing)}")
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(f for f in path.iterdir() if f.name.lower().endswith(_SUFFIXES) and f.is_file())
        if not inside:
            raise FormatError(f"{path}: no files that end in {', '.join(_SUFFIXES)} in it")
        files += inside
    first: dict[Path, Path] = {}
    twice = [str(path) for path in files if first.setdefault(path.resolve(), path) is not path]
    if twice:
        raise UsageError(f"given twice: {', '.join(twice)}", hint="Name each file once, alone or by its folder.")
    return files


def _form_of(files: Sequence[Path]) -> str:
    """The form that the first lines show; if a file shows none, what is wrong with each file."""
    forms: dict[str, Path] = {}
    faults: dict[Path, str] = {}
    strange = False
    for path in files:
        try:
            row = first_row(path)
        except FormatError as error:
            faults[path] = error.message
            continue
        inner = row.get("dataset_infos")
        if any(isinstance(row.get(name), list) for name in CANDIDATES):
            forms.setdefault("mmmeb", path)
        elif "tgt_text" in row or "tgt_img_path" in row or "label_name" in (inner if isinstance(inner, dict) else row):
            forms.setdefault("mmeb", path)
        else:
            got = ", ".join(map(repr, row))[:200] or "nothing"
            strange = True
            faults[path] = (
                f"{path}: no known form of tasks; a line has candidates under one of {', '.join(CANDIDATES)} (mmmeb), "
                f"or label_name, or tgt_text and tgt_img_path (mmeb); got {got}"
            )
    if faults:
        found = Found()
        for path in files:  # the others may be broken further on
            for _ in () if path in faults else read_rows(path, found):
                pass
        told = [*faults.values(), *found.faults, *map(str, limited(found.problems))]
        hint = f"Tables: {_TABLES_HINT}. Or say the form, to see what is wrong with the lines: --form mmmeb"
        listed = "".join(f"\n  - {line}" for line in told)
        message = told[0] if len(told) == 1 else f"tasks refused, nothing was written:{listed}"
        raise FormatError(message, hint=hint if strange else None)
    if len(forms) > 1:
        told = [f"{form} ({path})" for form, path in forms.items()]
        raise UsageError(f"files of several forms: {' and '.join(told)}", hint="Import them apart.")
    return next(iter(forms))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
