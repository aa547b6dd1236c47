"""Gives arrays out to other programs: ``.npz``, ``.npy``, ``.safetensors`` and Zarr, whole or not at all.

Members have the names that the importers take, so what is exported can be imported. Values go through in blocks;
the same array gives the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from optotype.schemas.errors import ConflictError, InvalidDataError, Problem, UsageError
from optotype.store.drafts import draft_file
from optotype.store.reading import BFLOAT16, StoredArray, StoredGroup
from optotype.store.rows import FEATURES, INVALID_ROWS, STATES, RowKind, write_rows

__all__ = ["export_features", "export_states"]

_BLOCK_BYTES = 32 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time a zip can hold: no clock in the bytes


def export_features(
    source: str | Path, file: str | Path, *, file_format: str | None = None, order: Sequence[str] | None = None
) -> Path:
    """Write patch features to a file.

    Parameters
    ----------
    source : str or Path
        Folder or fsspec URL of the array.
    file : str or Path
        Replaced if it is there. ``.npz`` and ``.safetensors`` hold ``patches`` (n, M, d) if all images have M
        tokens, else ``tokens`` (N, d) and ``row_size`` (n), and ``ids`` (in ``.safetensors`` as JSON in the
        metadata); ``.npy`` the one array, with ``<stem>.ids.txt`` and ``<stem>.row_size.npy`` beside it;
        ``.zarr`` is the array itself, digest and all. NumPy has no bfloat16: ``.npz`` and ``.npy`` hold float32.
    file_format : {"npz", "npy", "safetensors", "zarr"}, optional
        By default the suffix of ``file`` says.
    order : sequence of str, optional
        Ids to export, in this order; by default all, sorted. Not for ``zarr``, which is always sorted.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    UsageError
        No such format.
    ConflictError
        ``file`` is a folder, and the format is not ``zarr``; or a folder that is no array of optotype.
    InvalidDataError
        ``order`` holds ids that the array does not have, or some twice.
    """
    return _export(FEATURES, source, Path(file), file_format, order)


def export_states(
    source: str | Path, file: str | Path, *, file_format: str | None = None, order: Sequence[str] | None = None
) -> Path:
    """Write text states to a file: ``ids`` and ``states`` (n, d); else as `export_features` does."""
    return _export(STATES, source, Path(file), file_format, order)


@dataclass(frozen=True)
class _Values:
    """The values to write: shape, dtype and blocks in order."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Callable[[], Iterator[Any]]


class _Export:
    """One array, with the items to export and their order."""

    def __init__(self, kind: RowKind, source: str | Path, order: Sequence[str] | None) -> None:
        self.group = StoredGroup(source, kind.kind)
        self.array = self.group.array(kind.values)
        all_ids = self.group.strings(kind.item).tolist()
        positions = np.arange(len(all_ids)) if order is None else _positions(order, all_ids)
        self.ids: list[str] = [all_ids[i] for i in positions]
        self.row_size: Any = None
        if kind is FEATURES:
            sizes = self.group.array("row_size")[:]
            ends = np.cumsum(sizes)
            self.row_size = sizes[positions]
            self._ranges = _merged(ends[positions] - self.row_size, ends[positions])
        else:
            self._ranges = _merged(positions, positions + 1)
        self._kind = kind

    def values(self, *, raw: bool) -> _Values:
        """The values; ``raw``: bfloat16 as its bits, else as float32."""
        array, sizes = self.array, self.row_size
        dtype = np.dtype("<u2") if raw and array.is_bfloat16 else array.dtype
        rows = sum(stop - start for start, stop in self._ranges)
        shape: tuple[int, ...] = (rows, array.shape[1])
        name = self._kind.values
        if sizes is not None:
            if (sizes == sizes[0]).all():
                shape = (len(sizes), int(sizes[0]), array.shape[1])
                self.row_size = None
            else:
                name = "tokens"
        return _Values(name, shape, dtype, lambda: _blocks(array, self._ranges, raw))


def _export(
    kind: RowKind, source: str | Path, file: Path, file_format: str | None, order: Sequence[str] | None
) -> Path:
    chosen = file_format or file.suffix.lower().removeprefix(".")
    if chosen not in (*_WRITERS, "zarr"):
        formats = ", ".join((*_WRITERS, "zarr"))
        raise UsageError(f"{file}: arrays are exported as {formats}; got {chosen or 'no suffix'}")
    if chosen == "zarr":
        if order is not None:
            raise UsageError("a Zarr export holds all rows, sorted by id; order does not apply")
        return _export_zarr(kind, source, file)
    if file.is_dir():
        raise ConflictError(f"{file} is a folder; {chosen} is written to a file", hint="Choose another name.")
    export = _Export(kind, source, order)
    values = export.values(raw=chosen == "safetensors")
    _WRITERS[chosen](file, values, export)
    return file


