"""Gives panels out: tidy tables that import as the same panel, or one Zarr group. Equal panels, equal bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np

from optotype.schemas.errors import ConflictError, UsageError
from optotype.store.drafts import draft_file
from optotype.store.panels.parts import OpenPanel, Union, escaped, open_parts
from optotype.store.writer import ArrayWriter

__all__ = ["FORMATS", "export_files", "write_panel_files"]

FORMATS = ("parquet", "csv", "zarr")
_BLOCK_CELLS = 1 << 20


def export_files(target: Path, file_format: str) -> list[Path]:
    """The files or folders that an export makes.

    Raises
    ------
    UsageError
        No such format.
    """
    if file_format not in FORMATS:
        raise UsageError(f"{target}: panels are exported as {', '.join(FORMATS)}; got {file_format or 'no suffix'}")
    if file_format == "zarr":
        return [target]
    stem, suffix = target.with_suffix(""), target.suffix or f".{file_format}"
    return [target, Path(f"{stem}.items{suffix}"), Path(f"{stem}.models{suffix}")]


def write_panel_files(source: str | Path, target: Path, file_format: str) -> int | None:
    """Write the panel at a path or URL; see `optotype.registry.panels.export_panel`. Returns the rows of a table.

    Raises
    ------
    ConflictError
        A folder is in the way of a file.
    """
    panel = open_parts(source)
    files = export_files(target, file_format)
    if file_format == "zarr":
        _write_zarr(panel, target)
        return None
    for path in files:
        if path.is_dir():
            raise ConflictError(f"{path} is a folder; {file_format} is written to a file", hint="Choose another name.")
    rows = 0
    with draft_file(files[0]) as file, _table_writer(file, file_format, _schema(panel)) as write:
        for table in _rows(panel):
            write(table)
            rows += table.num_rows
    for path, table in ((files[1], _items(panel)), (files[2], _models(panel))):
        with draft_file(path) as file, _table_writer(file, file_format, table.schema) as write:
            write(table)
    return rows


class _table_writer:  # noqa: N801 - used as a function
    """Writes Arrow tables of one schema to a file, block by block."""

    def __init__(self, file: IO[bytes], file_format: str, schema: Any) -> None:
        self._file, self._format, self._schema = file, file_format, schema
        self._stack = ExitStack()

    def __enter__(self) -> Callable[[Any], None]:
        import pyarrow as pa

        if self._format == "parquet":
            import pyarrow.parquet as pq

            writer = self._stack.enter_context(pq.ParquetWriter(self._file, self._schema, compression="zstd"))
            return lambda table: writer.write_table(table)
        from pyarrow import csv

        plain = pa.schema(
            [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in self._schema]
        )
        text = self._stack.enter_context(csv.CSVWriter(self._file, plain))
        return lambda table: text.write_table(table.cast(plain))

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def _schema(panel: OpenPanel) -> Any:
    """Columns of the tidy table: those that say something."""
    import pyarrow as pa

    words = pa.dictionary(pa.int32(), pa.string())
    fields = [("benchmark", words), ("item_id", words), ("model", words), ("score", pa.float32()), ("modality", words)]
    if panel.matrix("response") is not None:
        fields.append(("response_digest", pa.string()))
    if panel.reasons():
        fields.append(("invalid", words))
    return pa.schema(fields)


def _rows(panel: OpenPanel) -> Iterator[Any]:
    """The records, item by item: those with images, then those without, each by model."""
    step = max(1, _BLOCK_CELLS // max(1, len(panel.models) + len(panel.blind_models)))
    for start in range(0, len(panel.items), step):
        yield _block(panel, start, min(len(panel.items), start + step))


def _block(panel: OpenPanel, start: int, stop: int) -> Any:
    import pyarrow as pa

    def read(name: str, like: Any) -> Any:
        matrix: Union | None = panel.matrix(name)
        return np.zeros(like, np.uint32) if matrix is None else matrix.read(start, stop)

    items = [(number, key) for number, key in enumerate(panel.items[start:stop])]
    image, blind = (len(panel.models), stop - start), (len(panel.blind_models), stop - start)
    score = np.concatenate([_scores(panel, "score", image, start, stop), _scores(panel, "blind", blind, start, stop)])
    invalid = np.concatenate([read("invalid", image), read("blind_invalid", blind)])
    response = np.concatenate([read("response", image), np.zeros(blind, np.uint32)])
    place, model = np.nonzero((~np.isnan(score) | (invalid > 0)).T)
    names = [*panel.models, *panel.blind_models]
    benchmarks = list(dict.fromkeys(benchmark for _, (benchmark, _) in items))
    of_item = np.array([benchmarks.index(benchmark) for _, (benchmark, _) in items], np.int32)
    values: dict[str, Any] = {
        "benchmark": _coded(of_item[place], benchmarks),
        "item_id": _coded(place, [item for _, (_, item) in items]),
        "model": _coded(model, names),
        "score": pa.array(score[model, place], mask=np.isnan(score[model, place])),
        "modality": _coded((model >= len(panel.models)).astype(np.int64), ["image", "blind"]),
        "response_digest": pa.array([f"{value:08x}" if value else "" for value in response[model, place].tolist()]),
        "invalid": _coded(invalid[model, place], ["", *panel.reasons()]),
    }
    schema = _schema(panel)
    return pa.table([values[name] for name in schema.names], schema=schema)


def _scores(panel: OpenPanel, name: str, shape: tuple[int, int], start: int, stop: int) -> Any:
    matrix = panel.matrix(name)
    return np.full(shape, np.nan, np.float32) if matrix is None else matrix.read(start, stop)


def _coded(codes: Any, words: Sequence[str]) -> Any:
    """Dictionary-encoded texts; a word that is there twice gets one code, else Parquet's bytes vary."""
    import pyarrow as pa

    unique = {word: code for code, word in enumerate(dict.fromkeys(words))}
    places = np.array([unique[word] for word in words], np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(places[codes]), pa.array(list(unique), pa.string()))


