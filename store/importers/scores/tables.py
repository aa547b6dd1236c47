"""Tables as text: CSV, TSV, Parquet and JSON lines, with byte-order marks or gzipped, in blocks.

Every cell of a column of ids is text as it was written: ``001`` stays ``001``. Texts come dictionary-encoded
(pandas categoricals), so that a block of a million rows costs a few megabytes.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from optotype.schemas.errors import FormatError, InvalidDataError, NotFoundError, Problem

__all__ = ["BLOCK_ROWS", "coded", "columns_of", "is_table", "read_blocks", "read_text", "stem"]

BLOCK_ROWS = 1 << 20  # of Parquet; CSV comes in blocks of about as many bytes
_CSV_BYTES = 32 << 20
_SUFFIXES = {".csv": ",", ".tsv": "\t", ".parquet": "", ".pq": "", ".jsonl": "", ".ndjson": ""}
_GZIP = (".gz", ".gzip")


def is_table(path: Path) -> bool:
    """Whether the name is that of a table which can be read."""
    return _suffix(path) in _SUFFIXES


def stem(path: Path) -> str:
    """Name of the file without ``.csv``, ``.csv.gz`` and the like."""
    name = path.name
    for endings in (_GZIP, tuple(_SUFFIXES)):
        for ending in endings:
            if name.lower().endswith(ending):
                name = name[: -len(ending)]
    return name


def columns_of(path: Path) -> list[str]:
    """Names of the columns, in order; those of the first line of JSON lines.

    Raises
    ------
    NotFoundError, FormatError
        There is no such file, or it is not what its name says.
    """
    with _readable(path):
        if _is_parquet(path):
            import pyarrow.parquet as pq

            return list(pq.read_schema(path).names)
        if _suffix(path) in (".jsonl", ".ndjson"):
            return list(next(_json_rows(path), (0, {}))[1])
        return _header(path)


def read_text(path: Path) -> pd.DataFrame:
    """A whole small table as text: object columns of str, ``""`` for what is not there; index from 0.

    Raises
    ------
    NotFoundError, FormatError, InvalidDataError
        As `read_blocks`.
    """
    blocks = [pd.DataFrame({name: _as_text(column) for name, column in block.items()}) for block in read_blocks(path)]
    if not blocks:
        return pd.DataFrame({name: pd.Series([], dtype=object) for name in columns_of(path)})
    return pd.concat(blocks, ignore_index=True)


def _as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    if column.dtype == "category":
        words = np.append(np.array(column.cat.categories, dtype=object), "")
        return pd.Series(words[column.cat.codes.to_numpy()], index=column.index, dtype=object)
    return pd.Series([_number_text(value) for value in column.tolist()], index=column.index, dtype=object)


def _number_text(value: Any) -> str:
    """A value of a typed column as text; ``4`` for a whole 4.0, which is what a gap makes of 4."""
    if value is None or value is pd.NaT or value != value:  # NaN alone is unequal to itself
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def read_blocks(path: Path, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
    """A table in blocks of rows, whose index is the number of the row (from 1).

    Parameters
    ----------
    path : Path
    columns : sequence of str, optional
        Those wanted, of those there are; default all.

    Yields
    ------
    DataFrame
        Texts, integers and dates as categoricals of str (no category: not given; also ``""`` of a CSV); floats and
        booleans of Parquet and JSON as float64 or bool.

    Raises
    ------
    NotFoundError, FormatError
        No such file, or it is not what its name says.
    InvalidDataError
        Lines with too many or too few cells (all are listed), or a column's name is there twice.
    """
    with _readable(path):
        names = columns_of(path)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            problems = [Problem(str(path), "duplicate-column", f"column {name!r} is there twice") for name in twice]
            raise InvalidDataError(f"{path} refused:", problems)
        wanted = [name for name in names if columns is None or name in columns]
        if _is_parquet(path):
            tables = _parquet(path, wanted)
        elif _suffix(path) in (".jsonl", ".ndjson"):
            tables = _json(path, columns)
        else:
            tables = _csv(path, wanted)
        row = 1
        for table in tables:
            if len(table):
                frame = pd.DataFrame({name: _column(table.column(name)) for name in table.schema.names})
                frame.index = pd.RangeIndex(row, row + len(frame))
                yield frame
            row += len(table)


def _column(column: Any) -> pd.Series[Any]:
    """One column: floats and booleans as they are, everything else as categorical text."""
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_floating(kind):
        return pd.Series(column.cast(pa.float64()).to_pandas())
    if pa.types.is_boolean(kind) and not column.null_count:
        return pd.Series(column.to_pandas())
    if pa.types.is_dictionary(kind) and not pa.types.is_string(kind.value_type):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us")).cast(pa.date32()).cast(pa.string())
    elif not pa.types.is_dictionary(kind):
        if pa.types.is_nested(kind):
            column = pa.array([None if v is None else json.dumps(v, ensure_ascii=False) for v in column.to_pylist()])
        column = column.cast(pa.string())
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    words = column.dictionary.to_numpy(zero_copy_only=False)
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return pd.Series(_tidied(words, codes))


def _tidied(words: Any, codes: Any) -> Any:
    """A categorical without words that no row has (a dictionary may be a whole file's), blank ones, and repeats."""
    said = np.zeros(len(words) + 1, dtype=bool)
    said[codes] = True
    said[:-1] &= (words != "") & (words != None)  # noqa: E711 - element by element
    said[-1] = False
    places = np.where(said, np.cumsum(said) - 1, -1).astype(np.int32)
    kept: Any = pd.Index(words[said[:-1]], dtype=object)
    if not kept.is_unique:
        unique: Any = kept.unique()
        places = np.where(places >= 0, unique.get_indexer(kept)[places], -1) if len(kept) else places
        kept = unique
    return pd.Categorical.from_codes(places[codes], categories=kept)


def coded(codes: Any, words: Iterable[str]) -> Any:
    """A categorical of texts from codes (-1: none)."""
    return pd.Categorical.from_codes(np.asarray(codes), categories=pd.Index(list(words), dtype=object))


def _parquet(path: Path, wanted: Sequence[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    kinds = {name: schema.field(name).type for name in wanted}
    texts = [name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
    with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False) as file:
        for batch in file.iter_batches(BLOCK_ROWS, columns=list(wanted), use_threads=False):
            yield pa.table(batch)


def _csv(path: Path, wanted: Sequence[str]) -> Iterator[Any]:
    from pyarrow import csv

    problems: list[Problem] = []

    def refuse(row: Any) -> str:
        message = f"{row.actual_columns} cells where the header has {row.expected_columns}: {row.text[:60]!r}"
        problems.append(Problem(str(path), "ragged-row", message))
        return "skip"

    kinds = dict.fromkeys(wanted, pa.string())
    with _opened(path) as file:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=_CSV_BYTES, use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=_SUFFIXES[_suffix(path)], newlines_in_values=True, invalid_row_handler=refuse
            ),
            convert_options=csv.ConvertOptions(
                column_types=kinds, include_columns=list(wanted), strings_can_be_null=False
            ),
        )
        for batch in reader:
            if not problems:
                yield pa.table(batch)
    if problems:
        raise InvalidDataError(f"{path} refused:", problems)


def _header(path: Path) -> list[str]:
    import csv

    with _lines(path) as text:
        csv.field_size_limit(1 << 30)
        for line in csv.reader(text, delimiter=_SUFFIXES[_suffix(path)]):
            if line:
                return line
    raise FormatError(f"{path}: the file is empty")


def _json(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    held: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for _, row in _json_rows(path):
        kept = {name: value for name, value in row.items() if columns is None or name in columns}
        names.update(dict.fromkeys(kept))
        held.append(kept)
        if len(held) == BLOCK_ROWS:
            yield _json_table(held, list(names))
            held = []
    if held:
        yield _json_table(held, list(names))


def _json_table(rows: list[dict[str, Any]], names: list[str]) -> Any:
    """Columns of numbers stay numbers; a mixed column becomes text, cell by cell."""
    arrays = []
    for name in names:
        values = [row.get(name) for row in rows]
        if all(value is None or isinstance(value, float | int) for value in values) and any(
            isinstance(value, float) for value in values
        ):
            arrays.append(pa.array([None if value is None else float(value) for value in values], pa.float64()))
        elif values and all(isinstance(value, bool) for value in values):
            arrays.append(pa.array(values, pa.bool_()))
        else:
            arrays.append(pa.array([_cell(value) for value in values], pa.string()))
    return pa.table(dict(zip(names, arrays, strict=True)))


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number of the line (from 1) and the object on it."""
    with _lines(path) as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FormatError(f"{path}:{number}: not JSON ({error})") from error
            if not isinstance(row, dict):
                raise FormatError(f"{path}:{number}: a line is one JSON object, got {type(row).__name__}")
            yield number, row


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is gzipped (its first bytes say so, not its name)."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if packed:
            with gzip.open(raw) as file:
                yield file  # type: ignore[misc]
        else:
            yield raw


@contextmanager
def _lines(path: Path) -> Iterator[io.TextIOWrapper]:
    """The text of a file, without a byte-order mark."""
    with _opened(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            yield text
        finally:
            text.detach()  # `_opened` closes the file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Errors of the libraries in words."""
    if not path.is_file():
        raise NotFoundError(f"no file at {path}")
    if not is_table(path):
        raise FormatError(f"{path}: a table ends in .csv, .tsv, .parquet or .jsonl (perhaps with .gz)")
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: cannot be read as a table ({' '.join(str(error).split())})") from error


def _is_parquet(path: Path) -> bool:
    return _suffix(path) in (".parquet", ".pq")


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _GZIP:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
