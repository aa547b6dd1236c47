"""Files that keep results: JSON, CSV and Parquet whose bytes depend on their values alone, and where they may go."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.schemas.errors import ExternalError, UsageError
from optotype.store.drafts import draft_file

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_out", "write_csv", "write_json", "write_table"]


def check_out(out: str | Path, files: Sequence[str] = ()) -> Path:
    """``out`` as the path of a folder, which is there or can be made, and where ``files`` can be written.

    That it can is tried: the folder is made and a file in it, and what was made is taken away again.

    Raises
    ------
    UsageError
        It is empty, a file, a link to nothing, below a file, or nowhere to write; or one of the files is a folder.
    ExternalError
        The disk is full.
    """
    if not str(out):
        raise UsageError("--out is empty", hint="Give a folder; . is the working directory.")
    folder = Path(out)
    try:
        _check_folder(folder, files)
        _try_to_write(folder)
    except ValueError as error:
        raise UsageError(f"--out {str(out)!r} is no path: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ExternalError(f"{folder}: {reason}", hint="Free some space, or choose another --out.") from error
        raise UsageError(f"{folder} cannot be written to: {reason}", hint="Choose another folder for --out.") from error
    return folder


def _check_folder(folder: Path, files: Sequence[str]) -> None:
    for place in (folder, *folder.absolute().parents):
        if place.is_symlink() and not place.exists():
            raise UsageError(f"{place} is a link to nothing; --out takes a folder")
        if place.exists():
            break
    if not place.is_dir():
        raise UsageError(
            f"{folder} is a file; --out takes a folder"
            if place == folder
            else f"{place} is a file, so {folder} cannot be a folder in it"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{place} cannot be written to", hint="Choose another folder for --out.")
    taken = [folder / name for name in files if (folder / name).is_dir()]
    if taken:
        raise UsageError(
            f"{taken[0]} is a folder; a file is to be written there", hint="Move it away, or choose another --out."
        )


def _try_to_write(folder: Path) -> None:
    """Make the folder and a file in it, and take both away again: rights alone do not tell for every file system."""
    made: list[Path] = []
    missing = [place for place in (folder, *folder.absolute().parents) if not place.exists()]
    try:
        for place in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another process has just made it, and keeps it
                place.mkdir()
                made.append(place)
        with tempfile.TemporaryFile(dir=folder):
            pass
    finally:
        for place in reversed(made):
            with contextlib.suppress(OSError):  # someone else may have put something there meanwhile
                place.rmdir()


def write_table(table: pd.DataFrame, target: Path) -> None:
    """Write a table as Parquet: text, whole and decimal numbers, missing values as null.

    Only values and column names go into the file; equal tables give equal bytes.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {}
    for name, values in table.items():
        if pd.api.types.is_integer_dtype(values.dtype):
            kind = pa.int32() if str(values.dtype).lower() == "int32" else pa.int64()
        elif pd.api.types.is_float_dtype(values.dtype):
            kind = pa.float64()
        else:
            kind = pa.string()
        columns[str(name)] = pa.array(values.to_list() if kind == pa.string() else values, kind, from_pandas=True)
    with draft_file(target) as file:
        pq.write_table(pa.table(columns), file, compression="zstd", version="2.6", data_page_version="1.0")


def write_json(document: Any, target: Path) -> None:
    """Write a JSON document."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with draft_file(target) as file:
        file.write(text.encode())


def write_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], target: Path) -> None:
    """Write rows as CSV; None is an empty cell."""
    table = io.StringIO()
    writer = csv.DictWriter(table, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if row[name] is None else row[name] for name in columns} for row in rows)
    with draft_file(target) as file:
        file.write(table.getvalue().encode())