def _items(panel: OpenPanel) -> Any:
    """The items table, with the scale of each benchmark."""
    scales = {entry["name"]: entry["scale"] for entry in panel.document["benchmarks"]}
    columns: dict[str, list[str]] = {
        "benchmark": [benchmark for benchmark, _ in panel.items],
        "item_id": [item for _, item in panel.items],
        **{_column(name, "item"): values.tolist() for name, values in panel.item_labels.items()},
        "scale_min": [repr(float(scales[benchmark][0])) for benchmark, _ in panel.items],
        "scale_max": [repr(float(scales[benchmark][1])) for benchmark, _ in panel.items],
    }
    return _texts(columns)


def _models(panel: OpenPanel) -> Any:
    """The models table."""
    labels = {_column(name, "model"): values.tolist() for name, values in panel.model_labels.items()}
    return _texts({"model": panel.models, **labels})


def _column(name: str, kind: str) -> str:
    """Name of a column in the table it came from."""
    return name.removeprefix(f"{kind}_")


def _texts(columns: Mapping[str, Sequence[str]]) -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _write_zarr(panel: OpenPanel, target: Path) -> None:
    """One group of everything, with a manifest; ``xarray.open_zarr`` shows what `open_panel` does."""
    from optotype.store.panels import panel_dataset

    dataset = panel_dataset(panel)
    coordinates = sorted(str(name) for name in dataset.coords if name not in dataset.dims)
    attrs = {**dataset.attrs, "coordinates": " ".join(escaped(name) for name in coordinates)}
    with ArrayWriter(target, "scores", attrs, compressed=True) as writer:
        for name, coordinate in dataset.coords.items():
            (dim,) = (str(dim) for dim in coordinate.dims)
            if coordinate.dtype.kind == "f":
                writer.add_rows(str(name), (dim,), coordinate.shape, np.dtype("<f8"), [coordinate.values])
            elif len(coordinate):
                writer.add_strings(escaped(str(name)), (dim,), coordinate.values.tolist())
        for name in ("score", "blind", "response"):
            matrix = panel.matrix(name)
            if matrix is not None:
                dims = tuple(str(dim) for dim in dataset[name].dims)
                blocks = _columns(matrix)
                writer.add_rows(name, dims, matrix.shape, matrix.dtype.newbyteorder("<"), blocks, along=1)
        writer.commit({"operation": "export", "panel": panel.document["digest"]})


def _columns(matrix: Union) -> Iterator[Any]:
    """A matrix in blocks (items, models)."""
    step = max(1, _BLOCK_CELLS // max(1, matrix.shape[0]))
    for start in range(0, matrix.shape[1], step):
        yield matrix.read(start, min(matrix.shape[1], start + step)).T