def _export_zarr(kind: RowKind, source: str | Path, file: Path) -> Path:
    export = _Export(kind, source, None)
    write_rows(
        kind,
        file,
        ids=export.ids,
        row_size=export.row_size,
        blocks=export.values(raw=True).blocks(),
        dtype=export.array.stored_dtype,
        inputs=export.group.manifest.inputs,
        attrs=export.group.attrs,
        blank=INVALID_ROWS in export.group.attrs,
    )
    return file


def _write_npz(file: Path, values: _Values, export: _Export) -> None:
    with draft_file(file) as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        members: list[tuple[str, Any]] = [("ids", np.array(export.ids, dtype=str))]
        if export.row_size is not None:
            members.append(("row_size", export.row_size))
        for name, array in members:
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())
        with archive.open(zipfile.ZipInfo(f"{values.name}.npy", _EPOCH), "w", force_zip64=True) as member:
            _write_npy_to(member, values)


def _write_npy(file: Path, values: _Values, export: _Export) -> None:
    stem = file.with_suffix("")
    sidecar = Path(f"{stem}.row_size.npy")
    with draft_file(Path(f"{stem}.ids.txt")) as out:
        out.write("".join(f"{value}\n" for value in export.ids).encode())
    if export.row_size is not None:
        with draft_file(sidecar) as out:
            np.save(out, export.row_size, allow_pickle=False)
    else:
        sidecar.unlink(missing_ok=True)  # of an earlier export: it would be taken for ours
    with draft_file(file) as out:
        _write_npy_to(out, values)


def _write_npy_to(out: IO[bytes], values: _Values) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": values.shape}
    np.lib.format.write_array_header_2_0(out, header)
    for block in values.blocks():
        out.write(np.ascontiguousarray(block, dtype=values.dtype).data)


def _write_safetensors(file: Path, values: _Values, export: _Export) -> None:
    # By hand, since the package's writer wants all values in memory. Format: length, JSON header, bytes.
    codes = {"float16": "F16", "float32": "F32", "float64": "F64", BFLOAT16: "BF16"}
    size = int(np.prod(values.shape, dtype=np.int64)) * values.dtype.itemsize
    sizes = b"" if export.row_size is None else np.ascontiguousarray(export.row_size, dtype="<i8").tobytes()
    header: dict[str, Any] = {"__metadata__": {"ids": json.dumps(export.ids, ensure_ascii=False)}}
    if sizes:  # the most aligned first
        header["row_size"] = {"dtype": "I64", "shape": [len(export.ids)], "data_offsets": [0, len(sizes)]}
    header[values.name] = {
        "dtype": codes[export.array.stored_dtype],
        "shape": list(values.shape),
        "data_offsets": [len(sizes), len(sizes) + size],
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with draft_file(file) as out:
        out.write(len(text).to_bytes(8, "little") + text + sizes)
        for block in values.blocks():
            out.write(np.ascontiguousarray(block, dtype=values.dtype).data)


_WRITERS: dict[str, Callable[[Path, _Values, _Export], None]] = {
    "npz": _write_npz,
    "npy": _write_npy,
    "safetensors": _write_safetensors,
}


def _positions(order: Sequence[str], ids: list[str]) -> Any:
    index = {value: position for position, value in enumerate(ids)}
    problems = [Problem("order", "unknown-id", f"the array has no {value!r}") for value in order if value not in index]
    if len(set(order)) != len(order):
        problems.append(Problem("order", "duplicate-id", "holds an id twice"))
    if not order:
        problems.append(Problem("order", "empty", "holds no ids"))
    if problems:
        raise InvalidDataError("order refused, nothing was written:", problems[:20])
    return np.array([index[value] for value in order])


def _merged(starts: Any, ends: Any) -> list[tuple[int, int]]:
    """Ranges of rows, those that touch as one."""
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    first = np.concatenate([[0], breaks])
    last = np.concatenate([breaks, [len(starts)]]) - 1
    return list(zip(starts[first].tolist(), ends[last].tolist(), strict=True))


def _blocks(array: StoredArray, ranges: list[tuple[int, int]], raw: bool) -> Iterator[Any]:
    step = max(1, _BLOCK_BYTES // (array.shape[1] * array.dtype.itemsize) // array.chunks[0]) * array.chunks[0]
    for start, stop in ranges:
        while start < stop:
            end = min(stop, (start // step + 1) * step)  # along the chunks
            yield array.raw(slice(start, end)) if raw else array[start:end]
            start = end
