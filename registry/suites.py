"""Files of a compressed suite or a frontier: tables of items whose bytes depend on their values alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optotype.registry.references import needs_project
from optotype.schemas.errors import UsageError
from optotype.store.drafts import draft_file

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from optotype.store.project import Project

__all__ = ["check_out", "open_reference", "write_csv", "write_json", "write_table"]


def open_reference(project: Project | str | Path | None, kind: str, reference: str) -> xr.Dataset:
    """A panel (``scores``) or item embeddings by name, path or URL.

    Raises
    ------
    NotFoundError, ConflictError, UsageError, FormatError, IntegrityError, ExternalError
        From the store.
    """
    from optotype.store.project import Project

    source: str | Path = reference
    if project is not None or needs_project(reference):
        found = project if isinstance(project, Project) else Project.find(None if project is None else Path(project))
        source = found.resolve("scores" if kind == "scores" else "embeddings", reference)
    if kind == "scores":
        from optotype.store.panels import open_panel

        return open_panel(source)
    from optotype.store.embeddings import open_embeddings

    return open_embeddings(source)


def check_out(out: str | Path) -> Path:
    """``out`` as the path of a folder, which is there or can be made.

    Raises
    ------
    UsageError
        It is a file.
    """
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; --out takes a folder")
    return folder


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
